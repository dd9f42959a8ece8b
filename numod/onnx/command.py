"""The command `onnx`: the contents of a model file, and the features in it that numod does not support."""

from __future__ import annotations

import argparse
import sys


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register `onnx`."""
    parser = commands.add_parser(
        "onnx", help="describe an ONNX file: operators, inputs, parameters, and all that is not supported"
    )
    parser.add_argument("model", help="the file")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from .summary import printable, summary

    try:
        print(summary(options.model))
    except (ImportError, OSError, ValueError) as problem:
        print(printable(str(problem)), file=sys.stderr)
        return 1
    return 0
