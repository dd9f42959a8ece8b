"""The code generator of reductions: along rows, by GPU blocks, along columns, and of a formula of several tensors.

`emit` generates pointwise loops.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ..dtypes import dtype as DType
from .emit import UNROLLED_LINES, line_of_neighbour, by_half_registers, dot, unravel
from .expression import Expression
from .library.cuda_block import joining_threads
from .writer import Input, Writer, cast, literal, load, number_type, stored

# elements summed in the compute dtype before they are added to a wider accumulator, so that rounding errors do not grow
# with the length
BLOCK = 1 << 10
_MAX_TEXTS = 8192  # cached texts; sizes are arguments, so that a text serves all shapes
ROWS_AHEAD = 8  # rows of a column that a GPU thread reads at once
STREAMS = 8  # rows that a reduction over columns reads per pass, summed in the compute dtype


class Fold(NamedTuple):
    """A reduction: `map` maps an element x, `combine` reduces (a, b), `finalize` maps the total a and the count n.

    Elements are combined in `dtype`, partial results in `wide`, which a second stage may read back. This is a tuple,
    since tuples compare items by identity first: `==` of two formulas returns a formula.
    """

    map: Expression
    combine: Expression
    finalize: Expression
    identity: float | int | bool
    source: DType
    dtype: DType
    wide: DType
    result: DType

    @property
    def block(self) -> int:
        """The number of elements combined in `dtype` before they are added to the total."""
        return BLOCK if self.wide is not self.dtype else BLOCK << 6


@lru_cache(_MAX_TEXTS)
def rows(
    fold: Fold,
    inner: str,
    kept_dims: int,
    reduced: int,
    across: bool = False,
    joined: bool = False,
    short: bool = False,
) -> tuple[str, str]:
    """Source and signature of a reduction along rows, parallel over outputs and chunks of the innermost dimension.

    Neighbouring tasks are chunks of one output or, with `across`, the same chunk of neighbouring outputs, so that GPU
    threads read neighbouring columns. With `short`, each output is one row, in one chunk of at most one block, and the
    loops over chunks and blocks are left out.

    Arguments: x, `partial` (totals of chunks) if these are to be `joined`, out, outs, n, chunk, chunks, count (elements
    per output), rows, the sizes of the kept and reduced outer dimensions (except the first of each), their strides, and
    the inner stride in class "s".
    """
    names = _geometry_names(kept_dims, reduced) + (["_stride_x"] if inner == "s" else [])
    step = {"0": "_base", "1": "_base + _inner", "s": "_base + _inner * _stride_x"}[inner]
    arrays = _results(fold, joined)
    lines = [f"def kernel({', '.join(['x', *arrays, *names])}):", *_exclude_stride_1(inner)]
    lines += (
        _short_rows(fold, step, kept_dims) if short else _row_chunks(fold, step, kept_dims, reduced, across, joined)
    )
    types = [f"{fold.source.storage.name}[]", *arrays.values()] + ["int64"] * len(names)
    return "\n".join(lines) + "\n", ", ".join(types)


def _short_rows(fold: Fold, step: str, kept_dims: int) -> list[str]:
    """The body of `rows` for outputs that are one row of at most one block each. `step`: the index of an element."""
    return [
        "    for _place in parallel_range(_outs):",
        "        _output = int64(_place)",
        *unravel("_output", "_i", "_size", kept_dims, " " * 8),
        f"        _base = {dot('_i', '_step', kept_dims)}",
        f"        _part = {cast(fold.dtype, literal(fold.identity))}",
        "        for _inner in range(_n):",
        *(" " * 12 + line for line in _folded(fold, f"uintp({step})", "_part", fold.dtype)),
        f"        _total = {cast(fold.wide, '_part')}",
        *(" " * 8 + line for line in _finalized(fold, "_total", "out[_output]")),
    ]


def _row_chunks(fold: Fold, step: str, kept_dims: int, reduced: int, across: bool, joined: bool) -> list[str]:
    """The body of `rows` for chunks of rows. `step`: the index of an element."""
    chunk, output_text, target = "_task % _chunks", "_task // _chunks", "out[_task]"
    if across:
        chunk, output_text, target = "_task // _outs", "_task % _outs", "out[uintp(_output * _chunks + _task // _outs)]"
    lines = [
        "    for _place in parallel_range(_outs * _chunks):",
        "        _task = int64(_place)",
        f"        _start = ({chunk}) * _chunk",
        "        _stop = min(_start + _chunk, _n)",
        f"        _output = {output_text}",
        *_row_loop(fold, kept_dims, reduced),
        f"            for _low in range(_start, _stop, {fold.block}):",
        f"                _part, _high = {cast(fold.dtype, literal(fold.identity))}, min(_low + {fold.block}, _stop)",
    ]
    if across:  # unrolled, so that several loads are in flight
        lines += [
            f"                for _inner in range(_low, _high - {ROWS_AHEAD - 1}, {ROWS_AHEAD}):",
            *(f"                    _at{k}_x = x[uintp({step} + {k} * _stride_x)]" for k in range(ROWS_AHEAD)),
        ]
        lines += [
            " " * 20 + line_of_neighbour(line, k)
            for k in range(ROWS_AHEAD)
            for line in _folded(fold, "uintp(_index)", "_part", fold.dtype)
        ]
        lines += [f"                _low = _high - (_high - _low) % {ROWS_AHEAD}"]
    return [
        *lines,
        "                for _inner in range(_low, _high):",
        *(" " * 20 + line for line in _folded(fold, f"uintp({step})", "_part", fold.dtype)),
        *(" " * 16 + line for line in _combined(fold, "_total", "_part", fold.wide)),
        *_end_of_chunk(fold, joined, target),
    ]


def _results(fold: Fold, joined: bool) -> dict[str, str]:
    """The arrays that a kernel writes, and their types."""
    partial = {"partial": f"{fold.wide.storage.name}[]"} if joined else {}
    return {**partial, "out": f"{fold.result.storage.name}[]"}


def _end_of_chunk(fold: Fold, joined: bool, target: str, outs: str = "_outs") -> list[str]:
    """Lines that end a chunk: store its total to `target`.

    If chunks are `joined`, store it to `partial` and, after the loop over all chunks, combine the chunks of each of
    `outs` results.
    """
    if not joined:
        return [" " * 8 + line for line in _finalized(fold, "_total", target)]
    lines = [
        f"        partial[uintp(_task)] = {stored('_total', fold.wide, fold.wide)}",
        f"    for _output in range({outs}):",
    ]
    lines += [
        f"        _total = {cast(fold.wide, literal(fold.identity))}",
        "        for _task in range(_output * _chunks, (_output + 1) * _chunks):",
    ]
    lines += [
        " " * 12 + line for line in _combined(fold, "_total", _loaded("partial[uintp(_task)]", fold.wide), fold.wide)
    ]
    return [*lines, *(" " * 8 + line for line in _finalized(fold, "_total", "out[uintp(_output)]"))]


def _exclude_stride_1(inner: str) -> list[str]:
    """Lines that exclude a stride of 1, for which alone LLVM would vectorise (see `emit.is_costly`)."""
    return ["    _stride_x = max(_stride_x, 2)"] if inner == "s" else []


@lru_cache(_MAX_TEXTS)
def block_rows(fold: Fold, kept_dims: int, reduced: int, threads: int) -> tuple[str, str]:
    """Source and signature of a reduction with a block of GPU threads for each output and chunk.

    The innermost dimension is contiguous; neighbouring threads read neighbouring elements.

    Each thread combines its elements (`_thread_totals`), then the threads' totals are combined in shared memory
    (`_block_total`). The order depends on `threads` alone, so results are reproducible. Arguments are those of `rows`.
    """
    names = _geometry_names(kept_dims, reduced)
    lines = [
        f"def kernel(x, out, {', '.join(names)}):",
        f"    _shared = shared_array({threads}, {fold.wide.storage.name}, SHARED)",
        "    _thread = int64(cuda.threadIdx.x)",
    ]
    lines += [
        "    for _task in range(int64(cuda.blockIdx.x), _outs * _chunks, int64(cuda.gridDim.x)):",
        "        _start = (_task % _chunks) * _chunk",
    ]
    lines += ["        _stop = min(_start + _chunk, _n)", "        _output = _task // _chunks"]
    lines += _row_loop(fold, kept_dims, reduced)
    lines += [
        " " * 12 + line for line in _thread_totals(fold, (Input("x", fold.source),), "_base + ", threads)
    ] + _block_total(fold, threads)
    types = [f"{fold.source.storage.name}[]", f"{fold.result.storage.name}[]"] + ["int64"] * len(names)
    return "\n".join(lines) + "\n", ", ".join(types)


def _geometry_names(kept_dims: int, reduced: int) -> list[str]:
    """Names of the numbers that the kernels of `rows` and `block_rows` take after the arrays."""
    names = [
        "_outs",
        "_n",
        "_chunk",
        "_chunks",
        "_count",
        "_rows",
        *[f"_size{k}" for k in range(1, kept_dims)],
        *[f"_length{k}" for k in range(1, reduced)],
    ]
    return names + [f"_step{k}" for k in range(kept_dims)] + [f"_walk{k}" for k in range(reduced)]


def _row_loop(fold: Fold, kept_dims: int, reduced: int) -> list[str]:
    """Lines that initialise an output's total and begin the loop over its rows; each row starts at `_base`."""
    lines = unravel("_output", "_i", "_size", kept_dims, " " * 8)
    lines += [
        f"        _origin = {dot('_i', '_step', kept_dims)}",
        f"        _total = {cast(fold.wide, literal(fold.identity))}",
    ]
    lines += ["        for _row in range(_rows):"]
    lines += unravel("_row", "_j", "_length", reduced, " " * 12)
    return [*lines, f"            _base = _origin + {dot('_j', '_walk', reduced)}"]


