"""Concatenation and stacking: each input is copied into its part of the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import accumulate
from math import prod

from ... import dtypes
from ...device import Layout
from ...device.layout import dense_strides, layout
from ...dtypes import dtype as DType
from ...kernel import bind, writer
from ...kernel.expression import Symbol
from ..op import Op, Plan, BackwardPlan, single_device
from ..pointwise import plan_loop


# size of a result up to which one kernel copies several tensors: all if there are at most _MAX_TENSORS, else
# _TENSORS_PER_KERNEL at a time
_JOINED_SIZE, _TENSORS_PER_KERNEL, _MAX_TENSORS = 1 << 16, 8, 4


class Cat(Op):
    """Concatenation along `dim`; dtypes are promoted. Raises RuntimeError if other sizes differ."""

    takes = "*[*_]~:any; dim=axis"
    attributes, upcasts_half, wide_unsigned = ("dim",), False, True

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (dim,) = attributes
        first = arguments[0]
        for k, argument in enumerate(arguments):
            if argument.ndim != first.ndim:
                raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {argument.ndim}")
            if any(a != b for d, (a, b) in enumerate(zip(argument.shape, first.shape)) if d != dim):
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected "
                    f"{tuple(first.shape)} but got {tuple(argument.shape)} for tensor number {k} in the list."
                )
        result = dtypes.result_type([argument.dtype for argument in arguments], [], [])
        sizes = [argument.shape[dim] for argument in arguments]
        shape = (*first.shape[:dim], sum(sizes), *first.shape[dim + 1 :])
        out = layout(shape, result, single_device("cat", list(arguments)))
        if (
            len(arguments) > 1
            and out.size <= _JOINED_SIZE
            and not out.device.backend.is_gpu
            and all(argument.dense and argument.dtype is result for argument in arguments)
        ):
            return _small_join(out, dim, sizes)
        strides = dense_strides(shape)
        parts, start = [], 0
        for argument in arguments:
            if argument.size:
                part = layout(tuple(argument.shape), result, out.device, strides)
                parts.append((*_copy(argument, part), start * strides[dim]))
            else:
                parts.append((None, (), 0))
            start += argument.shape[dim]
        if len(parts) == 1 and out.size:
            return Plan(out, *parts[0][:2])
        return Plan(out, _one_by_one(parts))

    def _backward_plan(self, wanted: list[int], count: int) -> BackwardPlan:
        return self._plan_of_calls([(tuple(wanted), self._parts(wanted), ("g", "layouts", "dim"))], wanted, count)

    def _parts(self, wanted: list[int]) -> Callable:
        """The gradient function of the inputs at these positions: parts of g."""

        def parts(g: object, layouts: tuple, dim: int) -> list:
            ends = [*accumulate(layout.shape[dim] for layout in layouts)]
            return [g.narrow(dim, ends[k] - layouts[k].shape[dim], layouts[k].shape[dim]) for k in wanted]

        return parts


class Stack(Cat):
    """Tensors of the same shape joined along a new dimension `dim`."""

    takes = "*[*s]~:any; dim=0.."

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return (
            None
            if attributes[0] <= len(sizes["s"])
            else f"attribute 'dim' must be at most {len(sizes['s'])}, got {attributes[0]}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (dim,) = attributes
        unsqueezed = lambda sizes: (*sizes[:dim], 1, *sizes[dim:])  # noqa: E731
        return super().prepare(
            tuple(layout(unsqueezed(x.shape), x.dtype, x.device, unsqueezed(x.strides)) for x in arguments), attributes
        )

    def _parts(self, wanted: list[int]) -> Callable:
        """The gradient function of the inputs at these positions: slices of g."""
        return lambda g, layouts, dim: [g.select(dim, k) for k in wanted]


@cache
def _join_text(count: int) -> str:
    """The source of a kernel that copies a line of each of `count` tensors for each row of the result."""
    names = [f"x{k}" for k in range(count)]
    lines = [
        f"def kernel({', '.join(names)}, out, outer, line, first, {', '.join(f'n{k}' for k in range(count))}):",
        "    for row in range(outer):",
        "        at = row * line + first",
    ]
    for k in range(count):
        lines += [
            f"        for j in range(n{k}):",
            f"            out[uintp(at + j)] = x{k}[uintp(row * n{k} + j)]",
            f"        at += n{k}",
        ]
    return "\n".join(lines) + "\n"


def _small_join(out: Layout, dim: int, sizes: list[int]) -> Plan:
    """The plan of a join of small dense tensors: a launch copies several, since launches would dominate."""
    outer = prod(out.shape[:dim])
    inner = prod(out.shape[dim + 1 :])
    at_once = len(sizes) if len(sizes) <= _MAX_TENSORS else _TENSORS_PER_KERNEL
    signature = bind.signature(*[out] * (at_once + 1), numbers=at_once + 3)
    run = bind.launcher(out.device, "join", _join_text(at_once), signature, out.dtype, out.size)
    launches, lengths = [], [n * inner for n in sizes]
    for first in range(0, len(sizes), at_once):
        count = len(lengths[first : first + at_once])
        launches.append(
            (
                first,
                at_once - count,
                (outer, sum(lengths), sum(lengths[:first]), *lengths[first : first + count], *[0] * (at_once - count)),
            )
        )
    if len(launches) == 1 and not launches[0][1]:
        return Plan(out, run, launches[0][2])

    def launch(*buffers: object) -> None:
        for first, missing, numbers in launches:
            run(*buffers[first : first + at_once - missing], *buffers[:1] * missing, buffers[-1], *numbers)

    return Plan(out, launch)


def _copy(source: Layout, part: Layout) -> tuple[Callable, tuple]:
    """The (launch, constants) that copy an input to its part of the result."""
    return plan_loop(_copying(source.dtype, part.dtype), "copy", source.device, [source], (part,), tuple(source.shape))


@cache
def _copying(source: DType, result: DType) -> writer.Loop:
    """The loop that converts and copies; cached, since it does not depend on shapes."""
    return writer.Loop((writer.Input("in_x", source),), (writer.Output(Symbol("in_x"), result),), result.compute)


def _one_by_one(parts: list) -> Callable:
    """A launch that copies each input by a kernel. `parts` are (launch, constants, offset in the result)."""

    def launch(*buffers: object) -> None:
        *sources, out = buffers
        for source, (run, constants, offset) in zip(sources, parts):
            if run is not None:
                run(source, out[offset:], *constants)

    return launch


cat, stack = Cat("cat"), Stack("stack")
