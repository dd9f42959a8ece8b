"""Dtypes of results: of integers, bools, Python numbers, complex numbers and `out`."""

import numpy as np
import pytest

import numod
from numod import nn, optim


def test_integers_and_bools():
    small = numod.tensor([1, 255], dtype=numod.uint8)
    assert numod.isclose(small, numod.tensor([2, 0], dtype=numod.uint8), atol=2).tolist() == [True, False]
    assert (
        np.isclose(numod.tensor([True, False]).logsumexp(0).item(), np.log(np.e + 1))
        and numod.vander(numod.tensor([-3], dtype=numod.int8), 6)[0, 0].item() == -243
    )
    x = numod.zeros(0).set_(numod.arange(4.0).storage(), 0, (2, 2), (2, 1))
    assert x.tolist() == [[0, 1], [2, 3]] and np.isclose(
        numod.logcumsumexp(numod.zeros(2), axis=0)[1].item(), np.log(2)
    )
    with pytest.raises(RuntimeError, match="dtype of long"):
        numod.tensor_split(numod.ones(3), numod.tensor(1.1))


def test_sums_of_products_of_bytes_stay_bytes():
    x = numod.ones(2, 3, 3, dtype=numod.uint8)
    assert numod.addbmm(x[0], x, x).tolist() == [[7] * 3] * 3


def test_real_results_are_not_cut_to_integers_in_place():
    for name in ("logit_", "mvlgamma_", "polygamma_"):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            getattr(numod.tensor([1, 2]), name)(*() if name == "logit_" else (1,))


def test_complex_numbers_have_no_order():
    with pytest.raises(NotImplementedError, match="complex"):
        numod.tensor([1j, 2.0]).argsort()
    assert (
        numod.tensor([1j, 1j]).logsumexp(0).isclose(numod.tensor(0.6931471805599453 + 1j))
        and numod.float_power(numod.tensor([1j]), 2).dtype is numod.complex128
    )


@pytest.mark.parametrize("function", [
    lambda x: x.clamp(0, 256), lambda x: x.clip(max=256), lambda x: x.clone().clamp_(min=256), lambda x: numod.clamp_min(x, 256), lambda x: numod.where(x > 1, x, 256),
    lambda x: x.where(x > 1, 256), lambda x: nn.functional.threshold(x, 1, 256), lambda x: numod.add(x, x, alpha=256), lambda x: nn.functional.hardtanh(x, 0, 256),
])  # fmt: skip
def test_integers_beyond_the_dtype_are_refused(function):
    """They were taken modulo 256: `x.clamp(0, 256)` was 0 everywhere."""
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8 without overflow"):
        function(numod.arange(5, dtype=numod.uint8))
    assert function(numod.arange(5)).dtype is numod.int64


def test_out_decides_the_dtype_of_totals():
    x = numod.tensor([0.5, 1.5, 2.5])
    assert x.sum(0).item() == 4.5 and numod.sum(x, 0, out=numod.empty(0, dtype=numod.int64)).item() == 3
    assert numod.cumsum(x, 0, out=numod.empty(0, dtype=numod.int8)).tolist() == [0, 1, 3]
    assert numod.linalg.norm(numod.tensor([3j, 4]), out=numod.empty(0)).item() == 5


def test_factors_of_sums_are_real_among_real_numbers():
    with pytest.raises(RuntimeError, match="argument alpha must not be a complex number"):
        numod.ones(2).add(numod.ones(2), alpha=1j)
    assert numod.ones(1).add(1j * numod.ones(1), alpha=1j).item() == 0


def test_addr_promotes():
    x = numod.addr(numod.ones(1, 2), numod.tensor([2j]), numod.tensor([1.0, 2.0]))
    assert x.tolist() == [[1 + 2j, 1 + 4j]]


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("add", (2, 3), numod.tensor(5)), ("sub", (7, 2.0), numod.tensor(5.0)), ("mul", (3, 2), numod.tensor(6)), ("div", (2, 4), numod.tensor(0.5)),
        ("floor_divide", (7, 2), numod.tensor(3)), ("true_divide", (1, 2j), numod.tensor(-0.5j)),
    ],
)  # fmt: skip
def test_arithmetic_of_two_numbers_gives_a_tensor(name, numbers, expected):
    result = getattr(numod, name)(*numbers)
    assert result.dtype is expected.dtype and result.shape == () and result == expected


def test_invalid_arithmetic_with_numbers():
    assert numod.div(7, 2, rounding_mode="trunc").item() == 3 and numod.add(1, 2, alpha=3).item() == 7
    with pytest.raises(RuntimeError, match="Subtraction"):
        numod.sub(True, True)
    for name in ("pow", "maximum", "fmod"):
        with pytest.raises(TypeError):
            getattr(numod, name)(2, 3)


def test_numbers_of_the_exporter_are_numbers():
    assert (
        numod.sym_int(2.7),
        numod.sym_max(2, 3),
        numod.sym_not(True),
        numod.sym_sum([1, 2]),
        numod.sym_ite(False, 1, 2),
    ) == (2, 3, False, 3, 2)
    assert numod.zeros_like(numod.ones(2), memory_format=numod.legacy_contiguous_format).tolist() == [0, 0]


def test_numbers_are_searched_as_what_they_are():
    whole, fine = numod.tensor([1, 3, 5]), numod.tensor([1.0, 3.1], dtype=numod.float64)
    assert numod.searchsorted(whole, 3.5).item() == numod.bucketize(3.5, whole).item() == 2
    assert numod.searchsorted(fine, 3.1).item() == 1 and numod.searchsorted(whole, 3).item() == 1


def test_integers_far_apart_are_not_close():
    assert numod.isclose(numod.tensor([0, 5, 100]), numod.tensor([-(2**63), 5, 101]), rtol=0.1).tolist() == [
        False,
        True,
        True,
    ]


def test_corners_that_were_errors():
    with pytest.warns(UserWarning, match="imaginary part"):
        assert numod.sum(numod.tensor([1j, 2]), dtype=numod.float32).item() == 2
    assert numod.arange(12).view(4, 3)[np.array(2)].tolist() == [6, 7, 8]
    assert numod.tensor([[1, 2], [4, 5]]).index_fill_(1, numod.tensor([-1]), 0).tolist() == [[1, 0], [4, 0]]
    assert numod.zeros(2, dtype=numod.int64).index_add_(
        0, numod.tensor([0]), numod.tensor([1]), alpha=2.0
    ).tolist() == [2, 0]
    assert numod.gather(numod.ones(2, 3), 1, numod.empty(0, dtype=numod.int64)).shape == (0,)
    numod.set_warn_always(True)
    with pytest.warns(UserWarning, match="Tensor.mT is deprecated on 0-D tensors"):
        assert numod.tensor(1).mT.item() == 1
    numod.set_warn_always(False)
    averaged = optim.swa_utils.AveragedModel(model := nn.BatchNorm1d(2), use_buffers=True)
    for _ in range(3):
        model(numod.randn(3, 2))
        averaged.update_parameters(model)
    assert averaged.module.num_batches_tracked.item() == 1  # a mean, of integers
    norm = nn.InstanceNorm1d(3, track_running_stats=True)
    assert (
        norm(numod.ones(2, 3, 4, dtype=numod.float64)).dtype is numod.float64
        and norm.running_mean.dtype is numod.float32
    )
