"""The command line: parse, call, print what was written. Heavy modules load inside the commands that need them."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from howm.cli import (
    check,
    data,
    evaluate,
    explore,
    hub,
    library,
    methods,
    models,
    plan,
    report,
    show,
    sweep,
    theory,
    train,
    worlds,
)
from howm.cli.base import Command
from howm.errors import one_line
from howm.version import __version__


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and exit code 2; the usage text is in --help."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: what is half-written vanishes, and training says what it saved."""


def main(arguments: Sequence[str] | None = None) -> int:
    with _sigterm():
        try:
            try:
                options = _parser().parse_args(arguments)
                command: Command = options.command
                return command(options)
            finally:
                sys.stdout.flush()  # here, where a full device can still be said in one line
        except KeyboardInterrupt as error:
            ended = isinstance(error, _TerminatedError)
            print(f"howm: {'terminated' if ended else 'interrupted'}", file=sys.stderr)
            return 143 if ended else 130
        except BrokenPipeError:  # the reader of our output has left, as `head` does
            sys.stderr.close()
            return 0
        except Exception as error:
            line = one_line(error)
            if line is None:
                raise
            if isinstance(error, OSError):
                _close_output()
            print(line, file=sys.stderr)
            return 2


@contextmanager
def _sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, where this is the process's own thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> NoReturn:
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _close_output() -> None:
    """Send what standard output still holds nowhere: Python would complain about it once more when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="howm", description="Object-oriented world models and how well they generalize.")
    parser.add_argument("--version", action="version", version=f"howm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    first = (worlds, library, data, check, methods, train, evaluate, plan, show, explore)
    for group in (*first, models, theory, sweep, report, hub):
        group.add_commands(commands)
    return parser
