"""Hooks on tensors and nodes, and retain_grad."""

import pytest

import numod


def leaf(*values):
    return numod.tensor(list(values), dtype=numod.float32).requires_grad_()


def test_a_hook_on_a_result_sees_its_gradient():
    x = leaf(1.0, 2.0)
    h = x * 2
    seen = []
    h.register_hook(lambda g: seen.append(g.tolist()))
    (h * h).sum().backward()
    assert seen == [[4.0, 8.0]] and x.grad.tolist() == [8.0, 16.0]


def test_a_hook_on_a_leaf_sees_the_sum_once():
    x = leaf(3.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * x + x).backward()
    assert seen == [7.0]


@pytest.mark.parametrize("on_leaf", [True, False])
def test_a_returned_gradient_replaces(on_leaf):
    x = leaf(1.0, 2.0)
    h = x * 1
    (x if on_leaf else h).register_hook(lambda g: g * 10)
    (h * 3).sum().backward()
    assert x.grad.tolist() == [30.0, 30.0]


def test_hooks_run_in_order_each_on_what_the_last_returned():
    x = leaf(1.0)
    h = x * 1
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: g * 10)
    h.backward()
    assert x.grad.item() == 20.0


def test_a_removed_hook_is_silent_and_the_others_stay():
    x = leaf(1.0)
    first = x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    first.remove()
    first.remove()
    (x * 1).backward()
    assert x.grad.item() == 10.0


def test_a_handle_is_a_context():
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 10):
        (x * 1).backward()
    (x * 1).backward()
    assert x.grad.item() == 11.0


def test_a_hook_may_remove_itself():
    x = leaf(1.0)
    calls = []

    def once(g):
        calls.append(1)
        handle.remove()

    handle = x.register_hook(once)
    for _ in range(2):
        (x * 1).backward()
    assert calls == [1]


def test_a_hook_is_not_inherited_by_views_or_results():
    x = leaf(1.0, 2.0)
    calls = []
    h = x * 1
    h.register_hook(lambda g: calls.append(g.shape))
    (h.view(2, 1) * 2).sum().backward()
    assert calls == [(2,)]


def test_a_hook_needs_a_gradient():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        numod.ones(1).register_hook(lambda g: None)


def test_a_hook_must_keep_the_shape():
    x = leaf(1.0, 2.0)
    h = x * 1
    h.register_hook(lambda g: numod.ones(3))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        h.sum().backward()


def test_a_hook_must_return_a_tensor():
    x = leaf(1.0, 2.0)
    h = x * 1
    h.register_hook(lambda g: 3)
    with pytest.raises((TypeError, RuntimeError)):
        h.sum().backward()


def test_hooks_run_without_a_graph_unless_one_is_created():
    x = leaf(2.0)
    modes = []
    x.register_hook(lambda g: modes.append(numod.is_grad_enabled()))
    (x * x).backward()
    (x * x).backward(create_graph=True)
    assert modes == [False, True]


def test_a_hook_takes_part_in_the_second_order():
    x = leaf(2.0)
    h = x * 1
    h.register_hook(lambda g: g * x)
    (g,) = numod.autograd.grad(h * 5, x, create_graph=True)
    (gg,) = numod.autograd.grad(g, x)
    assert (g.item(), gg.item()) == (10.0, 5.0)


def test_a_hook_on_an_input_of_grad_changes_what_is_returned():
    x = leaf(2.0)
    x.register_hook(lambda g: g * 10)
    (g,) = numod.autograd.grad(x * 3, x)
    assert g.item() == 30.0


def test_a_hook_on_a_result_that_is_input_of_grad():
    x = leaf(2.0)
    h = x * 1
    h.register_hook(lambda g: g * 10)
    (g,) = numod.autograd.grad(h * 3, h)
    assert g.item() == 30.0


def test_a_hook_on_the_root():
    x = leaf(2.0)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.backward()
    assert x.grad.item() == 30.0


def test_a_hook_stays_with_the_value_it_was_registered_on():
    """Registered before an in-place write, it sees the gradient of the value before."""
    x = leaf(2.0)
    h = x * 1
    seen = []
    h.register_hook(lambda g: seen.append(g.item()))
    h.mul_(5)
    h.backward()
    assert seen == [5.0] and x.grad.item() == 5.0