def _thread_totals(fold: Fold, inputs: tuple[Input, ...], base: str, threads: int) -> list[str]:
    """Lines in which a block's threads combine the elements from `_start` to `_stop` into their totals.

    In each iteration a thread combines sixteen elements, by four vector loads in flight; then four; then single ones.
    Long formulas, which need more registers, skip the first loop or both.
    """
    tensors = [input.name for input in inputs if input.tensor]
    vector_lines = _folded(fold, "uintp(_index)", "_part", fold.dtype, inputs)
    scalar_lines = _folded(fold, f"uintp({base}_inner)", "_total", fold.wide, inputs)
    lines = ["_whole = _start"]
    for runs in () if len(vector_lines) > UNROLLED_LINES else (4, 1) if len(vector_lines) < 8 else (1,):
        step = 4 * threads * runs
        lines += ["_first = _whole", f"_whole = _first + max(_stop - _first, 0) // {step} * {step}"]
        lines += [f"for _inner in range(_first + 4 * _thread, _whole, {step}):"]
        for run in range(runs):
            for name in tensors:
                lines.append(
                    f"    {', '.join(f'_at{4 * run + k}_{name}' for k in range(4))} = load_four({name}, "
                    f"uintp({base}_inner + {4 * threads * run}))"
                )
        lines.append(f"    _part = {cast(fold.dtype, literal(fold.identity))}")
        lines += ["    " + line_of_neighbour(line, k) for k in range(4 * runs) for line in vector_lines]
        lines += ["    " + line for line in _combined(fold, "_total", "_part", fold.wide)]
    return [
        *lines,
        f"for _inner in range(_whole + _thread, _stop, {threads}):",
        *("    " + line for line in scalar_lines),
    ]


