"""`numod.masked`, beside NumPy's masked arrays."""

import numpy as np
import pytest

import numod
from numod import masked

X = np.random.default_rng(0).normal(size=(3, 4, 5))
MASK = np.random.default_rng(1).random((4, 5)) < 0.6
HIDDEN = np.ma.array(X, mask=~np.broadcast_to(MASK, X.shape))


@pytest.mark.parametrize(("name", "reference"), [
    ("sum", HIDDEN.sum), ("prod", HIDDEN.prod), ("amax", HIDDEN.max), ("amin", HIDDEN.min), ("mean", HIDDEN.mean), ("var", lambda dim: HIDDEN.var(dim, ddof=1)), ("std", lambda dim: HIDDEN.std(dim, ddof=1)),
    ("argmax", lambda dim: HIDDEN.argmax(dim)), ("argmin", lambda dim: HIDDEN.argmin(dim)), ("logsumexp", lambda dim: np.log(np.exp(HIDDEN).sum(dim))), ("norm", lambda dim: np.sqrt((HIDDEN**2).sum(dim))),
])  # fmt: skip
def test_reductions(name, reference):
    x, mask = numod.tensor(X), numod.tensor(MASK)
    result = getattr(masked, name)(x, dim=1, mask=mask) if name != "norm" else masked.norm(x, 2, 1, mask=mask)
    np.testing.assert_allclose(result.numpy(), np.asarray(reference(1)), rtol=1e-12)
    assert getattr(masked, name)(x, dim=2, keepdim=True, mask=mask).shape == (3, 4, 1)


@pytest.mark.parametrize("name", ["softmax", "softmin", "log_softmax", "normalize", "cumsum", "cumprod"])
def test_elements(name):
    unmasked = X[0, 0][MASK[0]]
    arguments = (2, 0) if name == "normalize" else (0,)
    actual = getattr(masked, name)(numod.tensor(X[0, 0]), *arguments, mask=numod.tensor(MASK[0])).numpy()[MASK[0]]
    wanted = getattr(masked, name)(numod.tensor(unmasked), *arguments).numpy()
    np.testing.assert_allclose(actual, wanted, rtol=1e-12)


def test_masked_out_values_have_no_gradient():
    x = numod.tensor([1.0, np.nan, 3.0], requires_grad=True)
    mask = numod.tensor([True, False, True])
    masked.mean(x, mask=mask).backward()
    assert (
        x.grad.tolist() == [0.5, 0, 0.5]
        and masked.median(x, mask=mask).item() == 1
        and masked.sum(numod.ones(2, dtype=numod.uint8)).dtype is numod.int64
    )
    assert np.isclose(masked.logaddexp(x, x, input_mask=mask, other_mask=~mask)[0].item(), 1)


def test_refusals():
    with pytest.raises(IndexError, match="mask dimensionality higher"):
        masked.sum(numod.ones(2), mask=numod.ones(1, 2))
    with pytest.raises(ValueError, match="floating point"):
        masked.mean(numod.arange(3))
    with pytest.raises(ValueError, match="no fully masked out rows"):
        masked.median(numod.arange(3), mask=numod.zeros(3))


def test_sums_of_complex_numbers_are_complex():
    assert numod.masked.sum(numod.tensor([1j, 2.0, 3.0]), mask=numod.tensor([True, True, False])).item() == 2 + 1j


def test_means_variances_and_logarithms_of_sums_of_complex_numbers():
    x, mask = numod.tensor([1 + 2j, 3 - 1j, 0.5j]), numod.tensor([True, True, False])
    assert masked.mean(x, mask=mask).item() == 2 + 0.5j and masked.var(x, mask=mask).item() == 6.5
    assert numod.allclose(masked.logsumexp(x, 0, mask=mask), x[:2].exp().sum().log())
