"""autograd.Function: gradients that the user writes."""

import pytest

import numod
from numod.autograd import Function


def leaf(*values):
    return numod.tensor(list(values), dtype=numod.float32).requires_grad_()


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


def test_forward_and_backward():
    x, y = leaf(2.0), leaf(3.0)
    z = Product.apply(x, y)
    assert z.item() == 6.0 and z.requires_grad and z.grad_fn.name() == "ProductBackward"
    z.backward()
    assert (x.grad.item(), y.grad.item()) == (3.0, 2.0)


def test_without_gradients_nothing_is_recorded():
    assert Product.apply(numod.ones(2), numod.ones(2)).grad_fn is None
    with numod.no_grad():
        assert not Product.apply(leaf(1.0), leaf(2.0)).requires_grad


def test_forward_runs_without_recording():
    modes = []

    class Watch(Function):
        @staticmethod
        def forward(ctx, x):
            modes.append(numod.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            modes.append(numod.is_grad_enabled())
            return g * 2

    x = leaf(1.0)
    Watch.apply(x).backward()
    Watch.apply(x).backward(create_graph=True)
    assert modes == [False, False, False, True]


def test_needs_input_grad():
    results = []

    class Ask(Function):
        @staticmethod
        def forward(ctx, x, y, number):
            results.append(ctx.needs_input_grad)
            return x + y

        @staticmethod
        def backward(ctx, g):
            results.append(ctx.needs_input_grad)
            return g, None, None

    Ask.apply(leaf(1.0), numod.ones(1), 3).backward()
    assert results[-1] == (True, False, False)


def test_arguments_that_are_no_tensors_and_attributes_on_ctx():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, note=None):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None

    x = leaf(1.0, 2.0)
    Scale.apply(x, 5.0, "text").sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_several_results_and_zeros_for_the_unused():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a.tolist(), b.tolist()))
            return a * 2 + b * 3

    seen = []
    x = leaf(1.0, 1.0)
    first, second = Two.apply(x)
    second.sum().backward()
    assert seen == [([0.0, 0.0], [1.0, 1.0])] and x.grad.tolist() == [3.0, 3.0]


def test_none_for_the_unused_if_asked():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            assert a is None
            return b * 3

    x = leaf(1.0)
    Two.apply(x)[1].backward()
    assert x.grad.item() == 3.0


