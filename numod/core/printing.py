"""The text of a tensor, character for character as PyTorch prints it.

Not a parser, and not the place where values are read: a tensor is anything with `shape`, `dtype`, `device`, the
gradient attributes and `detach().cpu().numpy()`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .overrides import overrides


@dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


@dataclass
class _Layout:
    """What the whole tensor has in common: the width of a number, and whether the middle of long dimensions is left
    out.
    """

    width: int
    summarised: bool


_PROFILES = {"default": _Options(), "short": _Options(precision=2, edgeitems=2), "full": _Options(threshold=math.inf)}
_PREFIX = "tensor("
_ELLIPSIS = "..."
# the dtypes of literals of int and bool, whose texts evaluate to the same tensor
_UNMARKED_DTYPES = ("int64", "bool")
_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.

    precision: digits after the point. threshold: the number of elements above which a tensor is summarised.
    edgeitems: elements shown at each end of a summarised dimension. linewidth: characters in a line.
    profile: "default", "short" or "full", applied before the other arguments; like PyTorch, another name changes
    nothing. sci_mode: True or False to force scientific notation on or off; None, also when left out, decides for each
    tensor.

    Example:

        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor(1.2345)
        tensor(1.23)
        >>> torch.set_printoptions(profile="default")
    """
    chosen = asdict(_PROFILES.get(profile, _options))
    options = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen.update({name: value for name, value in options.items() if value is not None}, sci_mode=sci_mode)
    for name, value in chosen.items():
        setattr(_options, name, value)


def get_printoptions() -> dict[str, Any]:
    """The options in force, by name: a copy, so that writing to it changes nothing.

    Example:

        >>> torch.get_printoptions()["precision"]
        4
    """
    return asdict(_options)


def format_tensor(tensor: Any, default_dtype: str = "float32") -> str:
    """What `repr(tensor)` shows; the dtype is left out where it is `default_dtype`, int64 or bool."""
    prefix = f"{type(tensor).__name__}(" if overrides(type(tensor)) and not _is_quantized(tensor) else _PREFIX
    body = prefix + _body(tensor, len(prefix))
    used = len(body) - body.rfind("\n") + 1  # PyTorch counts two characters too many here, and so where it wraps
    for suffix in _suffixes(tensor, default_dtype):
        if used + len(suffix) + 2 > _options.linewidth:
            body += ",\n" + " " * len(prefix) + suffix
            used = len(prefix) + len(suffix)
        else:
            body += ", " + suffix
            used += len(suffix) + 2
    return body + ")"


def _body(tensor: Any, indent: int) -> str:
    if tensor.device.type == "meta":
        return _ELLIPSIS
    if tensor.numel() == 0:
        return "[]"
    source = tensor.dequantize() if _is_quantized(tensor) else tensor.detach().cpu()
    values = (source.float() if str(tensor.dtype).endswith("bfloat16") else source).numpy()  # NumPy has no bfloat16
    summarised = tensor.numel() > _options.threshold
    if summarised:  # before formatting, so that only the shown elements cost time
        values = _keep_edges(values)
    texts, width = {"f": _float_texts, "c": _complex_texts}.get(values.dtype.kind, _exact_texts)(values)
    return _join(iter(texts), tuple(tensor.shape), _Layout(width, summarised), indent)


def _suffixes(tensor: Any, default_dtype: str) -> list[str]:
    """The keyword arguments after the values, in PyTorch's order."""
    name, meta, empty = str(tensor.dtype).split(".")[-1], tensor.device.type == "meta", tensor.numel() == 0
    # With no values to see, int and bool do not go without saying.
    default = (default_dtype, "complex128" if default_dtype == "float64" else "complex64")
    unmarked = (default_dtype,) if meta or empty else (*default, *_UNMARKED_DTYPES)
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    if _is_quantized(tensor) or meta or (tensor.ndim != 1 if empty else not _options.edgeitems):
        suffixes.append(f"size={tuple(tensor.shape)}")
    if name not in unmarked:
        suffixes.append(f"dtype={tensor.dtype}")
    if _is_quantized(tensor):
        return suffixes + _quantizer_suffixes(tensor)
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return suffixes


