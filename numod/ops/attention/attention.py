"""Attention: softmax(query @ key^T * scale + mask) @ value, by blocks of keys with an online softmax, so that the
matrix of scores is never materialised.

Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022. Backward
recomputes the scores block by block, from the logsumexp of each row. For double backward the gradient is composed of
tensor operations. On a GPU blocks of threads do the same (`attention_team`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.registers import tiles
from ...kernel.specialize import specialized
from ...kernel.written import written_out
from . import cpu as kernels, cuda as teams
from .. import table
from ..op import Op, Plan, single_device

LEADS = 3  # leading dimensions that the kernels support; the caller merges more
_ROWS, _CHUNK, _KEYS = 32, 256, 192  # a block of queries, those that share a packed block of keys, and that block
_WORKERS = 8
# multiply-adds below which the composed form is as fast, and needs no further kernels, unless it has to mask
_SMALL = 1 << 15
# queries for which the composed form, which reads keys and values where they are, takes less time than packing them
# (decoding with a cache of keys)
_FEW = 4
_WIDEST = 128  # depth and width of a head for which a block of GPU threads holds its results in registers
_STEPS = tuple(
    f"{name}_{step}"
    for name in ("query", "key", "value", "mask")
    for step in ("first", "second", "third", "row", "column")
)


def suits(query: Layout, heads: int, count: int, width: int, masked: bool) -> bool:
    """Whether the kernels here take queries (…, L, E) of so many heads, with `count` keys and values of `width`;
    `masked`: some keys are left out.
    """
    length, depth = query.shape[-2:]
    work = heads * length * count * (depth + width)
    if query.device.type == "cuda":  # 16-bit products take tensor cores, which the kernels here do not
        return (
            query.dtype is dtypes.float32
            and min(work, width, depth) > 0
            and max(depth, width) <= _WIDEST
            and length > _FEW
        )
    return (
        query.device.type == "cpu"
        and query.dtype.is_floating_point
        and min(depth, width, work) > 0
        and (length > _FEW if work >= _SMALL else masked)
    )


def attention_weights(query: object, key: object, mask: object, scale: float, causal: bool) -> object:
    """The attention weights softmax(query @ key^T * scale + mask) (…, L, S) in tensor operations; 0 in fully masked
    rows.
    """
    scores = (query * scale) @ key.transpose(-2, -1)
    if causal:
        scores = scores.masked_fill(~scores.new_ones(scores.shape[-2:], dtype=dtypes.bool_).tril(), float("-inf"))
    if mask is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype is dtypes.bool_ else scores + mask
    nobody = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(nobody, 0.0).softmax(-1).masked_fill(nobody, 0.0)


def _gradients(
    grads: list,
    query: object,
    key: object,
    value: object,
    mask: object,
    seed: int,
    offset: int,
    out: object,
    logsumexp: object,
    scale: float,
    causal: bool,
    dropped: float,
    recording: bool,
) -> tuple:
    g = grads[0]
    if not recording:
        return attention_gradient.apply(
            (g.contiguous(), query, key, value, mask, out, logsumexp, seed, offset), (scale, causal, dropped)
        )
    p = attention_weights(query, key, mask, scale, causal)
    kept = table.dropout(p.new_ones(p.shape), dropped, seed, offset) if dropped > 0.0 else None
    drop = (lambda x: x) if kept is None else (lambda x: x * kept)
    d_p = drop(g @ value.transpose(-2, -1))
    slope = p * (d_p - (d_p * p).sum(-1, keepdim=True)) * scale
    return slope @ key, slope.transpose(-2, -1) @ query, drop(p).transpose(-2, -1) @ g


class _Blocked(Op):
    """Base: query (…, L, E), key (…, S, E), value (…, S, Ev), any steps but one shape in front, a bool or added mask
    (…, L, S) or None, seed and offset of dropout.
    """

    parameters = ("scale", "causal", "dropped")

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        query, mask = (arguments[self.inputs.index(name)] for name in ("query", "mask"))
        if len(sizes["b"]) > LEADS or 0 in (*sizes["b"], *(sizes[name] for name in "lesv")):
            return (
                f"sizes must not be 0, with at most {LEADS} of them in front, got query of shape {tuple(query.shape)}"
            )
        if isinstance(mask, Layout) and mask.dtype not in (dtypes.bool_, query.dtype):
            return f"mask must be of bool or {query.dtype}, got {mask.dtype}"
        return None if 0.0 <= parameters[2] <= 1.0 else f"attribute 'dropped' must be from 0 to 1, got {parameters[2]}"

    def _blocks(
        self,
        kernel: Callable,
        inputs: tuple,
        mask_at: int,
        results: tuple[Layout, ...],
        tasks: int,
        parts: Callable,
        parameters: tuple,
    ) -> Plan:
        """`parts(block, width panels, depth panels)` are the elements of a worker's scratch arrays."""
        query, value = inputs[mask_at - 3], inputs[mask_at - 1]
        depth, (count, width), storage = query.shape[-1], value.shape[-2:], query.storage
        lanes, workers = tiles.host().lanes(storage.itemsize), min(_WORKERS, tasks)
        block = min(_KEYS, -(-count // 48) * 48)  # whole panels on every processor
        panels = tiles.panel(width, lanes), tiles.panel(depth, lanes)
        needed = tuple((workers * part, storage) for part in parts(block, *panels))
        numbers = (
            *_numbers(inputs, mask_at, parameters),
            block,
            *panels[0],
            *(panels[1] if mask_at > 3 else ()),
            workers,
        )
        signature = _signature(storage, len(inputs) + len(results) - 1 + len(needed), mask_at, len(numbers))
        dropped = parameters[2]
        source, work = (
            _source(kernel, storage.itemsize, dropped > 0.0),
            prod(query.shape[:-1]) * count * (width + depth) // 4,
        )
        run = bind.launcher(query.device, self.name, source, signature, query.dtype, work, build.FAST_REDUCTION)
        scratch, tail, masks = query.device.backend.scratch, _tail(parameters), _masks(query, inputs[mask_at])

        def launch(*given: object) -> None:
            *buffers, seed, offset = given
            buffers[mask_at:mask_at] = masks(buffers, mask_at)
            run(*buffers, *scratch(needed), seed, offset, *numbers, *tail)

        return Plan(results, launch)

    def _team(
        self, kernel: Callable, inputs: tuple, mask_at: int, arrays: int, rows: int, parameters: tuple
    ) -> tuple[Callable, tuple]:
        """The launcher of a kernel for a GPU, of so many arrays, by blocks that have `rows` of each head between them;
        and its last arguments.
        """
        query, value = inputs[mask_at - 3], inputs[mask_at - 1]
        depth, width, line, wide = query.shape[-1], value.shape[-1], 64, teams.RUNS[kernel]
        words = {
            "LINE": line, "ACROSS": 8, "TEAM": 64, "WIDE": wide, "SEEN": 32 * wide,
            "SLICE": min(line, -(-max(depth, width) // 4) * 4),
            "DEPTHS": -(-depth // line), "PARTS": -(-width // line), "steps": _STEPS,
            "DROPPED": int(parameters[2] > 0.0), "MASKED": _kind(inputs[mask_at]),
        }  # fmt: skip
        source, numbers = written_out(specialized(kernel, **words)), _numbers(inputs, mask_at, parameters)
        blocks = prod(query.shape[:-2]) * -(-rows // line)
        signature = _signature(query.storage, arrays, mask_at, len(numbers))
        run = bind.launcher(
            query.device,
            self.name,
            source,
            signature,
            query.dtype,
            query.size,
            build.FAST_REDUCTION,
            (blocks, words["TEAM"]),
        )
        return run, (*numbers, *_tail(parameters))


class Attention(_Blocked):
    """(out (…, L, Ev), logsumexp (…, L)); no size may be 0."""

    takes = (
        "query[*b l e]~:f key[*b s e]~ value[*b s v]~ mask?[*b l s]~:any seed#i offset#i; scale=number "
        "causal=flag dropped=number"
    )
    inputs, outputs = ("query", "key", "value", "mask", "seed", "offset"), ("out", "logsumexp")
    results_with_gradient = 1

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        query, _, value, mask, *_ = arguments
        device = single_device(self.name, [argument for argument in arguments if isinstance(argument, Layout)])
        *lead, length, depth = query.shape
        results = (
            layout((*lead, length, value.shape[-1]), query.dtype, device),
            layout((*lead, length), query.dtype, device),
        )
        if device.type == "cuda":
            run, tail = self._team(teams.attention_team, arguments, 3, 7, length, parameters)
            masks = _masks(query, mask)

            def launch(*given: object) -> None:
                *buffers, seed, offset = given
                run(*buffers[:3], *masks(buffers, 3), *buffers[3:], seed, offset, *tail)

            return Plan(results, launch)

        def parts(block: int, panels: tuple, _: tuple) -> tuple:
            return depth * block, block * panels[1], _ROWS * block, 3 * _CHUNK

        return self._blocks(
            kernels.attention_kernel, arguments, 3, results, prod(lead) * -(-length // _CHUNK), parts, parameters
        )


class AttentionGradient(_Blocked):
    """Gradients of query, key and value, for dense `given`."""

    takes = (
        "given[*b l v]:f query[*b l e]~ key[*b s e]~ value[*b s v]~ mask?[*b l s]~:any out[*b l v] logsumexp[*b l] "
        "seed#i "
        "offset#i; scale=number causal=flag dropped=number"
    )
    inputs, outputs = (
        ("given", "query", "key", "value", "mask", "out", "logsumexp", "seed", "offset"),
        ("d_query", "d_key", "d_value"),
    )
    differentiable = False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        query, key, value = arguments[1:4]
        results = tuple(layout(each.shape, query.dtype, query.device) for each in (query, key, value))
        *lead, length, depth = query.shape
        width = value.shape[-1]
        if query.device.type == "cuda":
            rows, tail = self._team(teams.attention_rows_team, arguments, 4, 10, length, parameters)
            columns, _ = self._team(teams.attention_columns_team, arguments, 4, 10, key.shape[-2], parameters)
            masks, levels, scratch = (
                _masks(query, arguments[4]),
                ((prod(lead) * length, query.storage),),
                query.device.backend.scratch,
            )

            def launch(*given: object) -> None:
                *buffers, seed, offset = given
                masked, (level,) = masks(buffers, 4), scratch(levels)
                *first, out, logsumexp, d_query, d_key, d_value = buffers
                rows(*first, *masked, out, logsumexp, d_query, level, seed, offset, *tail)
                columns(*first, *masked, level, logsumexp, d_key, d_value, seed, offset, *tail)

            return Plan(results, launch)

        def parts(block: int, panels: tuple, depth_panels: tuple) -> tuple:
            (_, padded), (_, padded_depth) = panels, depth_panels
            return (
                depth * block,
                width * block,
                block * padded_depth,
                _ROWS * padded_depth,
                _ROWS * padded,
                _ROWS * block,
                _ROWS * block,
                length,
            )

        return self._blocks(kernels.attention_gradient_kernel, arguments, 4, results, prod(lead), parts, parameters)


def _steps(x: Layout | type) -> tuple[int, ...]:
    """Of three leading dimensions, rows and columns; zeros where there is no tensor."""
    if not isinstance(x, Layout):
        return (0,) * (LEADS + 2)
    strides = [0 if n == 1 else step for n, step in zip(x.shape[:-2], x.strides[:-2])]
    return (0,) * (LEADS - len(strides)) + (*strides, *x.strides[-2:])


def _numbers(inputs: tuple, mask_at: int, parameters: tuple) -> tuple[int, ...]:
    """The kernels' first integers: sizes, steps, the kind of mask (1: bool, 2: added), and whether they are causal."""
    query, key, value, mask = inputs[mask_at - 3 : mask_at + 1]
    lead = (1,) * (LEADS + 2 - query.ndim) + tuple(query.shape[:-2])
    steps = [step for each in (query, key, value, mask) for step in _steps(each)]
    return (
        prod(lead),
        *lead[1:],
        *query.shape[-2:-1],
        key.shape[-2],
        query.shape[-1],
        value.shape[-1],
        *steps,
        _kind(mask),
        int(parameters[1]),
    )


def _kind(mask: Layout | type) -> int:
    return 0 if not isinstance(mask, Layout) else 1 if mask.dtype is dtypes.bool_ else 2


def _tail(parameters: tuple) -> tuple[float, float]:
    """The kernels' last arguments: scale and the probability of dropout."""
    return float(parameters[0]), float(parameters[2])


def _signature(storage: object, arrays: int, mask_at: int, numbers: int) -> str:
    kinds = [storage] * arrays
    kinds[mask_at] = dtypes.bool_
    return bind.signature(*kinds, numbers=2 + numbers, others=["float64", "float64"])


def _masks(query: Layout, mask: Layout | type) -> Callable:
    """A function that takes the mask, if there is one, out of a list of buffers: those for `allowed` and `added`, one
    of them empty.
    """
    nothing, kind = [query.device.empty(0, each) for each in (dtypes.bool_.storage, query.storage)], _kind(mask)

    def taken(buffers: list, at: int) -> tuple[object, object]:
        given = buffers.pop(at) if kind else None
        return given if kind == 1 else nothing[0], given if kind == 2 else nothing[1]

    return taken


def _source(kernel: Callable, size: int, dropped: bool) -> str:
    """The kernel's text with its sizes; without random numbers, which take as long to compile as the rest, where
    nothing is dropped.
    """
    lanes = tiles.host().lanes(size)
    words = {
        "TILE_ROWS": tiles.host().rows,
        "LANES": lanes,
        "SIZE": size,
        "PANEL": tiles.VECTORS * lanes,
        "ROWS": _ROWS,
        "steps": _STEPS,
    }
    if kernel is kernels.attention_kernel:
        return specialized(kernel, **words, CHUNK=_CHUNK, DROPPED=dropped)
    return specialized(
        kernel, **words, weigh_slopes=kernels.weigh_dropped_slopes if dropped else kernels.weigh_plain_slopes
    )


attention, attention_gradient = Attention("attention"), AttentionGradient("attention_gradient")
attention.gradients = {("query", "key", "value"): _gradients}
