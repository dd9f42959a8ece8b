"""The code generator of pointwise loops, for eager ops and fused groups.

`writer` writes the body of a loop; `folds` generates reductions.

After `collapse`, a loop has outer dimensions (unravelled from `row`) and one inner dimension of size `n`. Each tensor
has a class, its step along the inner dimension: "1", "0", or "s" for a stride that is an argument. Classes are part of
the source, so that LLVM sees constant steps and vectorises. A loop of rank 1 with classes 0 and 1 is dense.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from .any_size import for_all_sizes
from .writer import Loop, body, converted_numbers, number_type


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Shape and strides (a list per tensor) without sizes of 1, and with dimensions merged if all tensors allow it.

    In a plan for all sizes, a size of 1 may be larger at another time, and is kept.
    """
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    any_size = for_all_sizes.get()
    for axis, n in enumerate(shape):
        if n == 1 and not any_size:
            continue
        if sizes and all(s[-1] == stride[axis] * n for s, stride in zip(steps, strides)):
            sizes[-1] *= n
            for s, stride_list in zip(steps, strides):
                s[-1] = stride_list[axis]
            continue
        sizes.append(n)
        for s, stride in zip(steps, strides):
            s.append(stride[axis])
    return (sizes, steps) if sizes else ([1], [[0] for _ in strides])


def classes_of(steps: Sequence[Sequence[int]]) -> str:
    """The class of each tensor's inner stride: "0", "1", "t" (transposed: the dimension before the inner one has stride
    1) or "s".
    """
    return "".join(str(step[-1]) if step[-1] in (0, 1) else "t" if step[-2:-1] == [1] else "s" for step in steps)


def crossing(sizes: list[int], steps: list[list[int]]) -> tuple[list[int], list[list[int]]] | None:
    """Sizes and strides reordered so that a tensor with a strided inner dimension has stride 1 in the dimension before
    it.

    None if there is none, or if it is too short for tiles.
    """
    strided = [step for step in steps if step[-1] not in (0, 1)]
    across = next((d for d in range(len(sizes) - 1) if any(step[d] == 1 for step in strided)), None)
    if across is None or sizes[across] < TILE or sizes[-1] < TILE:
        return None
    order = [*(d for d in range(len(sizes) - 1) if d != across), across, len(sizes) - 1]
    return [sizes[d] for d in order], [[step[d] for d in order] for step in steps]


def pointwise(loop: Loop, classes: str, rank: int, flat: bool) -> tuple[str, str]:
    """Source and signature of a loop.

    Arguments: input tensors, results, numbers, n, and for strided loops the geometry (see `geometry`). With `flat`
    (GPUs) there is one loop over all elements, in tiles if a tensor is transposed; else a loop over rows and an inner
    loop.
    """
    tensors = [input for input in loop.inputs if input.tensor]
    numbers = [input for input in loop.inputs if not input.tensor]
    arrays = [tensor.name for tensor in tensors] + loop.written()
    arguments = arrays + [number.name for number in numbers] + ["_n"]
    types = [f"{tensor.dtype.storage.name}[]" for tensor in tensors] + [
        f"{o.dtype.storage.name}[]" for o in loop.outputs if o.over is None
    ]
    types += [number_type(number.dtype) for number in numbers] + ["int64"]
    dense = rank == 1 and "s" not in classes
    if not dense:
        extra = _geometry_names(arrays, classes, rank)
        arguments += extra
        types += ["int64"] * len(extra)
    lines = [f"def kernel({', '.join(arguments)}):"]
    lines += [f"    {line}" for line in converted_numbers(loop)]
    places = dict(zip(arrays, classes))
    head, indent, position, tail = _dense_head(flat) if dense else _strided_head(arrays, classes, rank, flat)
    index = {name: position(name, kind) for name, kind in places.items()}
    statements = body(loop, index)
    if (
        dense and flat and len(statements) <= UNROLLED_LINES and "[uintp(_index)] = " in statements[-1]
    ):  # more than a single element
        return "\n".join(
            lines + _loop_by_fours(statements, arrays, len(loop.outputs), loop.dtype.compute.itemsize > 4)
        ) + "\n", ", ".join(types)
    if not flat:
        fixed = [line for line in statements if _is_fixed(line, places)]
        statements = [line for line in statements if line not in fixed]
        head[-1:-1] = [indent[4:] + line for line in fixed]
        statements = [
            _CHOICE_PATTERN.sub(r"either(\2, \1, \3)", _stored_whole(line, loop, statements)) for line in statements
        ]
        lines += [
            f"    _stride_{name} = max(_stride_{name}, 2)"
            for name, kind in places.items()
            if kind in _COSTLY_PATTERNS and is_costly(statements, kind)
        ]
        head, indent, statements = _split_into_strips(head, indent, statements, loop.dtype.compute.itemsize > 4)
    if not dense and any(re.search(r"\b_index\b", line) for line in statements):
        head.append(f"{indent}_index = {'_place' if flat else '_row * _n + _inner'}")
    source = "\n".join(lines + head + [indent + line for line in statements] + tail) + "\n"
    return source if flat or set(classes) & set("st") else by_half_registers(source), ", ".join(types)


