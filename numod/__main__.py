"""The command line, `python -m numod COMMAND`.

Only the dispatch: a command is a module with `add_command`, which registers its options.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from numod import completion, demo, docs, inventory, model_commands, tools
from numod.export import command as export
from numod.onnx import command as onnx
from numod.profiler import command as profile
from numod.version import release

COMMANDS = (demo, docs, export, inventory, onnx, profile, tools, model_commands, completion)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command named by `arguments` (None: those of the process) and give its exit code.

    Bad arguments exit with code 2.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130  # what a shell reports for a program ended by Ctrl-C
    except BrokenPipeError:  # the reader has left, as `| head` does; Python must not stumble over it again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


class _Commands(argparse._SubParsersAction):
    """Commands whose line in the list of commands is also the description in their own help."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:
        return super().add_parser(name, help=help, description=help)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m numod", description="numod: small networks in Python, compiled by Numba."
    )
    parser.add_argument("--version", action="version", version=f"numod {release}")
    subcommands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, action=_Commands
    )
    for command in COMMANDS:
        command.add_command(subcommands)
    parser.set_defaults(parser=parser)  # for `completion`
    return parser


if __name__ == "__main__":
    sys.exit(main())
