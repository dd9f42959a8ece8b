"""numod.backends and its switches: honest answers, and values that can be set and read back."""

from __future__ import annotations

import importlib
import warnings

import pytest

import numod


@pytest.mark.parametrize("name", ["cudnn", "mkl", "mkldnn", "mps", "openmp"])
def test_absent_backends(name):
    assert importlib.import_module(f"numod.backends.{name}").is_available() is False


def test_optional_backends():
    assert isinstance(numod.backends.cuda.is_built(), bool)
    assert numod.backends.mps.is_built() is False and numod.backends.cudnn.version() is None
    assert numod.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    assert (numod.version.cuda, numod.version.hip, numod.version.__version__) == (None, None, numod.__version__)


def test_switches_of_cudnn(monkeypatch):
    cudnn = numod.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (True, False, False, True)
    monkeypatch.setattr(cudnn, "benchmark", True)
    with pytest.raises(ZeroDivisionError):
        with cudnn.flags(deterministic=True):
            assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
            raise ZeroDivisionError
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, True, False)


def test_switches_of_onednn():
    mkldnn = numod.backends.mkldnn
    with pytest.raises(ZeroDivisionError):
        with mkldnn.flags(deterministic=True):
            assert (mkldnn.enabled, mkldnn.deterministic, mkldnn.allow_tf32) == (False, True, True)
            raise ZeroDivisionError
    assert (mkldnn.enabled, mkldnn.deterministic, mkldnn.allow_tf32) == (True, False, True)


def test_warnings_each_time(warn_always):
    assert numod.is_warn_always_enabled()
    x = numod.ones((), requires_grad=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="requires_grad=True to a scalar"):
            float(x)
        with pytest.warns(UserWarning, match="please use set_default_dtype"):
            numod.set_default_tensor_type(numod.FloatTensor)
        with pytest.warns(UserWarning, match="use scatter_reduce"):
            numod.zeros(2).scatter_(0, numod.tensor([1]), numod.ones(1), reduce="add")


def test_warnings_once():
    assert not numod.is_warn_always_enabled()
    x = numod.ones((), requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            float(x), int(x), x.item(), float(x.detach())
    assert len(caught) <= 1


def test_precision_of_products():
    matmul = numod.backends.cuda.matmul
    assert numod.get_float32_matmul_precision() == "highest" and matmul.allow_tf32 is False
    try:
        numod.set_float32_matmul_precision("medium")
        assert numod.get_float32_matmul_precision() == "medium" and matmul.allow_tf32
        with pytest.warns(UserWarning, match="is not one of 'highest', 'high', or 'medium'"):
            numod.set_float32_matmul_precision("low")
        matmul.allow_tf32 = False
        assert numod.get_float32_matmul_precision() == "highest"
    finally:
        numod.set_float32_matmul_precision("highest")


def test_deterministic_algorithms():
    def state():
        return (
            numod.are_deterministic_algorithms_enabled(),
            numod.is_deterministic_algorithms_warn_only_enabled(),
            numod.get_deterministic_debug_mode(),
        )

    try:
        numod.use_deterministic_algorithms(True)
        assert state() == (True, False, 2)
        numod.use_deterministic_algorithms(True, warn_only=True)
        assert state() == (True, True, 1)
        numod.set_deterministic_debug_mode("error")
        assert state() == (True, False, 2)
        for bad, kind in ((3, RuntimeError), ("often", RuntimeError), (None, TypeError)):
            with pytest.raises(kind, match="debug_mode"):
                numod.set_deterministic_debug_mode(bad)
    finally:
        numod.use_deterministic_algorithms(False)
    assert state() == (False, False, 0)


def test_questions_about_values():
    one, count = numod.ones(1), numod.arange(3)
    assert (numod.is_tensor(one), numod.is_tensor(1), numod.is_storage(one), numod.is_storage(one._storage)) == (
        True,
        False,
        False,
        True,
    )
    assert (
        numod.is_floating_point(one),
        numod.is_floating_point(count),
        numod.is_complex(one),
        numod.is_nonzero(one),
        numod.numel(count),
    ) == (True, False, False, True, 3)
    assert [numod.typename(value) for value in (one, count, 3, dict)] == [
        "numod.FloatTensor",
        "numod.LongTensor",
        "int",
        "dict",
    ]
    assert numod.typename(numod.device("cpu")) == "numod.device.device.Device"
    with pytest.raises(
        TypeError, match=r"is_floating_point\(\): argument 'input' \(position 1\) must be Tensor, not int"
    ):
        numod.is_floating_point(3)
    with pytest.raises(RuntimeError, match="ambiguous"):
        numod.is_nonzero(count)


def test_kernels_of_attention_are_remembered():
    from numod.backends import cuda

    assert cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
    with cuda.sdp_kernel(enable_flash=False):
        cuda.enable_math_sdp(False)
        assert (
            not cuda.flash_sdp_enabled()
            and not cuda.math_sdp_enabled()
            and cuda.mem_efficient_sdp_enabled()
            and cuda.cudnn_sdp_enabled()
        )
    assert cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()


def test_preferred_libraries_are_remembered():
    from numod.backends import cuda

    assert cuda.preferred_linalg_library() == cuda.preferred_blas_library() == "default"
    assert (
        cuda.preferred_linalg_library("magma") == cuda.preferred_linalg_library() == "magma"
        and cuda.preferred_blas_library() == "default"
    )
    cuda.preferred_linalg_library("default")
    with pytest.raises(RuntimeError, match="Choose from: default, cublas.*'mkl'"):
        cuda.preferred_blas_library("mkl")