def _block_total(fold: Fold, threads: int) -> list[str]:
    """Lines in which a block's threads combine their totals in shared memory, then one thread writes `out[task]`.

    There are two rounds, as in `kernel.library.cuda_block`.
    """
    count = joining_threads(threads)
    store = f"_shared[_thread] = {stored('_total', fold.wide, fold.wide)}"
    lines = [
        f"        {store}",
        "        cuda.syncthreads()",
        f"        if _thread < {count}:",
        f"            for _k in range(1, {threads // count}):",
    ]
    lines += [
        " " * 16 + line
        for line in _combined(fold, "_total", _loaded(f"_shared[_thread + _k * {count}]", fold.wide), fold.wide)
    ]
    lines += [
        f"            {store}",
        "        cuda.syncthreads()",
        "        if _thread == 0:",
        f"            for _k in range(1, {count}):",
    ]
    lines += [" " * 16 + line for line in _combined(fold, "_total", _loaded("_shared[_k]", fold.wide), fold.wide)]
    return [
        *lines,
        *(" " * 12 + line for line in _finalized(fold, "_total", "out[uintp(_task)]")),
        "        cuda.syncthreads()",
    ]


@lru_cache(_MAX_TEXTS)
def columns(fold: Fold, kept_dims: int, inner: str, few: int = 0) -> tuple[str, str]:
    """Source and signature of a reduction along a strided dimension, for neighbouring outputs at once.

    A tile of `wide` totals stays in the cache while STREAMS rows are read at a time. If there are `few` rows, fewer
    than STREAMS, they are all read at once, and no totals are stored.

    Arguments: x, scratch (outs of `wide`), out, rows (outer outputs), n (neighbours), length, the stride of the
    dimension, tile, tiles, count, sizes and strides of the kept outer dimensions, and the stride of neighbours in class
    "s".
    """
    names = [
        "_rows",
        "_n",
        "_length",
        "_walk",
        "_tile",
        "_tiles",
        "_count",
        *[f"_size{k}" for k in range(1, kept_dims)],
        *[f"_step{k}" for k in range(kept_dims)],
    ]
    names, step = ([*names, "_stride_x"], "_inner * _stride_x") if inner == "s" else (names, "_inner")
    lines = [
        f"def kernel(x, scratch, out, {', '.join(names)}):",
        *_exclude_stride_1(inner),
        "    for _place in parallel_range(_rows * _tiles):",
        "        _task = int64(_place)",
    ]
    lines += [
        "        _start = (_task % _tiles) * _tile",
        "        _stop = min(_start + _tile, _n)",
        "        _output = _task // _tiles",
    ]
    lines += unravel("_output", "_i", "_size", kept_dims, " " * 8)
    lines += [f"        _origin = {dot('_i', '_step', kept_dims)}", "        for _inner in range(_start, _stop):"]
    lines += _few_rows_of_columns(fold, step, few) if few else _streams_of_columns(fold, step)
    lines += [" " * 12 + line for line in _finalized(fold, "_total", "out[uintp(_output * _n + _inner)]")]
    types = [f"{dtype.storage.name}[]" for dtype in (fold.source, fold.wide, fold.result)] + ["int64"] * len(names)
    return "\n".join(lines) + "\n", ", ".join(types)