def _is_quantized(tensor: Any) -> bool:
    return getattr(tensor, "is_quantized", False)


def _quantizer_suffixes(tensor: Any) -> list[str]:
    """Scheme, scale and zero point of a quantized tensor."""
    scheme = tensor.qscheme()
    suffixes = [f"quantization_scheme={scheme}"]
    if not scheme.is_per_channel:
        return [*suffixes, f"scale={tensor.q_scale()}", f"zero_point={tensor.q_zero_point()}"]
    scales, zero_points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return [*suffixes, f"scale={scales}", f"zero_point={zero_points}", f"axis={tensor.q_per_channel_axis()}"]


def _keep_edges(values: np.ndarray) -> np.ndarray:
    """The elements that a summary shows: both ends of each long dimension."""
    edge = _options.edgeitems
    edge_indices = [[*range(edge), *range(n - edge, n)] if n > 2 * edge else range(n) for n in values.shape]
    return np.asarray(values[np.ix_(*edge_indices)])


def _exact_texts(values: np.ndarray) -> tuple[list[str], int]:
    """The texts of integers or booleans, and the width of their column."""
    texts = [str(value) for value in values.ravel().tolist()]
    return texts, max(map(len, texts), default=1)


def _float_texts(values: np.ndarray) -> tuple[list[str], int]:
    """The texts of floating numbers, and the width of their column, which zeros, infinities and NaN do not widen."""
    flat = values.ravel().astype(np.float64)
    measured = np.isfinite(flat) & (flat != 0)
    style, whole = _float_style(np.abs(flat[measured]))
    # "1." and not "1": a whole number of a floating dtype has to look different from an integer.
    texts = [format(value, style) + ("." if whole and math.isfinite(value) else "") for value in flat.tolist()]
    return texts, max((len(texts[position]) for position in np.flatnonzero(measured)), default=1)


def _complex_texts(values: np.ndarray) -> tuple[list[str], int]:
    """The texts of complex numbers, with aligned real parts, and the width of PyTorch's column."""
    (real, width), (imag, other) = _float_texts(values.real), _float_texts(values.imag)
    return [
        a.rjust(width) + ("" if b.startswith("-") else "+") + b + "j" for a, b in zip(real, imag)
    ], width + other + 1


def _float_style(magnitudes: np.ndarray) -> tuple[str, bool]:
    """The format for finite non-zero numbers of these sizes, and whether it shows them as whole numbers."""
    if magnitudes.size == 0:
        return ".0f", True
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    whole = bool((magnitudes == np.floor(magnitudes)).all())
    # with a common fixed point the smallest would be zeros, or the largest very long
    scientific = _options.sci_mode
    if scientific is None:
        scientific = largest / smallest > 1000 or largest > 1e8 or smallest < 1e-4
    if scientific:
        return f".{_options.precision}e", False
    return (".0f", True) if whole else (f".{_options.precision}f", False)


def _join(texts: Iterator[str], shape: tuple[int, ...], layout: _Layout, indent: int) -> str:
    """The nested brackets around the next texts, for a tensor of `shape`; `indent` is the column of the first
    bracket.
    """
    if not shape:
        text = next(texts)
        return text if text.endswith("j") else text.rjust(layout.width)
    cut = layout.summarised and shape[0] > 2 * _options.edgeitems
    count = 2 * _options.edgeitems if cut else shape[0]
    inner = shape[1:]
    parts = [_join(texts, inner, layout, indent + 1) for _ in range(count)]
    if cut:
        # PyTorch writes two spaces before the dots of a row, unless they stand alone.
        parts.insert(_options.edgeitems, " " + _ELLIPSIS if parts and not inner else _ELLIPSIS)
    return "[" + _separate(parts, len(shape), layout.width, indent) + "]"


def _separate(parts: list[str], ndim: int, width: int, indent: int) -> str:
    """The parts of one of `ndim` dimensions, joined by commas and `ndim - 1` line breaks."""
    margin = " " * (indent + 1)
    if ndim > 1:
        return ("," + "\n" * (ndim - 1) + margin).join(parts)
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(parts[start : start + per_line]) for start in range(0, len(parts), per_line)]
    return (",\n" + margin).join(lines)
