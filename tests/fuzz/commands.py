"""Damaged files given to the real command line, which runs as a user who may write into one folder only."""

import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import mutate

PROCESSOR_SECONDS, SECONDS = 20, 120  # a hang is either: work without end (loading torch counts), or waiting
MEMORY = 2 * 2**30
# Which command reads the damaged file of a reader; {at} is the folder of the case.
COMMANDS = {
    "dataset": (
        "data check {at}/file",
        "data show {at}/file -o {at}/out.png",
        "data export {at}/file --format cswm --part eval -o {at}/out.h5",
        "train --method cswm-n --data {at}/file --out {at}/run --minutes 0.01",
    ),
    "imported HDF5": ("data import --train {at}/file --eval {at}/cswm-eval.h5 -n 5 -k 2 -o {at}/out.h5 --force",),
    "checkpoint": (
        "eval {at}/file --fresh-seed 1 --steps 1 --episodes 20",
        "show {at}/file -o {at}",
        "train --method howm --data {good}/shapes.h5 --out {at}/run --extractor {at}/file --minutes 0.01",
    ),
    "results.json": ("report {at} -o {at}/report.html",),
    "metrics.jsonl": ("train --method howm --data {good}/shapes.h5 --out {at} --resume --set train.steps=4",),
    "sweep folder": ("sweep status {at}",),
    "sweep YAML": ("sweep status {at}", "sweep {at}/sweep.yaml --results {at}/sweep.yaml"),
    "training YAML": ("train --method howm --data {good}/shapes.h5 --out {at}/run --config {at}/file --minutes 0.01",),
    "config.yaml": ("eval {at} --steps 1 --episodes 10 --results {at}/results",),
    "hub folder": ("hub push {at} a/b --dry-run {at}/pushed", "eval {at} --fresh-seed 1 --steps 1 --episodes 20"),
}


def _outsider() -> Any:
    """A user who owns nothing, where this one may become another."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as(user: Any) -> tuple[list[str], str]:
    """What makes a command run as a user, and who that is.

    Where the interpreter lies in a folder that others may not enter, the user may read (and only read) everything.
    """
    if user is None:
        return [], "this user"
    who = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    plain = ["setpriv", *who, "--inh-caps=-all", "--bounding-set=-all"]
    tried = subprocess.run([*plain, sys.executable, "-c", "import howm.cli.main, torch"], capture_output=True)
    if tried.returncode == 0:
        return plain, str(user.pw_name)
    reads = "-all,+dac_read_search"
    caps = [f"--inh-caps={reads}", f"--ambient-caps={reads}", f"--bounding-set={reads}"]
    return ["setpriv", *who, *caps], f"{user.pw_name}, who may read everything"


def _give(folder: Path, user: Any) -> None:
    if user is None:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def _others(scratch: Path, at: Path) -> dict[str, tuple[int, int]]:
    """All that lies outside the folder of the case."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in scratch.rglob("*")
        if not path.is_relative_to(at) and path.is_file()
    }


def run_commands(count: int, good: Path, scratch: Path) -> dict[str, Any]:
    from run import FAILURES, LONGEST_LINE, place_case

    user, counts, found = _outsider(), Counter[str](), Counter[str]()
    become, who = _as(user)
    os.chmod(scratch, 0o755)
    at = scratch / "command"
    marker = scratch / "modules"
    marker.mkdir()
    (marker / f"{mutate.MARKER}.py").write_text("import os\nopen(os.environ['HOWM_FUZZ_RAN'], 'w')\n", encoding="utf-8")
    names = list(COMMANDS)
    for i in range(count):
        reader = names[i % len(names)]
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir()
        place_case(reader, i // len(names) * 7, good, at)
        _give(at, user)
        before = _others(scratch, at)
        command = COMMANDS[reader][i // len(names) % len(COMMANDS[reader])].format(at=at, good=good).split()
        outcome, detail = _one([*become, sys.executable, "-m", "howm.cli", *command], at, marker)
        if outcome in ("read", "refused") and _others(scratch, at) != before:
            outcome, detail = "writes outside", " ".join(command)
        if (at / "ran").exists():
            outcome, detail = "executed code", " ".join(command)
        if outcome == "refused" and (
            detail.count("\n") > 20 or max(map(len, detail.splitlines()), default=0) > LONGEST_LINE
        ):
            outcome = "long lines"
        counts[outcome] += 1
        if outcome in FAILURES:
            found[f"{outcome}: {' '.join(command[:2])}: {detail[-300:]}"] += 1
    tried = sum(counts.values())
    return {
        "tried": tried,
        **{name: counts[name] for name in ("refused", "read", *FAILURES)},
        "found": dict(found),
        "user": who,
    }


def _one(command: list[str], at: Path, marker: Path) -> tuple[str, str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 1))

    root = Path(__file__).parents[2]
    environment = os.environ | {
        "PYTHONPATH": f"{root}:{marker}", "HOME": str(at), "TMPDIR": str(at), "OMP_NUM_THREADS": "1",
        "HOWM_FUZZ_RAN": str(at / "ran"), "HF_HUB_OFFLINE": "1", "MPLCONFIGDIR": str(at),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=at, env=environment, preexec_fn=limit,
        )  # fmt: skip
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        began = time.monotonic()
        _, status, usage = os.wait4(process.pid, 0)
        late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read(4_000_000).decode(errors="replace")
    if time.monotonic() - began >= SECONDS or -process.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return "hangs", text
    if "Traceback" in text or process.returncode not in (0, 1, 2):
        return "tracebacks", f"exit code {process.returncode}: {text}"
    if usage.ru_maxrss * 1024 > MEMORY:
        return "memory", f"{usage.ru_maxrss / 2**20:.1f} GB"
    return ("read" if process.returncode == 0 else "refused"), text