def test_a_hook_may_run_backward_of_another_graph():
    x, w = leaf(2.0), leaf(3.0)
    x.register_hook(lambda g: (numod.enable_grad()(lambda: w * w)()).backward())
    (x * x).backward()
    assert w.grad.item() == 6.0 and x.grad.item() == 4.0


def test_an_exception_in_a_hook_reaches_the_caller():
    x = leaf(2.0)

    def fail(g):
        raise KeyError("mine")

    x.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        (x * x).backward()
    assert numod.is_grad_enabled()


# ---- retain_grad


def test_retain_grad():
    x = leaf(1.0, 2.0)
    h = x * 2
    h.retain_grad()
    h.retain_grad()
    assert h.retains_grad
    (h * h).sum().backward()
    assert h.grad.tolist() == [4.0, 8.0] and x.grad.tolist() == [8.0, 16.0]


def test_retained_gradients_accumulate():
    x = leaf(1.0)
    h = x * 2
    h.retain_grad()
    h.backward(retain_graph=True)
    h.backward()
    assert h.grad.item() == 2.0


def test_retain_grad_of_a_leaf_does_nothing():
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * 2).backward()
    assert x.grad.item() == 2.0


def test_retain_grad_needs_a_gradient():
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        numod.ones(1).retain_grad()


def test_the_retained_gradient_is_what_hooks_leave():
    x = leaf(1.0)
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 10)
    h.backward()
    assert h.grad.item() == 10.0


def test_the_retained_gradient_follows_an_in_place_write():
    x = leaf(2.0)
    h = x * 1
    h.retain_grad()
    h.mul_(5)
    (h * 3).backward()
    assert h.grad.item() == 3.0 and x.grad.item() == 15.0


# ---- nodes


def test_nodes_have_names_and_neighbours():
    x = leaf(1.0)
    y = (x * 2) + 1
    assert y.grad_fn.name() == "AddBackward0"
    (below, number), *_ = y.grad_fn.next_functions
    assert below.name() == "MulBackward0" and number == 0
    assert below.next_functions[0][0].name().endswith("AccumulateGrad")
    assert below.next_functions[0][0].variable is x


def test_a_node_hook_sees_and_replaces_the_gradients_of_the_inputs():
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    seen = []

    def hook(grad_inputs, grad_outputs):
        seen.append((len(grad_inputs), grad_outputs[0].item()))
        return tuple(g * 10 for g in grad_inputs)

    y.grad_fn.register_hook(hook)
    y.backward()
    assert seen == [(2, 1.0)] and (x.grad.item(), w.grad.item()) == (30.0, 20.0)


def test_a_node_prehook_replaces_the_gradients_of_the_results():
    x = leaf(2.0)
    y = x * 3
    handle = y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.backward(retain_graph=True)
    assert x.grad.item() == 30.0
    handle.remove()
    y.backward()
    assert x.grad.item() == 33.0


def test_hooks_of_a_node_do_not_run_where_only_its_result_is_asked_for():
    x, seen = leaf(2.0), []
    y = x * 3
    y.register_hook(lambda g: seen.append("tensor") or g * 2)
    y.grad_fn.register_prehook(lambda grads: seen.append("before") or (grads[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
    assert numod.autograd.grad(y * 5, y)[0].item() == 10.0 and seen == ["tensor"]
    assert numod.autograd.grad(y * 5, x)[0].item() == 300.0 and seen == ["tensor", "tensor", "before", "after"]


def test_a_result_that_gets_its_gradient_runs_the_hooks_of_its_node():
    x, seen = leaf(2.0), []
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: seen.append("before") or (grads[0] * 10,))
    y.register_hook(lambda g: seen.append("tensor") or g * 2)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
    (y * 5).backward(inputs=[y, y])
    assert (y.grad.item(), x.grad, seen) == (10.0, None, ["tensor", "before", "after"])


def test_an_input_given_twice_receives_once():
    x = leaf(2.0)
    (x * 3).backward(inputs=[x, x])
    assert x.grad.item() == 3.0
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        (x * 3).backward(inputs=[leaf(1.0).detach()])


def test_a_retained_gradient_is_counted_once_where_it_is_asked_for():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    (y * 5).backward(inputs=[y])
    assert y.grad.item() == 5.0 and x.grad is None
