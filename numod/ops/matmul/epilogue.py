"""Pointwise work at the end of a kernel, on rows of a product or a convolution that are still in the cache."""

from __future__ import annotations

import ast
import textwrap
import zlib
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ...kernel import emit, writer
from ...kernel.specialize import inlined_call
from ...kernel.syntax import parsed

_TEXTS = 256  # most texts that are kept: a program with dynamic dimensions is planned for each of its sizes


@dataclass(frozen=True)
class Epilogue:
    """A pointwise loop over the elements of a product, which replaces EPILOGUE in a kernel.

    `product` is the name of the loop's input that is the product's element. The loop may overwrite "out" with one
    result; else the product stays there. `steps` has, for each other tensor that it reads, its strides from batch to
    batch, row to row and column to column.

    A kernel calls EPILOGUE(batch, row, line, low, high) when elements `low` to `high` of a row are complete; the row
    begins at out[line].
    """

    loop: writer.Loop
    product: str
    steps: tuple[tuple[int, int, int], ...]

    def tensors(self) -> list[writer.Input]:
        """The tensors that the loop reads besides the product."""
        return [input for input in self.loop.inputs if input.tensor and input.name != self.product]

    def numbers(self) -> list[writer.Input]:
        """The scalar inputs of the loop."""
        return [input for input in self.loop.inputs if not input.tensor]

    def sizes(self) -> tuple[int, ...]:
        """The strides that are arguments of the kernel, not constants of its source."""
        return tuple(step for steps in self.steps for step in (steps if steps[2] > 1 else steps[:2]))

    def costly(self) -> bool:
        """Whether the loop computes for so long that it should be a function of its own (`_outlined`)."""
        return emit.is_costly(writer.body(self.loop, dict.fromkeys(["out", *self.loop.written()], "_j")))

    def rows_are_adjacent(self, columns: int) -> bool:
        """Whether all tensors have the strides of a dense result with `columns` columns: rows can be joined."""
        return all(step[1:] == (columns, 1) for step in self.steps)

    def inlined_into(self, source: str, bias: str = "") -> str:
        """The source of a kernel with this epilogue in place of EPILOGUE.

        The kernel takes further arguments: tensors and results, strides, numbers. `bias` is an expression that is added
        to the product's element.
        """
        return _inlined(_Written(self, bias, *self._written(bias)), source)

    def _written(self, bias: str) -> tuple[tuple[str, ...], ...]:
        """All that this epilogue writes to a kernel: lines, parameters, prologue."""
        steps = dict(zip(self.tensors(), self.steps))
        lines = self._lines(steps, bias, "batch", "row", "line", "low", "high")
        return tuple(map(tuple, (*lines, self._parameter_names(steps), writer.converted_numbers(self.loop))))

    def _parameter_names(self, steps: dict[writer.Input, tuple]) -> list[str]:
        """The names of the kernel's further parameters."""
        return [
            *(_array(*item) for item in steps.items()),
            *self.loop.written(),
            *(
                f"_{step}_{tensor.name}"
                for tensor, ends in steps.items()
                for step in ("batch", "row", "column")[: 3 if ends[2] > 1 else 2]
            ),
            *(number.name for number in self.numbers()),
        ]

    def _lines(
        self, steps: dict[writer.Input, tuple], bias: str, batch: str, row: str, line: str, low: str, high: str
    ) -> tuple[list[str], list[str]]:
        """(lines that compute where rows begin, lines of the loop over elements)."""
        index = {
            tensor.name: f"uintp(_line_{tensor.name} + _j{f' * _column_{tensor.name}' if step[2] > 1 else ''})"
            for tensor, step in steps.items()
            if step[2]
        }
        index |= dict.fromkeys(["out", *self.loop.written()], "uintp(_line + _j)")
        lines = [
            f"_line = {line}",
            *(
                f"_line_{tensor.name} = ({batch}) * _batch_{tensor.name} + ({row}) * _row_{tensor.name}"
                for tensor in steps
            ),
        ]
        for tensor, step in steps.items():
            if not step[2]:
                array = replace(tensor, name=_array(tensor, step))
                lines.append(f"{tensor.name} = {writer.load(self.loop.dtype, array, f'uintp(_line_{tensor.name})')}")
        loop = [f"for _j in range({low}, {high}):", f"    {self.product} = out[uintp(_line + _j)]{bias}"]
        if bias and not any(output.over for output in self.loop.outputs):  # the product is also a result
            loop.append(f"    out[uintp(_line + _j)] = {self.product}")
        return lines, loop + ["    " + statement for statement in writer.body(self.loop, index)]

    def types(self) -> list[str]:
        """The types of the kernel's further arguments, as in a signature."""
        outputs = [output for output in self.loop.outputs if output.over is None]
        return [
            *(f"{array.dtype.storage.name}[]" for array in (*self.tensors(), *outputs)),
            *["int64"] * len(self.sizes()),
            *(writer.number_type(number.dtype) for number in self.numbers()),
        ]


@dataclass(frozen=True)
class _Written:
    """The text that an epilogue adds to a kernel. Two of them compare equal if their texts do, whatever their loops."""

    epilogue: Epilogue = field(compare=False)
    bias: str
    starts: tuple[str, ...]
    loop: tuple[str, ...]
    names: tuple[str, ...]
    prologue: tuple[str, ...]


@lru_cache(_TEXTS)
def _inlined(written: _Written, source: str) -> str:
    epilogue, outlined = written.epilogue, []
    steps = dict(zip(epilogue.tensors(), epilogue.steps))

    def statements(*arguments: str) -> list[str]:
        starts, loop = epilogue._lines(steps, written.bias, *arguments)
        if epilogue.costly():
            function, loop = _outlined(loop)
            outlined.append(function)
        return starts + loop

    text = inlined_call(source, "EPILOGUE", statements, written.names, written.prologue)
    return "".join(outlined) + text


def _array(tensor: writer.Input, steps: tuple[int, int, int]) -> str:
    """The parameter's name for a tensor.

    If a row has one element, the tensor's own name is a variable for this element, and the array is `_rows_<name>`.
    """
    return tensor.name if steps[2] else f"_rows_{tensor.name}"


def _outlined(loop: list[str]) -> tuple[str, list[str]]:
    """The source of a function for a loop, and the call.

    Inlined into a kernel with many calls, which may clobber all registers, the loop would take 1.5 times as long: LLVM
    would reload the constants of exp or tanh for every register of results.
    """
    text = "\n".join(loop)
    nodes = list(ast.walk(parsed(text)))
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in functions]
    arguments = sorted({name.id for name in names} - {name.id for name in names if isinstance(name.ctx, ast.Store)})
    # the name must be unique among the functions that kernels share
    call = f"epilogue_{zlib.crc32(text.encode()):08x}({', '.join(arguments)})"
    return f"@shared_function\ndef {call}:\n{textwrap.indent(text, '    ')}\n", [call]


@lru_cache(_TEXTS)
def without_epilogue(source: str) -> str:
    """The source of a kernel without an epilogue."""
    return inlined_call(source, "EPILOGUE", lambda *_: ["pass"])
