"""Queries of a recorder about the Python objects that the function can reach."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor


class Environment:
    """The defaults, for `trace`, which tracks no objects."""

    def __init__(self) -> None:
        self.outside: set[int] = set()  # ids of tensors that are known to have existed before the call
        self.replaceable: set[int] = set()  # ids of inputs whose memory may be replaced: it is among the results

    def reaches(self, tensor: Tensor) -> bool:
        """Whether the function can reach a tensor by name now."""
        return False

    def encode_container(self, container: Any) -> Any:
        """How a program returns a container that existed before; None for a new one."""
        return None

    def is_constant(self, obj: Any) -> bool:
        """Whether a returned object existed before and is the same one at every run."""
        return False

    def watch_settings(self, are_read: bool) -> None:
        """An optimizer begins, or ends, to read the numbers of a step."""
