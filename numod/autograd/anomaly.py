"""Anomaly detection: a gradient that is not a number names the op it came from, and the lines that called the op. Slow; for debugging."""

from __future__ import annotations

import sys
import traceback
import warnings
from types import SimpleNamespace

from ..core.apply import listeners
from ..core.tensor import Tensor
from . import engine
from .tape import Node

_mode = SimpleNamespace(enabled=False, check_nan=True)


def is_anomaly_enabled() -> bool:
    """Whether nodes keep the lines that made them."""
    return _mode.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether gradients are looked through for NaN."""
    return _mode.check_nan


def _note_lines(op: object, inputs: tuple, parameters: tuple, outputs: tuple, in_place: bool) -> None:
    for each in outputs:
        if isinstance(each, Tensor) and each._node is not None:
            each._node.lines = traceback.format_stack(sys._getframe(2))


def _check(node: Node, found: list[tuple[int, Tensor | None]]) -> None:
    """Raise RuntimeError where one of a node's gradients holds NaN."""
    for position, gradient in found:
        if gradient is None or not gradient.dtype.is_floating_point or not gradient.detach().isnan().any():
            continue
        lines = getattr(node, "lines", None)
        if lines is None:
            warnings.warn(f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during forward pass for more information.", stacklevel=2)
        else:
            warnings.warn(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(lines)}", stacklevel=2)
        raise RuntimeError(f"Function '{node.name()}' returned nan values in its {position}th output.")


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn detection on or off."""
    if mode and _note_lines not in listeners:
        listeners.append(_note_lines)
    elif not mode and _note_lines in listeners:
        listeners.remove(_note_lines)
    _mode.enabled, _mode.check_nan = bool(mode), bool(check_nan)
    engine.check = _check if mode and check_nan else None


class set_detect_anomaly:  # noqa: N801  PyTorch's name
    """Turn detection on or off, at once; as a context, until it is left."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (_mode.enabled, _mode.check_nan)
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        set_anomaly_enabled(*self._before)


class detect_anomaly:  # noqa: N801
    """A context in which a gradient with NaN is an error that names the op, with the lines of the forward call as a warning."""

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.", stacklevel=2)

    def __enter__(self) -> None:
        self._before = (_mode.enabled, _mode.check_nan)
        set_anomaly_enabled(True, self._check_nan)

    def __exit__(self, *exception: object) -> None:
        set_anomaly_enabled(*self._before)
