"""backward() and grad(): gradients, where they are accumulated, and errors."""

import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck


def leaf(*values):
    return numod.tensor(values[0] if len(values) == 1 else list(values), dtype=numod.float32).requires_grad_()


# ---- what comes out


def test_scalar_chain():
    x = leaf(2.0)
    y = (x * x + 3 * x).exp()
    y.backward()
    assert x.grad.item() == pytest.approx(y.item() * 7, rel=1e-5)


def test_vector_needs_its_weight():
    x = leaf(1.0, 2.0, 3.0)
    y = x * x
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        y.backward()
    y.backward(numod.tensor([1.0, 10.0, 100.0]))
    assert x.grad.tolist() == [2.0, 40.0, 600.0]


def test_one_element_needs_no_weight_whatever_its_shape():
    x = leaf([[3.0]])
    (x * x).backward()
    assert x.grad.tolist() == [[6.0]]


def test_weight_of_another_shape_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * x).backward(numod.ones(3))


def test_gradients_accumulate():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_accumulation_is_in_place():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first and first.tolist() == [4.0, 8.0]


def test_several_outputs_and_their_weights():
    x = leaf(3.0)
    y, z = x * x, 5 * x
    numod.autograd.backward([y, z], [numod.tensor(10.0), None])
    assert x.grad.item() == 65.0


def test_numbers_of_outputs_and_weights_must_agree():
    x = leaf(3.0)
    with pytest.raises(RuntimeError):
        numod.autograd.backward([x * x, x * 2], [numod.tensor(1.0)])


def test_diamond():
    x = leaf(2.0)
    h = x * x
    y = (h * 3) * (h + 1)
    y.backward()
    assert x.grad.item() == pytest.approx((6 * 4 + 3) * 4)


def test_diamond_of_unequal_depth_runs_every_node_once():
    x = leaf(2.0)
    h = x * 2
    calls = []
    h.register_hook(lambda g: calls.append(g.item()))
    long = h
    for _ in range(5):
        long = long * 1
    (long + h).backward()
    assert calls == [2.0] and x.grad.item() == 4.0


def test_the_same_tensor_twice_as_input():
    x = leaf(3.0)
    (x * x).backward()
    assert x.grad.item() == 6.0
    y = leaf([[1.0, 2.0], [3.0, 4.0]])
    (y @ y).sum().backward()
    assert y.grad.tolist() == [[3.0 + 4.0, 7.0 + 4.0], [3.0 + 6.0, 7.0 + 6.0]]


def test_a_tensor_of_a_list_twice():
    x = leaf(1.0, 2.0)
    (numod.cat([x, x, x]) * numod.tensor([1.0, 2, 3, 4, 5, 6])).sum().backward()
    assert x.grad.tolist() == [9.0, 12.0]


def test_broadcast_inputs_get_summed_gradients():
    x, y, z = leaf(1.0, 2.0), leaf([[1.0], [2.0], [3.0]]), leaf(2.0)
    (x * y * z).sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]
    assert y.grad.tolist() == [[6.0], [6.0], [6.0]]
    assert z.grad.item() == 18.0 and z.grad.shape == ()


def test_gradient_has_the_dtype_of_its_tensor():
    x = leaf(1.0, 2.0)
    y = numod.tensor([3.0, 4.0], dtype=numod.float64, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype is numod.float32 and y.grad.dtype is numod.float64


def test_tensors_without_requires_grad_have_no_gradient():
    x, y = leaf(1.0, 2.0), numod.ones(2)
    (x * y).sum().backward()
    assert y.grad is None and not y.requires_grad


def test_intermediate_results_keep_no_gradient():
    x = leaf(1.0, 2.0)
    h = x * 2
    h.sum().backward()
    with pytest.warns(UserWarning, match="not a leaf"):
        assert h.grad is None


def test_backward_from_a_leaf():
    x = leaf(5.0)
    x.backward()
    assert x.grad.item() == 1.0


def test_no_graph_is_an_error():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        numod.ones(1).backward()


def test_only_the_given_inputs_receive():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 2.0 and y.grad is None


def test_given_inputs_may_be_results():
    x = leaf(3.0)
    h = x * x
    (h * h).backward(inputs=h)
    assert h.grad.item() == 18.0 and x.grad is None


def test_empty_inputs_are_refused():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * x).backward(inputs=[])


