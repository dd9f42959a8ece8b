"""Inspection: the machine code of a kernel and properties of its hot loop, for people to read.

Code loaded from disk cannot be read back as text: such a kernel is compiled once more, outside the cache. So is one
whose instructions are to be mapped to source lines; debug line numbers do not change the instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ..device import code_library
from ..device.division import LOOP_PREFIX
from . import build
from .build import Kernel

_LABEL = re.compile(r"^(\.?\w[\w.$]*):")
_JUMP = re.compile(r"^\s+j\w+\s+(\.\w+)")
_REGISTER = re.compile(r"%([xyz])mm\d+")
_BITS = {"x": 128, "y": 256, "z": 512}
_LINE = re.compile(r"^\s+\.loc\s+\d+ (\d+)")
_SCALAR = re.compile(r"^\s+v?(?:\w*s[sdh]|mov[dq])\b")
_NOT_CODE = (".cfi", ".size", ".type", ".p2align", ".globl", ".section", ".file", ".Ltmp", ".Lfunc", ".text")


@dataclass
class MachineCode:
    """The assembly of a kernel's function and its outlined parallel loops, and the size of all its code.

    The size, in bytes, includes the wrapper and shared functions.

    `lines`: for each line of the assembly its line in the kernel's source, 0 if it has none; empty unless requested.
    """

    assembly: str
    code_bytes: int
    llvm: str = ""
    lines: tuple[int, ...] = ()
    source: str = ""

    @cached_property
    def hot_range(self) -> tuple[int, int]:
        """(first, last) line, from 0, of the hottest innermost loop; (0, -1) if there is none.

        The most deeply nested loop in the source, as far as lines are known; then the one with the widest vectors, then
        with the most vector instructions.
        """
        text = self.assembly.splitlines()

        def work(line_range: tuple[int, int]) -> tuple[int, int, int]:
            loop = _instructions(text, line_range)
            return self._depth(line_range), _width(loop), _vector_instructions(loop)

        return max(_innermost_loops(text), key=work, default=(0, -1))

    def _depth(self, line_range: tuple[int, int]) -> int:
        """The indentation of a loop's lines in the source; code of helper functions has no lines."""
        source = self.source.splitlines()
        source_lines = [
            source[number - 1] for number in self.lines[line_range[0] : line_range[1] + 1] if 0 < number <= len(source)
        ]
        return max([len(line) - len(line.lstrip()) for line in source_lines], default=0)

    @cached_property
    def hot_loop(self) -> list[str]:
        """The instructions of the hot loop; empty if there is none."""
        return _instructions(self.assembly.splitlines(), self.hot_range)

    @property
    def hot_lines(self) -> dict[int, int]:
        """Source line -> number of instructions of the hot loop from it."""
        first, last = self.hot_range
        return dict(sorted(Counter(line for line in self.lines[first : last + 1] if line).items()))

    @property
    def loops(self) -> list[tuple[int, int]]:
        """(vector width in bits, number of instructions) of each innermost loop that computes, in order."""
        text = self.assembly.splitlines()
        loops = [_instructions(text, line_range) for line_range in _innermost_loops(text)]
        return [(_width(loop), len(loop)) for loop in loops if _vector_instructions(loop)]

    @property
    def vector_bits(self) -> int:
        """Vector width of the hot loop in bits; 0 if it is scalar."""
        return _width(self.hot_loop)

    @property
    def unroll(self) -> int:
        """Vectors (or scalars) per iteration of the hot loop: its stores, or its loads if it has no stores. 0 without a
        loop.
        """
        vector_lines = [line for line in self.hot_loop if _vector(line, self.vector_bits)]
        stores = sum(line.rstrip().endswith(")") for line in vector_lines)
        return stores or sum("(" in line for line in vector_lines)


def machine_code(kernel: Kernel, lines: bool = False) -> MachineCode | None:
    """The machine code of a kernel of the CPU, with the lines of its source where asked; None for other targets."""
    from llvmlite.binding import ObjectFileRef

    if kernel.translate is None:
        return None
    with build.unforked:
        library = kernel.translate(lines).library
        parts = code_library.parts(library)
        files = [ObjectFileRef.from_data(part.object_file()[0]) for part in parts]
        text = _own_functions(library.get_asm_str(), kernel.name)
        llvm = "\n".join(part.get_llvm_str() for part in parts[::-1])
    size = sum(section.size() for file in files for section in file.sections() if section.is_text())
    return MachineCode(
        "\n".join(line for line, _ in text),
        size,
        llvm,
        tuple(number for _, number in text) if lines else (),
        kernel.source,
    )


def _own_functions(assembly: str, name: str) -> list[tuple[str, int]]:
    """Assembly lines of the kernel's function and its outlined loops, with their source lines.

    The wrapper that Python calls and runtime functions are left out.
    """
    text_lines, inside, number = [], False, 0
    for line in assembly.splitlines():
        label = _LABEL.match(line)
        if label and not label[1].startswith("."):
            inside, number = (name in label[1] and "cpython" not in label[1]) or LOOP_PREFIX in label[1], 0
        match = _LINE.match(line)
        if match:
            number = int(match[1])
        elif inside and line.strip() and not line.lstrip().startswith(_NOT_CODE):
            text_lines.append((line, number if line[:1].isspace() else 0))
    return text_lines


def _instructions(text: list[str], line_range: tuple[int, int]) -> list[str]:
    """The lines that are instructions: no labels or directives."""
    return [line for line in text[line_range[0] : line_range[1] + 1] if line.startswith(("\t", " "))]


def _innermost_loops(lines: list[str]) -> list[tuple[int, int]]:
    """(first, last) line of each innermost loop: from a label to a jump back to it, without another such loop
    inside.
    """
    labels = {match[1]: number for number, line in enumerate(lines) if (match := _LABEL.match(line))}
    loops = []
    for number, line in enumerate(lines):
        match = _JUMP.match(line)
        if match and labels.get(match[1], number + 1) <= number:
            loops.append((labels[match[1]], number))
    return [(a, b) for a, b in loops if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)]


def _vector(line: str, bits: int) -> bool:
    """Whether an instruction uses vectors of this width; 0 means a scalar in a vector register."""
    widths = [_BITS[register] for register in _REGISTER.findall(line)]
    return bool(widths) and (0 if _SCALAR.match(line) else max(widths)) == bits


def _width(loop: list[str]) -> int:
    """Width of the widest vector loads or stores."""
    return max(
        [
            _BITS[register]
            for line in loop
            if "(" in line and not _SCALAR.match(line)
            for register in _REGISTER.findall(line)
        ],
        default=0,
    )


def _vector_instructions(loop: list[str]) -> int:
    return sum(bool(_REGISTER.search(line)) for line in loop)
