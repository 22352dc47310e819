"""Damage files at random and read them: `python tests/fuzz/run.py --cases 10000 --commands 200 --json FILE`.

Every case is a file that a seeded change has damaged, or one of the corpus: what once did harm. Readers run in child
processes with little memory and time; the command line runs as a user who may do nothing. A file may be refused in one
line or read; anything else is a failure, and makes this command fail.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import mutate
import psutil
from commands import run_commands
from readers import READERS, prepare

from howm.errors import HowmError, one_line
from howm.version import __version__

CORPUS = Path(__file__).parent / "corpus"
PROCESSOR_SECONDS, SECONDS = 20, 120  # a hang is either: work without end, or waiting; a busy machine causes neither
MEMORY, ADDRESS_SPACE = 2 * 2**30, 4 * 2**30
FAILURES = ("tracebacks", "hangs", "memory", "writes outside", "executed code", "long lines")
LONGEST_LINE = 2_000
NO_ANSWER = f"over {PROCESSOR_SECONDS} s of work or {SECONDS} s of waiting"
RUNS_CODE = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen", "pickle.find_class")
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")


def place_case(reader: str, case: int, good: Path, at: Path) -> Path:
    """Write a damaged file, or one of the corpus, into the folder of a case; the same number, the same file."""
    rng = random.Random(f"{reader} {case}")
    place_good(reader, good, at)
    known = corpus(reader)
    source, place, damage = READERS[reader].sources[rng.randrange(len(READERS[reader].sources))]
    if case < len(known):  # named after the reader, a digest, and the file that it stands for
        place = known[case].name.split("~")[2].replace("+", "/")
    target = at / place
    target.parent.mkdir(exist_ok=True, parents=True)
    mutate.remove(target)
    if case < len(known):
        shutil.copyfile(known[case], target)
    elif rng.random() < 0.02:
        mutate.special(target, rng)
    else:
        damage(good / source, target, rng)
    return target


def place_good(reader: str, good: Path, at: Path) -> None:
    """Write the good files that lie beside the damaged one."""
    for source, place in READERS[reader].beside:
        mutate.remove(at / place)
        (at / place).parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(good / source, at / place)


def corpus(reader: str) -> list[Path]:
    return sorted(CORPUS.glob(f"{reader.replace(' ', '-')}~*"))


class Watch:
    """Notes what this process does to files and which code it starts, from outside the folder of a case."""

    def __init__(self, at: Path) -> None:
        self.at, self.seen = str(at), Counter[str]()
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                self._written(path)
        elif event in CHANGES:
            self._written(arguments[0])
        elif event in RUNS_CODE or (event == "import" and arguments[0] == mutate.MARKER):
            self.seen["executed code"] += 1

    def _written(self, path: Any) -> None:
        if isinstance(path, int):
            return
        place = os.path.abspath(os.fsdecode(path))
        if not place.startswith((self.at, "/dev/null")):
            self.seen["writes outside"] += 1


def _child(reader: str, cases: range, good: Path, at: Path, pipe: Connection) -> None:
    """Read damaged files one after the other and say how each went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = str(at)
    os.chdir(at)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESS_SPACE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    watch = Watch(at)
    for case in cases:
        target = place_case(reader, case, good, at)
        watch.seen.clear()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pipe.send((case, "begin", None))
        outcome, detail = "read", None
        try:
            READERS[reader].read(at)
        except HowmError as error:
            outcome, detail = "refused", str(error)
            if "\n" in detail or len(detail) > LONGEST_LINE:
                outcome, detail = "long lines", detail[:200]
        except MemoryError:
            outcome, detail = "memory", _place()
        except BaseException as error:
            outcome, detail = ("refused", None) if one_line(error) else ("tracebacks", _place())
        if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 > MEMORY:
            outcome, detail = "memory", "grew"
        if watch.seen:
            outcome, detail = watch.seen.most_common(1)[0][0], str(target)
        pipe.send((case, outcome, detail))
    pipe.send((cases.stop, "end", None))


def _place() -> str:
    """Which error, and where."""
    kind, error, trace = sys.exc_info()
    frames = [
        frame for frame in traceback.extract_tb(trace) if "howm" in frame.filename and "fuzz" not in frame.filename
    ]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return f"{kind.__name__ if kind else ''} {where} {str(error)[:100]}"