def test_empty_tensors():
    x = numod.zeros(0, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.shape == (0,)


# ---- grad()


def test_grad_leaves_the_leaves_alone():
    x, y = leaf(2.0), leaf(5.0)
    gx, gy = numod.autograd.grad(x * x * y, [x, y])
    assert (gx.item(), gy.item()) == (20.0, 4.0)
    assert x.grad is None and y.grad is None


def test_grad_of_an_intermediate_result():
    x = leaf(2.0)
    h = x * x
    y = h * h
    (gh,) = numod.autograd.grad(y, h)
    assert gh.item() == 8.0


def test_grad_stops_at_its_inputs():
    """What lies below the inputs is neither computed nor freed."""
    x = leaf(2.0)
    h = x * x
    y = h * h
    (gh,) = numod.autograd.grad(y, h)
    h.backward(gh)
    assert x.grad.item() == 32.0


def test_grad_runs_no_hooks_of_tensors_beside_the_path():
    x, y = leaf(2.0), leaf(3.0)
    calls = []
    y.register_hook(calls.append)
    numod.autograd.grad(x * y, x)
    assert calls == []


def test_grad_of_a_tensor_by_itself():
    x = leaf(2.0)
    (g,) = numod.autograd.grad(x, x)
    assert g.item() == 1.0


def test_grad_by_the_same_input_twice():
    x = leaf(2.0)
    a, b = numod.autograd.grad(x * x, [x, x])
    assert a.item() == b.item() == 4.0


def test_grad_by_a_result_and_what_it_comes_from():
    x = leaf(2.0)
    h = x * x
    gh, gx = numod.autograd.grad(h * x, [h, x])
    assert (gh.item(), gx.item()) == (2.0, 12.0)


def test_grad_weights():
    x = leaf(1.0, 2.0)
    (g,) = numod.autograd.grad(x * x, x, grad_outputs=numod.tensor([1.0, -1.0]))
    assert g.tolist() == [2.0, -4.0]


def test_unused_inputs():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match=r"Tensor at index \d appears to not have been used in the graph"):
        numod.autograd.grad(x * x, [x, y])
    gx, gy = numod.autograd.grad(x * x, [x, y], allow_unused=True)
    assert gx.item() == 2.0 and gy is None


def test_unused_inputs_materialize_as_zeros():
    x, y = leaf(1.0), leaf([1.0, 2.0])
    _, gy = numod.autograd.grad(x * x, [x, y], materialize_grads=True)
    assert gy.tolist() == [0.0, 0.0] and gy.dtype is numod.float32


def test_materialize_contradicts_refusing_unused_inputs():
    x = leaf(1.0)
    with pytest.raises(ValueError, match="allow_unused"):
        numod.autograd.grad(x * x, [x], allow_unused=False, materialize_grads=True)


def test_grad_of_what_requires_none():
    x, y = leaf(1.0), numod.ones(1)
    with pytest.raises(RuntimeError, match="does not require grad"):
        numod.autograd.grad(x * y, [y])


# ---- keeping the graph


def test_a_freed_graph_is_an_error():
    x = leaf(2.0)
    y = (x * x).exp()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_part_of_a_graph_freed_by_another_result_is_an_error():
    x = leaf(2.0)
    h = x * x
    h.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        (h * 3).backward()


def test_an_op_that_keeps_nothing_survives():
    x = leaf(2.0)
    y = x + 1
    y.backward()
    y.backward()
    assert x.grad.item() == 2.0


def test_retain_graph():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_create_graph_differentiates_again():
    x = leaf(2.0)
    (g,) = numod.autograd.grad(x * x * x, x, create_graph=True)
    (gg,) = numod.autograd.grad(g, x, create_graph=True)
    (ggg,) = numod.autograd.grad(gg, x)
    assert (g.item(), gg.item(), ggg.item()) == (12.0, 12.0, 6.0)
    assert g.requires_grad and gg.requires_grad and not ggg.requires_grad


