"""Export: saves a captured network to a file (`export`, `save`, `load`) and compiles it to native code that needs
neither Python nor a library (`aot_compile`).

**How it works.** `capture` traces a module or function to a recorded program of `graph/`; with dynamic dimensions
(`dimensions`, `shapes`) it does so at several sizes, of which `sizes` makes a program with expressions (`polynomial`).
`nodes` and `signature` describe the program as PyTorch does; `script` is `numod.jit`, whose checks are in `traced`.
`ahead_of_time` describes the program's C interface (`interface`, `job`) and compiles it in a process per
target (`worker`, `module`, and for dynamic dimensions `between`, `variants`). Fourier transforms become products
(`fourier`). The program is optimised and lowered as for `numod.compile`, with the target's vector registers; its
kernels become one function over addresses (`link`), which Numba and llvmlite compile to an object file
(`device.ahead`). `entry` adds the
functions that C calls. `targets` has a row per target, `header` writes the C files beside the objects,
`native` is NAME.py (`loader`), `browser` writes the page, `libraries` makes shared libraries of them.
"""

from __future__ import annotations

from ..errors import name_only
from .ahead_of_time import Artifact, ExportError, aot_compile
from .capture import export
from .dimensions import Dim, dims
from .loader import load_native
from ..serialization.records import register_dataclass
from .program import ExportedProgram, default_decompositions, load, save
from .shapes import AdditionalInputs, ShapesCollection
from .signature import ExportGraphSignature, ModuleCallEntry, ModuleCallSignature
from .state_file import read_state

__all__ = [
    "AdditionalInputs", "Artifact", "Dim", "ExportError", "ExportGraphSignature", "ExportedProgram", "ModuleCallEntry",
    "ModuleCallSignature", "ShapesCollection", "aot_compile", "default_decompositions", "dims", "export", "load",
    "load_native", "read_state", "register_dataclass", "save",
]  # fmt: skip
_CALLS = (
    "calls of submodules are not recorded; exported_program.module() runs the whole, with the parameters' names, and "
    "numod.export.export(model.part, inputs) captures a part"
)
FlatArgsAdapter, UnflattenedModule, unflatten = (
    name_only(f"export.{_name}", _CALLS) for _name in ("FlatArgsAdapter", "UnflattenedModule", "unflatten")
)
draft_export = name_only(
    "export.draft_export",
    "numod.export.export names the line that it cannot capture, and Dim.AUTO is dynamic where the function allows it",
)
CustomDecompTable = name_only("export.CustomDecompTable", "numod's ops have no decompositions")
