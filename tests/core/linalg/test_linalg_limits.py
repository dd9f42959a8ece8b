"""Norms, condition numbers, products of chains, reductions of segments and histograms at their limits."""

import numpy as np
import pytest

import numod


def test_letters_of_a_sum_are_ordered_as_its_numbers():
    a, b = numod.arange(6.0).reshape(2, 3), numod.arange(4.0)
    assert numod.einsum(a, [30, 2], b, [7]).shape == (3, 4, 2)  # 2, 7, 30
    assert numod.einsum("bA,a", a, b).shape == (3, 4, 2)


def test_infinite_elements_in_norms_and_conditions():
    inf = float("inf")
    assert (
        numod.linalg.vector_norm(numod.tensor([inf, -inf]), -1).item() == inf
        and numod.linalg.vector_norm(numod.tensor([0.0, 1.0]), -2).item() == 0
    )
    assert (
        numod.linalg.cond(numod.tensor([[1.0, 2.0], [3.0, inf]]), 1).item() == inf
        and numod.linalg.cond(numod.ones(2, 2), "nuc").item() == inf
    )
    assert np.isnan(numod.linalg.cond(numod.tensor([[1.0, np.nan], [3.0, 1.0]]), 1).item())
    assert numod.histogram(numod.tensor(3.0), 1).bin_edges.tolist() == [2.5, 3.5]


def test_a_histograms_range_may_be_one_point():
    assert numod.histogram(numod.tensor([1.0, 5.0]), 2, range=(5.0, 5.0)).bin_edges.tolist() == [4.5, 5, 5.5]
    assert numod.histc(numod.tensor([1.0, 5.0]), 2, min=5, max=5).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("reduce", "reference"), [("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min), ("prod", np.prod)]
)
def test_segments_are_reduced(reduce, reference):
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    lengths = [[1, 4], [3, 2]]
    actual = numod.segment_reduce(numod.tensor(x), reduce, lengths=numod.tensor(lengths), axis=1)
    wanted = [[reference(part, axis=0) for part in np.split(row, [first])] for row, (first, _) in zip(x, lengths)]
    np.testing.assert_allclose(actual.numpy(), wanted, rtol=1e-12)
    flat = numod.tensor(x[0], requires_grad=True)
    numod.autograd.gradcheck(lambda values: numod.segment_reduce(values, reduce, offsets=numod.tensor([0, 2, 5])), flat)
    empty = numod.segment_reduce(numod.ones(2), reduce, lengths=numod.tensor([0, 2]), initial=3)
    assert empty[0].item() == 3
    with pytest.raises(RuntimeError, match="to sum to data.size"):
        numod.segment_reduce(flat, reduce, lengths=numod.tensor([2, 2]))


def test_products_of_chains_name_the_vector_inside():
    with pytest.raises(RuntimeError, match="tensor 1 must be 2D but got 1D"):
        numod.linalg.multi_dot([numod.ones(3, 3), numod.ones(3), numod.ones(3, 3)])
    with pytest.raises(RuntimeError, match="Expected one or more matrices"):
        numod.chain_matmul()
    assert numod.vmap(lambda row: row * 2, out_dims=(1,))(numod.ones(4, 5)).shape == (5, 4)


def test_norms_of_matrices_without_elements():
    norm = numod.linalg.matrix_norm
    assert norm(numod.ones(0, 0), 1).item() == norm(numod.ones(5, 0), 2).item() == 0 and norm(
        numod.ones(2, 3, 0), 1
    ).tolist() == [0, 0]
    with pytest.raises(IndexError):
        norm(numod.ones(5, 0), -1)


def test_segments_that_leave_out_places():
    x = numod.tensor([1.0, 2, 3, 4])
    # the last took what was left
    assert numod.segment_reduce(x, "sum", lengths=numod.tensor([2, 1]), unsafe=True).tolist() == [3, 3]
    assert numod.segment_reduce(x, "prod", offsets=numod.tensor([1, 2, 3]), unsafe=True).tolist() == [2, 3]
    # offsets may leave out what they like
    assert numod.segment_reduce(x, "sum", offsets=numod.tensor([1, 2])).tolist() == [2]
    with pytest.raises(RuntimeError, match="offsets from 0"):
        numod.segment_reduce(x, "sum", offsets=numod.tensor([0, 9]))


def test_nuclear_norm_writes_into_out():
    out = numod.empty(())
    assert numod.nuclear_norm(numod.eye(3), out=out) is out and out.item() == pytest.approx(3)
