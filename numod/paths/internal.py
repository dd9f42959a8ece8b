"""`numod._C`: of PyTorch's compiled half, what libraries of models call. There is nothing compiled here."""

from __future__ import annotations


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """None: no tracer of PyTorch's runs."""