def by_half_registers(source: str) -> str:
    """The text of a CPU's contiguous loop, with 256-bit vectors if it computes so little that it is memory-bound.

    Loops that round to 16 bits keep whole registers: with halves, 64 k float32 took 1.16 times as long to convert to
    float16, and 1.05 times to bfloat16. So do loops with remainders, which LLVM would not vectorise (ten times as slow
    at 64 k).
    """
    computed = re.findall(r"^ +_[a-z]\d+ = .*", source, re.M)
    rounds = re.search(r"= to_b?float16\(", source) and "from_" not in source
    remainders = re.search(r"\b(?:fmod|modulus)\(", source)
    if rounds or remainders or len(computed) > UNROLLED_LINES or is_costly(computed):
        return source
    return re.sub(r"^( *)for \w+ in parallel_range.*\n", r"\g<0>\1    half_registers()\n", source, count=1, flags=re.M)


# `a if condition else b` of variables
_CHOICE_PATTERN = re.compile(r"(?<== )(?:float|u?int)(?:8|16|32|64)\((_t\d+) if (_t\d+) else (_t\d+)\)$")


def _stored_whole(line: str, loop: Loop, statements: list[str]) -> str:
    """A line of a CPU's loop; if it may store to an input the value that it has already, it uses `whole`, which avoids
    masked stores.
    """
    target, _, value = line.partition("] = ")
    over = target.partition("[")[0]
    overwrites = any(
        output.over == over and output.dtype is loop.dtype and output.dtype.itemsize in (4, 8)
        for output in loop.outputs
    )
    return (
        f"{target}] = whole({value}, {over})"
        if overwrites and not loop.dtype.is_complex and any(" if " in other_line for other_line in statements)
        else line
    )


def _is_fixed(line: str, places: dict[str, str]) -> bool:
    """Whether a line loads an element that is constant along the inner loop.

    LLVM might move the load into a branch that uses it, and it does not vectorise loops with such a branch.
    """
    load = re.fullmatch(r"_t\d+ = .*?\b(\w+)\[.*", line)
    return load is not None and places.get(load[1]) == "0"


# lines that are worth gathering elements into vectors: with strides, and in tiles of rows, which are too short for
# vectors of remainders
_COSTLY_PATTERNS = {
    "s": re.compile(r"= \w+\((?!(?:fabs|floor|from_\w+|max|min)\()\w+\(| / |(?:whole_quotient|truncated)\("),
    "t": re.compile(r"= \w+\((?!(?:fabs|fmod|floor|from_\w+|max|min|modulus)\()\w+\(|(?:whole_quotient|truncated)\("),
}


def is_costly(statements: list[str], kind: str = "t") -> bool:
    """Whether a loop's body takes so long that it should be vectorised along a stride.

    If the stride could be 1, LLVM would vectorise for this case only, so the source excludes it.
    """
    return any(map(_COSTLY_PATTERNS[kind].search, statements))


STRIP = 256  # elements whose random words a CPU draws at a time, before the loop that reads them
_DRAW_PATTERN = re.compile(r"\brandom_(uniform|normal|below)\((\w+), (\w+), _index\b")
# functions of `library.random`, and the words that they take
_WORD_FUNCTIONS = {"uniform": ("unit", 2), "normal": ("normal_of", 4), "below": ("below", 2)}


def _words_drawn(statements: list[str], wide: bool, word: str) -> tuple[list[str], dict[tuple, str]]:
    """A body's lines with random numbers computed from words, and the words' names by seed, offset and group.

    `word` formats the text that reads a word from its name. Numbers that are not `wide` use one word for two.
    """
    drawn: dict[tuple, str] = {}

    def replacement(match: re.Match) -> str:
        name, count = _WORD_FUNCTIONS[match[1]]
        groups = [k if wide or match[1] == "below" else k & 2 for k in range(count)]
        words = [drawn.setdefault((match[2], match[3], group), f"_draw_words{len(drawn)}") for group in groups]
        return f"{name}({', '.join(map(word.format, words))}"

    return [_DRAW_PATTERN.sub(replacement, line) for line in statements], drawn


