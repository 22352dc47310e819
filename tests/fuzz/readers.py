"""The readers of files, each with files to damage and with all that a command does with what it has read."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import mutate
import numpy as np

from howm.config import from_plain, read_yaml
from howm.data.dataset import Amounts, make_dataset
from howm.data.describe import certificate_text
from howm.data.formats.cswm import export_cswm, import_cswm
from howm.data.storage import load_dataset, read_certificate, save_dataset
from howm.evaluation.episodes import fresh_episodes
from howm.evaluation.run import evaluate_run
from howm.experiments.folder import Sweep
from howm.experiments.plan import SweepConfig
from howm.files import file_hash
from howm.hub.share import push
from howm.planning.goals import load_goals, make_goals, save_goals
from howm.planning.reward import RewardConfig, fit_to_rewards
from howm.planning.reward_files import load_reward, save_reward
from howm.report.figures import draw_figures, glance
from howm.report.formats import FORMATS
from howm.report.html import to_html
from howm.report.provenance import provenance
from howm.report.results_folder import read_results
from howm.report.splits import certificate_table
from howm.report.summary import missing, summary
from howm.report.tables.all import report_tables
from howm.runs.checkpoint import load_checkpoint
from howm.runs.config import configure, read_config
from howm.runs.directory import RunDirectory
from howm.runs.locate import find_checkpoint, find_data, rebuild
from howm.runs.result import read_result
from howm.training.run import train_run

STEPS = {"steps": 4, "batch": 64, "check_every": 2, "log_every": 2, "warmup": 0}
SMALL = Amounts(train_episodes=12, train_steps=4, eval_episodes=12, eval_steps=2)
SWEEP = """methods: [cswm-n, howm]
variants:
- {name: wide, method: howm, settings: [model.hidden=256]}
envs: [shapes]
n: [5, 10]
large: []
k: 5
seeds: [0, 1]
budget: quick
steps: [1, 5]
episodes: 60
settings: [train.steps=40]
world_settings: [grid=5x5]
"""
TRAINING = """model:
  hidden: 16
  extractor: {kind: proposals, hidden: 16, features: 16}
represent: {steps: 10}
train:
  steps: 10
  lr: 5e-4
  optimizer: adam
