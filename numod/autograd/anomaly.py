"""Anomaly detection: a NaN gradient raises an error that names the op it came from and the lines that called the op.

Slow; for debugging.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

from ..errors import warn_caller
from ..core.listeners import listeners
from ..core.tensor import Tensor
from . import backward_pass
from .tape import Node

_mode = SimpleNamespace(enabled=False, check_nan=True)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on.

    Example:

        >>> torch.is_anomaly_enabled()
        False
    """
    return _mode.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether gradients are checked for NaN.

    Example:

        >>> torch.is_anomaly_check_nan_enabled()
        True
    """
    return _mode.check_nan


def _note_lines(op: object, inputs: tuple, attributes: tuple, outputs: tuple, in_place: bool) -> None:
    for output in outputs:
        if isinstance(output, Tensor) and output._node is not None:
            output._node.lines = traceback.format_stack(sys._getframe(2))


def _watched(node: Node, grads: list[Tensor | None]) -> list[tuple[int, Tensor | None]]:
    """A node's gradients.

    If they raise or contain NaN, a warning shows the lines that made the node. Raises RuntimeError for NaN.
    """
    try:
        gradients = list(node.backward(grads))
        for position, gradient in gradients:
            if (
                _mode.check_nan
                and gradient is not None
                and gradient.dtype.differentiable
                and gradient.detach().isnan().any()
            ):
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {position}th output.")
    except Exception:
        lines = getattr(node, "lines", None)
        known = f"Traceback of forward call that caused the error:\n{''.join(lines or ())}"
        unknown = (
            "No forward pass information available. Enable detect anomaly during forward pass for more information."
        )
        warn_caller(f"Error detected in {node.name()}. {unknown if lines is None else known}")
        raise
    return gradients


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly detection on or off.

    Example:

        >>> torch.set_anomaly_enabled(False)
    """
    if enabled and _note_lines not in listeners:
        listeners.append(_note_lines)
    elif not enabled and _note_lines in listeners:
        listeners.remove(_note_lines)
    _mode.enabled, _mode.check_nan = bool(enabled), bool(check_nan)
    backward_pass.watch = _watched if enabled else None


class set_detect_anomaly:
    """Turn anomaly detection on or off, immediately; as a context manager, until it exits.

    Example:

        >>> torch.is_anomaly_enabled()
        False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (_mode.enabled, _mode.check_nan)
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        set_anomaly_enabled(*self._before)


class detect_anomaly:
    """Context in which a NaN gradient raises an error that names the op, with a warning that shows the lines of its
    forward call.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        warn_caller(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging."
        )

    def __enter__(self) -> None:
        self._before = (_mode.enabled, _mode.check_nan)
        set_anomaly_enabled(True, self._check_nan)

    def __exit__(self, *exception: object) -> None:
        set_anomaly_enabled(*self._before)
