"""`numod.onnx`: models of ONNX files as modules, and modules as ONNX files.

`load` reads a file into an nn.Module whose weights are Parameters; `export` writes a module as a file for any runtime.
The package `onnx` reads and writes the format; it is needed when they are called, but not to import this
folder, whose names model files import.

**How it works.** `load` checks the file (`checks`) and builds a `Program`, a list of steps, for the graph and for each
subgraph and function in it (`build`). A step calls the function that the table has for the node's operator and version
(`registry`, `opset`). `program` runs the steps; shape arithmetic runs on NumPy arrays (`opset.host`), so that a
recording of `numod.compile` has tensor operations only. `model` is the module around the program; `ties` separates
tensors that a file stores once because they are equal, `layers` makes nn.Linear layers of products, `tensors` and
`attributes` convert what a file holds. `summary` describes a file.

`export` writes the program that `numod.export` captures. `symbols` reads it with its dynamic sizes as expressions, and
`writer/` makes a graph of it, by a table of rules from ops to nodes. `verify` runs the result.
"""

from __future__ import annotations

import numod

from .export import ONNXProgram, OperatorExportTypes, TrainingMode, export
from .load import load
from .model import OnnxModule
from .symbolic_helper import is_in_onnx_export, parse_args, register_custom_op_symbolic
from .verify import VerificationError

__all__ = [
    "ONNXProgram",
    "OnnxModule",
    "OperatorExportTypes",
    "TrainingMode",
    "VerificationError",
    "export",
    "is_in_onnx_export",
    "load",
    "parse_args",
    "register_custom_op_symbolic",
]
__getattr__ = numod.paths.later("onnx")  # PyTorch's modules of names, such as symbolic_opset11