def read_undamaged(reader: str, good: Path, at: Path) -> None:
    """A file that nothing has damaged must be read, or its damaged copies would show nothing."""
    at.mkdir()
    for source, place, _ in READERS[reader].sources:
        place_good(reader, good, at)
        (at / place).parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(good / source, at / place)
        READERS[reader].read(at)
    shutil.rmtree(at)


def fuzz(reader: str, count: int, good: Path, scratch: Path, save: Path | None) -> dict[str, Any]:
    """Read so many damaged files and count how it went."""
    counts: Counter[str] = Counter()
    found: dict[str, int] = {}
    next_case = 0
    at = scratch / reader.replace(" ", "-")
    at.mkdir(exist_ok=True)
    context = multiprocessing.get_context("fork")
    while next_case < count:
        ours, theirs = context.Pipe()
        child = context.Process(target=_child, args=(reader, range(next_case, count), good, at, theirs))
        child.start()
        theirs.close()
        current = next_case
        while True:
            try:
                said = ours.recv() if _answers(ours, child.pid) else (current, "hangs", NO_ANSWER)
            except EOFError:
                said = (current, "tracebacks", "the process died")
            current, outcome, detail = said
            if outcome in ("begin", "end"):
                if outcome == "end":
                    break
                continue
            counts[outcome] += 1
            next_case = current + 1
            if outcome in FAILURES:
                key = f"{outcome}: {detail}"
                if key not in found and save is not None:
                    _save(reader, current, good, scratch, save)
                found[key] = found.get(key, 0) + 1
            if detail in (NO_ANSWER, "the process died"):
                break
        if child.is_alive():
            child.kill()
        child.join()
        next_case = max(next_case, current)
    tried = sum(counts.values())
    return {"tried": tried, **{name: counts[name] for name in ("refused", "read", *FAILURES)}, "found": found}


def _answers(pipe: Connection, process: int) -> bool:
    """Whether a process says something before it has worked or waited for too long."""
    clock, began = psutil.Process(process), time.monotonic()
    worked = sum(clock.cpu_times()[:2])
    while not pipe.poll(1):
        with suppress(psutil.NoSuchProcess):
            if sum(clock.cpu_times()[:2]) - worked > PROCESSOR_SECONDS or time.monotonic() - began > SECONDS:
                return False
    return True


def _save(reader: str, case: int, good: Path, scratch: Path, save: Path) -> None:
    """Keep a small file that did harm, for the corpus."""
    at = scratch / "kept"
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir()
    target = place_case(reader, case, good, at)
    if target.is_file() and not target.is_symlink() and target.stat().st_size < 16_000:
        name = f"{reader.replace(' ', '-')}~{case:05d}~{str(target.relative_to(at)).replace('/', '+')}"
        shutil.copyfile(target, save / name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="damaged files, over all readers")
    parser.add_argument("--commands", type=int, default=200, help="of them through the command line, as another user")
    parser.add_argument("--readers", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--json", type=Path, help="where to write the counts")
    parser.add_argument("--save", type=Path, help="a folder for small files that did harm")
    options = parser.parse_args()
    began = time.monotonic()
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(os.path.realpath(folder))
        good = scratch / "good"
        good.mkdir()
        (scratch / "secret").write_bytes(b"secret " * 100)
        prepare(good)
        each = -(-options.cases // len(options.readers))
        counts: dict[str, Any] = {}
        for reader in options.readers:
            read_undamaged(reader, good, scratch / "undamaged")
            counts[reader] = fuzz(reader, each, good, scratch, options.save)
            print(reader, counts[reader], file=sys.stderr, flush=True)
        if options.commands:
            counts["command line"] = run_commands(options.commands, good, scratch)
            print("command line", counts["command line"], file=sys.stderr, flush=True)
    total = {name: sum(one[name] for one in counts.values()) for name in ("tried", "refused", "read", *FAILURES)}
    report = {"howm": __version__, "seconds": round(time.monotonic() - began), "total": total, "readers": counts}
    text = json.dumps(report, indent=1)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if any(total[name] for name in FAILURES) else 0


if __name__ == "__main__":
    sys.exit(main())
