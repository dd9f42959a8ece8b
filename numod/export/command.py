"""The command `export`: compiles the file of a captured program to native code."""

from __future__ import annotations

import argparse
import sys

from ..serialization.refusal import CheckpointError
from . import targets
from .ahead_of_time import ExportError, aot_compile
from .program import load


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register `export`."""
    parser = commands.add_parser(
        "export", help="write a saved program (numod.jit.save, numod.export.save) as native code that needs no Python"
    )
    parser.add_argument("program", help="the file of the program")
    parser.add_argument(
        "--target",
        metavar="NAME",
        action="append",
        choices=targets.names(),
        help="may be repeated; one of %(choices)s (default: native)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default="export", help="where the files go (default: %(default)s)"
    )
    parser.add_argument("--name", default="net", help="the prefix of files and functions (default: %(default)s)")
    parser.add_argument(
        "--weights",
        choices=("embedded", "file"),
        default="embedded",
        help="in the code, or in a file (default: %(default)s)",
    )
    parser.add_argument("--optimize", choices=("speed", "size"), default="speed", help="(default: %(default)s)")
    parser.add_argument("--freezing", action="store_true", help="compute ahead what depends on weights alone")
    parser.add_argument("--sparsity", action="store_true", help="leave zeros of linear weights out; needs --freezing")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        artifact = aot_compile(
            load(options.program),
            options.output,
            name=options.name,
            targets=options.target or ("native",),
            weights=options.weights,
            optimize=options.optimize,
            options={"freezing": options.freezing, "sparsity": options.sparsity},
        )
    except (CheckpointError, ExportError, OSError, ValueError) as problem:
        print(f"export: {problem}", file=sys.stderr)
        return 1
    for file in artifact.files:
        print(artifact.folder / file)
    print(
        f"arena {artifact.arena_bytes:,} bytes, weights {artifact.weights_bytes:,} bytes, {artifact.flops:,} "
        "floating-point operations"
    )
    for note in artifact.notes:
        print(f"note: {note}")
    return 0
