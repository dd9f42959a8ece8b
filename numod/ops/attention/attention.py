"""Attention: softmax(query @ key^T * scale + mask) @ value, by blocks of keys with an online softmax, so that the
matrix of scores is never materialised.

Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022. Backward
recomputes the scores block by block from the logsumexp of each row. Double backward composes the gradient of tensor
operations. The kernels are in `cpu` and `cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.any_size import for_all_sizes
from ...kernel.registers import tiles
from ...kernel.specialize import specialized
from ...kernel.written import written_out
from . import cpu as cpu_kernels, cuda as gpu_kernels
from .. import table
from ..op import Op, Plan, single_device

LEADS = 3  # leading dimensions that the kernels support; the caller merges more
_ROWS, _CHUNK, _KEYS = 32, 256, 192  # queries in a block, queries that share a packed block of keys, keys in a block
_WORKERS = 8
# below this many multiply-adds the composed form is as fast and needs no extra kernels, unless it has to mask
_COMPOSED_WORK = 1 << 15
# up to this many queries the composed form, which reads keys and values in place, is faster than packing them (decoding
# with a key-value cache)
_COMPOSED_QUERIES = 4
_MAX_HEAD_DEPTH = 128  # largest depth and width of a head whose results fit the registers of a thread block
_STRIDE_NAMES = tuple(
    f"{name}_{step}"
    for name in ("query", "key", "value", "mask")
    for step in ("first", "second", "third", "row", "column")
)


def suits(query: Layout, heads: int, count: int, width: int, masked: bool) -> bool:
    """Whether the kernels are the best form for queries (…, L, E) of `heads` heads, with `count` keys and values of
    `width`. `masked`: some keys are masked out.
    """
    length, depth = query.shape[-2:]
    work = heads * length * count * (depth + width)
    if query.device.type == "cuda":  # 16-bit products are faster on tensor cores, which these kernels do not use
        return (
            query.dtype is dtypes.float32
            and min(work, width, depth) > 0
            and max(depth, width) <= _MAX_HEAD_DEPTH
            and length > _COMPOSED_QUERIES
        )
    return (
        query.device.type == "cpu"
        and query.dtype.is_floating_point
        and min(depth, width, work) > 0
        and (for_all_sizes.get() or (length > _COMPOSED_QUERIES if work >= _COMPOSED_WORK else masked))
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
    fully_masked = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(fully_masked, 0.0).softmax(-1).masked_fill(fully_masked, 0.0)


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
    d_out = grads[0]
    if not recording:
        return attention_gradient.apply(
            (d_out.contiguous(), query, key, value, mask, out, logsumexp, seed, offset), (scale, causal, dropped)
        )
    weights = attention_weights(query, key, mask, scale, causal)
    keep_factors = table.dropout(weights.new_ones(weights.shape), dropped, seed, offset) if dropped > 0.0 else None
    apply_dropout = (lambda x: x) if keep_factors is None else (lambda x: x * keep_factors)
    d_weights = apply_dropout(d_out @ value.transpose(-2, -1))
    d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdim=True)) * scale
    return d_scores @ key, d_scores.transpose(-2, -1) @ query, apply_dropout(weights).transpose(-2, -1) @ d_out


class _BlockedAttention(Op):
    """Base class of attention and its gradient.

    Takes query (…, L, E), key (…, S, E) and value (…, S, Ev) of any steps, with equal leading dimensions; a bool or
    float mask (…, L, S) or None; seed and offset of dropout.
    """

    attributes = ("scale", "causal", "dropped")

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        query, mask = (arguments[self.inputs.index(name)] for name in ("query", "mask"))
        if len(sizes["b"]) > LEADS or 0 in (*sizes["b"], *(sizes[name] for name in "lesv")):
            return (
                f"sizes must not be 0, with at most {LEADS} of them in front, got query of shape {tuple(query.shape)}"
            )
        if isinstance(mask, Layout) and mask.dtype not in (dtypes.bool_, query.dtype):
            return f"mask must be of bool or {query.dtype}, got {mask.dtype}"
        return None if 0.0 <= attributes[2] <= 1.0 else f"attribute 'dropped' must be from 0 to 1, got {attributes[2]}"

    def _cpu_plan(
        self,
        kernel: Callable,
        inputs: tuple,
        mask_at: int,
        results: tuple[Layout, ...],
        tasks: int,
        parts: Callable,
        attributes: tuple,
    ) -> Plan:
        """Return the plan of a CPU kernel.

        `parts(block, width panels, depth panels)` returns the sizes of a worker's scratch arrays.
        """
        query, value = inputs[mask_at - 3], inputs[mask_at - 1]
        depth, (count, width), storage = query.shape[-1], value.shape[-2:], query.storage
        lanes, workers = tiles.host().lanes(storage.itemsize), min(_WORKERS, tasks)
        block = min(_KEYS, -(-count // 48) * 48)  # whole panels on every processor
        panels = tiles.panel(width, lanes), tiles.panel(depth, lanes)
        scratch_sizes = tuple((workers * part, storage) for part in parts(block, *panels))
        numbers = (
            *_numbers(inputs, mask_at, attributes),
            block,
            *panels[0],
            *(panels[1] if mask_at > 3 else ()),
            workers,
        )
        signature = _signature(storage, len(inputs) + len(results) - 1 + len(scratch_sizes), mask_at, len(numbers))
        dropped = attributes[2]
        source = _source(kernel, storage.itemsize, dropped > 0.0)
        work = prod(query.shape[:-1]) * count * (width + depth) // 4
        run = bind.launcher(query.device, self.name, source, signature, query.dtype, work, build.FAST_REDUCTION)
        scratch = query.device.backend.scratch
        scale_and_dropout = _scale_and_dropout(attributes)
        split_mask = _mask_splitter(query, inputs[mask_at])

        def launch(*arguments: object) -> None:
            *buffers, seed, offset = arguments
            buffers[mask_at:mask_at] = split_mask(buffers, mask_at)
            run(*buffers, *scratch(scratch_sizes), seed, offset, *numbers, *scale_and_dropout)

        return Plan(results, launch)

    def _gpu_launcher(
        self, kernel: Callable, inputs: tuple, mask_at: int, arrays: int, rows: int, attributes: tuple
    ) -> tuple[Callable, tuple]:
        """Return the launcher of a GPU kernel and its last arguments.

        The kernel has `arrays` array arguments. Its thread blocks divide the `rows` rows of each head.
        """
        query, value = inputs[mask_at - 3], inputs[mask_at - 1]
        depth, width, line, runs = query.shape[-1], value.shape[-1], 64, gpu_kernels.KERNEL_COLUMN_RUNS[kernel]
        constants = {
            "LINE": line, "ACROSS": 8, "THREADS": 64, "COLUMN_RUNS": runs, "STEP": 32 * runs,
            "SLICE": min(line, -(-max(depth, width) // 4) * 4),
            "DEPTHS": -(-depth // line), "PARTS": -(-width // line), "steps": _STRIDE_NAMES,
            "DROPPED": int(attributes[2] > 0.0), "MASKED": _mask_kind(inputs[mask_at]),
        }  # fmt: skip
        source, numbers = written_out(specialized(kernel, **constants)), _numbers(inputs, mask_at, attributes)
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
            (blocks, constants["THREADS"]),
        )
        return run, (*numbers, *_scale_and_dropout(attributes))


class Attention(_BlockedAttention):
    """(out (…, L, Ev), logsumexp (…, L)); no size may be 0."""

    takes = (
        "query[*b l e]~:f key[*b s e]~ value[*b s v]~ mask?[*b l s]~:any seed#i offset#i; scale=number "
        "causal=flag dropped=number"
    )
    inputs, outputs = ("query", "key", "value", "mask", "seed", "offset"), ("out", "logsumexp")
    results_with_gradient = 1

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        query, _, value, mask, *_ = arguments
        device = single_device(self.name, [argument for argument in arguments if isinstance(argument, Layout)])
        *lead, length, depth = query.shape
        results = (
            layout((*lead, length, value.shape[-1]), query.dtype, device),
            layout((*lead, length), query.dtype, device),
        )
        if device.type == "cuda":
            run, constants = self._gpu_launcher(gpu_kernels.attention_block, arguments, 3, 7, length, attributes)
            split_mask = _mask_splitter(query, mask)

            def launch(*buffers_and_seed: object) -> None:
                *buffers, seed, offset = buffers_and_seed
                run(*buffers[:3], *split_mask(buffers, 3), *buffers[3:], seed, offset, *constants)

            return Plan(results, launch)

        def parts(block: int, panels: tuple, _: tuple) -> tuple:
            return depth * block, block * panels[1], _ROWS * block, 3 * _CHUNK

        return self._cpu_plan(
            cpu_kernels.attention_kernel, arguments, 3, results, prod(lead) * -(-length // _CHUNK), parts, attributes
        )


class AttentionGradient(_BlockedAttention):
    """Gradients of query, key and value. `d_out` is the dense gradient of out."""

    takes = (
        "d_out[*b l v]:f query[*b l e]~ key[*b s e]~ value[*b s v]~ mask?[*b l s]~:any out[*b l v] logsumexp[*b l] "
        "seed#i "
        "offset#i; scale=number causal=flag dropped=number"
    )
    inputs = ("d_out", "query", "key", "value", "mask", "out", "logsumexp", "seed", "offset")
    outputs = ("d_query", "d_key", "d_value")
    differentiable = False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        query, key, value = arguments[1:4]
        results = tuple(layout(tensor.shape, query.dtype, query.device) for tensor in (query, key, value))
        *lead, length, depth = query.shape
        width = value.shape[-1]
        if query.device.type == "cuda":
            rows, constants = self._gpu_launcher(
                gpu_kernels.attention_backward_rows, arguments, 4, 10, length, attributes
            )
            columns, _ = self._gpu_launcher(
                gpu_kernels.attention_backward_columns, arguments, 4, 10, key.shape[-2], attributes
            )
            split_mask = _mask_splitter(query, arguments[4])
            scratch_sizes = ((prod(lead) * length, query.storage),)
            scratch = query.device.backend.scratch

            def launch(*buffers_and_seed: object) -> None:
                *buffers, seed, offset = buffers_and_seed
                masked, (deltas,) = split_mask(buffers, 4), scratch(scratch_sizes)
                *first, out, logsumexp, d_query, d_key, d_value = buffers
                rows(*first, *masked, out, logsumexp, d_query, deltas, seed, offset, *constants)
                columns(*first, *masked, deltas, logsumexp, d_key, d_value, seed, offset, *constants)

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

        return self._cpu_plan(
            cpu_kernels.attention_gradient_kernel, arguments, 4, results, prod(lead), parts, attributes
        )


def _steps(x: Layout | type) -> tuple[int, ...]:
    """The steps of three leading dimensions, rows and columns; zeros if x is not a tensor."""
    if not isinstance(x, Layout):
        return (0,) * (LEADS + 2)
    strides = [0 if n == 1 else step for n, step in zip(x.shape[:-2], x.strides[:-2])]
    return (0,) * (LEADS - len(strides)) + (*strides, *x.strides[-2:])


def _numbers(inputs: tuple, mask_at: int, attributes: tuple) -> tuple[int, ...]:
    """The first integer arguments of the kernels: sizes, steps, the kind of mask (1: bool, 2: float), causal."""
    query, key, value, mask = inputs[mask_at - 3 : mask_at + 1]
    lead = (1,) * (LEADS + 2 - query.ndim) + tuple(query.shape[:-2])
    steps = [step for tensor in (query, key, value, mask) for step in _steps(tensor)]
    return (
        prod(lead),
        *lead[1:],
        *query.shape[-2:-1],
        key.shape[-2],
        query.shape[-1],
        value.shape[-1],
        *steps,
        _mask_kind(mask),
        int(attributes[1]),
    )


def _mask_kind(mask: Layout | type) -> int:
    return 0 if not isinstance(mask, Layout) else 1 if mask.dtype is dtypes.bool_ else 2


def _scale_and_dropout(attributes: tuple) -> tuple[float, float]:
    """The last arguments of the kernels: scale and dropout probability."""
    return float(attributes[0]), float(attributes[2])


def _signature(storage: object, arrays: int, mask_at: int, numbers: int) -> str:
    kinds = [storage] * arrays
    kinds[mask_at] = dtypes.bool_
    return bind.signature(*kinds, numbers=2 + numbers, others=["float64", "float64"])


def _mask_splitter(query: Layout, mask: Layout | type) -> Callable:
    """Return a function that removes the mask from a list of buffers and returns (bool mask, mask to add).

    At least one of these is empty.
    """
    empty = [query.device.empty(0, storage) for storage in (dtypes.bool_.storage, query.storage)]
    mask_kind = _mask_kind(mask)

    def split(buffers: list, at: int) -> tuple[object, object]:
        mask_data = buffers.pop(at) if mask_kind else None
        return mask_data if mask_kind == 1 else empty[0], mask_data if mask_kind == 2 else empty[1]

    return split


def _source(kernel: Callable, size: int, dropped: bool) -> str:
    """The specialised source of a kernel.

    Without dropout it has no random numbers, which take as long to compile as the rest.
    """
    lanes = tiles.host().lanes(size)
    constants = {
        "TILE_ROWS": tiles.host().rows,
        "LANES": lanes,
        "SIZE": size,
        "PANEL": tiles.VECTORS * lanes,
        "ROWS": _ROWS,
        "steps": _STRIDE_NAMES,
    }
    if kernel is cpu_kernels.attention_kernel:
        return specialized(kernel, **constants, CHUNK=_CHUNK, DROPPED=dropped)
    return specialized(
        kernel,
        **constants,
        scores_backward=cpu_kernels.dropped_scores_backward if dropped else cpu_kernels.plain_scores_backward,
    )


attention, attention_gradient = Attention("attention"), AttentionGradient("attention_gradient")
attention.gradients = {("query", "key", "value"): _gradients}