def _split_into_strips(
    head: list[str], indent: str, statements: list[str], wide: bool
) -> tuple[list[str], str, list[str]]:
    """Split a CPU's loop into strips if its body draws random numbers.

    Four neighbours share a block of random bits, which LLVM would compute for each of them.

    Loops over transposed tensors remain unchanged.
    """
    last, (word_lines, drawn) = head[-1].strip(), _words_drawn(statements, wide, "{}[uintp(_index - _draw_first)]")
    if last not in ("for _index in parallel_range(_n):", "for _inner in range(_n):") or not drawn:
        return head, indent, statements
    if last.startswith("for _index"):
        strips = f"for _draw_strip in parallel_range((_n + {STRIP - 1}) // {STRIP}):"
        start = f"{STRIP} * int64(_draw_strip)"
        end = "_n"
        inner = "for _index in range(_draw_start, _draw_end):"
    else:
        strips, start, end = f"for _draw_low in range(0, _n, {STRIP}):", "_row * _n + _draw_low", "_row * _n + _n"
        inner = f"for _inner in range(_draw_low, min(_draw_low + {STRIP}, _n)):"
    lines = [
        f"_draw_start = {start}",
        f"_draw_end = min(_draw_start + {STRIP}, {end})",
        "_draw_first = _draw_start & -4",
    ]
    for (seed, offset, group), name in drawn.items():
        lines += [f"{name} = stack_words()", f"draw_words({name}, {seed}, {offset}, _draw_start, _draw_end, {group})"]
    return (
        [*head[:-1], indent[4:] + strips, *(indent + line for line in [*lines, inner])],
        indent + "    ",
        word_lines,
    )


def dense_loops(name: str, loop: Loop, count: int, flat: bool) -> tuple[str, str]:
    """Source and signature of `count` dense loops in one kernel, with different tensors and sizes but equal numbers.

    For many small tensors, whose launches cost more than their work. Arguments: the tensors of each loop, the numbers,
    the sizes. `flat` as in `pointwise`.
    """
    source, signature = pointwise(loop, "1" * sum(input.tensor for input in loop.inputs), 1, flat)
    source = source if flat else source.replace("parallel_range(", "range(")
    loop_name = f"{name}_{zlib.crc32(source.encode()):08x}"  # other dtypes need another name
    names, types = source[len("def kernel(") : source.index("):")].split(", "), signature.split(", ")
    tensors = [k for k, type_ in enumerate(types) if type_.endswith("[]")]
    numbers = [k for k in range(len(types) - 1) if k not in tensors]
    per_loop = [*(names[k] for k in tensors), "_n"]
    sizes = [f"_of{number}__n" for number in range(count)]
    arguments = (
        [f"_of{number}_{names[k]}" for number in range(count) for k in tensors] + [names[k] for k in numbers] + sizes
    )
    lines = [
        f"    {loop_name}({', '.join(f'_of{number}_{name}' if name in per_loop else name for name in names)})"
        for number in range(count)
    ]
    kinds = [types[k] for k in tensors] * count + [types[k] for k in numbers] + ["int64"] * count
    helper = "@shared_function\n" + source.replace("def kernel(", f"def {loop_name}(", 1)
    return f"{helper}\ndef kernel({', '.join(arguments)}):\n" + "\n".join(lines) + "\n", ", ".join(kinds)


def geometry(sizes: Sequence[int], steps: Sequence[Sequence[int]], classes: str) -> tuple[int, ...]:
    """The numbers that a strided loop takes after n.

    Rows, outer sizes, then each tensor's outer strides and, in classes "s" and "t", its inner stride.
    """
    rows = 1
    for n in sizes[:-1]:
        rows *= n
    numbers = [rows, *sizes[1:-1]]
    for step, kind in zip(steps, classes):
        numbers += [*step[:-1], *([step[-1]] if kind in "st" else [])]
    return tuple(numbers)


def _geometry_names(arrays: list[str], classes: str, rank: int) -> list[str]:
    names = ["_rows"] + [f"_size{k}" for k in range(1, rank - 1)]
    for array, kind in zip(arrays, classes):
        names += [f"_stride{k}_{array}" for k in range(rank - 1)] + ([f"_stride_{array}"] if kind in "st" else [])
    return names


def _dense_head(flat: bool) -> tuple[list[str], str, object, list[str]]:
    # GPU thread indices are signed, so that the sign of an index would be tested
    index = "uintp(_index)" if flat else "_index"
    return ["    for _index in parallel_range(_n):"], " " * 8, lambda name, kind: "0" if kind == "0" else index, []


