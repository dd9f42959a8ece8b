"""Modules, optimizers and hooks that change between the calls of a compiled function."""

from __future__ import annotations

import copy
import warnings
from decimal import Decimal

import pytest
from pairs import Pair, batch, compile, equal, forward_pair, net, step_of

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.nn import functional as F


def test_dropout_draws_what_eager_draws_and_eval_does_not() -> None:
    pair = Pair(nn.Dropout(0.5))
    pair.run(1, 2, 3)
    pair.both(lambda model, _: model.eval())
    pair.run(4, 5)
    pair.both(lambda model, _: model.train())
    pair.both(lambda model, _: setattr(model[2], "p", 0.1))
    pair.run(6, 7)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: numod.optim.SGD(p, lr=0.1),
        lambda p: numod.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: numod.optim.Adam(p, lr=0.1),
    ],
)
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


class Plain(numod.optim.Optimizer):
    """A user's optimizer: its step reads settings and state in Python."""

    @numod.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for tensor in group["params"]:
                tensor.add_(tensor.grad, alpha=-group["lr"] * (1 - group["betas"][0]))


class Counting(Plain):
    def step(self) -> None:
        super().step()
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["step"] = self.state[parameter].get("step", 0) + 1
            parameter.data.mul_(1 - 0.1 / self.state[parameter]["step"])


class Wrapping:
    """Has an optimizer's attributes, and a count of its own."""

    def __init__(self, optimizer: numod.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
        self.state = optimizer.state
        self.count = 0

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def step(self) -> None:
        self.optimizer.step()
        self.count += 1
        if self.count % 2:
            for parameter in self.param_groups[0]["params"]:
                parameter.data.mul_(0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: Plain(p, {"lr": 0.1, "betas": (0.5, 0.9)}),
        lambda p: numod.optim.Muon([value for value in p if value.ndim == 2], lr=0.1),
    ],
)
def test_settings_that_python_code_of_a_step_reads(make: object) -> None:
    pair = Pair(optimizer=make)
    for k in range(4):
        pair.run(k)
        pair.both(lambda _, optimizer: optimizer.param_groups[0].update(lr=optimizer.param_groups[0]["lr"] / 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: Counting(p, {"lr": 0.1, "betas": (0.5, 0.9)}), r"optimizer.state\['step'\] changes"),
        (lambda p: Wrapping(numod.optim.SGD(p, lr=0.1)), "optimizer.count changes"),
        (lambda p: numod.optim.SparseAdam(p, lr=0.1), r"optimizer.state\['step'\] changes"),
    ],
)
def test_counts_that_python_code_of_a_step_reads_are_refused(make: object, message: str) -> None:
    pair = Pair(optimizer=make)
    with pytest.raises(RuntimeError, match=message):
        pair.run(1, 2, 3, 4)


@pytest.mark.parametrize(
    "read",
    [
        lambda optimizer: optimizer.param_groups[0]["lr"],
        lambda optimizer: optimizer.param_groups[0]["betas"][0],
        lambda optimizer: optimizer.state_dict()["param_groups"][0]["lr"],
    ],
)
def test_settings_that_a_function_reads(read: object) -> None:
    def make(model: nn.Module, optimizer: numod.optim.Optimizer) -> object:
        plain = step_of(model, optimizer)
        return lambda x, y: (plain(x, y) * read(optimizer), read(optimizer))

    pair = Pair(optimizer=lambda p: numod.optim.Adam(p, lr=0.1), make=make)
    for k in range(4):
        pair.run(k)
        pair.both(
            lambda _, optimizer, k=k: optimizer.param_groups[0].update(lr=0.1 / (k + 1), betas=(0.9 - k / 10, 0.99))
        )


def test_a_rate_that_a_function_reads_is_taken_as_it_comes() -> None:
    def losses(compiled: bool) -> list[tuple]:
        numod.manual_seed(0)
        model, x = nn.Linear(4, 1), numod.ones(8, 4)
        optimizer = numod.optim.AdamW(model.parameters(), lr=0.1)
        schedule = numod.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def step() -> tuple:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean() * optimizer.param_groups[0]["lr"]
            loss.backward()
            optimizer.step()
            return loss.detach(), optimizer.param_groups[0]["lr"]

        function = numod.compile(step) if compiled else step
        results = []
        for _ in range(12):
            loss, rate = function()
            results += [loss.item(), rate]
            schedule.step()
        assert not compiled or function.recorded <= 4  # one for each of the first rates, and one for all
        return results

    assert losses(True) == pytest.approx(losses(False))


