"""The recorded graph: hooks on saved tensors, gradient edges, hooks on several gradients, versions."""

import threading

import pytest

import numod as torch
from numod.autograd import graph
from numod.utils.checkpoint import checkpoint


class Square(torch.autograd.Function):
    """Keeps an input, a result, and nothing."""

    @staticmethod
    def forward(ctx, x):
        result = x * x
        ctx.save_for_backward(x, result, None)
        return result

    @staticmethod
    def backward(ctx, gradient):
        x, result, nothing = ctx.saved_tensors
        assert nothing is None
        return 2 * x * gradient + 0 * result * gradient


def leaves():
    return torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([0.5, 0.25], requires_grad=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: (a * b).exp(),
        lambda a, b: Square.apply(a) * b,
        lambda a, b: checkpoint(lambda x: Square.apply(x * b), a),
    ],
)
def test_hooks_hand_over_what_is_kept_and_gradients_of_gradients_remain(function):
    calls = []

    def pack(tensor):
        calls.append("pack")
        return tensor.numpy().copy()

    def unpack(array):
        calls.append("unpack")
        return torch.from_numpy(array)

    a, b = leaves()
    expected = torch.autograd.grad(function(a, b).sum(), (a, b), create_graph=True)
    second = torch.autograd.grad(expected[0].sum(), (a, b))
    with graph.saved_tensors_hooks(pack, unpack):
        y = function(a, b).sum()
    packed = len(calls)
    assert packed and "unpack" not in calls[:packed]
    actual = torch.autograd.grad(y, (a, b), create_graph=True)
    assert "unpack" in calls
    for gradient, wanted in zip((*actual, *torch.autograd.grad(actual[0].sum(), (a, b))), (*expected, *second)):
        torch.testing.assert_close(gradient, wanted)


def test_invalid_hooks_are_refused():
    a, b = leaves()
    with graph.saved_tensors_hooks(lambda tensor: tensor, lambda packed: 3):
        y = (a * b).sum()
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor"):
        y.backward()
    with (
        graph.saved_tensors_hooks(lambda tensor: tensor.mul_(2), lambda packed: packed),
        pytest.raises(RuntimeError, match="pack hook is modifying its input in place"),
    ):
        a.clone() * b
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.save_on_cpu(),
    ):
        pass


def test_freed_and_kept_on_the_host():
    a, b = leaves()
    with graph.save_on_cpu():
        y = (a * b).sum()
    y.backward()
    assert a.grad.tolist() == b.tolist()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_saved_values_may_be_written_to_where_allowed():
    a, _ = leaves()
    with graph.allow_mutation_on_saved_tensors() as context:
        assert context is not None
        x = a.clone()
        y = (x * x).sum()
        x.zero_()
    y.backward()
    assert a.grad.tolist() == [4.0, 6.0]


def test_gradient_edges():
    a, _ = leaves()
    middle = a * 2
    edge, leaf = graph.get_gradient_edge(middle), graph.get_gradient_edge(a)
    out = (middle**2).sum()
    assert isinstance(middle.grad_fn, graph.Node) and edge.node is middle.grad_fn and edge.output_nr == 0
    assert [gradient.tolist() for gradient in torch.autograd.grad(out, (edge, leaf), retain_graph=True)] == [
        [8.0, 12.0],
        [16.0, 24.0],
    ]
    assert torch.autograd.grad(edge, a, torch.ones(2))[0].tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(torch.ones(1))


def test_a_hook_on_several_gradients():
    tensors, calls = [torch.ones(1, requires_grad=True) for _ in range(3)], []
    handles = [
        graph.register_multi_grad_hook(
            tensors, lambda gradients: calls.append([tensor and tensor.item() for tensor in gradients])
        ),
        graph.register_multi_grad_hook(tensors, lambda first: calls.append(first.item()), mode="any"),
    ]
    (tensors[0] * 2 + tensors[1]).sum().backward()
    assert len(calls) == 2 and [2.0, 1.0, None] in calls
    sum(tensors).sum().backward()
    assert [1.0, 1.0, 1.0] in calls and len(calls) == 4
    for handle in handles:
        handle.remove()
    sum(tensors).sum().backward()
    assert len(calls) == 4
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook(tensors, print, mode="some")


def test_a_version_that_was_raised_is_noticed():
    a, b = leaves()
    y = (a * b).sum()
    graph.increment_version([b])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_hooks_on_saved_tensors_are_their_threads_own():
    a, b = leaves()
    packed, others = [], []
    with graph.saved_tensors_hooks(lambda tensor: packed.append(tensor) or tensor, lambda packed_tensor: packed_tensor):
        thread = threading.Thread(target=lambda: others.append((a * b).sum()))
        thread.start()
        thread.join()
        assert not packed
        (a * b).sum().backward()
    assert len(packed) == 2
    others[0].backward()
    assert a.grad.tolist() == [1.0, 0.5]