# the longest body, in lines, that is unrolled by four on GPUs: longer ones are compute-bound, and would compile slowly
UNROLLED_LINES = 24


def _loop_by_fours(statements: list[str], arrays: list[str], stores: int, wide: bool) -> list[str]:
    """A dense loop of GPU threads over four neighbouring elements at a time, by vector loads and stores.

    The four share a block of random bits. The last elements are processed one by one.
    """
    compute, drawn = _words_drawn(statements[: len(statements) - stores], wide, "lane({0}_low, {0}_high, _index & 3)")
    writes = [line.split("[uintp(_index)] = ") for line in statements[len(statements) - stores :]]
    read = [name for name in arrays if any(f"{name}[uintp(_index)]" in line for line in statements)]
    variables = "|".join({"_index", *(line.partition(" =")[0] for line in compute)})

    def numbered(text: str, k: int) -> str:
        return re.sub(rf"\b({variables})\b", rf"\1_{k}", line_of_neighbour(text, k))

    lines = ["    _quarter = _n // 4", "    for _place in parallel_range(_quarter + 3):"]
    lines += ["        if _place < _quarter:", "            _index = uintp(4 * _place)"]
    lines += [
        f"            {', '.join(f'_at{k}_{name}' for k in range(4))} = load_four({name}, _index)" for name in read
    ]
    lines += [
        f"            {name}_low, {name}_high = philox_block({seed}, int64({offset}) + _place, {group})"
        for (seed, offset, group), name in drawn.items()
    ]
    if any(re.search(r"\b_index\b", re.sub(r"\[uintp\(_index\)\]", "", line)) for line in statements):
        lines += [f"            _index_{k} = 4 * _place + {k}" for k in range(4)]
    lines += [f"            {numbered(line, k)}" for k in range(4) for line in compute]
    lines += [
        f"            store_four({target}, _index, {', '.join(numbered(value, k) for k in range(4))})"
        for target, value in writes
    ]
    return [
        *lines,
        "        elif _place + 3 * _quarter < _n:",
        "            _index = _place + 3 * _quarter",
        *("            " + line for line in statements),
    ]


def line_of_neighbour(line: str, k: int) -> str:
    """A line of a loop's body that reads the variables of the k-th neighbours instead of elements of tensors."""
    return re.sub(r"\b(\w+)\[uintp\(_index\)\]", rf"_at{k}_\1", line)


# rows and columns of a tile, for transposed tensors: a cache line is used up before it is evicted
TILE = 8


def _tile_head(rank: int) -> list[str]:
    """The head of a loop of GPU threads in tiles, TILE along the inner dimension and 32 along the one before.

    A block of 256 threads uses whole sectors of 32 bytes in both.

    Neighbouring blocks are neighbours along the inner dimension. A warp uses at least half a sector of a transposed
    tensor; the rest stays in the L1 cache.
    """
    size = f"_size{rank - 2}" if rank > 2 else "_rows"
    lines = [f"    _tiles, _across = (_n + {TILE - 1}) // {TILE}, ({size} + 31) // 32"]
    lines.append(
        f"    for _place in parallel_range({f'_rows // {size} * ' if rank > 2 else ''}_tiles * _across * {32 * TILE}):"
    )
    lines.append(f"        _tile = _place >> {(32 * TILE).bit_length() - 1}")  # a shift needs no test of the sign
    lines += [
        "        _strip = quotient(_tile, _tiles)",
        f"        _inner = (_tile - _strip * _tiles) * {TILE} + (_place & {TILE - 1})",
    ]
    lines += ["        _outer = quotient(_strip, _across)"] * (rank > 2)
    strip = "(_strip - _outer * _across)" if rank > 2 else "_strip"
    lines.append(f"        _i{rank - 2} = {strip} * 32 + ((_place >> {TILE.bit_length() - 1}) & 31)")
    lines.append(f"        if _inner < _n and _i{rank - 2} < {size}:")
    return [*lines, *(unravel("_outer", "_i", "_size", rank - 2, " " * 12) if rank > 2 else [])]