def test_a_step_count_that_a_function_reads_is_refused() -> None:
    def make(model: nn.Module, optimizer: numod.optim.Optimizer) -> object:
        plain = step_of(model, optimizer)
        return lambda x, y: plain(x, y) * optimizer.state[model[0].weight]["step"]

    with pytest.raises(RuntimeError, match=r"optimizer.state\['step'\] changes"):
        Pair(optimizer=numod.optim.Adam, make=make).run(1, 2, 3, 4)


@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_of_steps_are_recorded_and_guarded(everywhere: bool) -> None:
    scale, handles, pair = [0.5], [], Pair()

    def hook(optimizer: numod.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad.mul_(scale[0])

    def add(_: nn.Module, optimizer: numod.optim.Optimizer) -> None:
        if not everywhere:
            handles.append(optimizer.register_step_pre_hook(hook))
        elif not handles:
            handles.append(numod.optim.optimizer.register_optimizer_step_pre_hook(hook))

    try:
        pair.run(1, 2)
        pair.both(add)
        pair.run(3, 4)
        scale[0] = 2.0
        pair.run(5, 6)
    finally:
        for handle in handles:
            handle.remove()
    pair.run(7, 8)


def test_defaults_of_an_optimizer_that_a_function_reads() -> None:
    def make(model: nn.Module, optimizer: numod.optim.Optimizer) -> object:
        plain = step_of(model, optimizer)
        return lambda x, y: plain(x, y) * optimizer.defaults["lr"]

    pair = Pair(make=make)
    for k in range(4):
        pair.run(k)
        pair.both(lambda _, optimizer, k=k: optimizer.defaults.update(lr=k / 7))


def test_momentum_that_begins_late() -> None:
    pair = Pair(optimizer=lambda p: numod.optim.SGD(p, lr=0.1))
    pair.run(1, 2, 3)
    pair.both(lambda _, optimizer: optimizer.param_groups[0].update(momentum=0.9))
    pair.run(4, 5, 6)
    pair.both(lambda _, optimizer: optimizer.param_groups[0].update(momentum=0.0))
    pair.run(7, 8)


def test_parameters_frozen_for_a_while_have_step_counts_of_their_own() -> None:
    pair = Pair(optimizer=lambda p: numod.optim.Adam(p, lr=0.1))
    pair.run(1, 2, 3)
    pair.both(lambda model, _: model[0].weight.requires_grad_(False))
    pair.run(4, 5, 6)
    pair.both(lambda model, _: model[0].weight.requires_grad_(True))
    pair.run(7, 8, 9)


def test_states_that_are_loaded() -> None:
    pair = Pair(optimizer=lambda p: numod.optim.Adam(p, lr=0.1))
    pair.run(1, 2)
    saved = copy.deepcopy(
        [(model.state_dict(), optimizer.state_dict()) for model, optimizer in zip(pair.models, pair.optimizers)]
    )
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

        def step(
            x: numod.Tensor,
            y: numod.Tensor,
            model: nn.Module = model,
            optimizer: object = optimizer,
            scale: numod.Tensor = scale,
        ) -> numod.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x) * scale, y)
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    pair.eager, pair.compiled = steps[0], compile(steps[1])
    pair.run(1, 2)
    for optimizer, tensor in zip(pair.optimizers, extra):
        tensor.grad = None
        optimizer.add_param_group({"params": [tensor], "lr": 0.5})
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
    for layer in (0, -1):
        model = net()
        model[layer].register_full_backward_hook(lambda module, inputs, outputs: None)
        with pytest.raises(RuntimeError, match="has a hook"):
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


def test_hooks_of_given_tensors_are_called_once() -> None:
    eager, compiled = forward_pair()
    for _ in range(3):
        results = []
        for model in (eager, compiled):
            x = batch(1)[0].requires_grad_()
            hooked, unhooked = x * 1, x * 2
            hooked.register_hook(lambda g: g * 3)
            unhooked.retain_grad()
            (model(hooked).sum() + model(unhooked).sum()).backward()
            results.append((x.grad, unhooked.grad))
        assert equal(*results)