def test_without_create_graph_gradients_have_no_history():
    x = leaf(2.0)
    (g,) = numod.autograd.grad(x * x, x)
    assert not g.requires_grad and g.grad_fn is None
    (x * x).backward()
    assert not x.grad.requires_grad


def test_backward_with_create_graph_leaves_a_differentiable_gradient():
    x = leaf(3.0)
    (x * x).backward(create_graph=True)
    penalty = x.grad * x.grad
    (g,) = numod.autograd.grad(penalty, x)
    assert x.grad.item() == 6.0 and g.item() == 24.0


def test_create_graph_accumulates_out_of_place():
    x = leaf(3.0)
    (x * x).backward(create_graph=True)
    first = x.grad
    (x * x * x).backward(create_graph=True)
    assert first.item() == 6.0 and x.grad.item() == 33.0
    (g,) = numod.autograd.grad(x.grad, x)
    assert g.item() == 2.0 + 18.0


def test_gradient_of_the_weights():
    x, v = leaf(3.0), leaf(1.0)
    (g,) = numod.autograd.grad(x * x, x, grad_outputs=v, create_graph=True)
    (gv,) = numod.autograd.grad(g, v)
    assert gv.item() == 6.0


def test_second_order_after_the_result_was_detached_in_place_is_right_or_an_error():
    x = leaf(2.0)
    h = x * x
    y = h * h
    h.detach_()
    try:
        (g,) = numod.autograd.grad(y, x, create_graph=True)
        (gg,) = numod.autograd.grad(g, x)
    except RuntimeError as error:
        assert "detach" in str(error)
    else:
        assert (g.item(), gg.item()) == (32.0, 48.0)


def test_backward_within_no_grad():
    x = leaf(2.0)
    y = x * x
    with numod.no_grad():
        y.backward()
    assert x.grad.item() == 4.0
    assert numod.is_grad_enabled()


def test_an_error_in_backward_leaves_the_mode_alone():
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError):
        y.backward()
    assert numod.is_grad_enabled()


def test_gradients_of_parts_add_up_in_one_whole() -> None:
    def combined(x: numod.Tensor) -> numod.Tensor:
        y = x * 2
        parts = [*y.unbind(1), *y.split(2), y[:, ::2], y.diagonal(), x[0], y]
        return (
            sum((part**2).sum() * k for k, part in enumerate(parts))
            + numod.cat([y[1:], y[:2]]).exp().sum()
            + numod.stack(list(x), 1)[1].sum()
        )

    x = numod.randn(4, 5, dtype=numod.float64, requires_grad=True)
    assert gradcheck(combined, (x,)) and gradgradcheck(combined, (x,))
    combined(x).backward(create_graph=True)  # where parts are added as wholes
    expected, x.grad = x.grad.detach(), None
    combined(x).backward()
    combined(x).backward()
    assert numod.allclose(x.grad, 2 * expected)


def test_reentrant_passes_may_be_deeper_than_the_stack():
    class Nested(numod.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            if ctx.depth:
                with numod.enable_grad():
                    inner = numod.ones(1, requires_grad=True)
                    Nested.apply(inner, ctx.depth - 1).sum().backward()
                g = g * inner.grad
            return g, None

    x = numod.ones(1, requires_grad=True)
    Nested.apply(x, 1000).sum().backward()
    assert x.grad.tolist() == [1.0]


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_resizing_keeps_nothing_that_a_pass_frees(mode):
    x = numod.ones(1, 1, 3, 3, requires_grad=True)
    y = numod.lerp(numod.nn.functional.interpolate(x, size=6, mode=mode), numod.ones(1), 0.5).sum()
    y.backward()
    y.backward()
    assert x.grad.sum().item() == pytest.approx(36.0)


def test_an_empty_tensor_that_cat_skips_has_an_empty_gradient():
    empty, x = numod.zeros(0, requires_grad=True), numod.ones(2, 3)
    joined = numod.cat([empty, x, empty], 1)
    assert joined.shape == (2, 3) and numod.autograd.grad(joined.sum(), empty)[0].shape == (0,)


@pytest.mark.parametrize(
    "function",
    [
        numod.unique,
        numod.unique_consecutive,
        lambda x: numod.bincount(numod.tensor([0, 1]), x),
        lambda x: numod.geqrf(x.reshape(1, 2))[0],
    ],
)
def test_ops_without_a_derivative_refuse_backward(function):
    x = numod.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="the derivative for .* is not implemented"):
        function(x).sum().backward()


