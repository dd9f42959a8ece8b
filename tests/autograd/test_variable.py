"""Variable, and gradients for a batch of vectors."""

from __future__ import annotations

import pytest

import numod as torch
from numod.autograd import Variable


X, Y = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.25])


def test_batched_gradients_and_variables() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    (rows,) = torch.autograd.grad(w * w, w, torch.eye(2), is_grads_batched=True, only_inputs=True)
    assert rows.tolist() == [[2, 0], [0, 4]]
    assert (
        isinstance(w, Variable)
        and isinstance(Variable(w), torch.Tensor)
        and Variable(X, requires_grad=True).requires_grad
    )
    with pytest.raises(TypeError):
        Variable([1, 2])