def _carried_head(outer: int) -> tuple[list[str], list[str]]:
    """The head of a loop of GPU threads over rows of n elements, and the lines that advance its indices, with carries.

    Only a thread's first indices take divisions: a 64-bit division is some forty instructions, more than the rest of an
    iteration.
    """
    if outer == 0:
        return ["    for _place in parallel_range(_n):", "        _inner = _place"], []
    lines = ["    _first, _step = int64(cuda.grid(1)), int64(cuda.gridsize(1))"]
    for flat, index in (("_first", "_i"), ("_step", "_step")):
        lines += [f"    {flat}_row = {flat} // _n", *unravel(f"{flat}_row", index, "_size", outer, "    ")]
    lines += [
        "    _inner, _step_n = _first - _first_row * _n, _step - _step_row * _n",
        "    for _place in parallel_range(_rows * _n):",
    ]
    indices = [
        ("_inner", "_step_n", "_n", f"_i{outer - 1}"),
        *((f"_i{k}", f"_step{k}", f"_size{k}", f"_i{k - 1}") for k in range(outer - 1, 0, -1)),
    ]
    carries = []
    for index, step, size, further in indices:
        carries += [
            f"        {index} += {step}",
            f"        if {index} >= {size}:",
            f"            {index} -= {size}",
            f"            {further} += 1",
        ]
    return lines, [*carries, "        _i0 += _step0"]


def _strided_head(arrays: list[str], classes: str, rank: int, flat: bool) -> tuple[list[str], str, object, list[str]]:
    """Loop headers, the body's indentation, a function for the index of a tensor's element, and the lines after the
    body.

    A CPU's task processes runs of rows whose addresses are linear in the last index: divisions for each row would take
    longer than a short row.
    """
    outer, transposed = rank - 1, "t" in classes
    bases = {array: f"_base_{array} = {dot('_i', '_stride', outer, f'_{array}')}" for array in arrays}
    if flat and transposed:
        lines, indent, along, tail = _tile_head(rank), 12, "", []
        lines += [" " * indent + base for base in bases.values()]
    elif flat:
        lines, tail = _carried_head(outer)
        lines += [" " * 8 + base for base in bases.values()]
        indent, along = 8, ""
    elif outer < 2 and not transposed:
        # loop counters are uint64; Numba's // of them is a float
        lines = ["    for _place in parallel_range(_rows):", "        _row = int64(_place)"]
        lines += [f"        _base_{array} = {f'_row * _stride0_{array}' if outer else '0'}" for array in arrays] + [
            "        for _inner in range(_n):"
        ]
        indent, along, tail = 12, "", []
    else:
        last = outer - 1
        lines = [
            f"    _share = {TILE if transposed else 'min(64, _rows // 64 + 1)'}",
            "    for _place in parallel_range((_rows + _share - 1) // _share):",
            "        _start = int64(_place) * _share",
        ]
        lines += [
            "        _end = min(_start + _share, _rows)",
            *unravel("_start", "_i", "_size", outer, " " * 8),
            "        while _start < _end:",
        ]
        lines.append(f"            _run = {f'min(_size{last} - _i{last}, _end - _start)' if last else '_end - _start'}")
        lines += [" " * 12 + base for base in bases.values()]
        lines += [f"            for _low in range(0, _n, {TILE}):"] * transposed
        indent = 16 + 4 * transposed
        lines += [
            f"{' ' * (indent - 4)}for _k in range(_run):",
            f"{' ' * indent}_row = _start + _k",
            f"{' ' * indent}for _inner in range({f'_low, min(_low + {TILE}, _n)' if transposed else '_n'}):",
        ]
        tail = ["            _start += _run", f"            _i{last} = 0"]
        along = f" + _k * _stride{last}_{{}}"
        indent = indent + 4
        for depth, k in enumerate(range(last - 1, -1, -1)):
            step = "            " + "    " * depth
            tail += [f"{step}_i{k} += 1", *([f"{step}if _i{k} == _size{k}:", f"{step}    _i{k} = 0"] if k else [])]

    def position(name: str, kind: str) -> str:
        step = {"0": "", "1": " + _inner"}.get(kind, f" + _inner * _stride_{name}")
        # unsigned, so that no test for a negative index is compiled
        return f"uintp(_base_{name}{along.format(name)}{step})"

    return lines, " " * indent, position, tail


def unravel(flat: str, index: str, size: str, rank: int, indent: str) -> list[str]:
    """Lines that split the number `flat` into index0 .. index(rank-1), for sizes size1 .. size(rank-1)."""
    lines, rest = [], flat
    for k in range(rank - 1, -1, -1):
        lines.append(f"{indent}{index}{k} = {rest}" + (f" % {size}{k}" if k else ""))
        if k:
            lines.append(f"{indent}{index}_rest{k} = {rest} // {size}{k}")
            rest = f"{index}_rest{k}"
    return lines


def dot(index: str, step: str, rank: int, of: str = "") -> str:
    """Text of index0 * step0 + index1 * step1 + ..., where the steps are `of` an array."""
    return " + ".join(f"{index}{k} * {step}{k}{of}" for k in range(rank)) or "0"
