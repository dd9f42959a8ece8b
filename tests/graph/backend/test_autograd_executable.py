"""Compiled functions with backward passes, within `func` transforms and with double backward."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import pytest
from pairs import batch, compile, equal, net
from selection import diagonals

import numod
from numod import nn
from numod.nn import functional as F


def test_functional_calls_and_gradients_as_functions() -> None:
    model = net()
    x, y = batch(1)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}  # the memory of the module's own

    def loss(weights: dict, x: numod.Tensor) -> numod.Tensor:
        return F.cross_entropy(numod.func.functional_call(model, weights, (x,)), y)

    def descend(weights: dict, x: numod.Tensor) -> dict:
        slopes = numod.func.grad(loss)(weights, x)
        return {name: weight - 0.1 * slopes[name] for name, weight in weights.items()}

    for function in (loss, numod.func.grad(loss), numod.func.value_and_grad(loss), descend):
        compiled = compile(function)
        for parameters in (weights, weights, {name: weight.clone() for name, weight in weights.items()}, weights):
            assert equal(compiled(parameters, x), function(parameters, x))
        assert compiled.recorded == 2


def test_gradients_of_gradients_as_functions() -> None:
    for function in (
        numod.func.grad(lambda x: numod.func.grad(lambda x: (x**3).sum())(x).sum()),
        numod.func.hessian(lambda x: (x**3).sum()),
    ):
        compiled = compile(function)
        for _ in range(3):
            assert equal(compiled(numod.arange(3.0)), function(numod.arange(3.0)))


def test_an_argument_that_is_also_reached_is_the_same_memory_at_every_call() -> None:
    weight = numod.randn(3)
    function = lambda x: x * 2 + weight  # noqa: E731
    compiled = compile(function)
    for x in (weight, weight, numod.randn(3), weight, weight.view(3), numod.randn(3)):
        assert equal(compiled(x), function(x))


def test_gradients_through_a_compiled_function_can_be_differentiated() -> None:
    weight = numod.randn(3, requires_grad=True)
    x = numod.randn(3, requires_grad=True)
    function = lambda x: ((x * weight).tanh().sum(), weight * 2)  # noqa: E731
    compiled = compile(function)
    for _ in range(3):
        results = []
        for variant in (function, compiled):
            value, other = variant(x * 1)
            slopes = numod.autograd.grad(value + other.sum(), (x, weight), create_graph=True)
            results.append((slopes, numod.autograd.grad((slopes[0] * slopes[1]).sum(), (x, weight))))
        assert equal(*results)
    drawing = compile(lambda x: F.dropout(x * weight, 0.5).sum())
    drawing(x)
    with pytest.raises(RuntimeError, match="create_graph=True"):
        numod.autograd.grad(drawing(x), weight, create_graph=True)


def test_a_compiled_module_is_a_module() -> None:
    model = net()
    compiled = compile(model)
    x = batch(1)[0]
    expected = model(x)
    assert (
        isinstance(compiled, nn.Sequential)
        and repr(compiled) == repr(model)
        and list(compiled.state_dict()) == list(model.state_dict())
    )
    assert equal(compiled(x), expected) and equal(compiled(x), expected) and compiled[0].weight is model[0].weight
    twin = copy.deepcopy(compiled)
    assert twin[0].weight is not model[0].weight and equal(twin(x), expected) and equal(twin(x), expected)
    again = pickle.loads(pickle.dumps(compiled))
    assert equal(again(x), expected) and equal(again(x), expected)
    file = io.BytesIO()
    numod.save(compiled.state_dict(), file)
    file.seek(0)
    compiled.load_state_dict(numod.load(file))
    with numod.no_grad():
        twin[0].weight.zero_()
    assert equal(compiled(x), expected) and not equal(twin(x), expected)


def test_nested_compilation() -> None:
    inner = compile(net())
    outer = compile(lambda x: inner(x) * 2)
    x = batch(1)[0]
    for _ in range(3):
        assert equal(outer(x), inner(x) * 2)


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[1:],
        lambda x: x.view(3, 1),
        lambda x: (x.sum(), x[::2])[1],
        lambda x: x,
        lambda x: x.detach()[1:],
        lambda x: x[1:].detach(),
    ],
)
@pytest.mark.parametrize("linked", [True, False])
def test_views_of_arguments_are_views_for_the_tape(part: Callable, linked: bool) -> None:
    def run(wrap: Callable) -> list:
        function, weight, outcomes = wrap(part), numod.ones(3, requires_grad=True), []
        for k in range(3):
            whole = (weight * (k + 1)).expand(2, 3).clone()
            for x in (weight * (k + 1), whole[1], numod.ones(3)):
                view = function(x)
                view.mul_(weight[0] + 4)
                outcomes += [
                    x.requires_grad,
                    x.detach().clone(),
                    view.shape,
                    numod.autograd.grad((x * x).sum() + weight.sum(), weight)[0],
                ]
        return outcomes

    assert equal(
        run(lambda function: function), run(lambda function: numod.compile(function, options={"linked": linked}))
    )


@pytest.mark.filterwarnings("ignore:compile")
def test_results_that_require_gradients_do_so_under_hooks_of_saved_tensors_and_as_leaves() -> None:
    x = numod.ones(3, requires_grad=True)

    def creates_leaf(x: numod.Tensor) -> numod.Tensor:
        with numod.autograd.graph.save_on_cpu():
            return (x * 2).sin()

    def leaf(x: numod.Tensor) -> tuple:
        leaf = numod.ones(3, requires_grad=True)
        return leaf, leaf * x

    for function in (creates_leaf, lambda x: (x * 2).sin()):
        compiled = numod.compile(function)
        for _ in range(3):
            with numod.autograd.graph.save_on_cpu():
                result = compiled(x)
            x.grad = None
            result.sum().backward()
            assert numod.allclose(x.grad, 2 * (x.detach() * 2).cos())
    compiled = numod.compile(leaf)
    for _ in range(3):
        leaf, result = compiled(x)
        result.sum().backward()
        assert numod.equal(leaf.grad, x)


def test_results_whose_gradients_cannot_be_computed_are_given_eagerly() -> None:
    norm, x = numod.nn.BatchNorm1d(3), numod.arange(12.0).reshape(4, 3)
    compiled = numod.compile(lambda x: norm.eval()(x) + norm.train()(x))
    with pytest.warns(UserWarning, match="gradients of the results cannot be computed"):
        assert compiled(x).shape == (4, 3)


def _hidden(wrap: Callable) -> tuple[numod.Tensor, Callable]:
    weight = numod.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def function(x: numod.Tensor) -> tuple[numod.Tensor, numod.Tensor]:
        hidden = weight * x
        return hidden, (hidden * hidden).sum()

    function = wrap(function)
    for _ in range(2):
        function(X)
    return weight, function


X = numod.tensor([2.0, -1.0, 0.5])


def test_hooks_on_a_result_that_another_one_was_computed_of() -> None:
    def run(wrap: Callable) -> list:
        weight, function = _hidden(wrap)
        seen = []
        for k in range(3):
            hidden, loss = function(X * (k + 1))
            before = hidden * 3
            hidden.register_hook(lambda gradient, seen=seen: seen.append(gradient.clone()) or gradient * 2)
            hidden.retain_grad()
            (loss + before.sum() + (hidden * 5).sum()).backward(retain_graph=True)
            loss.backward()
            seen += [hidden.grad.clone(), weight.grad.clone()]
        return seen

    assert equal(run(lambda function: function), run(compile))


def test_the_gradient_of_a_result_that_another_one_was_computed_of() -> None:
    def run(wrap: Callable) -> list:
        weight, function = _hidden(wrap)
        hidden, loss = function(X)
        outcomes = [*numod.autograd.grad(loss * 2, [hidden, weight])]
        hidden, loss = function(X)
        loss.backward(inputs=[hidden])
        outcomes += [hidden.grad, weight.grad is None]
        hidden, loss = function(X)
        (slope,) = numod.autograd.grad(loss, hidden, create_graph=True)
        return [*outcomes, *numod.autograd.grad(slope.sum(), weight)]

    assert equal(run(lambda function: function), run(compile))


def test_a_hook_on_such_a_result_of_a_function_that_draws_is_refused() -> None:
    weight = numod.ones(3, requires_grad=True)
    compiled = compile(lambda x: (hidden := F.dropout(weight * x), hidden.sum()))
    for _ in range(2):
        hidden, total = compiled(X)
    with pytest.raises(RuntimeError, match=r"a hook.*draws random numbers, writes.*uncompiled"):
        hidden.register_hook(lambda gradient: gradient)
    total.backward()
    assert equal(weight.grad, hidden.detach())


def test_parameters_that_the_used_result_was_not_computed_of_get_no_gradient() -> None:
    def run(wrap: Callable) -> list:
        first, second = (numod.ones(3, requires_grad=True) for _ in range(2))
        function, outcomes = wrap(lambda x: (first * x, second * x, (first * second).sum())), []
        for k in range(6):
            first.grad = second.grad = None
            function(X)[k % 3].sum().backward()
            outcomes += [first.grad, second.grad]
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def test_arguments_that_were_computed_of_others() -> None:
    def run(wrap: Callable) -> list:
        weight = numod.tensor([1.0, 2.0, 3.0], requires_grad=True)
        mixed = wrap(lambda a, b, c: ((a * b * c).sum(), a.sin() * b))
        outcomes = []
        for k in range(6):
            weight.grad = None
            first = weight * X * (k + 1)
            parts = numod.stack([first.exp(), first * 2]).unbind()
            total, product = mixed(first, parts[0], parts[1] if k % 2 else weight)
            (total + product.sum() * parts[0].sum()).backward()
            outcomes += [weight.grad.clone()]
        (slope,) = numod.autograd.grad(mixed(first := weight * 2, first * first, weight)[0], weight, create_graph=True)
        return [*outcomes, slope.detach(), *numod.autograd.grad(slope.sum(), weight)]

    assert equal(run(lambda function: function), run(compile))


def test_such_results_of_functions_that_draw_are_arguments_of_others() -> None:
    def run(wrap: Callable) -> list:
        numod.manual_seed(3)
        weight, norm, outcomes = numod.ones(4, 3, requires_grad=True), nn.BatchNorm1d(3), []
        first = wrap(lambda x: (hidden := F.dropout(weight * x), norm(hidden).exp()))
        second = wrap(lambda hidden, scaled: ((hidden * scaled).sum(), hidden.sin()))
        for k in range(6):
            weight.grad = None
            total, product = second(*first(X * (k + 1)))
            (total + product.sum()).backward()
            outcomes += [weight.grad.clone(), norm.running_mean.clone()]
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def test_results_beside_the_used_one_whose_derivative_is_infinite() -> None:
    def run(wrap: Callable) -> list:
        weight, outcomes = numod.tensor([0.0, 1.0, 4.0], requires_grad=True), []
        function = wrap(lambda x: ((weight * x).sum(), weight.sqrt(), weight * 2, weight.norm() * 0))
        for k in range(5):
            weight.grad = None
            function(X)[0 if k != 2 else 2].sum().backward()
            outcomes.append(weight.grad.clone())
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def test_an_argument_that_is_returned_keeps_its_history() -> None:
    def run(wrap: Callable) -> list:
        leaf, outcomes = numod.ones(3, requires_grad=True), []
        function = wrap(lambda x: (x, (x * X).sum()))
        for k in range(4):
            leaf.grad, hidden = None, leaf * 2
            history = hidden.grad_fn
            first, total = function(hidden)
            outcomes.append(first is hidden and hidden.grad_fn is history)
            first.register_hook(lambda gradient: gradient * 5)
            (total if k % 2 else total + first.sum()).backward()
            outcomes.append(leaf.grad.clone())
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def _errors(action: Callable) -> object:
    try:
        return action()
    except RuntimeError as error:
        return type(error)


_RETURNED: dict[str, Callable] = {  # two results of (4,) or of a part, of an argument and a weight
    "a result and a view of it": lambda x, w: (hidden := x * w, hidden[1:]),
    "two views of what is not returned": lambda x, w: ((hidden := x * w)[:2], hidden[1:]),
    "parts": lambda x, w: (x * w).view(2, 2).unbind(),
    "the same elements": lambda x, w: (hidden := x * w, hidden.view_as(hidden)),
    "a view from before a write": lambda x, w: ((hidden := x * w), hidden[1:], hidden.mul_(2))[:2],
    "an argument and a view of it": lambda x, w: (x, x[1:]),
    "a view of an argument and what was computed of it": lambda x, w: (part := x[1:], part * w[1:]),
    "a view of the weight and what was computed of it": lambda x, w: (part := w[1:], part * x[1:]),
    "views of a view of an argument": lambda x, w: ((part := x[1:])[1:], part[:2]),
    "a view without a history": lambda x, w: (x * w, numod.no_grad()(lambda: x[1:])()),
}
_DONE: dict[str, Callable] = {
    "hook": lambda a, b: [
        None for result in (a, b) if result.requires_grad and result.register_hook(lambda gradient: gradient * 3)
    ],
    "write to the first": lambda a, b: a.mul_(5) is a,
    "write to the second": lambda a, b: b.mul_(5) is b,
    "gradient of the first for the second": lambda a, b: numod.autograd.grad(a.sum(), b, allow_unused=True),
    "gradient of the second for the first": lambda a, b: numod.autograd.grad(b.sum(), a, allow_unused=True),
}


@pytest.mark.parametrize("case, done", diagonals(list(_RETURNED), list(_DONE), 4, others=pytest.mark.fuzz))
def test_results_that_are_views(case: str, done: str) -> None:
    def run(wrap: Callable) -> list:
        outcomes = []
        for is_reversed in (False, True):
            weight = numod.ones(4, requires_grad=True)
            function = wrap(
                lambda x, weight=weight, is_reversed=is_reversed: _RETURNED[case](x, weight)[
                    :: -1 if is_reversed else 1
                ]
            )
            for k in range(4):
                leaf, weight.grad = (numod.arange(4.0) + k).requires_grad_(k > 1), None
                x = leaf * 1 if k % 2 else leaf
                with numod.set_grad_enabled(k != 3):
                    a, b = function(x)
                outcomes += [result._base is base for result in (a, b) for base in (a, b, x, weight)]
                outcomes += [
                    a.requires_grad,
                    b.requires_grad,
                    _errors(lambda a=a, b=b: _DONE[done](a, b)),
                    a.detach().clone(),
                    b.detach().clone(),
                    x.detach().clone(),
                ]
                outcomes += [_errors((a.square().sum() + b.sum() * 2).backward), weight.grad, leaf.grad]
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def test_a_view_that_is_returned_twice_is_one_tensor() -> None:
    compiled = compile(lambda x: (part := x[1:], {"again": part}))
    for _ in range(3):
        first, again = compiled(numod.ones(3))
        assert first is again["again"]


def test_hooks_and_the_graph_of_second_gradients() -> None:
    def run(wrap: Callable) -> list:
        outcomes, calls = [], []
        weight = numod.linspace(0.2, 1.0, 3).requires_grad_()
        weight.register_hook(lambda gradient: calls.append(1) or gradient * 2)
        function = wrap(lambda x: ((hidden := (x * weight).exp()).softmax(0), hidden))
        for k in range(4):
            leaf = (numod.arange(3.0) / (k + 1)).requires_grad_()
            x = leaf * 1
            x.register_hook(lambda gradient: calls.append(2) or gradient * 3)
            x.retain_grad()
            result, hidden = function(x)
            result.register_hook(lambda gradient: calls.append(3) or gradient * 5)
            if k % 2:
                result.retain_grad()
                hidden.register_hook(lambda gradient: calls.append(4) or gradient * 7)
            slopes = numod.autograd.grad((result * hidden).sum(), (leaf, weight), create_graph=True)
            total = sum(slope.square().sum() for slope in slopes)
            outcomes += [
                *slopes,
                *numod.autograd.grad(total, (leaf, weight, result, hidden), retain_graph=True),
                x.grad,
                result.grad if k % 2 else None,
            ]
            total.backward()
            outcomes += [leaf.grad, weight.grad, list(calls)]
            weight.grad = None
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def test_second_gradients_where_what_the_function_uses_was_written_to() -> None:
    shift = numod.zeros(3, requires_grad=True)
    compiled = compile(lambda x: (x + shift).exp())
    for _ in range(3):
        x = numod.ones(3, requires_grad=True)
        result = compiled(x)
        with numod.no_grad():
            shift.add_(1)
        assert numod.equal(numod.autograd.grad(result.sum(), x, retain_graph=True)[0], result)  # it saves its result
    with pytest.raises(RuntimeError, match="its inputs have changed"):
        numod.autograd.grad(result.sum(), x, create_graph=True)


def test_results_whose_histories_are_used_up_one_by_one() -> None:
    def parts(x: numod.Tensor, first: numod.Tensor, second: numod.Tensor) -> tuple:
        hidden = (x * first).tanh()
        return hidden.sin(), hidden.cos(), (x * second).sin(), hidden, x + second

    def run(wrap: Callable) -> list:
        first, second = numod.ones(3, requires_grad=True), numod.ones(3, requires_grad=True)
        function, outcomes = wrap(lambda x: parts(x, first, second)), []
        for order in ((0, 1, 2), (2, 0, 1), (0, 0), (2, 2), (3, 2, 1), (4, 4, 2), (1, 4, 3)):
            results = function(X)
            for k in order:
                outcomes += [
                    _errors(results[k].sum().backward),
                    *(weight.grad.clone() for weight in (first, second) if weight.grad is not None),
                ]
            outcomes.append(
                _errors(lambda results=results: results[3].register_hook(lambda gradient: gradient) is None)
            )
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def test_hooks_of_results_that_are_on_no_path_to_what_is_asked_for() -> None:
    def run(wrap: Callable) -> list:
        first, second = numod.ones(3, requires_grad=True), numod.ones(3, requires_grad=True)
        function, outcomes = wrap(lambda x: ((x * first).sin(), (x * second).cos())), []
        for _ in range(3):
            a, b = function(X)
            a.register_hook(outcomes.append)
            b.retain_grad()
            outcomes += [*numod.autograd.grad(a.sum() + b.sum(), second, retain_graph=True), a.grad_fn is None, b.grad]
        return outcomes

    assert equal(run(lambda function: function), run(compile))


def test_a_hook_acts_before_the_gradient_of_a_result_is_asked_for() -> None:
    compiled = compile(lambda x: ((hidden := x * 2).softmax(0), hidden))
    for _ in range(3):
        result, hidden = compiled(X.clone().requires_grad_())
        result.register_hook(lambda gradient: gradient * 2)
        assert equal(*numod.autograd.grad((result + hidden).sum(), (result, hidden))[:1], numod.full((3,), 2.0))


def test_gradients_of_results_beside_the_used_one_are_memory_of_their_own() -> None:
    class Cut(numod.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, gradient: numod.Tensor) -> None:
            return None

    weight = numod.ones(3, requires_grad=True)
    compiled = compile(lambda: (weight.view(3, 1), Cut.apply(weight)))
    for _ in range(4):
        weight.grad = None
        compiled()[1].sum().backward()
        if weight.grad is not None:
            assert not weight.grad.any()
            weight.grad.add_(1)
        compiled()[0].sum().backward()
        assert weight.grad.min() == weight.grad.max()


def test_outputs_beside_a_loss_keep_their_history_after_its_backward() -> None:
    def run(wrap: object) -> list:
        w, v, z = (nn.Parameter(numod.ones(2) * k) for k in (1.0, 2.0, 3.0))

        def step(x: numod.Tensor) -> tuple:
            h = w + v + x
            squares = h * h
            loss = squares.sum()
            loss.backward()
            return h, squares, loss

        step, outcomes = wrap(step), []
        for k in range(6):
            h, _, loss = step(numod.ones(2) * k)
            (h.sum() + z.sum()).backward()
            outcomes += [h.requires_grad, loss.item(), w.grad.clone(), v.grad.clone(), z.grad.clone()]
            w.grad = None
        return outcomes

    assert equal(run(lambda step: step), run(compile))


def test_a_function_that_tells_none_from_zeros() -> None:
    class Halves(numod.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> tuple[numod.Tensor, numod.Tensor]:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: object, first: numod.Tensor | None, second: numod.Tensor | None) -> numod.Tensor:
            if first is None or second is None:
                return 5 * (second if first is None else first)
            return first + second

    for function in (Halves.apply, compile(lambda x: Halves.apply(x))):
        for used, expected in [((0,), 5.0), ((0, 1), 2.0), ((1,), 5.0), ((0, 1), 2.0)]:
            x = numod.ones(3, requires_grad=True)
            results = function(x)
            sum(results[k].sum() for k in used).backward()
            assert x.grad.tolist() == [expected] * 3


def test_a_function_whose_backward_raises_runs_eagerly_and_raises_in_backward() -> None:
    class Forward(numod.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, gradient: numod.Tensor) -> numod.Tensor:
            raise KeyError("no gradient")

    compiled = compile(lambda x: Forward.apply(x), fullgraph=False)
    with pytest.warns(UserWarning, match="the gradients of the results cannot be computed: 'no gradient'"):
        for _ in range(3):
            result = compiled(numod.ones(3, requires_grad=True))
            assert result.tolist() == [2.0] * 3
            with pytest.raises(KeyError):
                result.sum().backward()
