"""The target of kernels: the host processor and its features, or NUMBA_CPU_NAME and NUMBA_CPU_FEATURES."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest

import numod
from numod.device import cpu, target
from numod.kernel.registers import vectors


class Cycle:
    """An object that refers to itself."""


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


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """A program that has frozen no objects, where no collection is due; the collection of tests froze its own."""
    gc.unfreeze()
    gc.collect(0)
    yield
    gc.freeze()


@pytest.mark.usefixtures("unfrozen")
def test_an_import_is_not_collected_in_between_and_leaves_the_collector_as_it_was() -> None:
    collected = []

    def note(phase: str, info: dict) -> None:
        collected.append((phase, info["generation"]))

    assert gc.isenabled() and not gc.get_freeze_count()
    gc.collect(0)  # none is due
    gc.callbacks.append(note)
    try:
        with target.making_lasting_objects():
            assert not gc.isenabled()
            lasting = [[number] for number in range(100_000)]
            before = [*collected]
        assert gc.isenabled() and not gc.get_freeze_count() and len(lasting) == 100_000
    finally:
        gc.callbacks.remove(note)
    assert before == [("start", 1), ("stop", 1)]

    cycle = Cycle()
    cycle.self, reference = cycle, weakref.ref(cycle)
    with target.making_lasting_objects():
        del cycle
    gc.collect()
    assert reference() is None


@pytest.mark.usefixtures("unfrozen")
@pytest.mark.parametrize("frozen", [False, True])
def test_a_collector_that_the_program_has_set_is_left_alone(frozen: bool) -> None:
    gc.freeze() if frozen else gc.disable()
    count = gc.get_freeze_count()
    try:
        with target.making_lasting_objects():
            assert gc.isenabled() == frozen
        assert gc.isenabled() == frozen and gc.get_freeze_count() >= count - 100
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.usefixtures("unfrozen")
def test_objects_that_another_thread_freezes_meanwhile_stay_frozen() -> None:
    with target.making_lasting_objects():
        gc.freeze()
    assert gc.get_freeze_count() and gc.isenabled()
