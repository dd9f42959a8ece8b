"""The recorded graph at its ends: `next_functions` of leaves, PyTorch's node names, saved values, anomaly messages."""

import warnings

import numpy as np
import pytest

import numod
from numod.autograd import Function, detect_anomaly, grad
from numod.autograd.graph import get_gradient_edge


def leaf(*values):
    return numod.tensor(list(values), dtype=numod.float32).requires_grad_()


def test_hooks_at_the_end_of_a_graph():
    x, seen = leaf(1.0, 1.0), []
    end = x.clone().grad_fn.next_functions[0][0]
    assert end is (x * 1).grad_fn.next_functions[0][0] and end.variable is x
    end.register_hook(lambda inputs, grads: seen.append((inputs, grads[0].tolist(), x.grad.tolist())))
    x.register_hook(lambda g: g + 1)
    with end.register_prehook(lambda grads: (grads[0] * 3,)):
        x.sum().backward()
    (x * 2).sum().backward()
    assert seen == [((), [6.0, 6.0], [6.0, 6.0]), ((), [3.0, 3.0], [9.0, 9.0])]


def test_hooks_after_a_gradient_return_nothing_or_a_tensor():
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda tensor: tensor.sub_(tensor.grad))
    x.sum().backward()
    assert x.tolist() == [0.0]
    x.register_post_accumulate_grad_hook(lambda parameter: 1)
    with pytest.raises(TypeError, match="hook returned 'int'"):
        x.sum().backward()


def test_backward_into_edges():
    x = leaf(1.0)
    y = x * 3
    numod.autograd.backward((y * 2).sum(), inputs=[get_gradient_edge(x), get_gradient_edge(y)])
    assert x.grad.item() == 6.0


def test_grad_of_nothing_and_zeros_that_can_be_differentiated():
    x, a = leaf(0.5), leaf(1.0)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        grad(x.sum(), ())
    (first,) = grad((x * a).sum(), x, create_graph=True)
    (second,) = grad(first, x, create_graph=True, allow_unused=True, materialize_grads=True)
    assert second.item() == 0.0 and grad(second, x, materialize_grads=True)[0].item() == 0.0


def test_names_are_those_of_pytorch():
    x = numod.ones(2, 2).requires_grad_()
    F = numod.nn.functional
    names = [
        result.grad_fn.name()
        for result in (
            x.clone(),
            x.double(),
            x @ x,
            F.linear(x, x, x[0]),
            F.linear(x, x),
            F.mse_loss(x, x * 2),
            x.square(),
            x.max(),
        )
    ]
    assert names == [f"{name}Backward0" for name in ("Clone", "ToCopy", "Mm", "Addmm", "Mm", "MseLoss", "Pow", "Max")]
    names = [
        result.grad_fn.name()
        for result in (
            F.batch_norm(x, None, None, training=True),
            F.max_pool2d(x[None], 2),
            x.t(),
            x.tril(),
            x.triu(),
            x.topk(1)[0],
        )
    ]
    assert names == [
        f"{name}Backward0" for name in ("NativeBatchNorm", "MaxPool2DWithIndices", "T", "Tril", "Triu", "Topk")
    ]
    names = [
        result.grad_fn.name()
        for result in (F.pad(x, (1, 1)), numod.linalg.svd(x)[1], numod.linalg.inv(x + numod.eye(2)), x[0] @ x[1])
    ]
    assert names == [f"{name}Backward0" for name in ("ConstantPadNd", "LinalgSvd", "LinalgInvEx", "Dot")]
    node = (x + 1).relu().grad_fn
    assert [type(node_).__name__ for node_ in (node, node.next_functions[0][0],
        node.next_functions[0][0].next_functions[0][0])] == [
        "ReluBackward0", "AddBackward0", "AccumulateGrad",
    ]  # fmt: skip


def test_saved_values_of_nodes_are_readable():
    x = leaf(1.0, 2.0)
    assert (x * x).grad_fn._saved_other is x and np.allclose(x.exp().grad_fn._saved_result.tolist(), np.exp([1.0, 2.0]))
    node = (x + 1).grad_fn
    node.metadata["note"] = 1
    assert node.metadata == {"note": 1}
    with pytest.raises(AttributeError, match="_saved_self"):
        assert node._saved_self


def test_the_context_is_seen_on_the_node():
    class Scaled(Function):
        @staticmethod
        def forward(x, by=3.0):
            return x * by

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.by = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def vjp(ctx, g):
            return g * ctx.by, None

    x = leaf(1.0, 2.0)
    y = Scaled.apply(x)
    assert y.grad_fn.by == 3.0 and y.grad_fn.saved_tensors[0] is x
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_function_has_one_gradient():
    class Both(Function):
        forward = staticmethod(lambda ctx, x: x * 2)
        backward = staticmethod(lambda ctx, g: g)
        vjp = staticmethod(lambda ctx, g: g)

    with pytest.raises(RuntimeError, match="'backward' and 'vjp'"):
        Both.apply(leaf(1.0)).sum().backward()


class _AddInto(Function):
    @staticmethod
    def forward(ctx, a, b):
        a.add_(b)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        return g * 2, g * 3


def test_a_function_that_writes_over_a_view():
    a, b = leaf(1.0, 1.0), leaf(1.0, 1.0)
    base = a.clone()
    (_AddInto.apply(base.view(2), b).sum() + base.sum()).backward()
    assert base.tolist() == [2.0, 2.0] and a.grad.tolist() == [4.0, 4.0] and b.grad.tolist() == [6.0, 6.0]


def test_each_result_keeps_its_own_gradient_when_one_is_written_over():
    x = numod.rand(3, 3).requires_grad_()
    ordered = x.sort(0)[0]
    first, second = ordered[0], ordered[1]
    first.retain_grad(), second.retain_grad()
    second.mul_(2)
    (first * 3 + second).sum().backward()
    assert first.grad.tolist() == [3.0] * 3 and second.grad.tolist() == [1.0] * 3


def test_a_gradient_can_be_deleted():
    x = leaf(1.0)
    x.sum().backward()
    del x.grad
    assert x.grad is None and not x._is_view() and x[:1]._is_view()


def test_anomaly_detection_tells_the_line_of_what_was_written_over():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with detect_anomaly(), pytest.raises(RuntimeError, match="modified by an inplace operation"):
            x = leaf(1.0) + 1
            y = x**2
            x += 1
            y.sum().backward()
    assert "Error detected in PowBackward0. Traceback of forward call" in str(caught[1].message) and "y = x**2" in str(
        caught[1].message
    )


def test_leaves_of_inference_mode_and_arrays_without_recording():
    with numod.inference_mode():
        x = numod.ones(2, requires_grad=True)
        assert x.requires_grad and not (x * 2).requires_grad
    with numod.no_grad():
        assert leaf(1.0).numpy().tolist() == [1.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf(1.0).numpy()