def test_hooks_of_leaves_are_called_by_the_backward_pass() -> None:
    eager, compiled = forward_pair()
    inputs, seen = [batch(1)[0].requires_grad_() for _ in range(2)], ([], [])
    for model, x, calls in zip((eager, compiled), inputs, seen):
        weight = next(model.parameters())
        weight.register_hook(lambda g, calls=calls: calls.append(g.clone()) or g * 2)
        weight.register_post_accumulate_grad_hook(lambda p, calls=calls: calls.append(p.grad.clone()))
        x.register_hook(lambda g: g * 3)
        for _ in range(3):
            model(x).sum().backward()
    assert equal(*seen) and len(seen[0]) == 6 and equal(inputs[0].grad, inputs[1].grad)
    assert all(equal(a.grad, b.grad) for a, b in zip(eager.parameters(), compiled.parameters()))


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_given_to_arguments_inside_are_not_missed(name: str) -> None:
    def hooked(x: numod.Tensor) -> numod.Tensor:
        getattr(x, name)(lambda g: g * 2 if g is not x else x.grad.mul_(2))
        return x * x

    compiled, results = compiled_natively(hooked), []
    with warnings.catch_warnings(action="ignore"):
        for k in range(6):
            x = numod.arange(3.0).requires_grad_()
            (compiled if k < 3 else hooked)(x).sum().backward()
            results.append(x.grad)
    assert equal(results[:3], results[3:])


def test_attributes_given_to_arguments_inside_are_not_missed() -> None:
    def mark(x: numod.Tensor) -> numod.Tensor:
        x.seen = True
        return x * 2

    compiled, tensors = compiled_natively(mark), [numod.ones(2) for _ in range(3)]
    with warnings.catch_warnings(action="ignore"):
        assert all(compiled(value).sum() == 4 and value.seen for value in tensors)


def test_a_hook_added_later_is_not_missed() -> None:
    eager, compiled = forward_pair()
    x = batch(1)[0]
    compiled(x), compiled(x)
    for row in (eager, compiled):
        row[1].register_forward_hook(lambda module, inputs, output: output * 2)
    assert equal(compiled(x), eager(x)) and equal(compiled(x), eager(x))
    with nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output + 1):
        assert equal(compiled(x), eager(x)) and equal(compiled(x), eager(x))
    assert equal(compiled(x), eager(x))


def test_functions_that_others_are_put_in_the_place_of() -> None:
    class Plain:
        def use(self, x: numod.Tensor) -> numod.Tensor:
            return x + 1

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.inner = F.relu, nn.Tanh()

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.act(self.inner(x)) + act(x) + plain.use(x)

    plain, module, act = Plain(), Inner(), numod.neg
    compiled, x = numod.compile(module, options={"linked": False}), numod.tensor([-1.0, 2.0])
    for k in range(6):
        if k == 1:
            module.act = F.silu
        if k == 2:
            module.act = lambda x: x * 2
        if k == 3:
            module.inner.forward = lambda x: x * 3
        if k == 4:
            act = numod.abs
        if k == 5:
            plain.use = lambda x: x * 5
        assert numod.allclose(compiled(x), module(x)), k


def test_methods_written_in_c_are_bound_anew_at_each_use() -> None:
    class Number(Decimal):
        is_bad = Decimal.is_nan

    number = Number(2)

    @compile
    def weighed(x: numod.Tensor) -> numod.Tensor:
        return x * (3 if number.is_bad() else 2)

    assert [weighed(numod.ones(1)).item() for _ in range(3)] == [2, 2, 2] and weighed.recorded == 1
    Number.is_bad = lambda self: True
    assert weighed(numod.ones(1)).item() == 3


class _ActNorm(nn.Module):
    """Takes its scale from the first batch, as Glow's layers do."""

    def __init__(self, flag: numod.Tensor) -> None:
        super().__init__()
        self.register_buffer("initialized", flag)
        self.scale = nn.Parameter(numod.ones(4))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        if self.initialized.dtype is numod.int64:
            known = self.initialized.item() != 0
        else:
            known = self.initialized if self.initialized.dtype is numod.bool else self.initialized > 0.5
        if not known:
            with numod.no_grad():
                self.scale.copy_(1 / x.std(0))
                self.initialized.fill_(1)
        return x * self.scale


@pytest.mark.parametrize("flag", [False, 0.0, 0])
def test_a_flag_in_a_buffer_is_a_guard(flag: float) -> None:
    eager = _ActNorm(numod.tensor(flag))
    other = copy.deepcopy(eager)
    compiled = compile(other.forward)
    for k in range(7):
        if k in (3, 5):
            eager.initialized.fill_(0), other.initialized.fill_(0)
        assert equal(eager(batch(k)[0]), compiled(batch(k)[0]))
    assert compiled.recorded == 2


