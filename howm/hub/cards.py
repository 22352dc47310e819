"""The cards of models and datasets on the Hub.

A card says only what stands in the checkpoint, in results.json or in the dataset; what was not measured is said, too.
"""

from typing import Any

from howm.config import to_yaml
from howm.data.dataset import Dataset
from howm.escape import markdown, markdown_code
from howm.remote import DATASET, PREFIX
from howm.runs.provenance import world_title
from howm.runs.record import RunRecord
from howm.runs.result import Metrics, Pool, RunResult

TAGS = ["world-model", "object-centric", "compositional-generalization", "howm"]


def model_card(record: RunRecord, results: RunResult | None, repo_id: str) -> str:
    """The README.md of a model, from its checkpoint's record and its results.json, if it has one."""
    data, spec = record.data, record.spec
    cells = "" if spec.cell_pixels is None else f", in cells of {spec.cell_pixels}"
    facts = {
        "method": f"{markdown_code(str(record.method))}, {markdown(record.title)}",
        "world": markdown(data.world_title),
        "library objects N": data.n,
        "objects of a scene K": data.k,
        "pictures": f"{spec.height}x{spec.width} pixels{cells}",
        "split": data.split,
        "training scenes": "unknown: its data names no objects"
        if data.train_scenes is None
        else len(data.train_scenes),
        "seed of training": record.seed,
        "seed and hash of the data": f"{data.seed}, {markdown_code(str(data.hash))}",
        "gradient steps up to this checkpoint": record.progress.step,
        "versions": markdown(", ".join(f"{name} {version}" for name, version in record.versions.items())),
    }
    parts = [
        _metadata({"library_name": "howm", "tags": list(dict.fromkeys((*TAGS, str(record.method))))}),
        f"# {markdown(record.title)} on {markdown(data.world_title)}, N={data.n}, K={data.k}",
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


def _results(result: RunResult) -> str:
    """Both pools with the controls, by number of steps."""
    steps = list(result.scores["unseen"]["paper"])
    near = "each query's own near misses" if result.hard_pool == "near misses" else "each query's earlier frames only"
    parts = [
        f"k-step predictions from the first frame, ranked among {result.references} reference states of "
        f"{result.scenes} scenes ({markdown(result.unseen)}). MRR in percent with its 95 % interval, H@1 in brackets. "
        f"The hard pool adds {near}; the controls show what a number is worth.",
    ]
    pools: dict[Pool, str] = {"hard": "Hard pool", "paper": "The paper's pool"}
    for pool, title in pools.items():
        rows = [
            ("unseen scenes", *(_entry(result.metrics("unseen", pool, k)) for k in steps)),
            ("training scenes", *(_entry(result.metrics("training", pool, k)) for k in steps)),
            ("gap", *(_gap(result.gap.get(pool, {}).get(k)) for k in steps)),
            *(
                (f"control {markdown_code(name)}", *(_entry(scores.get(pool, {}).get(k)) for k in steps))
                for name, scores in result.controls.items()
            ),
        ]
        parts.append(_table((title, *(f"{k} step{'s' * (k != '1')}" for k in steps)), rows))
    if result.binding is not None:
        parts.append(
            f"Every object has a slot of its own in {result.binding.extraction:.2f} % of frames, and the actions of "
            f"{result.binding.binding:.2f} % of present objects go to the slot that holds them."
        )
    return "\n\n".join(parts)


def _gap(gap: float | None) -> str:
    return "–" if gap is None else f"{gap:+z.2f}"


def _entry(metrics: Metrics | None) -> str:
    if metrics is None:
        return "–"
    low, high = metrics.mrr_ci
    return f"{metrics.mrr:.2f} ({low:.1f}-{high:.1f}) [{metrics.h1:.1f}]"


def dataset_card(dataset: Dataset, certificate: str, file_hash: str, repo_id: str) -> str:
    """The README.md of a dataset; ``certificate`` is its text."""
    title = f"{world_title(dataset.world_name)}, N={dataset.n}, K={dataset.k}, seed {dataset.seed}"
    holds = "states, which `howm` renders" if dataset.world is not None else "pictures"
    name = repo_id.rpartition("/")[2]
    parts = [
        _metadata({"pretty_name": title, "tags": TAGS}),
        f"# {markdown(title)}",
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
