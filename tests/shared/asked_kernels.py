"""Notes which kernels are asked for ahead of the ops that need them."""

from __future__ import annotations

import pytest

import numod
from numod.autograd import early_kernels
from numod.device import background
from numod.kernel import build


def record_asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of kernels that are asked for, as if LLVM always worked on some and ops had no plans."""
    names: list[str] = []
    plain = build.asked_for

    def asked_for(kernel: build.Kernel) -> build.Kernel:
        names.append(kernel.name)
        return plain(kernel)

    monkeypatch.setattr(early_kernels, "_expected", True)
    monkeypatch.setattr(build, "asked_for", asked_for)
    monkeypatch.setattr(background, "works", lambda: True)
    monkeypatch.setattr(background, "helps", lambda: True)
    forget_plans()
    return names


def forget_plans() -> None:
    dtype = numod.get_default_dtype()
    numod.set_default_dtype(numod.float64 if dtype is numod.float32 else numod.float32)
    numod.set_default_dtype(dtype)
