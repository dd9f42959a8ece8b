"""ONNX: `export` writes a module as a file for any runtime. It needs the onnx package (`pip install "numod[onnx]"`).

**How it works.** `numod.export` captures the program. `symbols` reads it with its dynamic sizes as expressions, and
`writer/` makes a graph of it, by a table of rules from ops to nodes. `verify` runs the result.
"""

from __future__ import annotations

from .export import ONNXProgram, OperatorExportTypes, TrainingMode, export
from .symbolic_helper import is_in_onnx_export, parse_args, register_custom_op_symbolic
from .verify import VerificationError

__all__ = [
    "ONNXProgram",
    "OperatorExportTypes",
    "TrainingMode",
    "VerificationError",
    "export",
    "is_in_onnx_export",
    "parse_args",
    "register_custom_op_symbolic",
]
