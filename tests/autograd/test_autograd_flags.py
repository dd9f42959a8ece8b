"""The flags of tensors: leaves and results, requires_grad, detach, data."""

import pytest

import numod


def leaf(*values):
    return numod.tensor(values[0] if len(values) == 1 else list(values), dtype=numod.float32).requires_grad_()


def test_leaves_and_results():
    x = leaf(1.0)
    y = x * 2
    assert x.is_leaf and x.grad_fn is None
    assert not y.is_leaf and y.requires_grad and y.grad_fn is not None
    assert numod.ones(1).is_leaf


def test_a_result_cannot_stop_requiring_a_gradient():
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf variables"):
        y.requires_grad = False


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_only_floating_tensors_require_gradients(dtype):
    with pytest.raises(RuntimeError, match="floating point"):
        numod.zeros(2, dtype=getattr(numod, dtype)).requires_grad_()
    with pytest.raises(RuntimeError, match="floating point"):
        numod.zeros(2, dtype=getattr(numod, dtype), requires_grad=True)


def test_integer_results_require_no_gradient():
    x = leaf(1.5, 2.5)
    for y in (x.long(), x > 1, x.argmax(), x.isnan()):
        assert not y.requires_grad and y.grad_fn is None


def test_assigned_gradients_are_checked():
    x = leaf(1.0, 2.0)
    x.grad = numod.ones(2)
    x.grad = None
    with pytest.raises(TypeError):
        x.grad = 3.0
    with pytest.raises(RuntimeError, match="size"):
        x.grad = numod.ones(3)
    with pytest.raises(RuntimeError):
        x.grad = numod.ones(2, dtype=numod.float64)


def test_detach_shares_memory_without_history():
    x = leaf(1.0, 2.0)
    y = (x * 2).detach()
    assert not y.requires_grad and y.is_leaf
    assert x.detach().data_ptr() == x.data_ptr()


def test_detach_within_a_formula_stops_the_gradient():
    x = leaf(3.0)
    (x * x.detach()).backward()
    assert x.grad.item() == 3.0


def test_detach_in_place():
    x = leaf(3.0)
    h = x * x
    h.detach_()
    assert not h.requires_grad and h.is_leaf
    h.requires_grad_()
    (h * 2).backward()
    assert h.grad.item() == 2.0 and x.grad is None


def test_detach_in_place_keeps_what_was_recorded_before():
    x = leaf(3.0)
    h = x * x
    y = h * 2
    h.detach_()
    y.backward()
    assert x.grad.item() == 12.0


def test_views_cannot_be_detached_in_place():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="detach"):
        (x * 1).view(2).detach_()


def test_a_leaf_switched_off_receives_nothing():
    x = leaf(3.0)
    y = x * x
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


def test_data_is_shared_and_without_history():
    x = leaf(1.0, 2.0)
    x.data.mul_(2)
    assert x.tolist() == [2.0, 4.0] and not x.data.requires_grad


def test_numbers_cannot_be_read_through_numpy_with_a_gradient():
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf(1.0).numpy()


def test_an_ignored_flag_of_grad_is_deprecated():
    x = numod.ones(1, requires_grad=True)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated and is ignored now"):
        assert numod.autograd.grad(x * 2, x, only_inputs=False)[0].tolist() == [2]
