"""Strides of results:

PyTorch's, which follow the first tensor that has an order in memory. The expected ones were read from PyTorch 2.13.
"""

import pytest

import numod as torch
import numod.nn.functional as F

A = torch.arange(60.0).reshape(3, 4, 5)
P = A.permute(2, 0, 1)  # strides (1, 20, 5)
O = torch.arange(60.0).reshape(5, 3, 4)
LAST = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
GAPS = P[:, :, ::2]  # strides (1, 20, 10)
PERMUTED, DENSE, PACKED, CHANNELS_LAST = (1, 20, 5), (12, 4, 1), (1, 10, 5), (60, 1, 15, 3)
STRIDES = {
    "first of two": (lambda: P + O, PERMUTED),
    "row-major first": (lambda: O + P, DENSE),
    "comparison": (lambda: P < O, PERMUTED),
    "broadcast": (lambda: P + O[0, 0], PERMUTED),
    "broadcast first": (lambda: O[0, 0] + P, PERMUTED),
    "channels last and row-major": (lambda: LAST + LAST.contiguous(), CHANNELS_LAST),
    "channels last and a bias": (lambda: LAST + torch.ones(3, 1, 1), CHANNELS_LAST),
    "condition first": (lambda: torch.where(P > 3, O, P), PERMUTED),
    "other dtypes": (lambda: P.double() + O, PERMUTED),
    "gaps": (lambda: GAPS + O[:, :, ::2], PACKED),
    "masked_fill": (lambda: P.masked_fill(P > 3, 1.0), DENSE),
    "flip": (lambda: P.flip(0), PERMUTED),
    "flip with gaps": (lambda: GAPS.flip(0), PACKED),
    "sort": (lambda: P.sort(0).values, PERMUTED),
    "argsort": (lambda: P.argsort(-1), PERMUTED),
    "mode": (lambda: P.mode(0).values, (4, 1)),
    "dropout": (lambda: F.dropout(P), PERMUTED),
    "dropout of channels last": (lambda: F.dropout(LAST, 0.3), CHANNELS_LAST),
    "alpha_dropout": (lambda: F.alpha_dropout(P, 0.5, True), PERMUTED),
    "rand_like": (lambda: torch.rand_like(P), PERMUTED),
    "randn_like": (lambda: torch.randn_like(LAST), CHANNELS_LAST),
    "randint_like": (lambda: torch.randint_like(GAPS, 3), PACKED),
    "zeros_like": (lambda: torch.zeros_like(GAPS), PACKED),
    "clone": (lambda: GAPS.clone(), PACKED),
    "cat of channels last": (lambda: torch.cat([LAST, LAST], 1), (120, 1, 30, 6)),
    "cat of two orders": (lambda: torch.cat([LAST, LAST.contiguous()]), (60, 20, 5, 1)),
    "roll of channels last": (lambda: LAST.roll((1, 2), (0, 1)), CHANNELS_LAST),
    "pad of channels last": (lambda: F.pad(LAST, (1, 1)), (84, 1, 21, 3)),
    "reflected channels last": (lambda: F.pad(LAST, (1, 1, 1, 1), mode="reflect"), (126, 1, 21, 3)),
    "one_hot": (lambda: F.one_hot((P > 3).long()), (24, 8, 2, 1)),
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides(name):
    result, strides = STRIDES[name]
    assert result().stride() == strides


def test_values_do_not_depend_on_the_order_in_memory():
    dense = P.contiguous()
    assert torch.equal(P + O, dense + O) and torch.equal(LAST * LAST.contiguous(), LAST.contiguous() * LAST)
    assert torch.equal(P.flip(0, 2), dense.flip(0, 2)) and torch.equal(GAPS.flip(1), GAPS.contiguous().flip(1))
    plain = LAST.contiguous()
    assert torch.equal(torch.cat([LAST, LAST * 2], -1), torch.cat([plain, plain * 2], -1))
    assert torch.equal(LAST.roll((1, 2), (0, 1)), plain.roll((1, 2), (0, 1)))
    assert torch.equal(F.pad(LAST, (1, -1, 0, 2)), F.pad(plain, (1, -1, 0, 2)))
    steps = (P % 3).transpose(0, 1)
    assert all(map(torch.equal, steps.mode(1), steps.contiguous().mode(1)))
    for descending in (False, True):
        assert all(map(torch.equal, P.sort(1, descending), dense.sort(1, descending)))


def test_gradients_through_results_in_another_order():
    x, y = P.clone().requires_grad_(), O.clone().requires_grad_()
    ((x * y).sort(0).values * O).sum().backward()
    assert x.grad.stride() == x.stride() and y.grad.stride() == y.stride()
    order = (P * O).contiguous().argsort(0).argsort(0)
    assert torch.equal(x.grad, O.gather(0, order) * O) and torch.equal(y.grad, O.gather(0, order) * P)


def test_dropout_keeps_each_element_with_its_scale():
    survivors = F.dropout(P + 1, 0.5)
    assert (
        torch.equal(survivors, torch.where(survivors != 0, (P + 1) * 2, 0.0)) and 0 < int((survivors == 0).sum()) < 60
    )