def test_a_prehook_of_a_node_of_two_results_gets_both_gradients():
    seen, x = [], numod.rand(3, 3, requires_grad=True)
    variance, mean = numod.var_mean(x, 0)
    mean.grad_fn.register_prehook(lambda grads: seen.append(len(grads)))
    (variance + mean).sum().backward()
    assert seen == [2]


F, X, IMAGE = numod.nn.functional, numod.rand(4, 6), numod.rand(2, 4, 6, 6)
NODES = {  # what PyTorch 2.13's nodes give their hooks: the gradients of results, and of inputs
    "layer_norm": (lambda x: F.layer_norm(x, (6,), X[0], X[1]), X, 1, 3),
    "layer_norm alone": (lambda x: F.layer_norm(x, (6,)), X, 1, 3),
    "native_layer_norm": (lambda x: numod.native_layer_norm(x, (6,), X[0], X[1], 1e-5)[0], X, 1, 3),
    "group_norm": (lambda x: F.group_norm(x, 2), IMAGE, 3, 3),
    "native_batch_norm": (
        lambda x: numod.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0],
        IMAGE,
        1,
        3,
    ),
    "eigh": (lambda x: numod.linalg.eigh(x @ x.mT)[0], X, 2, 1),
    "max": (lambda x: x.max(1)[0], X, 1, 1),
    "sort": (lambda x: x.sort(1)[1] * 0 + x.sort(1)[0], X, 1, 2),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], IMAGE, 1, 1),
    "cross_entropy": (lambda x: F.cross_entropy(x, numod.tensor([1, 2, 0, 3])), X, 1, 1),
    "gather": (lambda x: x.gather(1, numod.tensor([[1, 2]])), X, 1, 1),
    "where": (lambda x: numod.where(X > 0.5, x, x * 2), X, 1, 2),
    "a number added": (lambda x: x + 1, X, 1, 2),
    "a number as limit": (lambda x: x.clamp(0.2, 0.7), X, 1, 1),
}


@pytest.mark.parametrize("case", NODES)
def test_hooks_of_nodes_get_the_gradients_that_pytorch_gives(case):
    function, x, results, inputs = NODES[case]
    x, seen = x.clone().requires_grad_(), []
    y = function(x)
    y.grad_fn.register_prehook(lambda grads: seen.append((len(grads), grads[0].shape)))
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: seen.append((len(grad_inputs), len(grad_outputs))))
    y.sum().backward()
    assert seen == [(results, y.shape), (inputs, results)] and len(y.grad_fn.next_functions) == inputs
    assert x.grad.isfinite().all()


def test_a_hook_of_a_node_replaces_the_gradients_of_its_inputs():
    x, index = X.clone().requires_grad_(), numod.tensor([[1, 2]])
    y = x.gather(1, index)
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_inputs[0] * 3,))
    y.sum().backward()
    assert x.grad[0].tolist() == [0.0, 3.0, 3.0, 0.0, 0.0, 0.0]
    y = F.rms_norm(x, (6,), X[0])
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (None,) * 5)
    with pytest.raises(RuntimeError, match="an incorrect number of values"):
        y.sum().backward()


def test_gradients_of_another_dtype():
    x = numod.ones(2, requires_grad=True)
    x.grad_dtype = numod.float64
    (x * 2).sum().backward()
    assert x.grad.dtype is x.grad_dtype is numod.float64
    with pytest.raises(RuntimeError, match="already a gradient"):
        x.grad_dtype = numod.float32
