"""The target of kernels: the host processor and its features, or NUMBA_CPU_NAME and NUMBA_CPU_FEATURES."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

import numod
from numod.device import cpu, target
from numod.kernel.registers import vectors


@pytest.mark.parametrize(
    "target_text, features, width, capability",
    [
        ("+avx2,+avx512f", "+avx2,+avx512f,-prefer-256-bit", 64, "AVX512"),
        ("+avx2,-avx512f", "+avx2,-avx512f", 32, "AVX2"),
        ("", "", 16, "DEFAULT"),
    ],
)
def test_everything_follows_the_features_in_force(
    target_text: str, features: str, width: int, capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = target.numba().config
    monkeypatch.setattr(config, "CPU_NAME", "generic")
    monkeypatch.setattr(config, "CPU_FEATURES", target_text)
    assert (target.processor(), target.features()) == ("generic", features)
    assert vectors.host.__wrapped__().width == width or llvm.get_process_triple().startswith(("aarch64", "arm64"))
    assert f"generic {features} " in cpu.identity.__wrapped__()
    assert numod.backends.cpu.get_cpu_capability() == capability


def test_a_named_processor_keeps_the_features_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target.numba().config, "CPU_FEATURES", None)
    before = target.features()
    monkeypatch.setattr(target.numba().config, "CPU_NAME", "haswell")
    assert target.features() == before
    assert target.features().startswith(llvm.get_host_cpu_features().flatten())
