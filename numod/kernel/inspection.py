"""Inspection: the machine code of a kernel, and what its hot loop says of it. For people to read; nothing depends on it.

Code that came from the disk cannot be read back as text: such a kernel is compiled once more, outside the cache.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from .build import Kernel

_LABEL = re.compile(r"^(\.?\w[\w.$]*):")
_JUMP = re.compile(r"^\s+j\w+\s+(\.\w+)")
_REGISTER = re.compile(r"%([xyz])mm\d+")
_BITS = {"x": 128, "y": 256, "z": 512}
_SCALAR = re.compile(r"^\s+v?(?:\w*s[sdh]|mov[dq])\b")


@dataclass
class MachineCode:
    """The assembly of a kernel's own function, and the bytes of all its code, wrapper included."""

    assembly: str
    code_bytes: int
    llvm: str = ""

    @cached_property
    def hot_loop(self) -> list[str]:
        """The instructions of the innermost loop that does most of the work: the widest vectors, then the most of them. Empty where nothing loops."""
        return max(_innermost_loops(self.assembly.splitlines()), key=lambda loop: (_width(loop), _vector_instructions(loop)), default=[])

    @property
    def loops(self) -> list[tuple[int, int]]:
        """(width of its vectors in bits, instructions) of each innermost loop that computes, in their order."""
        return [(_width(loop), len(loop)) for loop in _innermost_loops(self.assembly.splitlines()) if _vector_instructions(loop)]

    @property
    def vector_bits(self) -> int:
        """Width of the vectors in the hot loop; 0 where it computes one number at a time."""
        return _width(self.hot_loop)

    @property
    def unroll(self) -> int:
        """How many vectors (or numbers) a turn of the hot loop handles: its stores, or where it stores none its loads. 0 without a loop."""
        wide = [each for each in self.hot_loop if _vector(each, self.vector_bits)]
        stores = sum(each.rstrip().endswith(")") for each in wide)
        return stores or sum("(" in each for each in wide)


def machine_code(kernel: Kernel) -> MachineCode | None:
    """The machine code of a kernel of the CPU; None for other targets."""
    from llvmlite.binding import ObjectFileRef

    holder = _Holder()
    if kernel.cached or kernel.dispatcher is None:
        kernel.compile_again(holder)
    dispatcher = holder.dispatcher or kernel.dispatcher
    overloads = getattr(dispatcher, "overloads", None)
    library = getattr(next(iter(overloads.values())), "library", None) if overloads else None
    if library is None or not hasattr(library, "_final_module"):
        return None
    object_file = ObjectFileRef.from_data(library._codegen._tm.emit_object(library._final_module))
    size = sum(each.size() for each in object_file.sections() if each.is_text())
    return MachineCode(_own_function(library.get_asm_str(), kernel.name), size, library.get_llvm_str())


class _Holder:
    """A cache that keeps nothing but the dispatcher."""

    dispatcher = None

    def load_overload(self, *_: object) -> None:
        """Nothing is known."""

    def save_overload(self, *_: object) -> None:
        """Nothing is kept."""

    def keep(self, dispatcher: object) -> None:
        """What was compiled."""
        self.dispatcher = dispatcher


def _own_function(assembly: str, name: str) -> str:
    """The function of the kernel itself: not the wrapper that Python calls, nor the runtime's."""
    kept, inside = [], False
    for line in assembly.splitlines():
        label = _LABEL.match(line)
        if label and not label[1].startswith("."):
            inside = name in label[1] and "cpython" not in label[1]
        if inside and not line.lstrip().startswith((".cfi", ".size", ".type", ".p2align", ".globl", ".section")):
            kept.append(line)
    return "\n".join(kept)


def _innermost_loops(lines: list[str]) -> list[list[str]]:
    """Stretches from a label to a jump back to it that hold no other such stretch."""
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    loops = []
    for number, line in enumerate(lines):
        found = _JUMP.match(line)
        if found and labels.get(found[1], number + 1) <= number:
            loops.append((labels[found[1]], number))
    inner = [(a, b) for a, b in loops if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)]
    return [[line for line in lines[a : b + 1] if line.startswith(("\t", " "))] for a, b in inner]


def _vector(line: str, bits: int) -> bool:
    """Whether an instruction works on vectors of this width; 0 is for one number in a vector register."""
    widths = [_BITS[each] for each in _REGISTER.findall(line)]
    return bool(widths) and (0 if _SCALAR.match(line) else max(widths)) == bits


def _width(loop: list[str]) -> int:
    """The widest vectors that are read from memory or written there."""
    return max([_BITS[each] for line in loop if "(" in line and not _SCALAR.match(line) for each in _REGISTER.findall(line)], default=0)


def _vector_instructions(loop: list[str]) -> int:
    return sum(bool(_REGISTER.search(line)) for line in loop)
