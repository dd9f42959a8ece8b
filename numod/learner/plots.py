"""Plots of training, drawn by matplotlib (the extra `plot`). Each function returns its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from ..core.tensor import Tensor
from .preds import decoder_of, predicted


def pyplot() -> Any:
    """matplotlib.pyplot. Raises ImportError with the line to install it."""
    try:
        return import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("plots are drawn by matplotlib, which is not installed: pip install 'numod[plot]'") from error


def grid(rows: int = 1, columns: int = 1, width: float = 6.4, height: float = 4.8) -> Any:
    """A new figure's axes, an array (rows, columns) with axes of these inches."""
    size = width * columns, height * rows
    return pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")[1]


def plot_loss(recorder: Any, skip_start: int, with_valid: bool, log: bool, ax: Any) -> Any:
    """The smoothed loss by batch, and the loss of validation by epoch."""
    ax = grid()[0, 0] if ax is None else ax
    losses = recorder.losses
    skip_start = min(skip_start, max(len(losses) - 1, 0))
    ax.plot(range(skip_start, len(losses)), losses[skip_start:], label="train")
    if with_valid and "valid_loss" in recorder.metric_names:
        points = [
            (x, y) for x, y in zip(recorder.iters, recorder.column("valid_loss")) if x >= skip_start and y is not None
        ]
        if points:
            ax.plot(*zip(*points), label="valid", marker="o" if len(points) == 1 else None)
    ax.set(xlabel="batch", ylabel="loss", title="learning curve", **({"xscale": "log", "yscale": "log"} if log else {}))
    ax.legend()
    return ax


def plot_sched(recorder: Any, keys: Iterable[str] | None) -> Sequence[Any]:
    """The hyper-parameters that were scheduled, one axes each."""
    keys = list(recorder.hps if keys is None else keys)
    if not keys:
        raise ValueError(
            "plot_sched: nothing was scheduled; train with fit_one_cycle, fit_flat_cos or a ParamScheduler"
        )
    axes = grid(1, len(keys), 6, 4)[0]
    for ax, key in zip(axes, keys):
        ax.plot(recorder.hps[key])
        ax.set(xlabel="batch", ylabel=key)
    return axes


def plot_lr_find(recorder: Any, suggestions: dict[str, tuple], ax: Any, skip_end: int = 5) -> Any:
    """The loss by learning rate, with the suggestions marked."""
    ax = grid()[0, 0] if ax is None else ax
    end = -skip_end if skip_end and len(recorder.lrs) > 2 * skip_end else None
    ax.plot(recorder.lrs[:end], recorder.losses[:end])
    for name, (_, (lr, loss)) in suggestions.items():
        ax.plot(lr, loss, "o", label=name)
    ax.set(xscale="log", xlabel="learning rate", ylabel="loss")
    if suggestions:
        ax.legend()
    return ax


def plot_activation_stats(stats: Any) -> Sequence[Any]:
    """Means, standard deviations and shares near zero by batch, a line for each layer; with histograms a picture of
    each, bright where many values are.
    """
    axes = grid(1, 3, 5, 4)[0]
    for number, (name, _) in enumerate(stats.layers):
        for ax, values in zip(axes, stats.layer_stats(number)):
            ax.plot(values, label=name)
    for ax, title in zip(axes, ("mean", "standard deviation", "share near zero")):
        ax.set(title=title, xlabel="batch")
    axes[-1].legend(fontsize="small")
    if stats.with_hist:
        rows = grid(1, len(stats.layers), 4, 3)[0]
        for number, ((name, _), ax) in enumerate(zip(stats.layers, rows)):
            ax.imshow(stats.hist(number).numpy(), origin="lower", aspect="auto")
            ax.set(title=name, xlabel="batch", yticks=[])
        return [*axes, *rows]
    return list(axes)


def plot_confusion_matrix(matrix: Tensor, names: Sequence[str], normalize: bool, title: str, ax: Any) -> Any:
    """Counts of (true class, predicted class), or shares of the true class."""
    side = 1 + 0.6 * len(names)
    ax = grid(1, 1, side, side)[0, 0] if ax is None else ax
    shown = matrix.double() / matrix.sum(1, keepdim=True).clamp(min=1) if normalize else matrix
    ax.imshow(shown.numpy(), cmap="Blues")
    ticks = range(len(names))
    ax.set(title=title, xlabel="predicted", ylabel="actual", xticks=ticks, yticks=ticks)
    ax.set_xticklabels(names, rotation=90)
    ax.set_yticklabels(names)
    middle = shown.max().item() / 2
    for row, values in enumerate(shown.tolist()):
        for column, value in enumerate(values):
            text = f"{value:.2f}" if normalize else str(value)
            ax.text(column, row, text, ha="center", va="center", color="white" if value > middle else "black")
    return ax


def show_images(images: Sequence[Tensor], titles: Sequence[str]) -> Sequence[Any]:
    """Images (C, H, W) or (H, W), or the numbers of inputs that are no images, in a grid."""
    columns = min(math.ceil(math.sqrt(len(images))), 4) or 1
    rows = -(-len(images) // columns) or 1
    axes = grid(rows, columns, 2.4, 2.6).ravel()
    for ax in axes:
        ax.axis("off")
    for ax, image, title in zip(axes, images, titles):
        pixels = as_pixels(image)
        if pixels is None:
            text = ", ".join(f"{value:.3g}" for value in image.reshape(-1)[:8].tolist())
            ax.text(0.5, 0.5, text, ha="center", va="center", wrap=True, fontsize=8)
        else:
            ax.imshow(pixels, cmap="gray" if pixels.ndim == 2 else None)
        ax.set_title(title, fontsize=9)
    return axes[: len(images)]


def as_pixels(image: Tensor) -> Any:
    """An image as an array (H, W) or (H, W, 3) of numbers from 0 to 1; None if the tensor is no image."""
    image = image.detach().cpu()
    if image.dim() == 3 and image.shape[0] in (1, 3):
        image = image[0] if image.shape[0] == 1 else image.permute(1, 2, 0)
    elif image.dim() != 2:
        return None
    values = image.float()
    low, high = values.min(), values.max()
    return ((values - low) / (high - low).clamp(min=1e-12)).numpy()


def show_results(learn: Any, ds_idx: int, max_n: int) -> Sequence[Any]:
    """Inputs with their targets and predictions."""
    loader = learn.dls[ds_idx]
    inputs, preds, targets = learn.get_preds(dl=[next(iter(loader))], with_input=True)
    decoded = decoder_of(learn.loss_func)(preds)
    first = inputs[0] if isinstance(inputs, tuple) else inputs
    count = min(max_n, len(first))
    titles = [f"{_text(learn, targets[k])} / {_text(learn, decoded[k])}" for k in range(count)]
    return show_images(list(first[:count]), titles)


def _text(learn: Any, value: Tensor) -> str:
    if value.dim() and value.numel() > 1:
        return ", ".join(f"{number:.3g}" for number in value.reshape(-1)[:3].tolist())
    prediction = predicted(learn, value.reshape(()))
    return f"{prediction:.3g}" if isinstance(prediction, float) else str(prediction)
