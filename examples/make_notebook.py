"""Write first_look.ipynb and run its cells, without Jupyter: text that they print, and pictures that they show.

python examples/make_notebook.py [first_look.ipynb]
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

CELLS = [
    ("markdown", "# A first look at howm\n\nA model that comes with the package, in a combination of objects that it "
     "has never seen. Everything here runs in a few seconds on one core."),
    ("code", "import numpy as np\nfrom PIL import Image\n\nimport howm\nfrom howm.worlds.captions import action_names, "
     'captioned\n\nworld = howm.make_world("shapes", n=10)\nmodel = howm.load("howm-shapes-n10")\n'
     "scene = np.array(howm.unseen_scenes(model, 1, seed=0).scenes)\n"
     'print("objects", scene[0].tolist(), "were never shown together in training")'),
    ("markdown", "A start, and ten actions. Action `4 * i + d` moves object `i` up, right, down or left."),
    ("code", "rng = np.random.default_rng(0)\nstates = [world.reset(scene, rng)]\n"
     "actions = 4 * rng.choice(scene[0], 10) + rng.integers(4, size=10)\nfor action in actions:\n"
     "    states.append(world.step(scene, states[-1], np.array([action])))\n"
     "truth = np.concatenate([world.render(scene, state) for state in states])\n"
     'names = ["start", *action_names(world, actions)]\n'
     "Image.fromarray(captioned(truth, names, columns=11, width=100))"),
    ("markdown", "What the model imagines from the first frame and the actions alone:"),
    ("code", "imagined = np.asarray(howm.imagine(model, truth[0], actions).pictures[0])\n"
     "drawn = (np.clip(imagined, 0, 1) * 255).astype(np.uint8)\n"
     "Image.fromarray(captioned(drawn, names, columns=11, width=100))"),
    ("markdown", "How good that is, over 200 episodes in unseen scenes. In the *hard pool* the prediction competes "
     "with the query's own earlier frames and with the ends of 20 other action sequences from its start; "
     "`do_nothing` is what the same encoder scores when it predicts that nothing moves."),
    ("code", 'result = howm.evaluate_run("howm-shapes-n10", fresh_seed=1, episodes=200, steps=(1, 5, 10))\n'
     'for k, scores in result.scores["unseen"]["hard"].items():\n'
     '    still = result.controls["do_nothing"]["hard"][k].mrr\n'
     '    print(f"{k:>2} steps ahead: MRR {scores.mrr:5.1f} %, do nothing {still:4.1f} %")'),
    ("markdown", "Where errors come from, by the ground truth of the world, in percent:"),
    ("code", 'found = result.binding\nprint(f"every object in a slot of its own: {found.extraction:.1f}")\n'
     'print(f"actions that go to the slot of their object: {found.binding:.1f}")'),
]  # fmt: skip


def run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell: what it prints, and the picture that its last line is."""
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if hasattr(value, "save"):
        file = io.BytesIO()
        value.save(file, format="png", optimize=True)
        shown = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": ["a picture"]}
        outputs.append({"output_type": "display_data", "data": shown, "metadata": {}})
    return outputs


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook() -> dict[str, Any]:
    """In the format nbformat 4."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(CELLS):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines(source)}
        if kind == "code":
            count = 1 + sum(one["cell_type"] == "code" for one in cells)
            cell |= {"execution_count": count, "outputs": run(source, names)}
        cells.append(cell)
    language = {"name": "python", "version": "3.11"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": language}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    out = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("first_look.ipynb")
    out.write_text(json.dumps(notebook(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(out)
