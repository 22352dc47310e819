"""Kill commands at random and resume them: `python tests/torture/run.py --kills 200 --json FILE`.

Each trial runs a command in a new folder, ends it by SIGKILL at a random moment up to three times, runs it once more to
its end, and compares what it has written with what an undisturbed run has written: bit for bit, with no file left over.
Commands run in forked processes that have all modules loaded already, so that a kill hits work and not imports.
"""

import argparse
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howm.cli.main import main as command_line
from howm.runs.checkpoint import load_checkpoint
from howm.version import __version__

KILLS_A_TRIAL = 3
LOADED_LATE = ("accelerate", "howm.draw.figures", "howm.evaluation.run", "howm.experiments.engines",
               "howm.planning.run", "howm.report.page", "howm.training.run", "jinja2",
               "matplotlib.figure", "scipy.optimize", "torch._dynamo")  # fmt: skip
TINY = [f"{group}.{key}={value}" for group in ("represent", "train")
        for key, value in (("steps", 20), ("batch", 32), ("check_every", 5), ("log_every", 5))]  # fmt: skip
MODEL = ["model.hidden=16", "model.extractor.hidden=16", "model.extractor.features=16"]
UNCLOCKED = ("costs", "versions", "failure")  # of a result: what a kill may change


@dataclass(frozen=True)
class Scenario:
    """A command of a folder, and what it has written there; ``share`` of the kills is its."""

    share: float
    command: Callable[[Path], list[str]]
    written: Callable[[Path], Any]
    source: str | None = None  # a folder of the good ones that it begins with


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _weights(run: Path) -> dict[str, Any]:
    """All tensors of both checkpoints, and all that was measured."""
    found: dict[str, Any] = {"metrics": _hash(run / "metrics.jsonl")}
    for name in ("best", "last"):
        checkpoint = load_checkpoint(run / f"{name}.safetensors")
        found[f"{name} step"] = checkpoint.step
        for key, tensor in checkpoint.tensors.items():
            found[f"{name} {key}"] = hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
    return found


def _result(path: Path) -> Any:
    return {key: value for key, value in json.loads(path.read_text(encoding="utf-8")).items() if key not in UNCLOCKED}


def _plan(path: Path) -> Any:
    """What `howm plan` wrote, without the time it took."""

    def unclocked(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: unclocked(part) for key, part in value.items() if key not in (*UNCLOCKED, "cpu_seconds")}

    return unclocked(json.loads(path.read_text(encoding="utf-8")))


def _sweep(at: Path) -> dict[str, Any]:
    folder = at / "sweep"
    found = {str(path.relative_to(at)): _result(path) for path in sorted(folder.glob("results/*/*.json"))}
    found |= {str(run.relative_to(at)): _weights(run) for run in sorted(folder.glob("runs/*/*"))}
    return found | {path.name: _hash(path) for path in sorted(folder.glob("data/*.h5"))}


def scenarios(good: Path) -> dict[str, Scenario]:
    data = good / "data.h5"

    def train(at: Path, *more: str) -> list[str]:
        return ["train", "--method", "howm", "--data", str(data), "--out", str(at / "run"), "--resume", *more,
                "--set", *TINY, *MODEL]  # fmt: skip

    return {
        "data make": Scenario(
            0.2, lambda at: [*_make(at / "data.h5", 3_000), "--force"], lambda at: _hash(at / "data.h5")
        ),
        "train, both phases": Scenario(0.25, train, lambda at: _weights(at / "run")),
        "train, shared extractor": Scenario(
            0.15, lambda at: train(at, "--extractor", str(good / "slots")), lambda at: _weights(at / "run")
        ),
        "sweep, two workers": Scenario(
            0.05,
            lambda at: ["sweep", "--methods", "howm", "cswm-n", "--worlds", "shapes", "-n", "5", "--seeds", "0", "-k",
                        "3", "--budget", "quick", "--episodes", "40", "--steps", "1", "--workers", "2", "--out",
                        str(at / "sweep"), "--set", *TINY, *MODEL],
            _sweep,
        ),
        "eval": Scenario(
            0.1, lambda at: ["eval", str(at / "run"), "--steps", "1", "5"],
            lambda at: _result(at / "run/results.json"), "run",
        ),
        "plan": Scenario(
            0.1, lambda at: ["plan", str(at / "run"), "--planner", "greedy", "--goals", "20", "--no-references"],
            lambda at: {path.name: _plan(path) for path in (at / "run").glob("plan-*.json")}, "run",
        ),
        "report": Scenario(
            0.15, lambda at: ["report", str(at), "-o", str(at / "report.html")],
            lambda at: {path.name: _hash(path) for path in sorted(at.glob("report.*"))}, "results",
        ),
    }  # fmt: skip


