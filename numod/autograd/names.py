"""PyTorch's names of nodes, such as AddBackward0, for printing and for scripts that compare them."""

from __future__ import annotations

from ..device import Layout

_PYTORCH_NAMES = {  # what PyTorch's nodes are called whose ops have another name here
    "absolute_error_total": "Mean", "amax": "Max", "amin": "Min", "bag": "EmbeddingBag",
    "binary_cross_entropy_total": "BinaryCrossEntropy",
    "binary_cross_entropy_with_logits_total": "BinaryCrossEntropyWithLogits", "channel_norm": "NativeBatchNorm",
    "cholesky": "LinalgCholeskyEx", "copy": "Clone", "cross_entropy": "NllLoss", "cross_entropy_total": "NllLoss",
    "ctc": "CtcLoss", "det": "LinalgDet", "dropout": "Mul", "eig": "LinalgEig", "eigh": "LinalgEigh",
    "fft_c2c": "FftC2C", "fft_c2r": "FftC2R", "fft_r2c": "FftR2C", "group_norm": "NativeGroupNorm",
    "inv": "LinalgInvEx", "lstsq": "LinalgLstsq", "lu": "LinalgLuFactorEx", "mantissa": "Frexp", "mul_total": "Dot",
    "norm2": "LinalgVectorNorm", "pinv": "LinalgPinv", "prelu": "PreluKernel", "qr": "LinalgQr", "rms_norm": "Mul",
    "row_norm": "NativeLayerNorm", "select_known": "IndexSelect", "slogdet": "LinalgSlogdet",
    "smooth_l1_total": "SmoothL1Loss", "solve": "LinalgSolveEx", "square": "Pow", "squared_error_total": "MseLoss",
    "svd": "LinalgSvd", "svdvals": "LinalgSvd",
}  # fmt: skip


def title(node: object) -> str:
    """The name of an op's node without its ending."""
    name = node.op.name
    if not node.outputs:  # for the profiler, which has only the op's name
        return _PYTORCH_NAMES.get(name) or _joined(name)
    chosen = _BY_CALL.get(name)
    return (chosen and chosen(node)) or _PYTORCH_NAMES.get(name) or _joined(name)


def _joined(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _copy(node: object) -> str | None:
    return "ToCopy" if node.outputs[0].dtype is not node.layouts[0].dtype else None


def _product(node: object) -> str | None:
    """PyTorch's products of matrices are of two dimensions, and views of these."""
    dimensions = [layout.ndim if isinstance(layout, Layout) else 0 for layout in node.layouts]
    result = node.outputs[0].ndim
    biased = node.op.name == "linear" and isinstance(node.layouts[2], Layout)
    if node.op.name == "matmul" and dimensions == [2, 1]:
        return "Mv"
    if result == 2:
        return "Addmm" if biased else "Mm"
    if result < 2:
        return None
    return "View" if biased else "UnsafeView" if dimensions[1] == 2 else "Bmm"


def _average(node: object) -> str:
    """Adaptive pools with windows of one size are the op of regular pools."""
    return f"AvgPool{_dimensions(node)}D"


def _maximum(node: object) -> str:
    return f"MaxPool{max(_dimensions(node), 2)}DWithIndices"


def _dimensions(node: object) -> int:
    return len(node.attributes[4])


def _select(node: object) -> str | None:
    return "Topk" if node.op.outputs else None


def _band(node: object) -> str:
    low, high = node.attributes
    rows, columns = node.layouts[0].shape[-2:]
    return "Tril" if low <= -rows + 1 and high < columns - 1 else "Triu"


def _pad(node: object) -> str | None:
    before, after, mode = node.attributes
    if mode in ("constant", "circular"):
        return "ConstantPadNd" if mode == "constant" else None
    changed = max(sum(any(pair) for pair in zip(before, after)), 1)
    return f"{'Reflection' if mode == 'reflect' else 'Replication'}Pad{changed}D"


def _permute(node: object) -> str | None:
    return "T" if node.layouts[0].ndim == 2 else None


def _grid(node: object) -> str:
    return f"GridSampler{node.layouts[0].ndim - 2}D"


def _fold(node: object) -> str:
    return "Col2Im" if node.attributes[-1] else "Im2Col"


_BY_CALL = {
    "copy": _copy, "matmul": _product, "linear": _product, "average_pool": _average, "max_pool": _maximum,
    "max_pool_values": _maximum, "select": _select, "band": _band, "pad": _pad, "permute": _permute,
    "grid_sample": _grid, "patches": _fold,
    "convolution_input": lambda node: "Convolution",
}  # fmt: skip
