"""The report of a training run: one HTML file, in the style of the profiler's and with its chart code.

Its markup and script are in `page/`.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..device import threads
from ..profiler.report import write_page
from ..utils import summary
from ..version import __version__
from .interpret import ClassificationInterpretation, Interpretation
from .plots import as_pixels

_FOLDER = Path(__file__).parent / "page"
_POINTS = 2000  # most points of a curve
_SIDE = 96  # pixels of a sample's longer side


def write_report(learn: Any, path: str | Path, title: str, worst: int) -> None:
    """Write the page."""
    page, script = [(_FOLDER / name).read_text(encoding="utf-8") for name in ("page.html", "script.js")]
    write_page(path, title, page, script, describe(learn, worst))


def describe(learn: Any, worst: int) -> dict[str, Any]:
    """The page's data."""
    recorder = learn.recorder
    names, rows = [name for name in recorder.metric_names if name != "time"], recorder.values
    columns = {name: [_number(row[k]) for row in rows] for k, name in enumerate(names[1:])}
    interp = _interpretation(learn)
    return {
        "summary": _summary(learn, columns), "train": _curve(recorder.losses),
        "valid": [list(pair) for pair in zip(recorder.iters, columns.get("valid_loss", []))],
        "metrics": [
            {"name": name, "points": [[epoch, value] for epoch, value in enumerate(values)]}
            for name, values in columns.items() if name not in ("train_loss", "valid_loss")
        ],
        "names": names, "epochs": [[epoch, *map(_number, row)] for epoch, row in enumerate(rows)],
        "schedule": [{"name": name, "points": _curve(values)} for name, values in recorder.hps.items()],
        "confusion": _confusion(interp), "worst": [] if interp is None else _samples(interp, worst),
        "layers": _layers(learn), "facts": _facts(learn),
    }  # fmt: skip


def _number(value: float | None) -> float | None:
    """JSON has neither NaN nor infinity."""
    return value if value is not None and math.isfinite(value) else None


def _curve(values: Sequence[float]) -> list[list[float | None]]:
    step = -(-len(values) // _POINTS) or 1
    return [[k, _number(values[k])] for k in range(0, len(values), step)]


def _summary(learn: Any, columns: dict[str, list]) -> str:
    count = sum(parameter.numel() for parameter in learn.model.parameters())
    last = ", ".join(
        f"{name} {values[-1]:.4g}" for name, values in columns.items() if values and values[-1] is not None
    )
    epochs = len(learn.recorder.values)
    return f"{type(learn.model).__name__}, {count:,} parameters, {epochs} epochs of training. {last}"


def _interpretation(learn: Any) -> Interpretation | None:
    if learn.dls.valid is None:
        return None
    try:
        interpretation = ClassificationInterpretation.from_learner(learn)
    except ValueError:  # the loader is empty
        return None
    whole = (
        interpretation.targs is not None
        and not interpretation.targs.is_floating_point()
        and interpretation.decoded.shape == interpretation.targs.shape
    )
    return interpretation if whole else _plain(interpretation)


def _plain(interpretation: Interpretation) -> Interpretation | None:
    """The interpretation without classes; None if there is no loss per sample."""
    if interpretation.targs is None or interpretation.losses is None or interpretation.losses.dim() != 1:
        return None
    interpretation.__class__ = Interpretation
    return interpretation


def _confusion(interpretation: Interpretation | None) -> dict[str, Any] | None:
    if not isinstance(interpretation, ClassificationInterpretation):
        return None
    return {"names": interpretation.vocab, "counts": interpretation.confusion_matrix().tolist()}


def _samples(interpretation: Interpretation, worst: int) -> list[dict[str, Any]]:
    losses, numbers = interpretation.top_losses(worst)
    inputs = interpretation.inputs[0] if isinstance(interpretation.inputs, tuple) else interpretation.inputs
    titles = [interpretation.title(number, loss) for number, loss in zip(numbers.tolist(), losses.tolist())]
    return [{"title": title, **_picture(inputs[number])} for title, number in zip(titles, numbers.tolist())]


def _picture(sample: Tensor) -> dict[str, Any]:
    pixels = as_pixels(sample)
    if pixels is None:
        return {"values": ", ".join(f"{value:.4g}" for value in sample.reshape(-1)[:16].tolist())}
    step = -(-max(pixels.shape[:2]) // _SIDE)
    pixels = (pixels[::step, ::step] * 255).astype(np.uint8)
    return {"height": pixels.shape[0], "width": pixels.shape[1], "pixels": pixels.reshape(-1).tolist()}


def summary_text(learn: Any) -> str:
    """`Learner.summary`."""
    layers = _summarised(learn, col_names=("output_size", "num_params", "trainable"))
    optimizer, loss = _names(learn)
    cbs = "\n".join(f"  - {callback!r}" for callback in learn.ordered_cbs())
    return f"{layers}\nOptimizer: {optimizer}\nLoss: {loss}\nCallbacks:\n{cbs}"


def _summarised(learn: Any, **options: Any) -> Any:
    learn._find_device()
    inputs, _ = learn._split(learn.dls.one_batch())
    return summary(learn.model, input_data=inputs, verbose=0, **options)


def _names(learn: Any) -> tuple[str, str]:
    """(optimizer, loss)."""
    optimizer = getattr(learn.opt_func, "__name__", None) or repr(learn.opt_func)
    return optimizer, getattr(learn.loss_func, "__name__", None) or repr(learn.loss_func)


def _layers(learn: Any) -> list[list[Any]]:
    layers = _summarised(learn).summary_list
    return [
        ["\N{NO-BREAK SPACE}" * 4 * row.depth + type(row.module).__name__ + (f" ({row.name})" if row.name else ""),
         row.text("output_size"), row.parameters, row.text("trainable")] for row in layers
    ]  # fmt: skip


def _facts(learn: Any) -> list[list[str]]:
    device = learn._model_device()
    optimizer, loss = _names(learn)
    return [
        ["numod", str(__version__)], ["Python", platform.python_version()], ["system", platform.platform()],
        ["device", str(device)], ["threads", str(threads.get_num_threads())], ["processors", str(os.cpu_count())],
        ["optimizer", optimizer], ["loss", loss], ["compiled", str(bool(learn.compile))],
        ["callbacks", ", ".join(map(repr, learn.ordered_cbs()))], ["written", time.strftime("%Y-%m-%d %H:%M:%S")],
    ]  # fmt: skip