def test_written_passed_and_counted_values_are_not_flags() -> None:
    count, weight = numod.zeros(()), numod.ones(2)

    def written(x: numod.Tensor) -> numod.Tensor:
        count.add_(1)
        return x if count > 3 else -x

    def hooked_given(x: numod.Tensor) -> numod.Tensor:
        return x if (x * weight).sum() > 3 else -x

    def counted(x: numod.Tensor) -> numod.Tensor:
        return x * int(count + 2)

    def read(x: numod.Tensor) -> numod.Tensor:
        count.add_(1)
        return x if count.item() > 3 else -x

    def at_a_place(x: numod.Tensor) -> numod.Tensor:  # a guard would read there before anything has checked the place
        return x if weight[index] == 1 else -x

    index = numod.tensor(1)
    for function in (written, hooked_given, counted, read, at_a_place):
        with pytest.raises(RuntimeError, match="reads a tensor's value in Python"):
            compile(function)(numod.ones(2))


def test_the_default_device() -> None:
    compiled = compile(lambda n: numod.zeros(2) + numod.arange(n))
    for _ in range(3):
        assert compiled(2).device.type == "cpu"
    with numod.device("meta"):
        assert compiled(2).device.type == "meta"
    numod.set_default_device("meta")
    try:
        assert compiled(2).device.type == "meta"
    finally:
        numod.set_default_device(None)
    assert compiled(2).device.type == "cpu"


def test_checkpoints_begin_between_calls(capsys: pytest.CaptureFixture) -> None:
    """Inside, the function itself runs, whose nodes a checkpoint drops."""

    def function(x: numod.Tensor) -> numod.Tensor:
        print("ran")
        return (weight * x).exp()

    weight, x = nn.Parameter(numod.ones(2)), numod.ones(2)
    compiled = compile(function)
    for _ in range(3):
        compiled(x)
    assert capsys.readouterr().out == "ran\n"
    numod.utils.checkpoint.checkpoint(compiled, x, use_reentrant=False).sum().backward()
    assert capsys.readouterr().out == "ran\n" * 2 and weight.grad[0] > 2
    compiled(x)
    assert capsys.readouterr().out == ""


def test_hooks_of_saved_tensors_and_anomalies_begin_between_calls() -> None:
    weight, x, packed = nn.Parameter(numod.ones(2)), numod.ones(2), []
    compiled = compile(lambda x: (weight * x).exp())
    for _ in range(3):
        compiled(x)
    with numod.autograd.graph.saved_tensors_hooks(
        lambda tensor: (packed.append(tensor), tensor * 0)[1], lambda tensor: tensor
    ):
        result = compiled(x)
    result.sum().backward()
    assert packed and weight.grad.tolist() == [0.0, 0.0]
    compiled(x).sum().backward()
    assert weight.grad[0] > 2
    zero = nn.Parameter(numod.zeros(2))
    step = compile(lambda x: ((zero * x).sqrt() * 0).sum().backward())
    for _ in range(3):
        step(x)
    with (
        numod.autograd.set_detect_anomaly(True),
        pytest.raises(RuntimeError, match="SqrtBackward0"),
        pytest.warns(UserWarning, match="SqrtBackward0"),
    ):
        step(x)


def test_a_place_that_becomes_a_property() -> None:
    def train(wrap: object) -> list[float]:
        numod.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        forward, results = wrap(model), []

        def some(optimizer: numod.optim.Optimizer) -> None:
            for _ in range(3):
                y = forward(numod.ones(5, 4))
                optimizer.zero_grad()
                (y**2).mean().backward()
                optimizer.step()
                results.append(y.sum().item())

        optimizer = numod.optim.SGD(model.parameters(), lr=0.05)
        some(optimizer)
        nn.utils.prune.l1_unstructured(model[0], "weight", 0.5)
        some(optimizer)
        nn.utils.prune.remove(model[0], "weight")
        some(optimizer)
        nn.utils.parametrizations.weight_norm(model[0])
        some(numod.optim.SGD(model.parameters(), lr=0.1))
        return results

    assert train(lambda model: model) == pytest.approx(
        train(lambda model: numod.compile(model, options={"linked": False})), rel=1e-5
    )


@pytest.mark.parametrize("change", [
    lambda hooks: hooks.clear(), lambda hooks: hooks.popitem(), lambda hooks: hooks.pop(next(iter(hooks))), lambda hooks: hooks.__delitem__(next(iter(hooks))),
    lambda hooks: hooks.move_to_end(next(iter(hooks))),
])  # fmt: skip
def test_hooks_that_are_taken_from_their_dictionary(change: object) -> None:
    layer = numod.nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, inputs, result: result * 2)
    layer.register_forward_hook(lambda module, inputs, result: result + 1)
    compiled, x = compile(lambda x: layer(x)), numod.ones(1, 2)
    compiled(x)
    change(layer._forward_hooks)
    assert equal(compiled(x), layer(x))