def _few_rows_of_columns(fold: Fold, step: str, few: int) -> list[str]:
    """Lines in the loop over neighbours that compute `_total` of `few` rows. `step`: a neighbour's offset in a row."""
    lines = [f"            _part = {cast(fold.dtype, literal(fold.identity))}"]
    lines += [
        " " * 12 + line
        for row in range(few)
        for line in _folded(fold, f"uintp(_origin + {row} * _walk + {step})", "_part", fold.dtype)
    ]
    return [*lines, f"            _total = {cast(fold.wide, '_part')}"]


def _streams_of_columns(fold: Fold, step: str) -> list[str]:
    """Lines that set the neighbours' totals in `scratch`, add STREAMS rows at a time to them, then the remaining rows,
    and begin the loop that reads them as `_total`. `step`: a neighbour's offset in a row.
    """
    total = f"_total = {_loaded('scratch[uintp(_output * _n + _inner)]', fold.wide)}"
    value = stored("_total", fold.wide, fold.wide)
    if _selects(fold) and fold.wide.itemsize >= 4:
        value = f"whole({value}, scratch)"  # or LLVM would use masked stores, for totals that change
    store = f"                scratch[uintp(_output * _n + _inner)] = {value}"
    lines = [
        "            scratch[uintp(_output * _n + _inner)] = "
        f"{stored(cast(fold.wide, literal(fold.identity)), fold.wide, fold.wide)}",
        f"        for _row in range(0, _length - {STREAMS - 1}, {STREAMS}):",
        "            _base = _origin + _row * _walk",
        "            for _inner in range(_start, _stop):",
        f"                _part = {cast(fold.dtype, literal(fold.identity))}",
    ]
    lines += [
        " " * 16 + line
        for stream in range(STREAMS)
        for line in _folded(fold, f"uintp(_base + {stream} * _walk + {step})", "_part", fold.dtype)
    ]
    return [
        *lines,
        " " * 16 + total,
        *(" " * 16 + line for line in _combined(fold, "_total", "_part", fold.wide)),
        store,
        f"        for _row in range(_length - _length % {STREAMS}, _length):",
        "            _base = _origin + _row * _walk",
        "            for _inner in range(_start, _stop):",
        " " * 16 + total,
        *(" " * 16 + line for line in _folded(fold, f"uintp(_base + {step})", "_total", fold.wide)),
        store,
        "        for _inner in range(_start, _stop):",
        " " * 12 + total,
    ]