def test_results_that_are_no_tensors():
    class WithNumber(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "text"

        @staticmethod
        def backward(ctx, g, nothing):
            return g * 2

    x = leaf(1.0)
    y, text = WithNumber.apply(x)
    y.backward()
    assert text == "text" and x.grad.item() == 2.0


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_gradients(count):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return (g,) * count if count != 1 else g

    z = Wrong.apply(leaf(1.0), leaf(2.0))
    with pytest.raises(RuntimeError, match=rf"incorrect number of gradients \(expected 2, got {count}\)"):
        z.backward()


def test_too_many_gradients_are_fine_if_they_are_none():
    class Extra(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    x = leaf(1.0)
    Extra.apply(x).backward()
    assert x.grad.item() == 1.0


def test_a_gradient_of_another_shape_is_refused():
    class Broadcast(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return numod.ones(3)

    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError):
        Broadcast.apply(x).sum().backward()


def test_a_gradient_that_is_no_tensor_is_refused():
    class Number(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return 3.0

    with pytest.raises((RuntimeError, TypeError)):
        Number.apply(leaf(1.0)).backward()


def test_no_gradient_where_none_is_returned():
    class Nothing(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return None, g

    x, y = leaf(1.0), leaf(1.0)
    Nothing.apply(x, y).backward()
    assert x.grad is None and y.grad.item() == 1.0


def test_double_backward():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = leaf(2.0)
    (g,) = numod.autograd.grad(Cube.apply(x), x, create_graph=True)
    (gg,) = numod.autograd.grad(g, x)
    assert (g.item(), gg.item()) == (12.0, 12.0)


def test_double_backward_through_a_saved_result():
    class Exponential(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = leaf(0.5)
    (g,) = numod.autograd.grad(Exponential.apply(x), x, create_graph=True)
    (gg,) = numod.autograd.grad(g, x)
    assert gg.item() == pytest.approx(g.item()) == pytest.approx(1.6487213)


def test_gradcheck_of_a_function():
    x = numod.tensor([0.5, 2.0], dtype=numod.float64, requires_grad=True)
    y = numod.tensor([1.5, -1.0], dtype=numod.float64, requires_grad=True)
    assert numod.autograd.gradcheck(Product.apply, (x, y))
    assert numod.autograd.gradgradcheck(Product.apply, (x, y))


def test_gradcheck_finds_a_wrong_gradient():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = numod.tensor([0.5, 2.0], dtype=numod.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        numod.autograd.gradcheck(Wrong.apply, (x,))
    assert numod.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False) is False


def test_saved_tensors_are_freed():
    x, y = leaf(2.0), leaf(3.0)
    z = Product.apply(x, y)
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


def test_saved_none():
    class Optional(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return g * 2

    x = leaf(1.0)
    Optional.apply(x).backward()
    assert x.grad.item() == 2.0


def test_a_write_to_a_saved_tensor_is_noticed():
    x, y = leaf(2.0), leaf(3.0)
    h = x * 1
    z = Product.apply(h, y)
    h.add_(1)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        z.backward()


class DoubleInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_mark_dirty():
    x = leaf(1.0, 2.0)
    h = x * 1
    y = DoubleInPlace.apply(h)
    assert y is h and h.tolist() == [2.0, 4.0]
    (h * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_leaf_cannot_be_dirty():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        DoubleInPlace.apply(leaf(1.0))


def test_mark_non_differentiable():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            return x.abs(), sign

        @staticmethod
        def backward(ctx, g, nothing):
            return g

    x = leaf(1.0, -2.0)
    size, sign = Split.apply(x)
    assert size.requires_grad and not sign.requires_grad
    (size * sign).sum().backward()
    assert x.grad.tolist() == [1.0, -1.0]


def test_an_input_returned_as_it_is_becomes_another_tensor():
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = leaf(1.0, 2.0)
    y = Reverse.apply(x)
    assert y is not x and x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [-1.0, -1.0]


def test_a_result_that_is_a_view_of_an_input():
    class Flatten(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g.view(ctx.shape) * 10

    x = numod.ones(2, 2, requires_grad=True)
    (Flatten.apply(x * 1) * 2).sum().backward()
    assert x.grad.tolist() == [[20.0, 20.0], [20.0, 20.0]]


def test_setup_context():
    class Square(Function):
        @staticmethod
        def forward(x, power):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.power = inputs
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx, g):
            x, output = ctx.saved_tensors
            assert output.tolist() == (x * x).tolist() and ctx.power == 2
            return g * 2 * x, None

    x = leaf(3.0)
    Square.apply(x, 2).backward()
    assert x.grad.item() == 6.0


def test_missing_methods():
    class Empty(Function):
        pass

    class OneWay(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError):
        Empty.apply(leaf(1.0))
    with pytest.raises((NotImplementedError, RuntimeError)):
        OneWay.apply(leaf(1.0)).backward()


def test_a_function_within_a_function():
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            with numod.enable_grad():
                inner = x.detach().requires_grad_()
                result = Product.apply(inner, inner)
            ctx.inner, ctx.result = inner, result
            return result.detach()

        @staticmethod
        def backward(ctx, g):
            with numod.enable_grad():
                return numod.autograd.grad(ctx.result, ctx.inner, g)[0]

    x = leaf(3.0)
    Outer.apply(x).backward()
    assert x.grad.item() == 6.0


def test_a_backward_that_may_not_be_differentiated() -> None:
    class Double(numod.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
            return x * 2

        @staticmethod
        @numod.autograd.function.once_differentiable
        def backward(ctx: object, gradient: numod.Tensor) -> numod.Tensor:
            return gradient * 2

    x = numod.ones(2, requires_grad=True)
    (first,) = numod.autograd.grad(Double.apply(x).pow(2).sum(), x, create_graph=True)
    assert first.tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_functions_that_derive_from_inplace_function():
    class Rounded(numod.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x, inplace=False):
            if inplace:
                ctx.mark_dirty(x)
            return (x if inplace else x.clone()).round_()

        @staticmethod
        def backward(ctx, g):
            return g, None

    x = numod.tensor([0.4, 1.6], requires_grad=True)
    y = Rounded.apply(x * 1, True)
    y.sum().backward()
    assert y.tolist() == [0, 2] and x.grad.tolist() == [1, 1]


def test_gradcheck_compares_functions_that_record_nothing_with_zero():
    check, x = numod.autograd.gradcheck, numod.ones(2, dtype=numod.float64, requires_grad=True)
    assert not check(lambda x: x.detach() * 2, x, raise_exception=False)
    assert check(lambda x: numod.ones_like(x), x) and check(lambda x: (x.detach() * 3, x * 2), x)


def test_the_node_of_a_function_leads_to_its_tensors_alone():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, factor, x, y):
            return factor * x + y

        @staticmethod
        def backward(ctx, g):
            return None, g, None

    node = Scaled.apply(3, numod.ones(2, requires_grad=True), numod.ones(2)).grad_fn
    assert [next_node and next_node.name() for next_node, _ in node.next_functions] == [
        "torch::autograd::AccumulateGrad",
        None,
    ]


def test_dirty_tensors_are_returned_inputs():
    class Marking(Function):
        @staticmethod
        def forward(ctx, x, what):
            ctx.mark_dirty(*what(x))
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2, None

    x = leaf(1.0) * 1
    with pytest.raises(RuntimeError, match="not returned as output"):
        Marking.apply(x, lambda x: [x])
    with pytest.raises(RuntimeError, match="can only accept variables"):
        Marking.apply(x, lambda x: [3])
    with pytest.warns(UserWarning, match="not an input"):
        assert Marking.apply(x, lambda x: [x + 1]).item() == 2.0


def test_gradients_of_real_inputs_are_real():
    class Turned(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 1j

    with pytest.raises(RuntimeError, match=r"return its \.real"):
        Turned.apply(leaf(1.0)).backward()
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        (leaf(1.0) * 2).backward(numod.tensor(1j))


def test_gradcheck_warns_of_low_precision():
    x = numod.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision floating point"):
        assert numod.autograd.gradcheck(lambda x: x * 2, x, eps=1e-2, atol=1e-2)


def test_an_instance_is_not_called() -> None:
    class Old(Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
            return x

    with pytest.raises(RuntimeError, match=r"Legacy autograd function .* call Old\.apply\(\.\.\.\)"):
        Old()(numod.ones(1))
