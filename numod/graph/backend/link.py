"""Links kernel calls into one native function.

Each kernel's text becomes a function. A main function calls them in order, in loops where they repeat. Sizes and
strides are literals, which the compiler can use to unroll and specialise, or entries of `table` if one function serves
many sizes. Memory is passed as addresses in `table`, so the cost of a call does not grow with the number of tensors.
Weights are never constants. The table can also list words of memory to check first: fields of Python objects that
guards watch, and reference counts, which show whether memory of an earlier call can be reused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...kernel import bind, build, writer
from .lower import Buffer, Call, CheckCall, Integer, Loaded, Number, Span
from ..ir.repetition import key_of_call, repeated_runs

_LONG_TEXT = 1000  # characters of a kernel's text from which it is not inlined, if LLVM may reorder its sums
# layout of the table: address of the local memory, start and end of the watched words, first entry
ARENA, WATCH, END, FIRST = 0, 1, 2, 3
_HEAD = f"""\
    table = view_int64(address, {1 << 40})
    for place in range(table[{WATCH}], table[{END}], 2):
        if view_int64(table[place], 1)[0] != table[place + 1]:
            return -place
"""


@dataclass
class Linked:
    """The native function `launch(address of the table, *arrays, *numbers)`, and its table's entries from FIRST on.

    It returns 0, the number of a failed check, or minus the position of a watched word that differs. In the last two
    cases it has no side effects.
    """

    kernel: build.Kernel
    slots: list[Buffer | int]

    @property
    def launch(self) -> Callable:
        """The compiled entry point."""
        return self.kernel.launch


def link(
    calls: Sequence[Call | CheckCall],
    places: dict[Buffer, int],
    arrays: Sequence[Buffer],
    name: str,
    dynamic: bool = False,
) -> Linked:
    """One native function for these calls.

    `places`: byte offsets of local buffers in the arena. `arrays`: the buffers passed as arguments.
    `dynamic`: the text contains no sizes, so equal calls over other sizes reuse the compiled function.
    """
    return Linker(places, arrays, dynamic).build(calls, name)


class Linker:
    """Generates the main function's text.

    Subclasses may refer to memory in other ways than by table entries (`export.link`).
    """

    first = FIRST  # position of the first table entry

    def __init__(self, places: dict[Buffer, int], arrays: Sequence[Buffer], dynamic: bool) -> None:
        self.places, self.arrays, self.dynamic = places, {array: f"array{k}" for k, array in enumerate(arrays)}, dynamic
        self.slots: list[Buffer | int] = []
        self.slot_of: dict[Buffer, int] = {}
        self.addresses: dict[Buffer, int] = {}  # table slots from which loops read the addresses of array arguments
        self.functions: dict[tuple, str] = {}
        self.texts: list[str] = []
        self.numbers: dict[tuple[int, int], tuple[str, str]] = {}

    def build(self, calls: Sequence[Call | CheckCall], name: str) -> Linked:
        """Generate the text and compile it."""
        lines = self._lines(calls)
        lines[:0] = [
            f"    table[{slot}] = address_of({self.arrays[buffer]})" for buffer, slot in self.addresses.items()
        ]
        numbers = [self.numbers[key] for key in sorted(self.numbers)]
        names = ["address", *self.arrays.values(), *(text for text, _ in numbers)]
        types = ["int64", *(f"{array.storage.name}[]" for array in self.arrays), *(kind for _, kind in numbers)]
        text = self._text(names, _HEAD, lines)
        backend = next(call.kernel.device.backend for call in calls if isinstance(call, Call))
        return Linked(build.build(backend, name, bind.headed(text, backend), ", ".join(types), alone=True), self.slots)

    def _text(self, names: Sequence[str], head: str, lines: Sequence[str]) -> str:
        return (
            "".join(self.texts)
            + f"def kernel({', '.join(names)}):\n{head}"
            + "\n".join([*lines, "    return 0"])
            + "\n"
        )

    def _lines(self, calls: Sequence[Call | CheckCall]) -> list[str]:
        """The statements that call the kernels. The kernels' own texts are added to `texts`."""
        lines, tests = [], 0
        for first, period, trip_count in repeated_runs([*map(key_of_call, calls)]):
            call = calls[first]
            if trip_count > 1:
                lines += self._loop(
                    [calls[first + turn * period : first + (turn + 1) * period] for turn in range(trip_count)]
                )
            elif isinstance(call, CheckCall):
                tests += 1
                lines += self._test(call, tests)
            else:
                lines += self._call(call, [*map(self._argument, call.arguments)], "    ")
        return lines

    def _test(self, test: CheckCall, number: int) -> list[str]:
        """The lines that return `number` if the checked value is not the expected one."""
        return [f"    if {self._span(test.span)}[0] != {_plain(test.expected)}:", f"        return {number}"]

    def _call(self, call: Call, arguments: list[str], indent: str) -> list[str]:
        """The line that calls a kernel's function."""
        return [f"{indent}{self._function(call)}({', '.join(arguments)})"]

    def _loop(self, iterations: list[Sequence[Call]]) -> list[str]:
        """Lines of a loop over equal calls.

        Arguments that change between iterations are read from the table, one row per iteration.
        """
        columns: list[list[int]] = []

        def cell(values: list[int]) -> str:
            """The text of a number, given its value in each iteration."""
            if len(set(values)) == 1 and not self.dynamic:
                return _plain(values[0])
            columns.append(values)
            return f"table[ROW + {len(columns) - 1}]"

        lines = []
        for equal_calls in zip(*iterations):
            arguments = [self._arguments(variants, cell) for variants in zip(*(call.arguments for call in equal_calls))]
            lines += self._call(equal_calls[0], arguments, "        ")
        row = f"{self.first + len(self.slots)} + turn * {len(columns)}"
        self.slots += [column[turn] for turn in range(len(iterations)) for column in columns]
        return [f"    for turn in range({len(iterations)}):", *(line.replace("ROW", row) for line in lines)]

    def _arguments(self, variants: tuple, cell: Callable[[list[int]], str]) -> str:
        """The text of an argument, given its variant in each iteration."""
        if type(variants[0]) is int:
            return cell(list(variants))
        if not isinstance(variants[0], Span):
            return self._argument(variants[0])
        address = self._address_in_loop([span.buffer for span in variants], cell)
        size, offset = cell([span.size for span in variants]), cell([self._offset(span) for span in variants])
        return f"view_{variants[0].storage.name}({address} + {offset}, {size})"

    def _address_in_loop(self, buffers: list[Buffer], cell: Callable[[list[int]], str]) -> str:
        """The text of a buffer's address, where the buffer may change between iterations."""
        bases = [*map(self._base, buffers)]
        return f"table[{bases[0] if len(set(bases)) == 1 else cell(bases)}]"

    def _base(self, buffer: Buffer) -> int:
        """The table slot with the address of a buffer's memory."""
        if buffer not in self.arrays:
            return ARENA if buffer.kind == "local" else self._slot(buffer)
        if buffer not in self.addresses:
            self.slots.append(0)
            self.addresses[buffer] = self.first + len(self.slots) - 1
        return self.addresses[buffer]

    def _offset(self, span: Span) -> int:
        """Byte offset from the start of the arena, or of the buffer's own memory."""
        return span.offset * span.storage.itemsize + self.places.get(span.buffer, 0)

    def _function(self, call: Call) -> str:
        """The name of the call's kernel function. Its text is added at the first use."""
        kernel = call.kernel
        key = key_of_kernel(kernel)
        if key not in self.functions:
            self.functions[key] = f"{kernel.name}_{len(self.functions)}"
            flags = "{" + ", ".join(map(repr, sorted(kernel.fastmath))) + "}"
            kind = "shared" if is_apart(kernel) else "device"
            flags = f"@{kind}_function(fastmath={flags})\n"
            # the text of the functions that the kernel calls, then its own
            helpers, decorated, main = kernel.function(self.functions[key]).rpartition(f"def {self.functions[key]}(")
            for definition in (*re.split(r"(?=^@\w+_function)", helpers, flags=re.M), flags + decorated + main):
                if definition not in self.texts:  # helpers are shared by kernels
                    self.texts.append(definition)
        return self.functions[key]

    def _argument(self, argument: object) -> str:
        """The text of an argument outside of loops. Numbers of a run become parameters of the main function."""
        if isinstance(argument, Span):
            return self._span(argument)
        if isinstance(argument, (Number, Integer)):
            kind = "float64" if isinstance(argument, Number) else "int64"
            return self.numbers.setdefault(
                (argument.source, argument.index), (f"number{argument.source}_{argument.index}", kind)
            )[0]
        if isinstance(argument, Loaded):
            return f"{self._span(argument.span)}[0]"
        return self._size(argument) if type(argument) is int else _plain(argument)

    def _size(self, number: int) -> str:
        """An integer: a literal, or a table entry if the function serves all sizes."""
        if not self.dynamic:
            return _plain(number)
        self.slots.append(number)
        return f"table[{self.first + len(self.slots) - 1}]"

    def _span(self, span: Span) -> str:
        """The text of a flat array over a part of a buffer."""
        address, offset = self._address(span.buffer), self._offset(span)
        return (
            f"view_{span.storage.name}({address}{f' + {self._size(offset)}' if offset or self.dynamic else ''}, "
            f"{self._size(span.size)})"
        )

    def _address(self, buffer: Buffer) -> str:
        """The text of the address of a buffer's memory."""
        if buffer in self.arrays:
            return f"address_of({self.arrays[buffer]})"
        return f"table[{ARENA}]" if buffer.kind == "local" else f"table[{self._slot(buffer)}]"

    def _slot(self, buffer: Buffer) -> int:
        """The table entry with the address of a buffer's memory, added at the first use."""
        if buffer not in self.slot_of:
            self.slots.append(buffer)
            self.slot_of[buffer] = self.first + len(self.slots) - 1
        return self.slot_of[buffer]


def key_of_kernel(kernel: bind.Unbuilt) -> tuple:
    """What is equal for kernels that are one function."""
    return kernel.source, kernel.signature, kernel.real, kernel.fastmath


def is_apart(kernel: bind.Unbuilt) -> bool:
    """Whether a kernel is compiled separately.

    LLVM orders the sums of a long kernel as it fits the function into which it is inlined. Separately compiled, the
    kernel gives the same results in all functions.
    """
    return "reassoc" in kernel.fastmath and len(kernel.source) > _LONG_TEXT


def _plain(value: float | int | bool) -> str:
    """A number as text: bool as its byte."""
    return writer.literal(int(value) if isinstance(value, bool) else value)
