"""The command line: parse, call, print what was written. Heavy modules load inside the commands that need them."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from howm.commands import data, hub, library, reports, runs, sweeps
from howm.commands.base import Command
from howm.errors import NO_MEMORY, HowmError
from howm.version import __version__

# How numpy and torch say, beside MemoryError, that something does not fit into memory.
TOO_LARGE = (
    *("can't allocate memory", "out of memory", "size calculation overflow", "Overflow when unpacking"),
    *("Maximum allowed", "array is too big"),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and exit code 2; the usage text is in --help."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except HowmError as error:
        print(f"howm: {error}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError, TypeError, ValueError) as error:
        if not (isinstance(error, MemoryError) or any(words in str(error) for words in TOO_LARGE)):
            raise
        reason = (str(error).splitlines() or ["too little is free"])[0].rpartition("Allocator: ")[2].rstrip(".")
        print(f"howm: {NO_MEMORY}: {reason}; give smaller sizes", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("howm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="howm", description="Object-oriented world models and how well they generalize.")
    parser.add_argument("--version", action="version", version=f"howm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (library, data, runs, sweeps, reports, hub):
        group.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
