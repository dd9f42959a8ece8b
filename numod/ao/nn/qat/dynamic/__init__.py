"""Float layers whose weight is rounded during training for dynamic quantization."""

from __future__ import annotations

from typing import Any

from ... import qat

__all__ = ["Linear"]


class Linear(qat.Linear):
    """Linear with a rounded weight. The QConfig's observer of activations must keep no memory of earlier inputs."""

    @staticmethod
    def check_qconfig(qconfig: Any) -> None:
        """See `QATModule`."""
        observer = qconfig.activation()
        observer = getattr(observer, "activation_post_process", observer)
        if getattr(observer, "averaging_constant", None) != 1:
            raise ValueError(
                "Dynamic QAT requires a memoryless observer.This means a MovingAverage observer with averaging "
                "constant equal to 1"
            )
