"""Attention: softmax(query @ key^T * scale + mask) @ value, by blocks of keys with an online softmax, so that the matrix of scores is never materialised.

Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022. Backward recomputes the scores block by
block, from the logsumexp of each row. For double backward the gradient is composed of tensor operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from .. import dtypes
from ..device import Layout, tiles
from ..device.layout import layout
from ..kernel import bind, build
from . import attention_kernels as kernels, table
from .op import Op, Plan, single_device

LEADS = 3  # leading dimensions that the kernels support; the caller merges more
_ROWS, _CHUNK, _KEYS = 32, 256, 192  # a block of queries, those that share a packed block of keys, and that block
_WORKERS = 8
_SMALL = 1 << 15  # multiply-adds below which the composed form is as fast, and needs no further kernels, unless it has to mask
_FEW = 4  # queries for which the composed form, which reads keys and values where they are, takes less time than packing them (decoding with a cache of keys)
_STEPS = ", ".join(f"{name}_{step}" for name in ("query", "key", "value", "mask") for step in ("first", "second", "third", "row", "column"))


def suits(query: Layout, heads: int, count: int, width: int, masked: bool) -> bool:
    """Whether the kernels here take queries (…, L, E) of so many heads, with `count` keys and values of `width`; `masked`: some keys are left out."""
    length, depth = query.shape[-2:]
    work = heads * length * count * (depth + width)
    return query.device.type == "cpu" and query.dtype.is_floating_point and min(depth, width, work) > 0 and (length > _FEW if work >= _SMALL else masked)


def chances(query: object, key: object, mask: object, scale: float, causal: bool) -> object:
    """The attention weights softmax(query @ key^T * scale + mask) (…, L, S) in tensor operations; 0 in fully masked rows."""
    scores = (query * scale) @ key.transpose(-2, -1)
    if causal:
        scores = scores.masked_fill(~scores.new_ones(scores.shape[-2:], dtype=dtypes.bool_).tril(), float("-inf"))
    if mask is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype is dtypes.bool_ else scores + mask
    nobody = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(nobody, 0.0).softmax(-1).masked_fill(nobody, 0.0)


def _gradients(
    grads: list, query: object, key: object, value: object, mask: object, seed: int, offset: int, out: object, logsumexp: object, scale: float, causal: bool,
    dropped: float, recording: bool,
) -> tuple:
    g = grads[0]
    if not recording:
        return attention_gradient.apply((g.contiguous(), query, key, value, mask, out, logsumexp, seed, offset), (scale, causal, dropped))
    p = chances(query, key, mask, scale, causal)
    kept = table.dropout(p.new_ones(p.shape), dropped, seed, offset) if dropped > 0.0 else None
    drop = (lambda x: x) if kept is None else (lambda x: x * kept)
    d_p = drop(g @ value.transpose(-2, -1))
    slope = p * (d_p - (d_p * p).sum(-1, keepdim=True)) * scale
    return slope @ key, slope.transpose(-2, -1) @ query, drop(p).transpose(-2, -1) @ g


class _Blocked(Op):
    """Base: query (…, L, E), key (…, S, E), value (…, S, Ev), any steps but one shape in front, a bool or added mask (…, L, S) or None, seed and offset of
    dropout."""

    parameters = ("scale", "causal", "dropped")

    def _blocks(self, kernel: Callable, inputs: tuple, mask_at: int, results: tuple[Layout, ...], tasks: int, parts: Callable, parameters: tuple) -> Plan:
        """`parts(block, width panels, depth panels)` are the elements of a worker's scratch arrays."""
        query, key, value, mask = inputs[mask_at - 3 : mask_at + 1]
        (length, depth), (count, width), storage = query.shape[-2:], value.shape[-2:], query.storage
        lead = (1,) * (LEADS + 2 - query.ndim) + tuple(query.shape[:-2])
        lanes, workers = tiles.host().lanes(storage.itemsize), min(_WORKERS, tasks)
        block = min(_KEYS, -(-count // 48) * 48)  # whole panels on every processor
        panels = tiles.panel(width, lanes), tiles.panel(depth, lanes)
        masked = 0 if not isinstance(mask, Layout) else 1 if mask.dtype is dtypes.bool_ else 2
        steps = [step for each in (query, key, value, mask) for step in _steps(each)]
        scale, causal, dropped = parameters
        needed = tuple((workers * each, storage) for each in parts(block, *panels))
        numbers = (
            prod(lead), *lead[1:], length, count, depth, width, *steps, masked, int(causal), block, *panels[0], *(panels[1] if mask_at > 3 else ()), workers,
        )
        arrays = [storage] * (len(inputs) + len(results) - 1 + len(needed))
        arrays[mask_at] = dtypes.bool_
        signature = bind.signature(*arrays, numbers=2 + len(numbers), others=["float64", "float64"])
        source, work = _source(kernel, storage.itemsize, dropped > 0.0), prod(lead) * length * count * (width + depth) // 4
        run = bind.launcher(query.device, self.name, source, signature, query.dtype, work, build.FAST_REDUCTION)
        nothing = [query.device.empty(0, each) for each in (dtypes.bool_.storage, storage)]
        scratch, tail = query.device.backend.scratch, (float(scale), float(dropped))

        def launch(*given: object) -> None:
            *buffers, seed, offset = given
            mask = buffers.pop(mask_at) if masked else None
            buffers[mask_at:mask_at] = mask if masked == 1 else nothing[0], mask if masked == 2 else nothing[1]
            run(*buffers, *scratch(needed), seed, offset, *numbers, *tail)

        return Plan(results, launch)


class Attention(_Blocked):
    """(out (…, L, Ev), logsumexp (…, L)); no size may be 0. CPU only."""

    inputs, outputs = ("query", "key", "value", "mask", "seed", "offset"), ("out", "logsumexp")

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        query, _, value, mask, *_ = arguments
        device = single_device(self.name, [each for each in arguments if isinstance(each, Layout)])
        *lead, length, depth = query.shape
        results = layout((*lead, length, value.shape[-1]), query.dtype, device), layout((*lead, length), query.dtype, device)

        def parts(block: int, panels: tuple, _: tuple) -> tuple:
            return depth * block, block * panels[1], _ROWS * block, 3 * _CHUNK

        return self._blocks(kernels.attention_kernel, arguments, 3, results, prod(lead) * -(-length // _CHUNK), parts, parameters)


class AttentionGradient(_Blocked):
    """Gradients of query, key and value, for dense `given`."""

    inputs, outputs = ("given", "query", "key", "value", "mask", "out", "logsumexp", "seed", "offset"), ("d_query", "d_key", "d_value")
    differentiable = False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        query, key, value = arguments[1:4]
        results = tuple(layout(each.shape, query.dtype, query.device) for each in (query, key, value))
        *lead, length, depth = query.shape
        width = value.shape[-1]

        def parts(block: int, panels: tuple, depth_panels: tuple) -> tuple:
            (_, padded), (_, padded_depth) = panels, depth_panels
            return depth * block, width * block, block * padded_depth, _ROWS * padded_depth, _ROWS * padded, _ROWS * block, _ROWS * block, length

        return self._blocks(kernels.attention_gradient_kernel, arguments, 4, results, prod(lead), parts, parameters)


def _steps(x: Layout | type) -> tuple[int, ...]:
    """Of three leading dimensions, rows and columns; zeros where there is no tensor."""
    if not isinstance(x, Layout):
        return (0,) * (LEADS + 2)
    strides = [0 if n == 1 else step for n, step in zip(x.shape[:-2], x.strides[:-2])]
    return (0,) * (LEADS - len(strides)) + (*strides, *x.strides[-2:])


def _source(kernel: Callable, size: int, dropped: bool) -> str:
    """The kernel's text with its sizes; without random numbers, which take as long to compile as the rest, where nothing is dropped."""
    lanes = tiles.host().lanes(size)
    words = {"TILE_ROWS": tiles.host().rows, "LANES": lanes, "SIZE": size, "PANEL": tiles.VECTORS * lanes, "ROWS": _ROWS, "CHUNK": _CHUNK, "STEPS": _STEPS}
    text = re.sub(rf"\b({'|'.join(words)})\b", lambda found: str(words[found[1]]), bind.source_of(kernel))
    return text.replace("weigh_slopes(", "weigh_dropped_slopes(") if dropped else re.sub(r"\n *drop_scores\(.*", "", text)


attention, attention_gradient = Attention("attention"), AttentionGradient("attention_gradient")
attention.gradients = {("query", "key", "value"): _gradients}
