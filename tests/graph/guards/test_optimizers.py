"""Settings and states of optimizers that change between the calls of a compiled function."""

from __future__ import annotations

import copy

import pytest
from pairs import Pair, batch, compile, equal, net, step_of

import numod
from numod import nn
from numod.nn import functional as F


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
