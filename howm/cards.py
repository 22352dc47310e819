"""What a model or a dataset says of itself, in words: the cards of the Hub, and a certificate as text.

A card says only what stands in the checkpoint, in results.json or in the dataset; what was not measured is said, too.
"""

from typing import Any

from howm.config import to_yaml
from howm.dataset import Dataset
from howm.remote import DATASET, PREFIX

WORLDS = {"shapes": "Shapes", "rush_hour": "Rush Hour", "pixels": "imported pictures"}
TAGS = ["world-model", "object-centric", "compositional-generalization", "howm"]
POOLS = (("Hard pool", "_hard"), ("The paper's pool", ""))


def dataset_text(dataset: Dataset) -> str:
    """World, grid and amounts."""
    height, width, _ = dataset.train.picture_shape
    p = dataset.cell_pixels
    lines = [
        f"world        {dataset.world}, {dataset.n} objects, {dataset.k} in a scene",
        f"grid         {height // p}x{width // p} cells of {p}x{p} pixels",
        *(f"{name:12s} {len(episodes)} episodes of {episodes.steps} steps" for name, episodes in dataset.parts()),
    ]
    return "\n".join(lines)


def certificate_text(dataset: Dataset, certificate: dict[str, Any]) -> str:
    """What a certificate says, for people."""
    lines = [dataset_text(dataset)]
    if dataset.split is not None:
        sizes = f"{certificate['train_scenes']} train, {certificate['eval_scenes']} eval"
        lines.append(f"scenes       {sizes}, of {certificate['combinations']}")
        for name in ("train", "eval"):
            counts = certificate[f"{name}_counts"]
            balanced = "balanced" if certificate["balanced"][name] else "not balanced: no better set was found"
            listed = f": {counts}" if len(counts) <= 30 else ""
            often = f"each object in {min(counts)} to {max(counts)} scenes ({balanced}){listed}"
            lines.append(f"{name + ' counts':12s} {often}")
        lines += [f"disjoint     {certificate['disjoint']}", f"covered      {certificate['covered']}"]
    lines += [f"unseen       {certificate['unseen']}", f"split hash   {certificate['hash']}"]
    lines += [f"VIOLATED     {violation}" for violation in certificate["violations"]]
    lines.append("certificate  " + ("VIOLATED" if certificate["violations"] else "holds"))
    return "\n".join(lines)


def model_card(about: dict[str, Any], results: dict[str, Any] | None, repo_id: str) -> str:
    """The README.md of a model: ``about`` is its checkpoint's, ``results`` its results.json if it has one."""
    from howm.models.methods import find_method  # torch comes with it; a certificate must do without

    method, data, versions = find_method(about["method"]), about["data"], about["versions"]
    scenes = len(data["train_scenes"]) if "train_scenes" in data else "unknown: its data names no objects"
    facts = {
        "method": f"`{method.name}`, {method.title}",
        "world": WORLDS.get(data["world"], data["world"]),
        "library objects N": data["n"],
        "objects of a scene K": data["k"],
        "pictures": "{height}x{width} pixels, in cells of {cell_pixels}".format(**about["spec"]),
        "training scenes": scenes,
        "seed of training": about["seed"],
        "seed and hash of the data": f"{data['seed']}, `{data['hash']}`",
        "gradient steps up to this checkpoint": about["step"],
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    parts = [
        _metadata({"library_name": "howm", "tags": list(dict.fromkeys((*TAGS, method.name)))}),
        f"# {method.title} on {facts['world']}, N={data['n']}, K={data['k']}",
        "An object-oriented world model: it encodes a picture, and predicts by the actions alone what follows. "
        "It was trained with the Python package `howm`; all of its configuration is in `config.yaml` and in the header "
        "of `model.safetensors`.",
        _table(("what", "value"), [(name, str(value)) for name, value in facts.items()]),
        "## Results",
        _results(results) if results else "There is no `results.json` here: this model has not been evaluated.",
        "## Use",
        f"```python\nimport howm\n\nmodel = howm.load(\"{PREFIX}{repo_id}\")  # pip install 'howm[hub]'\n```",
        "The model has the verbs `encode`, `step`, `embed` and `distance`. On the command line:",
        f"```sh\nhowm eval {PREFIX}{repo_id} --fresh-seed 7\nhowm show {PREFIX}{repo_id} -o pictures\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _results(results: dict[str, Any]) -> str:
    """Both pools with the controls, by number of steps."""
    steps = list(results["eval"])
    parts = [
        f"k-step predictions from the first frame, ranked among {results['pool']} reference states of "
        f"{results['scenes']} scenes ({results['unseen']}). MRR in percent with its 95 % interval, H@1 in brackets. "
        "The hard pool adds each query's own near misses; the controls show what a number is worth.",
    ]
    for title, pool in POOLS:
        rows = [
            ("unseen scenes", *(_cell(results["eval" + pool][k]) for k in steps)),
            ("training scenes", *(_cell(results["train" + pool][k]) for k in steps)),
            ("gap", *(f"{results['gap' + pool][k]:+z.2f}" for k in steps)),
            *(
                (f"control `{name}`", *(_cell(scores["eval" + pool][k]) for k in steps))
                for name, scores in results["controls"].items()
            ),
        ]
        parts.append(_table((title, *(f"{k} step{'s' * (k != '1')}" for k in steps)), rows))
    if "binding" in results:
        found = results["binding"]
        parts.append(
            f"Every object has a slot of its own in {found['extraction']:.2f} % of frames, and the actions of "
            f"{found['binding']:.2f} % of present objects go to the slot that holds them."
        )
    return "\n\n".join(parts)


def _cell(scores: dict[str, Any]) -> str:
    low, high = scores["mrr_ci"]
    return f"{scores['mrr']:.2f} ({low:.1f}-{high:.1f}) [{scores['h1']:.1f}]"


def dataset_card(dataset: Dataset, certificate: str, file_hash: str, repo_id: str) -> str:
    """The README.md of a dataset; ``certificate`` is its text."""
    world = WORLDS.get(dataset.world, dataset.world)
    title = f"{world}, N={dataset.n}, K={dataset.k}, seed {dataset.seed}"
    holds = "states, which `howm` renders" if dataset.renderer is not None else "pictures"
    name = repo_id.rpartition("/")[2]
    parts = [
        _metadata({"pretty_name": title, "tags": TAGS}),
        f"# {title}",
        f"Episodes for object-oriented world models: `{DATASET}` (hash `{file_hash}`) holds {holds}, actions, and the "
        "split into training scenes and scenes of evaluation. What is certified of it:",
        f"```text\n{certificate}\n```",
        "## Use",
        f"```sh\nhowm hub pull {repo_id} --dataset -o {name}\nhowm data check {name}/{DATASET}\n"
        f"howm train --method howm --data {name}/{DATASET} --out runs/howm\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(values: dict[str, Any]) -> str:
    return f"---\n{to_yaml(values)}---"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