"""


def prepare(folder: Path) -> None:
    """Make one good file of every kind, as small as can be."""
    for world in ("shapes", "free"):
        save_dataset(make_dataset(world, 5, 2, amounts=SMALL, train_scenes=6), folder / f"{world}.h5")
    data = load_dataset(folder / "shapes.h5")
    for part in ("train", "eval"):
        export_cswm(data, part, folder / f"cswm-{part}.h5")
    save_dataset(import_cswm(folder / "cswm-train.h5", folder / "cswm-eval.h5", None, 5, 2), folder / "pixels.h5")
    small = {"howm": {"hidden": 4, "attention": 4, "extractor": {"hidden": 4, "features": 4, "slot": 4}},
             "cswm-n": {"hidden": 4, "features": 4}}  # fmt: skip
    for method, model in small.items():
        groups = {"model": model, "train": STEPS} | ({"represent": STEPS} if method == "howm" else {})
        path = folder / method
        train_run(configure(method, "cpu", groups), data, path, data_path=str(folder / "shapes.h5"),
                  data_hash=file_hash(folder / "shapes.h5"))  # fmt: skip
        evaluate_run(path, out=path / "results.json", steps=(1, 2))
    for world in ("shapes", "free"):
        made = load_dataset(folder / f"{world}.h5")
        assert made.world is not None and made.split is not None  # noqa: PT018
        save_goals(make_goals(made.world, made.split, per_bucket=3, buckets=["1-5"]), folder / f"goals-{world}.h5")
    model = rebuild(load_checkpoint(folder / "cswm-n" / "best.safetensors"))
    config = RewardConfig(hidden=4, identity=2, steps=1)
    head = fit_to_rewards(model, data.train.observe(np.arange(4), 0), np.zeros(4), config=config)
    save_reward(head, folder / "reward.safetensors")
    push(folder / "howm", "someone/howm", dry_run=folder / "hub")
    (folder / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    (folder / "training.yaml").write_text(TRAINING, encoding="utf-8")


# What is done with a file. ``at`` is the folder of a case, which holds the damaged file.


def _dataset(at: Path) -> None:
    data = load_dataset(at / "file")
    certificate_text(data, data.certificate())
    read_certificate(at / "file")
    for _, episodes in data.parts() if not data.certificate()["violations"] else ():
        if len(episodes):
            episodes.observe(np.zeros(1, dtype=np.int64), 0)


def _cswm(at: Path) -> None:
    import_cswm(at / "file", at / "cswm-eval.h5", None, 5, 2).certificate()
    import_cswm(at / "cswm-train.h5", at / "file", None, 5, 2).certificate()


def _goals(at: Path) -> None:
    goals = load_goals(at / "file")
    goals.summary(), goals.goal_pictures(), goals.reached(goals.start)


def _reward(at: Path) -> None:
    load_reward(at / "file")


def _checkpoint(at: Path) -> None:
    checkpoint = load_checkpoint(at / "file")
    rebuild(checkpoint)
    fresh_episodes(checkpoint, 2, 0, 10)


def _results(at: Path) -> None:
    results = read_results(at)
    tables = report_tables(results)
    tables["Splits"] = [certificate_table(at, results)]
    listed = [table for some in tables.values() for table in some]
    for render in FORMATS.values():
        render(listed).encode()
    for table in listed:
        to_html(table, "name").encode()
    glance(results), draw_figures(results), summary(results), missing(results), provenance(results)


def _metrics(at: Path) -> None:
    RunDirectory(at, resume=True).begin({}, 2, tensorboard=False)


def _sweep(at: Path) -> None:
    from_plain(SweepConfig, read_yaml(str(at / "sweep.yaml")))
    Sweep.open(at).overview()


def _training(at: Path) -> None:
    read_config("howm", "cpu", read_yaml(str(at / "file")))


def _run_config(at: Path) -> None:
    find_data(at, load_checkpoint(find_checkpoint(at)).record)


def _hub(at: Path) -> None:
    target = at / "pushed"
    shutil.rmtree(target, ignore_errors=True)
    push(at, "someone/howm", dry_run=target)
    read_result(at / "results.json")


Damage = Callable[[Path, Path, "mutate.random.Random"], None]


@dataclass(frozen=True)
class Reader:
    """``sources`` are files to damage, and where the damaged ones go; ``beside`` are good files of the same case."""

    read: Callable[[Path], None]
    sources: tuple[tuple[str, str, Damage], ...]
    beside: tuple[str, ...] = ()


RESULT = "shapes-n5-k2/howm-seed0.json"
READERS: Mapping[str, Reader] = {
    "dataset": Reader(_dataset, tuple((f"{name}.h5", "file", mutate.damage_hdf5)
                                      for name in ("shapes", "free", "pixels"))),
    "imported HDF5": Reader(_cswm, tuple((f"cswm-{part}.h5", "file", mutate.damage_hdf5) for part in ("train", "eval")),
                            ("cswm-train.h5", "cswm-eval.h5")),
    "checkpoint": Reader(_checkpoint, tuple((f"{run}/{name}.safetensors", "file", mutate.damage_safetensors)
                                            for run in ("howm", "cswm-n") for name in ("best", "last"))),
    "goals": Reader(_goals, tuple((f"goals-{name}.h5", "file", mutate.damage_hdf5) for name in ("shapes", "free"))),
    "reward head": Reader(_reward, (("reward.safetensors", "file", mutate.damage_safetensors),)),
    "results.json": Reader(_results, (("howm/results.json", RESULT, mutate.damage_json),)),
    "metrics.jsonl": Reader(_metrics, (("howm/metrics.jsonl", "metrics.jsonl", mutate.damage_lines),),
                            ("howm/config.yaml",)),
    "sweep YAML": Reader(_sweep, (("sweep.yaml", "sweep.yaml", mutate.damage_yaml),)),
    "training YAML": Reader(_training, (("training.yaml", "file", mutate.damage_yaml),)),
    "config.yaml": Reader(_run_config, (("cswm-n/config.yaml", "config.yaml", mutate.damage_yaml),),
                          ("cswm-n/best.safetensors",)),
    "hub folder": Reader(_hub, (("hub/model.safetensors", "model.safetensors", mutate.damage_safetensors),
                                ("hub/results.json", "results.json", mutate.damage_json),
                                ("hub/config.yaml", "config.yaml", mutate.damage_yaml)),
                         ("hub/model.safetensors", "hub/results.json", "hub/config.yaml")),
}  # fmt: skip
