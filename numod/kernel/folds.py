"""Source text of reductions, as `emit` writes pointwise loops: over rows, by teams of GPU threads, over columns, and of a formula of several tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..dtypes import dtype as DType
from .emit import FEW, at_once, by_half_registers, dot, unravel
from .expression import Expression
from .library.teams import joining
from .writer import Input, Writer, cast, literal, load, number_type, stored

BLOCK = 1 << 10  # elements summed in the compute dtype before they are added to a wider accumulator, so that rounding errors do not grow with the length
_LIMIT = 8192  # texts that are kept: the same serve all sizes, which are arguments
AHEAD = 8  # rows of a column that a GPU thread reads at once
STREAMS = 8  # rows that a reduction over columns reads per pass, summed in the compute dtype


class Fold(NamedTuple):
    """A reduction: `each` maps an element (symbol x), `combine` reduces (a, b), `finish` maps the total (symbols a and n) to the result.

    Elements are combined in `dtype`, partial results in `wide`, which a second stage may read back. A tuple, since tuples ask for identity before they
    compare: `==` of two formulas is a formula, and since Python 3.13 a dataclass asks for nothing else.
    """

    each: Expression
    combine: Expression
    finish: Expression
    identity: float | int | bool
    source: DType
    dtype: DType
    wide: DType
    result: DType

    @property
    def block(self) -> int:
        """Elements combined in `dtype` before they are added to the total: practically all of them if `wide` is no wider."""
        return BLOCK if self.wide is not self.dtype else BLOCK << 6


@lru_cache(_LIMIT)
def rows(fold: Fold, inner: str, kept: int, reduced: int, across: bool = False, joined: bool = False, short: bool = False) -> tuple[str, str]:
    """Reduce, element by element, along the dimensions of each output. Parallel over outputs and chunks of the innermost reduced dimension.

    Neighbouring tasks are chunks of one output, or `across` the same chunk of neighbouring outputs: on a GPU their threads then read neighbouring columns.
    `short`: each output is one row in one chunk, of one block at most, beside whose elements the loops over all these would take long.
    Arguments: x, `partial` (totals of chunks) if these are to be `joined`, out, outs, n, chunk, chunks, count (elements per output), rows, the sizes of `kept`
    and `reduced` outer dimensions (the first of each left out), their strides, and the inner stride in class "s".
    """
    names = _geometry_names(kept, reduced) + (["x_n"] if inner == "s" else [])
    step = {"0": "base", "1": "base + inner", "s": "base + inner * x_n"}[inner]
    arrays = _results(fold, joined)
    lines = [f"def kernel({', '.join(['x', *arrays, *names])}):", *_apart(inner)]
    types = [f"{fold.source.storage.name}[]", *arrays.values()] + ["int64"] * len(names)
    if short:
        lines += ["    for place in parallel_range(outs):", "        output = int64(place)", *unravel("output", "i", "size", kept, " " * 8)]
        lines += [f"        base = {dot('i', 'step', kept)}", f"        part = {cast(fold.dtype, literal(fold.identity))}", "        for inner in range(n):"]
        lines += [" " * 12 + line for line in _folded(fold, f"uintp({step})", "part", fold.dtype)]
        lines += [f"        total = {cast(fold.wide, 'part')}", *(" " * 8 + line for line in _finished(fold, "total", "out[output]"))]
        return "\n".join(lines) + "\n", ", ".join(types)
    lines += ["    for place in parallel_range(outs * chunks):", "        task = int64(place)"]
    part, output, place = "task % chunks", "task // chunks", "out[task]"
    if across:
        part, output, place = "task // outs", "task % outs", "out[uintp(output * chunks + task // outs)]"
    lines += [f"        start = ({part}) * chunk", "        stop = min(start + chunk, n)", f"        output = {output}"]
    lines += _walk(fold, kept, reduced)
    lines += [f"            for low in range(start, stop, {fold.block}):"]
    lines += [f"                part, high = {cast(fold.dtype, literal(fold.identity))}, min(low + {fold.block}, stop)"]
    if across:  # loads that are in flight at once
        lines += [f"                for inner in range(low, high - {AHEAD - 1}, {AHEAD}):"]
        lines += [f"                    x_{k} = x[uintp({step} + {k} * x_n)]" for k in range(AHEAD)]
        lines += [" " * 20 + at_once(line, k) for k in range(AHEAD) for line in _folded(fold, "uintp(index)", "part", fold.dtype)]
        lines += [f"                low = high - (high - low) % {AHEAD}"]
    lines += ["                for inner in range(low, high):", *(" " * 20 + line for line in _folded(fold, f"uintp({step})", "part", fold.dtype))]
    lines += [" " * 16 + line for line in _combined(fold, "total", "part", fold.wide)]
    lines += _ended(fold, joined, place)
    return "\n".join(lines) + "\n", ", ".join(types)


def _results(fold: Fold, joined: bool) -> dict[str, str]:
    """The arrays that a kernel writes, and their types."""
    partial = {"partial": f"{fold.wide.storage.name}[]"} if joined else {}
    return {**partial, "out": f"{fold.result.storage.name}[]"}


def _ended(fold: Fold, joined: bool, place: str, outs: str = "outs") -> list[str]:
    """Lines that end a chunk: its total is the result at `place`, or those of each of `outs` results are `joined` behind the loop over all chunks."""
    if not joined:
        return [" " * 8 + line for line in _finished(fold, "total", place)]
    lines = [f"        partial[uintp(task)] = {stored('total', fold.wide, fold.wide)}", f"    for output in range({outs}):"]
    lines += [f"        total = {cast(fold.wide, literal(fold.identity))}", "        for task in range(output * chunks, (output + 1) * chunks):"]
    lines += [" " * 12 + line for line in _combined(fold, "total", _read("partial[uintp(task)]", fold.wide), fold.wide)]
    return [*lines, *(" " * 8 + line for line in _finished(fold, "total", "out[uintp(output)]"))]


def _apart(inner: str) -> list[str]:
    """Of a stride that may be 1, LLVM makes vectors of that case alone: it is told that it is none (see `emit`)."""
    return ["    x_n = max(x_n, 2)"] if inner == "s" else []


@lru_cache(_LIMIT)
def team(fold: Fold, kept: int, reduced: int, threads: int) -> tuple[str, str]:
    """The same for a block of GPU threads per output and chunk, along an innermost dimension of step 1: neighbouring threads read neighbouring elements.

    Each thread combines its elements (`_shared`); then half of the threads combine their totals with the other half's, in shared memory,
    until one is left. The order depends on `threads` alone, so the result is the same in every run. Arguments are those of `rows`.
    """
    names = _geometry_names(kept, reduced)
    lines = [
        f"def kernel(x, out, {', '.join(names)}):",
        f"    shared = shared_array({threads}, {fold.wide.storage.name}, SHARED)",
        "    thread = int64(cuda.threadIdx.x)",
    ]
    lines += ["    for task in range(int64(cuda.blockIdx.x), outs * chunks, int64(cuda.gridDim.x)):", "        start = (task % chunks) * chunk"]
    lines += ["        stop = min(start + chunk, n)", "        output = task // chunks"]
    lines += _walk(fold, kept, reduced)
    lines += [" " * 12 + line for line in _shared(fold, (Input("x", fold.source),), "base + ", threads)] + _joined(fold, threads)
    types = [f"{fold.source.storage.name}[]", f"{fold.result.storage.name}[]"] + ["int64"] * len(names)
    return "\n".join(lines) + "\n", ", ".join(types)


def _geometry_names(kept: int, reduced: int) -> list[str]:
    """The numbers `rows` and `team` take after the arrays."""
    names = ["outs", "n", "chunk", "chunks", "count", "rows", *[f"size{k}" for k in range(1, kept)], *[f"length{k}" for k in range(1, reduced)]]
    return names + [f"step{k}" for k in range(kept)] + [f"walk{k}" for k in range(reduced)]


def _walk(fold: Fold, kept: int, reduced: int) -> list[str]:
    """Lines that start the total of `output`, and the loop over the rows to be reduced into it, each from `base` on."""
    lines = unravel("output", "i", "size", kept, " " * 8)
    lines += [f"        origin = {dot('i', 'step', kept)}", f"        total = {cast(fold.wide, literal(fold.identity))}", "        for row in range(rows):"]
    lines += unravel("row", "j", "length", reduced, " " * 12)
    return [*lines, f"            base = origin + {dot('j', 'walk', reduced)}"]


def _shared(fold: Fold, inputs: tuple[Input, ...], base: str, threads: int) -> list[str]:
    """Lines in which a block's threads combine the elements from `start` to `stop` into their totals: sixteen each a turn, read by fours that are in flight at
    once, then four, and what is left one each. Of long formulas fewer, for they need the registers."""
    tensors = [each.name for each in inputs if each.tensor]
    turn, single = _folded(fold, "uintp(index)", "part", fold.dtype, inputs), _folded(fold, f"uintp({base}inner)", "total", fold.wide, inputs)
    lines = ["whole = start"]
    for runs in () if len(turn) > FEW else (4, 1) if len(turn) < 8 else (1,):
        step = 4 * threads * runs
        lines += ["first = whole", f"whole = first + max(stop - first, 0) // {step} * {step}", f"for inner in range(first + 4 * thread, whole, {step}):"]
        for run in range(runs):
            for name in tensors:
                lines.append(f"    {', '.join(f'{name}_{4 * run + k}' for k in range(4))} = load_four({name}, uintp({base}inner + {4 * threads * run}))")
        lines.append(f"    part = {cast(fold.dtype, literal(fold.identity))}")
        lines += ["    " + at_once(line, k) for k in range(4 * runs) for line in turn]
        lines += ["    " + line for line in _combined(fold, "total", "part", fold.wide)]
    return [*lines, f"for inner in range(whole + thread, stop, {threads}):", *("    " + line for line in single)]


def _joined(fold: Fold, threads: int) -> list[str]:
    """Lines in which a block's threads join their totals in shared memory, in two rounds as in `kernel.library.teams`, after which one thread writes
    `out[task]`."""
    count = joining(threads)
    store = f"shared[thread] = {stored('total', fold.wide, fold.wide)}"
    lines = [f"        {store}", "        cuda.syncthreads()", f"        if thread < {count}:", f"            for k in range(1, {threads // count}):"]
    lines += [" " * 16 + line for line in _combined(fold, "total", _read(f"shared[thread + k * {count}]", fold.wide), fold.wide)]
    lines += [f"            {store}", "        cuda.syncthreads()", "        if thread == 0:", f"            for k in range(1, {count}):"]
    lines += [" " * 16 + line for line in _combined(fold, "total", _read("shared[k]", fold.wide), fold.wide)]
    return [*lines, *(" " * 12 + line for line in _finished(fold, "total", "out[uintp(task)]")), "        cuda.syncthreads()"]


@lru_cache(_LIMIT)
def columns(fold: Fold, kept: int, inner: str, few: int = 0) -> tuple[str, str]:
    """Reduce one dimension of stride `walk` for neighbouring outputs at once: a tile of `wide` totals stays in cache while rows stream by, some at once.
    Where there are `few` rows, fewer than STREAMS, all of them, and no totals are kept.

    Arguments: x, scratch (outs of `wide`), out, rows (outer outputs), n (neighbours), length, walk, tile, tiles, count, sizes and strides of
    the `kept` outer dimensions, and the stride of neighbours in class "s".
    """
    names = ["rows", "n", "length", "walk", "tile", "tiles", "count", *[f"size{k}" for k in range(1, kept)], *[f"step{k}" for k in range(kept)]]
    names, step = ([*names, "x_n"], "inner * x_n") if inner == "s" else (names, "inner")
    lines = [
        f"def kernel(x, scratch, out, {', '.join(names)}):",
        *_apart(inner),
        "    for place in parallel_range(rows * tiles):",
        "        task = int64(place)",
    ]
    lines += ["        start = (task % tiles) * tile", "        stop = min(start + tile, n)", "        output = task // tiles"]
    lines += unravel("output", "i", "size", kept, " " * 8)
    lines += [f"        origin = {dot('i', 'step', kept)}", "        for inner in range(start, stop):"]
    types = [f"{each.storage.name}[]" for each in (fold.source, fold.wide, fold.result)] + ["int64"] * len(names)
    if few:
        lines += [f"            part = {cast(fold.dtype, literal(fold.identity))}"]
        lines += [" " * 12 + line for row in range(few) for line in _folded(fold, f"uintp(origin + {row} * walk + {step})", "part", fold.dtype)]
        lines += [f"            total = {cast(fold.wide, 'part')}"]
        lines += [" " * 12 + line for line in _finished(fold, "total", "out[uintp(output * n + inner)]")]
        return "\n".join(lines) + "\n", ", ".join(types)
    lines += [f"            scratch[uintp(output * n + inner)] = {stored(cast(fold.wide, literal(fold.identity)), fold.wide, fold.wide)}"]
    total = [f"                total = {_read('scratch[uintp(output * n + inner)]', fold.wide)}"]
    chosen = any("er(" in line for line in _combined(fold, "total", "part", fold.wide)) and fold.wide.itemsize >= 4  # larger(, smaller(
    whole = "whole({}, scratch)" if chosen else "{}"  # LLVM would store by a mask where the total is not what it was
    store = [f"                scratch[uintp(output * n + inner)] = {whole.format(stored('total', fold.wide, fold.wide))}"]
    lines += [
        f"        for row in range(0, length - {STREAMS - 1}, {STREAMS}):",
        "            base = origin + row * walk",
        "            for inner in range(start, stop):",
    ]
    lines += [f"                part = {cast(fold.dtype, literal(fold.identity))}"]
    lines += [" " * 16 + line for stream in range(STREAMS) for line in _folded(fold, f"uintp(base + {stream} * walk + {step})", "part", fold.dtype)]
    lines += [*total, *[" " * 16 + line for line in _combined(fold, "total", "part", fold.wide)], *store]
    lines += [
        f"        for row in range(length - length % {STREAMS}, length):",
        "            base = origin + row * walk",
        "            for inner in range(start, stop):",
    ]
    lines += [
        *total,
        *[" " * 16 + line for line in _folded(fold, f"uintp(base + {step})", "total", fold.wide)],
        *store,
        "        for inner in range(start, stop):",
    ]
    lines += [f"            total = {_read('scratch[uintp(output * n + inner)]', fold.wide)}"]
    lines += [" " * 12 + line for line in _finished(fold, "total", "out[uintp(output * n + inner)]")]
    return "\n".join(lines) + "\n", ", ".join(types)


@lru_cache(_LIMIT)
def flat(fold: Fold, inputs: tuple[Input, ...], threads: int = 0, joined: bool = False) -> tuple[str, str]:
    """Reduce a formula of several dense tensors (and numbers) to one value per chunk, without storing the elements: by blocks of GPU `threads`, if any.

    Arguments: the tensors, `partial` if chunks are to be `joined` to one value, out, the numbers, n, chunk, chunks, count. `fold.each` is a formula of the
    inputs' names.
    """
    tensors, numbers = [each for each in inputs if each.tensor], [each for each in inputs if not each.tensor]
    arrays = _results(fold, joined)
    names = [*(each.name for each in tensors), *arrays, *(each.name for each in numbers), "n", "chunk", "chunks", "count"]
    lines = [f"def kernel({', '.join(names)}):", *(f"    {each.name}_ = {cast(fold.dtype, each.name, each)}" for each in numbers)]
    start = f"        total = {cast(fold.wide, literal(fold.identity))}"
    if threads:
        lines += [f"    shared = shared_array({threads}, {fold.wide.storage.name}, SHARED)", "    thread = int64(cuda.threadIdx.x)"]
        lines += ["    for task in range(int64(cuda.blockIdx.x), chunks, int64(cuda.gridDim.x)):", start]
        lines += ["        start, stop = task * chunk, min((task + 1) * chunk, n)"]
        lines += [" " * 8 + line for line in _shared(fold, inputs, "", threads)] + _joined(fold, threads)
    else:
        lines += ["    for place in parallel_range(chunks):", "        task = int64(place)", start]
        lines += [
            f"        for low in range(task * chunk, min((task + 1) * chunk, n), {fold.block}):",
            f"            part = {cast(fold.dtype, literal(fold.identity))}",
        ]
        lines += [f"            for inner in range(low, min(low + {fold.block}, (task + 1) * chunk, n)):"]
        lines += [" " * 16 + line for line in _folded(fold, "uintp(inner)", "part", fold.dtype, inputs)]
        lines += [" " * 12 + line for line in _combined(fold, "total", "part", fold.wide)]
        lines += _ended(fold, joined, "out[task]", "1")
    types = [f"{each.dtype.storage.name}[]" for each in tensors] + [*arrays.values()]
    types += [number_type(each.dtype) for each in numbers] + ["int64"] * 4
    source = "\n".join(lines) + "\n"
    return source if threads else by_half_registers(source), ", ".join(types)


def _read(text: str, dtype: DType) -> str:
    return f"({text} != 0)" if dtype.kind == "b" else text


def _folded(fold: Fold, index: str, total: str, dtype: DType, inputs: tuple[Input, ...] | None = None) -> list[str]:
    """Lines that read an element of each input, map them and combine the value into `total`."""
    inputs = inputs or (Input("x", fold.source),)
    symbols = {each.name: (load(fold.dtype, each, index) if each.tensor else f"{each.name}_", "value") for each in inputs}
    writer = Writer(fold.dtype, symbols)
    value = writer.write(fold.each)
    return writer.lines + _combined(fold, total, value, dtype)


def _combined(fold: Fold, total: str, value: str, dtype: DType) -> list[str]:
    letter = "c" if dtype is fold.dtype else "w"  # Numba would unify a variable assigned with two types to the wider one
    writer = Writer(dtype, {"a": (total, "value"), "b": (cast(dtype, value), "value")}, letter)
    result = writer.write(fold.combine)
    return [*writer.lines, f"{total} = {result}"]


def _finished(fold: Fold, total: str, target: str) -> list[str]:
    writer = Writer(fold.wide, {"a": (total, "value"), "n": (cast(fold.wide, "count"), "value")}, "f")
    result = writer.write(fold.finish)
    return [*writer.lines, f"{target} = {stored(result, fold.result, fold.wide)}"]
