"""The main function of an exported program: its kernel calls, with addresses passed as arguments.

Numbers that differ between the iterations of a loop are in a constant array of the object file, so that the caller has
no table to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..device.device import Device
from ..graph.backend.link import Linker, is_apart, key_of_kernel
from ..graph.backend.lower import Buffer, Call, CheckCall, Integer, Number
from ..kernel import bind
from ..kernel.bind import Unbuilt

_OFFSETS = (1 << 63) - 1  # a generator's offset wraps at 2 ** 63


@dataclass(frozen=True)
class Main:
    """Source of a function `kernel(*names)` over addresses, its constant array, and the functions that it calls.

    `apart`: those of the functions that are not specialised for a call.
    """

    text: str
    names: tuple[str, ...]
    table: tuple[int, ...]
    functions: tuple[str, ...]
    apart: tuple[str, ...]


@dataclass(frozen=True)
class Stream:
    """Random numbers: the state's offset in the weights, how many are drawn before each draw, and how many per run."""

    offset: int
    before: dict[int, int]
    count: int


def main_function(
    calls: Sequence[Call | CheckCall],
    places: dict[Buffer, int],
    names: dict[Buffer, str],
    order: Sequence[str],
    stream: Stream | None = None,
    apart: bool = False,
    packed: int = 0,
) -> Main:
    """The function that runs the calls.

    `places`: byte offsets of buffers; `names`: the argument to which a buffer's offset is relative; `order`: the
    arguments. `apart`: hide from LLVM which kernels access the same memory, as `numod.compile` does, so that both round
    alike. `packed`: bytes of packed weights before the constant array. The function returns 0 or the number of a failed
    check.
    """
    return MainLinker(places, names, stream, apart, packed).main(calls, order)


class MainLinker(Linker):
    """Generates calls over addresses that are arguments."""

    first = 0

    def __init__(
        self, places: dict[Buffer, int], names: dict[Buffer, str], stream: Stream | None, apart: bool, packed: int
    ) -> None:
        super().__init__(places, (), dynamic=False)
        self.names, self.stream, self.apart, self.packed = names, stream, apart, packed
        self.bases: dict[
            object, str
        ] = {}  # names of the current call's address variables, by the memory that they point to

    def main(self, calls: Sequence[Call | CheckCall], order: Sequence[str]) -> Main:
        """The main function with arguments in this `order`."""
        lines = self._lines(calls)
        head = self.constants(len(self.slots))
        if self.stream is not None:
            head += f"    stream = view_int64(weights + {self.stream.offset}, 2)\n"
        lines += self._advance()
        kernels = [call.kernel for call in calls if isinstance(call, Call)]
        return self.written(self._text(order, head, lines), order, self.slots, kernels)

    def constants(self, numbers: int) -> str:
        """The lines that assign `constants`, the address of packed weights, and `table`, the numbers behind them."""
        lines = "    constants = constant_address()\n" if self.packed else ""
        table = f"    table = view_int64(constant_address() + {self.packed}, {numbers})\n"
        return lines + table if numbers else lines

    def written(self, text: str, order: Sequence[str], table: Sequence[int], kernels: Sequence[Unbuilt]) -> Main:
        """The main function with this text, which calls the kernels."""
        apart = dict.fromkeys(self.functions[key_of_kernel(kernel)] for kernel in kernels if is_apart(kernel))
        text = bind.headed(text, Device("cpu").backend)  # also of a program without kernels
        return Main(text, tuple(order), tuple(table), tuple(self.functions.values()), tuple(apart))

    def _advance(self) -> list[str]:
        """The statement that advances the random offset after a run."""
        return [] if self.stream is None else [f"    stream[1] = (stream[1] + {self.stream.count}) & {_OFFSETS}"]

    def _argument(self, argument: object) -> str:
        if not isinstance(argument, (Number, Integer)):
            return super()._argument(argument)
        return f"((stream[1] + {self.stream.before[argument.source]}) & {_OFFSETS})" if argument.index else "stream[0]"

    def _call(self, call: Call, arguments: list[str], indent: str) -> list[str]:
        return [*self._bases(indent), *super()._call(call, arguments, indent)]

    def _test(self, test: CheckCall, number: int) -> list[str]:
        lines = super()._test(test, number)
        return [*self._bases("    "), *lines]

    def _bases(self, indent: str) -> list[str]:
        """The lines that assign the address variables of the current call."""
        lines = [f"{indent}{name} = opaque({self.names[key[-1]]})" for key, name in self.bases.items()]
        self.bases = {}
        return lines

    def _address(self, buffer: Buffer) -> str:
        name = self.names[buffer]
        if not self.apart or buffer.kind == "input":
            return name
        key = ("arena", buffer) if buffer.kind == "local" else (buffer,)
        for known, base in self.bases.items():
            if known == key or known[0] == key[0] == "arena":
                return base
        return self.bases.setdefault(key, f"base{len(self.bases)}")

    def _address_in_loop(self, buffers: list[Buffer], cell: Callable[[list[int]], str]) -> str:
        distinct = list(dict.fromkeys(self.names[buffer] for buffer in buffers))
        text = distinct[-1]
        if len(distinct) > 1:
            chosen = cell([distinct.index(self.names[buffer]) for buffer in buffers])
            for number, name in reversed([*enumerate(distinct[:-1])]):
                text = f"({name} if {chosen} == {number} else {text})"
        return text