def _make(path: Path, episodes: int) -> list[str]:
    return ["data", "make", "--world", "shapes", "-n", "6", "-k", "3", "--train-episodes", "40", "--train-steps", "20",
            "--train-scenes", "8", "--eval-episodes", str(episodes), "--eval-steps", "5", "-o", str(path)]  # fmt: skip


def _start(arguments: Sequence[str], at: Path) -> int:
    """A process of its own that runs a command; its output goes to a file beside the folder."""
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        output = os.open(at.with_name(f"{at.name}.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os._exit(command_line(arguments))
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
    os._exit(70)


def _finish(arguments: Sequence[str], at: Path) -> float:
    """Run a command to its end, which must be good; the seconds that it took."""
    began = time.monotonic()
    _, status = os.waitpid(_start(arguments, at), 0)
    if os.waitstatus_to_exitcode(status) != 0:
        said = at.with_name(f"{at.name}.txt").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"{' '.join(arguments[:2])} ended with {os.waitstatus_to_exitcode(status)}: {said[-600:]}")
    return time.monotonic() - began


def _fresh(scenario: Scenario, good: Path, at: Path) -> None:
    if scenario.source is None:
        at.mkdir()
    elif scenario.source == "run":
        at.mkdir()
        shutil.copytree(good / "run", at / "run")
    else:
        shutil.copytree(good / scenario.source, at)


def torture(scenario: Scenario, kills: int, good: Path, scratch: Path, rng: random.Random) -> dict[str, Any]:
    """Trials until so many processes were killed."""
    undisturbed = scratch / "undisturbed"
    _fresh(scenario, good, undisturbed)
    seconds = _finish(scenario.command(undisturbed), undisturbed)
    expected = scenario.written(undisturbed)
    killed = tried = equal = 0
    differences: list[str] = []
    while killed < kills:
        at = scratch / f"trial-{tried}"
        _fresh(scenario, good, at)
        for _ in range(min(KILLS_A_TRIAL, kills - killed)):
            process = _start(scenario.command(at), at)
            time.sleep(rng.uniform(0, seconds))
            os.killpg(process, signal.SIGKILL) if os.getpgid(process) == process else os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            killed += os.WIFSIGNALED(status)
        _finish(scenario.command(at), at)
        tried += 1
        found = scenario.written(at)
        left = [str(path) for path in at.rglob("*.part")]
        if found == expected and not left:
            equal += 1
        else:
            differences.append(", ".join(left) or _difference(expected, found))
        shutil.rmtree(at)
    shutil.rmtree(undisturbed)
    return {"kills": killed, "runs": tried, "equal": equal, "seconds undisturbed": round(seconds, 2),
            "differences": differences}  # fmt: skip


def _difference(expected: Any, found: Any) -> str:
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
        return f"{keys[0]}: {_difference(expected.get(keys[0]), found.get(keys[0]))}" if keys else "none"
    return f"{str(expected)[:80]} became {str(found)[:80]}"


def _prepare(good: Path) -> None:
    good.mkdir()
    _finish(_make(good / "data.h5", 60), good)
    slots = ["train", "--method", "howm", "--data", str(good / "data.h5"), "--out", str(good / "slots"),
             "--represent-only", "--set", *TINY, *MODEL]  # fmt: skip
    _finish(slots, good)
    train = ["train", "--method", "howm", "--data", str(good / "data.h5"), "--out", str(good / "run"), "--set"]
    _finish([*train, *TINY, *MODEL], good)
    _finish(["eval", str(good / "run"), "--steps", "1", "5", "--results", str(good / "results")], good)
    (good / "run/results.json").unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began, rng = time.monotonic(), random.Random(options.seed)
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in LOADED_LATE:
        importlib.import_module(name)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(os.path.realpath(folder))
        good = scratch / "good"
        _prepare(good)
        for name, scenario in scenarios(good).items():
            kills = max(1, round(scenario.share * options.kills))
            at = scratch / name.replace(" ", "-").replace(",", "")
            at.mkdir()
            found[name] = torture(scenario, kills, good, at, rng)
            print(name, found[name], file=sys.stderr, flush=True)
    total = {key: sum(one[key] for one in found.values()) for key in ("kills", "runs", "equal")}
    report = {"howm": __version__, "seconds": round(time.monotonic() - began), "total": total, "commands": found}
    text = json.dumps(report, indent=1)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0 if total["runs"] == total["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
