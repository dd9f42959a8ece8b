"""Export: saves a captured network to a file (`export`, `save`, `load`) and compiles it to native code that needs
neither Python nor a library (`aot_compile`).

**How it works.** `capture` traces a module or function to a recorded program of `graph/`; with dynamic dimensions
(`dimensions`) it does so at several sizes, of which `sizes` makes a program with expressions (`polynomial`).
`ahead_of_time` describes the program's C interface (`interface`, `job`) and compiles it in a process per
target (`worker`, `module`, and for dynamic dimensions `between`, `variants`). Fourier transforms become products
(`fourier`). The program is optimised and lowered as for `numod.compile`, with the target's vector registers; its
kernels become one function over addresses (`link`), which Numba and llvmlite compile to an object file
(`device.ahead`). `entry` adds the
functions that C calls. `targets` has a row per target, `header` writes the C files beside the objects,
`native` is NAME.py (`loader`), `browser` writes the page, `libraries` makes shared libraries of them.
"""

from __future__ import annotations

from .ahead_of_time import Artifact, ExportError, aot_compile
from .capture import export
from .dimensions import Dim, dims
from .loader import load_native
from ..serialization.records import register_dataclass
from .program import ExportedProgram, load, save
from .shapes import AdditionalInputs, ShapesCollection
from .state_file import read_state

__all__ = [
    "AdditionalInputs", "Artifact", "Dim", "ExportError", "ExportedProgram", "aot_compile", "dims", "export", "load",
    "load_native", "read_state", "register_dataclass", "save", "ShapesCollection",
]  # fmt: skip
