"""Kernels are compiled once per key, and the key is that of all that compiled code depends on."""

import signal
import sys

import pytest

import numod
from numod.device import cpu
from numod.kernel import build as builder
from numod.kernel import cache
from numod.kernel.divide import divided

from fresh_cache import RIGHT, SIGNATURE, SOURCE, result


@pytest.fixture
def keys(monkeypatch):
    """The key of a kernel that is not compiled."""
    monkeypatch.setattr(builder, "_built", {})
    monkeypatch.setattr(builder, "_make", lambda backend, kernel, fastmath, alone: kernel)

    def key(source=SOURCE, signature=SIGNATURE, **options):
        return builder.build(cpu, "sample", source, signature, **options).key

    return key


def test_the_key_is_that_of_its_inputs(keys):
    assert keys() == keys()
    different = [
        keys(),
        keys(source=SOURCE + "\n"),
        keys(source=SOURCE.replace("+ 1", "+ 2")),
        keys(signature="float64[], float64[]"),
        keys(parallel=True),
        keys(fastmath=frozenset()),
        keys(fastmath=builder.FAST_REDUCTION),
    ]
    assert len(set(different)) == len(different)


def test_the_key_changes_with_versions_and_processor(keys, monkeypatch):
    before = keys()
    with monkeypatch.context() as patch:
        patch.setattr(numod, "__version__", "999")
        assert keys() != before
    with monkeypatch.context() as patch:
        patch.setattr(builder, "VERSION", "other")
        assert keys() != before
    with monkeypatch.context() as patch:
        patch.setattr(cpu, "identity", lambda: "another processor")
        assert keys() != before
    assert keys() == before


def test_the_identity_names_what_compiled_code_depends_on():
    import llvmlite
    import numba

    assert (
        sys.implementation.cache_tag in cpu.identity()
        and numba.__version__ in cpu.identity()
        and llvmlite.__version__ in cpu.identity()
    )


def test_the_name_carries_the_key(keys, monkeypatch):
    kernel = builder.build(cpu, "sample", SOURCE, SIGNATURE)
    assert kernel.name.startswith("sample_") and kernel.key[:16] in kernel.name


def test_a_kernel_is_compiled_once_and_then_loaded(fresh):
    compiled, loaded = builder.statistics.compiled, builder.statistics.loaded
    kernel = fresh.build()
    assert result(kernel) == RIGHT and not kernel.cached and fresh.build() is kernel
    assert len(fresh.files()) == 1
    fresh.forget()
    again = fresh.build()
    assert again is not kernel and again.cached and result(again) == RIGHT
    assert (builder.statistics.compiled, builder.statistics.loaded) == (compiled + 1, loaded + 1)
    assert kernel in builder.kernels() or again in builder.kernels()


def test_signals_wait_for_the_kernel(fresh, monkeypatch):
    """An exception of a handler in the midst of the compiler would be lost in LLVM's callbacks, or free a module
    twice.
    """
    steps, usual = [], cache.KernelCache.save

    def save(self, *arguments):
        steps.append("begun")
        signal.raise_signal(signal.SIGINT)
        steps.append("finished")
        return usual(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cache.KernelCache, "save", save)
        fresh.build()
    assert steps == ["begun", "finished"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert result(fresh.build()) == RIGHT


def test_serial_and_parallel_variants_are_apart(fresh):
    def both() -> tuple:
        return fresh.build(), fresh.build(
            divided(SOURCE.replace("range(", "parallel_range(")), f"{SIGNATURE}, int64", parallel=True
        )

    for cached in (False, True):
        serial, parallel = both()
        assert serial.cached == parallel.cached == cached and len(fresh.files()) == 2
        assert result(serial) == RIGHT
        assert all(result(parallel, threads) == RIGHT for threads in (1, 2))
        fresh.forget()


def test_listeners_hear_of_kernels(fresh):
    active_listeners = []
    builder.listeners.append(active_listeners.append)
    try:
        kernel = fresh.build()
        fresh.build()
    finally:
        builder.listeners.remove(active_listeners.append)
    assert active_listeners == [kernel]


def test_an_error_in_the_source_reaches_the_caller_and_leaves_nothing(fresh):
    with pytest.raises(Exception, match="undefined_name"):
        fresh.build(SOURCE.replace("+ 1", "+ undefined_name"))
    assert fresh.files() == []
    assert result(fresh.build()) == RIGHT
