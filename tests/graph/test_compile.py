"""`numod.compile` where people trip: each case gives what eager gives, or an error that names the line."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.graph import mark_dynamic
from numod.kernel import build
from numod.nn import functional as F


def compile(function: object = None, **options: object) -> object:  # noqa: A001
    """As kernels in turn, which costs no compilation."""
    return compiled_natively(function, options={"linked": False}, **options)


def equal(a: object, b: object) -> bool:
    """Whether two structures of tensors are the same, to rounding."""
    if isinstance(a, numod.Tensor):
        return a.shape == b.shape and a.dtype is b.dtype and np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    return a == b


def net(*extra: nn.Module) -> nn.Module:
    numod.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), *extra, nn.Linear(3, 2))


def batch(seed: int, n: int = 5) -> tuple[numod.Tensor, numod.Tensor]:
    numod.manual_seed(seed)
    return numod.randn(n, 4), numod.randint(0, 2, (n,))


def step_of(model: nn.Module, optimizer: numod.optim.Optimizer, **zero: bool) -> object:
    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad(**zero)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


class Pair:
    """Two equal models with optimizers, and their steps: eager and compiled."""

    def __init__(self, *extra: nn.Module, optimizer: object = lambda p: numod.optim.SGD(p, lr=0.1, momentum=0.9), make: object = step_of, **zero: bool) -> None:
        self.models = net(*extra), net(*copy.deepcopy(extra))
        self.optimizers = [optimizer(each.parameters()) for each in self.models]
        steps = [make(*each, **zero) for each in zip(self.models, self.optimizers)]
        self.eager, self.compiled = steps[0], compile(steps[1])

    def run(self, *seeds: int, n: int = 5) -> None:
        for seed in seeds:
            expected, found = self.eager(*batch(seed, n)), self.compiled(*batch(seed, n))
            assert equal(expected, found)
            self.check()

    def check(self) -> None:
        mine, theirs = (each.state_dict() for each in self.models)
        assert equal(dict(mine), dict(theirs))
        for p, q in zip(*(each.parameters() for each in self.models)):
            assert (p.grad is None) is (q.grad is None) and (p.grad is None or equal(p.grad, q.grad))

    def both(self, change: object) -> None:
        for each in zip(self.models, self.optimizers):
            change(*each)


def same(function: object, *calls: tuple, **options: object) -> object:
    """The compiled function, after equal answers to each call."""
    compiled = compile(function, **options)
    for each in calls:
        assert equal(compiled(*copy.deepcopy(each)), function(*copy.deepcopy(each)))
    return compiled


X = numod.arange(6.0).reshape(2, 3)


# ---- reading values in Python ----------------------------------------------------------------------------------------

READS = {
    "if": lambda x: x if x.sum() > 0 else -x, "item": lambda x: x * x.sum().item(), "print": lambda x: str(x), "format": lambda x: f"{x.sum():.2f}",
    "numpy": lambda x: x.numpy(), "tolist": lambda x: x.tolist(), "float": lambda x: float(x.sum()), "int": lambda x: int(x.sum()), "len": lambda x: [0] * x.long().sum(),
    "array": lambda x: np.asarray(x), "pickle": lambda x: pickle.dumps(x), "in": lambda x: 1.0 in x, "list of tensors": lambda x: numod.tensor([x.sum(), x.sum()]),
    "nonzero loop": lambda x: [each for each in x.sum(0) if each > 1],
}


@pytest.mark.parametrize("name", READS)
def test_reading_a_value_names_the_line(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"test_compile.py:\d+"):
        compile(READS[name])(X.clone())
    assert not numod.core.apply.listeners


def test_nothing_is_recorded_after_an_error_and_the_function_still_works() -> None:
    def function(x: numod.Tensor, fail: bool) -> numod.Tensor:
        y = x * 2
        if fail:
            raise KeyError("half-way")
        return y + 1

    compiled = compile(function)
    for fail in (True, False, True, False):
        if fail:
            with pytest.raises(KeyError, match="half-way"):
                compiled(X, fail)
        else:
            assert equal(compiled(X, fail), function(X, fail))
    assert not numod.core.apply.listeners


# ---- Python's state --------------------------------------------------------------------------------------------------


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count, self.seen = 0, []

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.count += 1
        return x * self.count


class Appending(Counting):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.seen.append(1)
        return x * len(self.seen)


class Replacing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", numod.zeros(3))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.total = self.total + x
        return self.total * 2


class Updating(Replacing):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.total.mul_(0.5).add_(x)
        return self.total * 2


@pytest.mark.parametrize("kind", [Counting, Appending])
def test_state_kept_in_python_is_refused_never_frozen(kind: type) -> None:
    module, eager = compile(kind()), kind()
    with pytest.raises(RuntimeError, match="whenever it runs"):
        for k in range(4):
            assert equal(module(numod.ones(3) * k), eager(numod.ones(3) * k))


def test_a_list_that_a_function_appends_to_is_refused() -> None:
    seen = []

    def function(x: numod.Tensor) -> numod.Tensor:
        seen.append(1)
        return x + 1

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="seen"):
        for _ in range(3):
            compiled(X)


@pytest.mark.parametrize("kind", [Updating, Replacing])
def test_buffers_are_updated_in_place_or_replaced(kind: type) -> None:
    module, eager = compile(kind()), kind()
    for k in range(4):
        x = numod.ones(3) * k
        assert equal(module(x), eager(x)) and equal(module.total, eager.total)


def test_batch_norm_statistics() -> None:
    pair = Pair(nn.BatchNorm1d(3))
    pair.run(1, 2, 3, 4)
    pair.both(lambda model, _: model.eval())
    pair.run(5, 6)
    pair.both(lambda model, _: model.train())
    pair.run(7)
    assert int(pair.models[1][2].num_batches_tracked) == 5


def test_numbers_in_closures_globals_and_arguments() -> None:
    scale = 2.0

    def function(x: numod.Tensor, power: int = 2) -> numod.Tensor:
        return x**power * scale + GLOBAL["shift"]

    compiled = compile(function)
    for number in (2.0, 3.0, 3.0, -1.0):
        scale = number
        for power in (1, 2):
            GLOBAL["shift"] += 1
            assert equal(compiled(X, power), function(X, power)) and equal(compiled(X, power=power), function(X, power=power))
            if compiled.recorded > 6:
                compiled = compile(function)


GLOBAL = {"shift": 0}


class Settings:
    """Numbers a function may use."""

    shared = 1.0

    def __init__(self) -> None:
        self.own, self.nested, self.array = 1.0, {"a": [1.0]}, np.ones(1)

    def scaled(self, x: numod.Tensor) -> numod.Tensor:
        return x * self.own


class Slots:
    """The same without a dictionary."""

    __slots__ = ("own",)

    def __init__(self) -> None:
        self.own = 1.0


def helper(x: numod.Tensor) -> numod.Tensor:
    """A function that another one calls."""
    return x * GLOBAL["scale"]


CHANGES = {
    "attribute": (lambda s, x: x * s.own, lambda s: setattr(s, "own", 5.0)),
    "slot": (lambda s, x: x * s.own, lambda s: setattr(s, "own", 5.0)),
    "attribute in a method": (lambda s, x: s.scaled(x), lambda s: setattr(s, "own", 5.0)),
    "class": (lambda s, x: x * s.shared, lambda s: setattr(type(s), "shared", type(s).shared + 1)),
    "nested": (lambda s, x: x * s.nested["a"][0], lambda s: s.nested["a"].__setitem__(0, 5.0)),
    "array": (lambda s, x: x * float(s.array[0]), lambda s: s.array.fill(5.0)),
    "global of a helper": (lambda s, x: helper(x), lambda s: GLOBAL.update(scale=5.0)),
    "a key that goes": (lambda s, x: x * s.nested.get("a", [7.0])[0], lambda s: s.nested.clear()),
    "an attribute that goes": (lambda s, x: x * getattr(s, "own", 7.0) + (s.own if hasattr(s, "own") else 0), lambda s: delattr(s, "own")),
}


@pytest.mark.parametrize("linked", [False, None])
@pytest.mark.parametrize("name", CHANGES)
def test_numbers_wherever_they_stand(name: str, linked: bool | None) -> None:
    function, change = CHANGES[name]
    settings = Slots() if name == "slot" else Settings()
    GLOBAL["scale"] = 1.0
    compiled = compiled_natively(lambda x: function(settings, x), options={"linked": linked})
    for _ in range(3):
        assert equal(compiled(X), function(settings, X))
    change(settings)
    for _ in range(2):
        assert equal(compiled(X), function(settings, X))


def test_numbers_that_are_another_at_every_use_are_refused() -> None:
    import random

    numbers, source = iter([1.0, 2.0, 3.0]), random.Random(0)
    for function in (lambda x: x * next(numbers), lambda x: x * source.random(), lambda x: x * random.random(), lambda x: x * float(np.random.rand())):
        with pytest.raises(RuntimeError, match="another value at every use"):
            compile(function)(X)


def test_generators_draw_anew() -> None:
    source, twin = numod.Generator(), numod.Generator()
    function = lambda x, g: x + numod.rand(3, generator=g)  # noqa: E731
    compiled = compile(lambda x: function(x, source))
    for _ in range(4):
        assert equal(compiled(X), function(X, twin))


def test_a_default_dtype_that_changes() -> None:
    function = lambda x: numod.zeros(3) + x  # noqa: E731
    compiled = compile(function)
    assert compiled(numod.arange(3)).dtype is numod.float32
    numod.set_default_dtype(numod.float64)
    try:
        assert compiled(numod.arange(3)).dtype is numod.float64
    finally:
        numod.set_default_dtype(numod.float32)
    assert compiled(numod.arange(3)).dtype is numod.float32


def test_the_random_stream_may_not_be_begun_anew_inside() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        numod.manual_seed(0)
        return F.dropout(x)

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="random stream"):
        for _ in range(3):
            compiled(X)


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_arguments_that_share_memory() -> None:
    def function(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        x.add_(1)
        y.mul_(2)
        return x + y

    compiled = compile(function)
    for _ in range(2):
        for pick in (lambda t: (t, t), lambda t: (t[:3], t[1:]), lambda t: (t[1:], t[:3]), lambda t: (t, t.clone()), lambda t: (t, t.view(4)), lambda t: (t[:3], t[:3])):
            mine, theirs = numod.arange(4.0), numod.arange(4.0)
            assert equal(compiled(*pick(mine)), function(*pick(theirs))) and equal(mine, theirs)


def test_one_tensor_twice_and_its_alias_have_their_own_gradients() -> None:
    function = compile(lambda x, y: (x * x * y).sum())
    for _ in range(2):
        x = numod.ones(3, requires_grad=True)
        function(x, x).backward()
        assert x.grad.tolist() == [3.0] * 3
        x, y = numod.ones(3, requires_grad=True), numod.ones(3, requires_grad=True)
        function(x, y).backward()
        assert x.grad.tolist() == [2.0] * 3 and y.grad.tolist() == [1.0] * 3
        x = numod.ones(3, requires_grad=True)
        y = x.detach().requires_grad_()
        function(x, y).backward()
        assert x.grad.tolist() == [2.0] * 3 and y.grad.tolist() == [1.0] * 3


def test_writes_to_inputs_and_views_that_leave() -> None:
    parameter = nn.Parameter(numod.ones(3))

    def function(x: numod.Tensor) -> tuple:
        x.mul_(2)
        return x, x[0], x.t(), parameter, parameter.detach()[1:], x.sum()

    compiled = compile(function)
    for _ in range(3):
        mine, theirs = X.clone(), X.clone()
        with numod.no_grad():
            found, expected = compiled(mine), function(theirs)
        assert equal(found, expected) and equal(mine, theirs) and found[0] is mine and found[3] is parameter
        found[1].fill_(7)
        assert mine[0].tolist() == [7.0] * 3 and mine._version == theirs._version + 1


def test_an_argument_that_becomes_part_of_the_tape_is_refused() -> None:
    weight = numod.ones(3, requires_grad=True)

    def function(x: numod.Tensor) -> None:
        x.mul_(weight)

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="in place where gradients are recorded"):
        for _ in range(3):
            compiled(numod.ones(3))


def test_a_parameter_as_an_argument() -> None:
    model = nn.Linear(3, 3)
    function = lambda x, w: (model(x) * w).sum()  # noqa: E731
    compiled = compile(function)
    for _ in range(3):
        for w in (model.weight, numod.ones(3, 3)):
            model.zero_grad()
            a = function(numod.eye(3), w)
            a.backward()
            expected = model.weight.grad
            model.zero_grad()
            b = compiled(numod.eye(3), w)
            b.backward()
            assert equal(a, b) and equal(expected, model.weight.grad)


def test_results_and_gradients_of_earlier_calls_stay() -> None:
    pair = Pair()
    pair.run(1, 2, 3)
    x, y = batch(4)
    first = pair.compiled(x, y)
    gradients = [each.grad for each in pair.models[1].parameters()]
    before = [each.clone() for each in (first, *gradients)]
    pair.compiled(*batch(5))
    assert equal([first, *gradients], before)


@pytest.mark.parametrize("make", [lambda x: numod.tensor([1.0, 2.0, 3.0]).add_(x.sum()), lambda x: numod.empty(3).copy_(x[0]), lambda x: numod.empty(3, dtype=numod.bool).fill_(True),
                                  lambda x: x.new_empty(2, 3).copy_(x), lambda x: numod.zeros(3).add_(x[1]), lambda x: numod.tensor(2.0) * x, lambda x: x.new_tensor([1, 2, 3]) + x])
def test_tensors_made_inside_are_new_at_every_call(make: object) -> None:
    compiled = compile(make)
    kept = []
    for k in range(4):
        kept.append((compiled(X + k), make(X + k)))
    assert all(equal(a, b) for a, b in kept) and len({each[0].data_ptr() for each in kept}) == 4


@pytest.mark.parametrize("make", [lambda x: numod.from_numpy(np.ones(3, np.float32)) + x, lambda x: numod.tensor(np.ones(3)) + x, lambda x: x + numod.as_tensor(np.ones(3))])
def test_arrays_that_become_tensors_inside_are_refused(make: object) -> None:
    with pytest.raises(RuntimeError, match=r"test_compile.py:\d+ makes a tensor of a NumPy array"):
        compile(make)(X)


def test_shapes_changed_in_place_are_right_or_refused() -> None:
    def inside(x: numod.Tensor) -> numod.Tensor:
        y = x * 2
        y.t_()
        return y + 1

    same(inside, (X,), (X + 1,))

    def outside(x: numod.Tensor) -> numod.Tensor:
        x.t_()
        return x + 1

    with pytest.raises(RuntimeError, match="changed"):
        compile(outside)(X.clone())


# ---- gradients -------------------------------------------------------------------------------------------------------


def forward_pair() -> tuple[nn.Module, nn.Module]:
    model = net()
    return model, compile(copy.deepcopy(model))


def gradients_of(model: nn.Module) -> list:
    return [each.grad for each in model.parameters()]


def test_gradients_accumulate_outside_and_inside() -> None:
    eager, compiled = forward_pair()
    for seed in range(4):
        for each in (eager, compiled):
            x, y = batch(seed)
            F.cross_entropy(each(x), y).backward()
        assert equal(gradients_of(eager), gradients_of(compiled))

    def accumulate(model: nn.Module, optimizer: object) -> object:
        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return step

    pair = Pair(make=accumulate)
    for turn in range(3):
        pair.run(2 * turn, 2 * turn + 1)
        pair.both(lambda model, optimizer: (optimizer.step(), optimizer.zero_grad(set_to_none=False)))
        pair.check()


def test_gradients_dropped_by_the_user_or_the_step() -> None:
    pair = Pair(make=lambda model, optimizer: step_of(model, optimizer))
    pair.run(1, 2, 3)
    pair.both(lambda model, _: model.zero_grad())
    pair.run(4, 5)

    def after(model: nn.Module, optimizer: numod.optim.Optimizer) -> object:
        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return step

    pair = Pair(make=after)
    pair.run(1, 2, 3)
    pair.both(lambda model, _: [setattr(each, "grad", numod.ones_like(each)) for each in model.parameters()])
    pair.run(4, 5)


def test_zeroed_gradients() -> None:
    pair = Pair(set_to_none=False)
    pair.run(1, 2, 3, 4)
    pair.both(lambda model, _: model.zero_grad())
    pair.run(5, 6)


def test_two_forwards_before_one_backward() -> None:
    eager, compiled = forward_pair()
    for _ in range(3):
        for each in (eager, compiled):
            each.zero_grad()
            (each(batch(1)[0]).sum() * 2 + each(batch(2)[0]).square().sum()).backward()
        assert equal(gradients_of(eager), gradients_of(compiled))


def test_retain_graph_and_a_graph_used_up() -> None:
    _, compiled = forward_pair()
    for _ in range(3):
        loss = compiled(batch(1)[0]).sum()
        loss.backward(retain_graph=True)
        once = [each.grad.clone() for each in compiled.parameters()]
        loss.backward()
        assert all(equal(each.grad, 2 * g) for each, g in zip(compiled.parameters(), once))
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        compiled.zero_grad()


def test_weights_changed_between_forward_and_backward_are_noticed() -> None:
    _, compiled = forward_pair()
    compiled(batch(1)[0])
    loss = compiled(batch(1)[0]).sum()
    with numod.no_grad():
        compiled[2].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_modes_and_requires_grad() -> None:
    eager, compiled = forward_pair()
    x = batch(1)[0]
    for _ in range(2):
        with numod.no_grad():
            assert not compiled(x).requires_grad
        with numod.inference_mode():
            assert compiled(x).is_inference()
        assert compiled(x).requires_grad and not compiled(x).is_leaf
        assert compiled(x.clone().requires_grad_()).requires_grad
    compiled[0].weight.requires_grad_(False)
    eager[0].weight.requires_grad_(False)
    for each in (eager, compiled):
        each(x).sum().backward()
    assert equal(gradients_of(eager), gradients_of(compiled)) and compiled[0].weight.grad is None
    compiled[0].weight.requires_grad_(True)
    compiled(x).sum().backward()
    assert compiled[0].weight.grad is not None


def test_a_view_whose_base_joined_the_tape() -> None:
    weight = numod.ones(3, requires_grad=True)
    compiled = compile(lambda x: x * 2)
    base = numod.zeros(3)
    view = base[:2]
    assert not compiled(view).requires_grad and not compiled(view).requires_grad
    base.copy_(weight * 3)
    compiled(view).sum().backward()
    assert weight.grad.tolist() == [6.0, 6.0, 0.0]


# ---- modules and optimizers that change ------------------------------------------------------------------------------


def test_dropout_draws_what_eager_draws_and_eval_does_not() -> None:
    pair = Pair(nn.Dropout(0.5))
    pair.run(1, 2, 3)
    pair.both(lambda model, _: model.eval())
    pair.run(4, 5)
    pair.both(lambda model, _: model.train())
    pair.both(lambda model, _: setattr(model[2], "p", 0.1))
    pair.run(6, 7)


@pytest.mark.parametrize("optimizer", [lambda p: numod.optim.SGD(p, lr=0.1), lambda p: numod.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: numod.optim.Adam(p, lr=0.1)])
def test_hyper_parameters_change_between_steps(optimizer: object) -> None:
    pair = Pair(optimizer=optimizer)
    pair.run(1, 2, 3)
    recorded = pair.compiled.recorded
    for k, lr in enumerate((0.05, 0.01, 0.0)):
        pair.both(lambda _, optimizer, lr=lr: optimizer.param_groups[0].update(lr=lr))
        pair.run(4 + k)
    assert pair.compiled.recorded == recorded
    pair.both(lambda _, optimizer: optimizer.param_groups[0].update(lr=0.1, weight_decay=0.1, maximize=True))
    pair.run(8, 9)


def test_settings_changed_inside_the_step_are_refused() -> None:
    model = net()
    optimizer = numod.optim.SGD(model.parameters(), lr=0.1)
    plain = step_of(model, optimizer)

    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        loss = plain(x, y)
        optimizer.param_groups[0]["lr"] *= 0.9
        return loss

    compiled = compile(step)
    with pytest.raises(RuntimeError, match="param_groups"):
        for _ in range(3):
            compiled(*batch(1))


def test_momentum_that_begins_late() -> None:
    pair = Pair(optimizer=lambda p: numod.optim.SGD(p, lr=0.1))
    pair.run(1, 2, 3)
    pair.both(lambda _, optimizer: optimizer.param_groups[0].update(momentum=0.9))
    pair.run(4, 5, 6)
    pair.both(lambda _, optimizer: optimizer.param_groups[0].update(momentum=0.0))
    pair.run(7, 8)


def test_states_that_are_loaded() -> None:
    pair = Pair(optimizer=lambda p: numod.optim.Adam(p, lr=0.1))
    pair.run(1, 2)
    saved = copy.deepcopy([(model.state_dict(), optimizer.state_dict()) for model, optimizer in zip(pair.models, pair.optimizers)])
    pair.run(3, 4, 5)
    for (model, optimizer), (weights, state) in zip(zip(pair.models, pair.optimizers), saved):
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    pair.run(3, 4, 5)


def test_an_optimizer_state_replaced_by_hand() -> None:
    pair = Pair()
    pair.run(1, 2, 3)

    def forget(model: nn.Module, optimizer: numod.optim.Optimizer) -> None:
        optimizer.state[model[0].weight] = {"momentum_buffer": numod.ones(3, 4)}

    pair.both(forget)
    pair.run(4, 5)
    pair.both(lambda model, optimizer: optimizer.state.clear())
    pair.run(6, 7)


def test_parameters_replaced_converted_or_swapped() -> None:
    pair = Pair(optimizer=lambda p: numod.optim.SGD(p, lr=0.1))
    pair.run(1, 2)
    pair.both(lambda model, _: setattr(model[0].weight, "data", numod.ones(3, 4)))
    pair.run(3, 4)
    pair.both(lambda model, _: setattr(model[0].weight, "requires_grad", False))
    pair.run(5, 6)
    pair.both(lambda model, _: setattr(model[0], "bias", nn.Parameter(numod.ones(3))))
    pair.run(7, 8)
    eager, compiled = forward_pair()
    x = batch(1)[0]
    compiled(x), compiled(x)
    assert equal(compiled.to(numod.float64)(x.double()), eager.to(numod.float64)(x.double()))
    assert equal(compiled.to(numod.float32)(x), eager.to(numod.float32)(x))


def test_a_parameter_group_added() -> None:
    extra = [nn.Parameter(numod.ones(2)), nn.Parameter(numod.ones(2))]
    pair = Pair(optimizer=lambda p: numod.optim.SGD(p, lr=0.1))
    steps = []
    for model, optimizer, scale in zip(pair.models, pair.optimizers, extra):
        def step(x: numod.Tensor, y: numod.Tensor, model: nn.Module = model, optimizer: object = optimizer, scale: numod.Tensor = scale) -> numod.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x) * scale, y)
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    pair.eager, pair.compiled = steps[0], compile(steps[1])
    pair.run(1, 2)
    for optimizer, each in zip(pair.optimizers, extra):
        each.grad = None
        optimizer.add_param_group({"params": [each], "lr": 0.5})
    pair.run(3, 4)
    assert equal(*extra) and extra[0].tolist() != [1.0, 1.0]


def test_forward_hooks_inside_are_recorded_and_guarded() -> None:
    model, x, scale = net(), batch(1)[0], 2.0
    handle = model[0].register_forward_hook(lambda module, inputs, output: output * scale)
    model[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    compiled = compile(model)
    for turn in range(6):
        if turn == 2:
            scale = 3.0
        if turn == 4:
            handle.remove()
        assert equal(compiled(x), model(x))


def test_hooks() -> None:
    model = net()
    model[0].register_full_backward_hook(lambda module, inputs, outputs: None)
    with pytest.raises(RuntimeError, match="hook"):
        compile(model)(batch(1)[0])
    model, calls = net(), []
    compiled = compile(model)
    compiled.register_forward_hook(lambda module, inputs, output: calls.append(1))
    for _ in range(3):
        compiled(batch(1)[0])
    assert len(calls) == 3
    model[0].register_forward_hook(lambda module, inputs, output: calls.append(1))
    compiled = compile(model.forward)
    compiled(batch(1)[0])
    with pytest.raises(RuntimeError, match=r"calls\) was"):
        compiled(batch(1)[0])
    function = compile(net().forward)
    weight = numod.ones(4, requires_grad=True)
    weight.register_hook(lambda g: g * 2)
    with pytest.raises(RuntimeError, match="hooks"):
        function(weight)


def test_a_hook_added_later_is_not_missed() -> None:
    eager, compiled = forward_pair()
    x = batch(1)[0]
    compiled(x), compiled(x)
    for each in (eager, compiled):
        each[1].register_forward_hook(lambda module, inputs, output: output * 2)
    assert equal(compiled(x), eager(x)) and equal(compiled(x), eager(x))
    with nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output + 1):
        assert equal(compiled(x), eager(x)) and equal(compiled(x), eager(x))
    assert equal(compiled(x), eager(x))


# ---- functions of functions ------------------------------------------------------------------------------------------


def test_functional_calls_and_gradients_as_functions() -> None:
    model = net()
    x, y = batch(1)
    weights = {name: each.detach() for name, each in model.named_parameters()}  # the memory of the module's own

    def loss(weights: dict, x: numod.Tensor) -> numod.Tensor:
        return F.cross_entropy(numod.func.functional_call(model, weights, (x,)), y)

    def descend(weights: dict, x: numod.Tensor) -> dict:
        slopes = numod.func.grad(loss)(weights, x)
        return {name: each - 0.1 * slopes[name] for name, each in weights.items()}

    for function in (loss, numod.func.grad(loss), numod.func.value_and_grad(loss), descend):
        compiled = compile(function)
        for given in (weights, weights, {name: each.clone() for name, each in weights.items()}, weights):
            assert equal(compiled(given, x), function(given, x))
        assert compiled.recorded == 2


def test_gradients_of_gradients_as_functions() -> None:
    for function in (numod.func.grad(lambda x: numod.func.grad(lambda x: (x**3).sum())(x).sum()), numod.func.hessian(lambda x: (x**3).sum())):
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
        for each in (function, compiled):
            value, other = each(x * 1)
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
    assert isinstance(compiled, nn.Sequential) and repr(compiled) == repr(model) and list(compiled.state_dict()) == list(model.state_dict())
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


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_structures_of_arguments_and_results() -> None:
    def function(pair: tuple, *, options: dict, scale: float | None = None, parts: list = ()) -> dict:
        a, b = pair
        total = a + b * (1.0 if scale is None else scale)
        for each in parts:
            total = total + each
        return {"total": total, "more": [total.sum(), (options["x"] * 2, None, "text", 3)], 5: a}

    compiled = compile(function)
    for _ in range(2):
        for more in ({}, {"scale": 2.0}, {"scale": None, "parts": [X, X]}, {"parts": [X]}):
            named = {"options": {"x": X + 1, "name": "n"}, **more}
            assert equal(compiled((X, X + 1), **named), function((X, X + 1), **named))


Point = namedtuple("Point", "x y")


class Holder:
    """An object with tensors."""

    def __init__(self, x: numod.Tensor) -> None:
        self.x = x


@pytest.mark.parametrize("linked", [False, None])
def test_types_of_results_are_kept(linked: bool | None) -> None:
    def function(x: numod.Tensor) -> tuple:
        return Point(x + 1, [x * 2]), x.max(1), OrderedDict(a=x - 1, b=x.shape), x.dtype

    compiled = compiled_natively(function, options={"linked": linked})
    for k in range(4):
        a, b = compiled(X + k), function(X + k)
        assert equal(a[0], b[0]) and type(a[1]) is type(b[1]) and equal(a[1].values, b[1].values) and type(a[2]) is OrderedDict and equal(a[2]["a"], b[2]["a"]) and a[2]["b"] == b[2]["b"]
    with pytest.raises(RuntimeError, match="returns a Holder"):
        compiled_natively(lambda x: Holder(x * 2), options={"linked": linked})(X)


def test_objects_given_as_arguments() -> None:
    model, holder = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2)), Holder(X)
    function = lambda model, holder, scale: model(holder.x) * scale  # noqa: E731
    compiled = compile(function)

    def check(scale: float = 1.0) -> None:
        for _ in range(2):
            numod.manual_seed(0)
            found = compiled(model, holder, scale)
            numod.manual_seed(0)
            assert equal(found, function(model, holder, scale))

    check()
    model.eval()
    check()
    holder.x = X * 2
    check()
    model[1] = nn.Linear(3, 4)
    check()
    assert compiled(model, holder, 0.0).signbit().tolist() != compiled(model, holder, -0.0).signbit().tolist()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0, 3), (2, 3)])
def test_dtypes_and_shapes(dtype: str, shape: tuple) -> None:
    x = numod.ones(shape).to(getattr(numod, dtype))
    function = lambda x: (x + x, (x * 2).sum(), x.clone().fill_(1), x.reshape(-1))  # noqa: E731
    compiled = compile(function)
    for _ in range(3):
        for a, b in zip(compiled(x), function(x)):
            assert a.dtype is b.dtype and a.shape == b.shape and a.tolist() == b.tolist()


class Rows(nn.Module):
    """An embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(numod.randn(5, 3))

    def forward(self, index: numod.Tensor) -> numod.Tensor:
        return F.embedding(index, self.weight)