def _selects(fold: Fold) -> bool:
    """Whether a combination is one of the two totals: the greater or the lesser one."""
    return any(re.search(r"\b(larger|smaller)\(", line) for line in _combined(fold, "_total", "_part", fold.wide))


@lru_cache(_MAX_TEXTS)
def flat(fold: Fold, inputs: tuple[Input, ...], threads: int = 0, joined: bool = False) -> tuple[str, str]:
    """Source and signature of a reduction of a formula of several dense tensors and numbers to one value per chunk.

    With `threads`, a block of GPU threads reduces each chunk. Arguments: the tensors, `partial` if chunks are to be
    `joined` to one value, out, the numbers, n, chunk, chunks, count. `fold.map` is a formula of the inputs' names.
    """
    tensors, numbers = [input for input in inputs if input.tensor], [input for input in inputs if not input.tensor]
    arrays = _results(fold, joined)
    names = [
        *(tensor.name for tensor in tensors),
        *arrays,
        *(number.name for number in numbers),
        "_n",
        "_chunk",
        "_chunks",
        "_count",
    ]
    lines = [
        f"def kernel({', '.join(names)}):",
        *(f"    _number_{number.name} = {cast(fold.dtype, number.name, number)}" for number in numbers),
    ]
    start = f"        _total = {cast(fold.wide, literal(fold.identity))}"
    if threads:
        lines += [
            f"    _shared = shared_array({threads}, {fold.wide.storage.name}, SHARED)",
            "    _thread = int64(cuda.threadIdx.x)",
        ]
        lines += ["    for _task in range(int64(cuda.blockIdx.x), _chunks, int64(cuda.gridDim.x)):", start]
        lines += ["        _start, _stop = _task * _chunk, min((_task + 1) * _chunk, _n)"]
        lines += [" " * 8 + line for line in _thread_totals(fold, inputs, "", threads)] + _block_total(fold, threads)
    else:
        lines += ["    for _place in parallel_range(_chunks):", "        _task = int64(_place)", start]
        lines += [
            f"        for _low in range(_task * _chunk, min((_task + 1) * _chunk, _n), {fold.block}):",
            f"            _part = {cast(fold.dtype, literal(fold.identity))}",
        ]
        lines += [f"            for _inner in range(_low, min(_low + {fold.block}, (_task + 1) * _chunk, _n)):"]
        lines += [" " * 16 + line for line in _folded(fold, "uintp(_inner)", "_part", fold.dtype, inputs)]
        lines += [" " * 12 + line for line in _combined(fold, "_total", "_part", fold.wide)]
        lines += _end_of_chunk(fold, joined, "out[_task]", "1")
    types = [f"{tensor.dtype.storage.name}[]" for tensor in tensors] + [*arrays.values()]
    types += [number_type(number.dtype) for number in numbers] + ["int64"] * 4
    source = "\n".join(lines) + "\n"
    return source if threads else by_half_registers(source), ", ".join(types)


def _loaded(text: str, dtype: DType) -> str:
    return f"({text} != 0)" if dtype.kind == "b" else text


def _folded(fold: Fold, index: str, total: str, dtype: DType, inputs: tuple[Input, ...] | None = None) -> list[str]:
    """Lines that read an element of each input, map them and combine the value into `total`."""
    inputs = inputs or (Input("x", fold.source),)
    symbols = {
        input.name: (load(fold.dtype, input, index) if input.tensor else f"_number_{input.name}", "value")
        for input in inputs
    }
    writer = Writer(fold.dtype, symbols)
    value = writer.write(fold.map)
    return writer.lines + _combined(fold, total, value, dtype)


def _combined(fold: Fold, total: str, value: str, dtype: DType) -> list[str]:
    # Numba would unify a variable assigned with two types to the wider one
    letter = "c" if dtype is fold.dtype else "w"
    writer = Writer(dtype, {"a": (total, "value"), "b": (cast(dtype, value), "value")}, letter)
    result = writer.write(fold.combine)
    return [*writer.lines, f"{total} = {result}"]


def _finalized(fold: Fold, total: str, target: str) -> list[str]:
    writer = Writer(fold.wide, {"a": (total, "value"), "n": (cast(fold.wide, "_count"), "value")}, "f")
    result = writer.write(fold.finalize)
    return [*writer.lines, f"{target} = {stored(result, fold.result, fold.wide)}"]
