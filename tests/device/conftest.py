"""Fixtures of tests that read the LLVM IR of kernels."""

from __future__ import annotations

import pytest

from numod.device import code_library


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the LLVM IR that is written meanwhile, one for each function."""
    texts: list[str] = []
    add = code_library.library_class().add_ir_module

    def keep(library: object, module: object) -> None:
        texts.append(str(module))
        add(library, module)

    monkeypatch.setattr(code_library.library_class(), "add_ir_module", keep)
    return texts
