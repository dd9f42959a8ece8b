"""Pointwise work at the end of a kernel: on rows of a product or a convolution that the kernel has just made, while
they are in the cache.
"""

from __future__ import annotations

import ast
import re
import zlib
from dataclasses import dataclass, replace

from ...kernel import emit, writer
from ...kernel.syntax import parsed


@dataclass(frozen=True)
class Epilogue:
    """`loop` computes from inputs of which that named `product` is the element that was made, and may write one result
    over "out", where that is left otherwise.

    `steps`: from batch to batch, row to row and column to column, of each other tensor it reads. A kernel says
    FINISH(batch, row, line, low, high) where elements `low` to `high` of a row of a batch are made; the row begins at
    out[line].
    """

    loop: writer.Loop
    product: str
    steps: tuple[tuple[int, int, int], ...]

    def tensors(self) -> list[writer.Input]:
        """The tensors it reads besides the product."""
        return [input for input in self.loop.inputs if input.tensor and input.name != self.product]

    def numbers(self) -> list[writer.Input]:
        """The numbers it computes with."""
        return [input for input in self.loop.inputs if not input.tensor]

    def sizes(self) -> tuple[int, ...]:
        """The steps that are not part of the text."""
        return tuple(each for steps in self.steps for each in (steps if steps[2] > 1 else steps[:2]))

    def costly(self) -> bool:
        """Whether it computes for so long that its loop should be a function of its own (`_apart`)."""
        return emit.is_costly(writer.body(self.loop, dict.fromkeys(["out", *self.loop.written()], "_j")))

    def level(self, columns: int) -> bool:
        """Whether all it reads lies row behind row, as a dense result of so many columns does: several rows are as
        one.
        """
        return all(step[1:] == (columns, 1) for step in self.steps)

    def joined(self, source: str, bias: str = "") -> str:
        """A kernel's text with this in it.

        Further arguments: the tensors and results, the steps, the numbers. `bias` is text that follows the product's
        element.
        """
        steps = dict(zip(self.tensors(), self.steps))
        names = [_array(*item) for item in steps.items()] + self.loop.written()
        names += [
            f"_{step}_{each.name}"
            for each, ends in steps.items()
            for step in ("batch", "row", "column")[: 3 if ends[2] > 1 else 2]
        ]
        names += [number.name for number in self.numbers()]
        start = "".join(f"    {line}\n" for line in writer.converted_numbers(self.loop))
        text = source.replace("):\n", f"{''.join(f', {each}' for each in names)}):\n{start}", 1)
        indent, *place = re.search(rf"^( *)FINISH\({', '.join(['(.*)'] * 5)}\)", text, flags=re.M).groups()
        starts, loop = self._lines(steps, bias, *place)
        apart, loop = _apart(loop) if self.costly() else ("", loop)
        return apart + text.replace(
            f"{indent}FINISH({', '.join(place)})\n", "".join(f"{indent}{line}\n" for line in starts + loop)
        )

    def _lines(
        self, steps: dict[writer.Input, tuple], bias: str, batch: str, row: str, line: str, low: str, high: str
    ) -> tuple[list[str], list[str]]:
        """Where the rows begin, and the loop over elements."""
        index = {
            each.name: f"uintp(_line_{each.name} + _j{f' * _column_{each.name}' if step[2] > 1 else ''})"
            for each, step in steps.items()
            if step[2]
        }
        index |= dict.fromkeys(["out", *self.loop.written()], "uintp(_line + _j)")
        lines = [
            f"_line = {line}",
            *(f"_line_{step.name} = ({batch}) * _batch_{step.name} + ({row}) * _row_{step.name}" for step in steps),
        ]
        for each, step in steps.items():
            if not step[2]:
                lines.append(
                    f"{each.name} = "
                    f"{writer.load(self.loop.dtype, replace(each, name=_array(each, step)), f'uintp(_line_{each.name})')}"
                )
        loop = [f"for _j in range({low}, {high}):", f"    {self.product} = out[uintp(_line + _j)]{bias}"]
        if bias and not any(output.over for output in self.loop.outputs):  # the product is a result too
            loop.append(f"    out[uintp(_line + _j)] = {self.product}")
        return lines, loop + ["    " + each for each in writer.body(self.loop, index)]

    def types(self) -> list[str]:
        """Of its further arguments, in a signature."""
        outputs = [output for output in self.loop.outputs if output.over is None]
        arrays = [f"{each.dtype.storage.name}[]" for each in (*self.tensors(), *outputs)]
        return [
            *arrays,
            *["int64"] * len(self.sizes()),
            *(writer.number_type(number.dtype) for number in self.numbers()),
        ]


def _array(each: writer.Input, steps: tuple[int, int, int]) -> str:
    """The argument's name for a tensor.

    Where each row has one element, the tensor's own name stands for that element, and the array is `_rows_<name>`.
    """
    return each.name if steps[2] else f"_rows_{each.name}"


def _apart(loop: list[str]) -> tuple[str, list[str]]:
    """A function of its own for a loop, and the call.

    In a kernel full of calls, which may change all registers, LLVM would load the constants of exp or tanh again for
    every register of results: half as long again as such a loop takes.
    """
    text = "\n".join(loop)
    nodes = list(ast.walk(parsed(text)))
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in functions]
    given = sorted({name.id for name in names} - {name.id for name in names if isinstance(name.ctx, ast.Store)})
    # functions that kernels share are told apart by their names
    call = f"finish_{zlib.crc32(text.encode()):08x}({', '.join(given)})"
    return f"@shared_function\ndef {call}:\n    " + text.replace("\n", "\n    ") + "\n", [call]


def unfinished(source: str) -> str:
    """A kernel's text with nothing in its end."""
    return re.sub(r"FINISH\(.*\)", "pass", source)
