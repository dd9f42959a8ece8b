"""Compressed weights of convolutions: products against the dense weight, and indices from files."""

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.ops.convolution.compressed import compressed_convolution
from numod.nn import functional as F
from numod.ops import contract


def weight_of(*shape, zeros=0.8):
    numod.manual_seed(0)
    return numod.randn(*shape) * (numod.rand(*shape) > zeros)


def parts_of(weight):
    """Values, columns and starts of the rows, also where the weight itself takes fewer bytes."""
    rows = weight.numpy().reshape(len(weight), -1)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(rows, 1))]).astype("int32")
    return [numod.from_numpy(part) for part in (rows[rows != 0], np.nonzero(rows)[1].astype("uint8"), starts)]


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (2, 1, 1), (3, 4, 2), (1, 3, 1)])
@pytest.mark.parametrize("kernel", [(1,), (3,), (1, 1), (3, 2), (5, 3), (2, 1, 3)])
def test_results_are_those_of_the_dense_weight(kernel, stride, padding, dilation, groups):
    weight, rank = weight_of(12, 6 // groups, *kernel, zeros=0.9), len(kernel)
    x = numod.randn(2, 6, *(9, 10, 11)[:rank])
    result = apply(
        compressed_convolution,
        (x, *parts_of(weight)),
        (kernel, *[(n,) * rank for n in (stride, padding, dilation)], groups),
    )
    expected = getattr(F, f"conv{rank}d")(x, weight, None, stride, padding, dilation, groups)
    numod.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_indices_from_files_stay_within_the_image():
    values, columns = numod.ones(4), numod.from_numpy(np.array([255, 17, 0, 200], dtype="uint8"))
    attributes = (3, 3), (1, 1), (1, 1), (1, 1), 1
    for starts in ([-5, 2, 99], [4, 0, 4], [0, 4, 4]):
        inputs = numod.ones(1, 2, 4, 4), values, columns, numod.tensor(starts, dtype=numod.int32)
        assert apply(compressed_convolution, inputs, attributes).isfinite().all()


@pytest.mark.parametrize("kernel, groups", [((9, 9), 1), ((3,), 1), ((3, 3), 4)])
def test_sizes_that_do_not_fit_are_refused(kernel, groups):
    weight = weight_of(4, 3, 3, 3)
    inputs, attributes = (numod.ones(1, 3, 4, 4), *parts_of(weight)), (kernel, (1, 1), (0, 0), (1, 1), groups)
    with pytest.raises(ValueError, match="compressed_convolution"):
        contract.check(compressed_convolution, [tensor._layout for tensor in inputs], attributes)
