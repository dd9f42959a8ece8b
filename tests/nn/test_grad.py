"""`nn.grad`: the gradients of convolutions as functions, beside those of the tape."""

import numpy as np
import pytest

import numod
from numod import nn

CASES = [
    (1, (2, 4, 9), (6, 2, 3), {}),
    (1, (2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1}),
    (2, (2, 4, 9, 8), (6, 2, 3, 2), {"dilation": 2}),
    (3, (1, 2, 5, 4, 3), (4, 1, 2, 3, 1), {"padding": (0, 1, 0)}),
]


@pytest.mark.parametrize(("ndim", "size", "weight_size", "options"), CASES)
def test_gradients_of_convolutions(ndim, size, weight_size, options):
    x, weight = (numod.randn(shape, dtype=numod.float64, requires_grad=True) for shape in (size, weight_size))
    result = getattr(nn.functional, f"conv{ndim}d")(x, weight, groups=2, **options)
    g = numod.randn_like(result)
    wanted = numod.autograd.grad(result, (x, weight), g)
    actual = (
        getattr(nn.grad, f"conv{ndim}d_input")(size, weight, g, groups=2, **options),
        getattr(nn.grad, f"conv{ndim}d_weight")(x, weight_size, g, groups=2, **options),
    )
    assert all(np.allclose(a.numpy(), b.detach().numpy()) for a, b in zip(wanted, actual))


def test_sizes_that_do_not_fit_are_refused():
    g, weight = numod.ones(1, 3, 4, 4), numod.ones(3, 2, 3, 3)
    for call, words in (
        (lambda: nn.functional.grad.conv2d_input((1, 2, 9, 9), weight, g), "expected grad_output of shape"),
        (lambda: nn.grad.conv2d_weight(numod.ones(1, 2, 6, 5), (3, 2, 3, 3), g), "expected grad_output"),
        (lambda: nn.grad.conv2d_input((1, 3, 6, 6), weight, g), "do not fit"),
        (
            lambda: nn.grad.conv2d_input((1, 2, 2, 2), weight, numod.ones(1, 3, 4, 4), dilation=-1),
            "dilation should be greater than zero",
        ),
        (lambda: nn.grad.conv2d_weight(numod.ones(1, 2, 6, 6), (3, 2, 3, 3), g, stride=0), "non-positive stride"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