def test_embedding_and_targets_out_of_range() -> None:
    numod.manual_seed(0)
    model, twin = (nn.Sequential(Rows(), nn.Flatten(), nn.BatchNorm1d(6), nn.Dropout(0.2)) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    optimizers = [numod.optim.Adam(each.parameters(), lr=0.1) for each in (model, twin)]
    eager, compiled = step_of(model, optimizers[0]), compile(step_of(twin, optimizers[1]))
    calls = [([[0, 1], [2, 3]], [0, 1]), ([[4, 0], [0, 0]], [5, 2]), ([[1, 1], [2, 2]], [-100, 3]), ([[1, 1], [2, 2]], [0, 6]), ([[1, 5], [2, 2]], [0, 1]), ([[1, -1], [2, 2]], [0, 1]), ([[3, 1], [2, 4]], [1, 2])]
    for index, target in [*calls, *calls]:
        outcomes = []
        for step in (eager, compiled):
            numod.manual_seed(1)
            try:
                outcomes.append(step(numod.tensor(index), numod.tensor(target)))
            except IndexError as error:
                outcomes.append((str(error), numod.default_generator._offset))
        assert equal(*outcomes)
        assert equal(dict(model.state_dict()), dict(twin.state_dict()))
    assert [each["step"] for each in optimizers[0].state_dict()["state"].values()] == [each["step"] for each in optimizers[1].state_dict()["state"].values()]


@pytest.mark.parametrize("mode", ["dynamic", "marked", "automatic"])
def test_a_function_for_all_batch_sizes_is_compiled_once(mode: str) -> None:
    model = net()
    compiled = compiled_natively(model, dynamic={"dynamic": True}.get(mode))
    with numod.no_grad():
        for n in (2, 5, 7, 9, 4, 31, 4, 9, *range(32, 48)):
            x = batch(1, n)[0]
            kernels = build.statistics.compiled + build.statistics.loaded
            if mode == "marked":
                mark_dynamic(x, 0)
            for _ in range(2):
                assert equal(compiled(x), model(x))
            if n not in (2, 5, 7):
                assert build.statistics.compiled + build.statistics.loaded == kernels
    assert "one native function" in compiled.explain() and "in turn" not in compiled.explain()


def test_a_training_step_for_all_batch_sizes_is_compiled_once() -> None:
    models = [net(), net()]
    optimizers = [numod.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in models]
    eager, native = step_of(models[0], optimizers[0]), compiled_natively(step_of(models[1], optimizers[1]), dynamic=True)
    for n in (3, 5, 4, 5, 6, 3, 11):
        kernels = build.statistics.compiled + build.statistics.loaded
        assert equal(native(*batch(n, n)), eager(*batch(n, n)))
        assert n in (3, 5) or build.statistics.compiled + build.statistics.loaded == kernels
    assert equal(dict(models[0].state_dict()), dict(models[1].state_dict()))


def test_marking_a_dimension_that_is_not_there() -> None:
    with pytest.raises(IndexError, match="dimension 2 of a tensor of 2"):
        mark_dynamic(X, 2)


def test_versions_are_bounded_with_one_warning() -> None:
    compiled = compiled_natively(lambda x, n: x[:0] * n)
    with pytest.warns(UserWarning, match="argument 1: 7 was recorded, 8 came; it runs eagerly from here") as told:
        for n in range(12):
            compiled(X, n)
    assert len(told) == 1 and compiled.recorded == 8


def test_the_warning_names_the_shape_or_the_guard_that_failed() -> None:
    compiled = compiled_natively(lambda x: x[:0] * 1, dynamic=False)
    with pytest.warns(UserWarning, match=r"argument 0: numod.float32 \(9, 4\) was recorded, numod.float32 \(10, 4\) came.*dynamic=True compiles once"):
        for n in range(2, 12):
            compiled(batch(1, n)[0])
    GLOBAL["factor"] = 0
    compiled = compile(lambda x: x[:0] * GLOBAL["factor"])
    with pytest.warns(UserWarning, match="because of GLOBAL\\['factor'\\]"):
        for _ in range(12):
            GLOBAL["factor"] += 1
            compiled(X)


def test_only_so_many_sizes_are_kept() -> None:
    compiled = compiled_natively(lambda x: x.sum(), dynamic=True, options={"linked": False})
    for n in range(1, 80):
        compiled(numod.ones(n))
    assert len(compiled.versions) == 64 and compiled(numod.ones(5)).item() == 5


# ---- threads and processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", [False, None])
def test_threads(linked: bool | None) -> None:
    function = lambda x: (x @ x.t()).tanh().sum(0)  # noqa: E731
    compiled, wrong = compiled_natively(function, options={"linked": linked}), []
    inputs = [X + k for k in range(4)]
    expected = [function(each) for each in inputs]

    def work(k: int) -> None:
        for _ in range(50):
            if not equal(compiled(inputs[k]), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork() -> None:
    compiled = compile(lambda x: (x * 2).sum(0))
    compiled(X), compiled(X)
    child = os.fork()
    if child == 0:
        os._exit(0 if compiled(X).tolist() == [6.0, 10.0, 14.0] else 1)
    assert os.waitpid(child, 0)[1] == 0


NATIVE = """
import numod, sys
from numod import nn
from numod.kernel import build
model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
model = numod.compile(model)
with numod.no_grad():
    x = numod.ones(1, 4)
    for _ in range(4):
        y = model(x)
print(build.statistics.compiled)
"""


def test_a_second_process_compiles_nothing(tmp_path: object) -> None:
    environment = {**os.environ, "NUMOD_CACHE_DIR": str(tmp_path)}
    outputs = [subprocess.run([sys.executable, "-c", NATIVE], capture_output=True, text=True, check=True, env=environment).stdout for _ in range(2)]
    assert int(outputs[0]) > 0 and int(outputs[1]) == 0


def test_memory_that_moves_is_followed() -> None:
    for linked in (False, None):
        model = net()
        compiled = compiled_natively(copy.deepcopy(model), options={"linked": linked})
        x = batch(1)[0]
        with numod.no_grad():
            for _ in range(3):
                assert equal(compiled(x), model(x))
            for each in (model, compiled):
                each.share_memory()
                each[0].weight.mul_(2)
            assert equal(compiled(x), model(x)) and equal(compiled(x), model(x))
    pair = Pair()
    pair.run(1, 2, 3)
    pair.both(lambda model, optimizer: setattr(optimizer.state[model[0].weight]["momentum_buffer"], "data", numod.ones(3, 4)))
    pair.run(4, 5)


def test_a_failed_check_of_a_native_function_changes_nothing() -> None:
    numod.manual_seed(0)
    models = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    # behind a batch norm of two rows gradients are next to nothing: Adam would make steps of their rounding
    optimizers = [numod.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in models]
    eager, native = step_of(models[0], optimizers[0]), compiled_natively(step_of(models[1], optimizers[1]))
    for target in ([0, 1], [1, 0], [1, 1], [0, 2], [1, -100], [0, 1], [-1, 0], [0, 0]):
        outcomes = []
        for step in (eager, native):
            numod.manual_seed(1)
            try:
                outcomes.append((step(X, numod.tensor(target)), numod.default_generator._offset))
            except IndexError as error:
                outcomes.append((str(error), numod.default_generator._offset))
        assert equal(*outcomes) and equal(dict(models[0].state_dict()), dict(models[1].state_dict()))
    assert native.recorded == 1


# ---- the library's own checks -----------------------------------------------------------------------------------------


def test_distributions_and_losses_check_their_arguments_in_compiled_functions() -> None:
    policy = lambda x, action: numod.distributions.Normal(x, x.exp()).log_prob(action).sum()  # noqa: E731
    loss = lambda x, target: F.binary_cross_entropy(x, target)  # noqa: E731
    for function, right, wrong in ((policy, numod.tensor([0.1, 0.2]), numod.tensor([float("nan"), 1.0])), (loss, numod.tensor([0.1, 0.2]), numod.tensor([1.5, 0.2]))):
        compiled, other = compile(function), numod.tensor([0.0, 1.0])
        for _ in range(3):
            assert equal(compiled(right, other), function(right, other))
        with pytest.raises((ValueError, RuntimeError), match="Expected parameter|between 0 and 1"):
            compiled(wrong, other)
        assert compiled.recorded == 1 and equal(compiled(right, other), function(right, other))
