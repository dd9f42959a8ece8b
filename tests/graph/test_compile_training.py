"""What training does around a compiled step: hooks, averages of weights, checkpoints, rates that are tensors, loss
scales, replaced memory, schedules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import pytest
from pairs import batch, compile, equal, net
from selection import pairwise

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.nn import functional as F


@pytest.mark.parametrize("after", [False, True])
def test_hooks_that_keep_activations_and_gradients(after: bool) -> None:
    def run(wrap: Callable) -> list:
        model, seen = net(), {}
        optimizer = numod.optim.SGD(model.parameters(), lr=0.1)
        model[1].register_forward_hook(lambda module, x, out: seen.update(hidden=out))
        model[0].weight.register_hook(lambda gradient: seen.update(gradient=gradient * 2))
        if after:
            model[2].weight.register_post_accumulate_grad_hook(lambda leaf: seen.update(norm=leaf.grad.norm()))

        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) + seen.get("hidden", x).square().mean() * 0
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        return [
            [step(*batch(k)), *[value.detach().clone() for value in (*seen.values(), *model.parameters())]]
            for k in range(5)
        ]

    assert equal(run(lambda step: step), run(compile))


def test_hooks_of_leaves_that_change_or_come_and_go() -> None:
    def run(wrap: Callable) -> list:
        model, scale, results = net(), [1.0], []
        model[0].weight.register_hook(lambda gradient: gradient * scale[0])

        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()

        step, handles = wrap(step), []
        for k in range(8):
            scale[0] = 1.0 + (k > 2)
            if k == 4:
                handles.append(model[2].weight.register_hook(lambda gradient: gradient * 3))
            if k == 6:
                handles[0].remove()
            step(*batch(k))
            results.append([parameter.grad.clone() for parameter in model.parameters()])
        return results

    assert equal(run(lambda step: step), run(compile))


def test_optimizers_that_run_in_hooks() -> None:
    def run(wrap: Callable) -> list:
        model, results = net(), []
        optimizers = {parameter: numod.optim.SGD([parameter], lr=0.1, momentum=0.9) for parameter in model.parameters()}

        def hook(leaf: numod.Tensor) -> None:
            optimizers[leaf].step()
            optimizers[leaf].zero_grad()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(hook)

        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss.detach()

        step = wrap(step)
        for k in range(5):
            results.append([step(*batch(k)), *[parameter.detach().clone() for parameter in model.parameters()]])
        return results

    assert equal(run(lambda step: step), run(compile))


@pytest.mark.parametrize("average", [None, "ema", "swa"])
def test_averages_of_weights(average: str | None) -> None:
    make = {
        None: None,
        "ema": numod.optim.swa_utils.get_ema_multi_avg_fn(0.9),
        "swa": numod.optim.swa_utils.get_swa_multi_avg_fn(),
    }[average]

    def run(wrap: Callable) -> list:
        model = net()
        mean = numod.optim.swa_utils.AveragedModel(model, multi_avg_fn=make)
        optimizer = numod.optim.SGD(model.parameters(), lr=0.1)

        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            mean.update_parameters(model)

        step = wrap(step)
        return [[step(*batch(k)), *[parameter.detach().clone() for parameter in mean.parameters()]] for k in range(6)]

    assert equal(run(lambda step: step), run(compile))


def test_gradients_of_a_checkpoint_inside_are_wanted_outside() -> None:
    def function(x: numod.Tensor, weight: numod.Tensor) -> numod.Tensor:
        return numod.utils.checkpoint.checkpoint(
            lambda activations: numod.nn.functional.dropout((activations * weight).tanh(), 0.5), x, use_reentrant=False
        ).sum()

    results = []
    for value in (function, compile(function)):
        weight = numod.arange(4.0).requires_grad_()
        for k in range(3):
            numod.manual_seed(k)
            value(numod.ones(4), weight).backward()
        results.append(weight.grad)
    assert equal(*results)


def test_gradients_of_each_example_are_recorded() -> None:
    function = compile(
        lambda p, x: numod.func.vmap(numod.func.grad(lambda p, x: (x * p).pow(2).sum()), (None, 0))(p, x)
    )
    for k in range(3):
        p, x = numod.full((2,), float(k)), numod.arange(6.0).reshape(3, 2)
        assert equal(function(p, x), 2 * p * x * x)


def _taken(group: dict, rate: numod.Tensor) -> None:
    group["lr"] = rate


def _made(group: dict, rate: numod.Tensor) -> None:
    group["lr"] = rate * 2


def _written(group: dict, rate: numod.Tensor) -> None:
    group["lr"].mul_(0.5)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (_taken, "passes one of its arguments to an optimizer"),
        (_made, "a setting of an optimizer's param_groups changes"),
        (_written, "a rate or metric that the function computes"),
    ],
)
def test_rates_that_are_tensors_are_those_of_the_moment(change: Callable, refusal: str) -> None:
    rates = numod.tensor([0.1, 0.2])

    def run(wrap: Callable) -> list:
        weight, results = nn.Parameter(numod.ones(2)), []
        optimizer = numod.optim.SGD([weight], lr=rates[0].clone())

        def step(rate: numod.Tensor) -> None:
            weight.grad = numod.ones(2)
            change(optimizer.param_groups[0], rate)
            optimizer.step()

        step = wrap(step)
        for k in range(6):
            step(rates[k // 3])
            results.append(weight.tolist())
        return results

    with pytest.raises(RuntimeError, match=refusal):
        run(compile)
    with pytest.warns(UserWarning, match=refusal):
        assert run(numod.compile) == run(lambda step: step)


@pytest.mark.parametrize("name", ["Adafactor", "LBFGS", "plateau", "plateau by item"])
def test_optimizers_and_schedules_that_look_at_values_run_eagerly(name: str) -> None:
    def run(wrap: Callable) -> list:
        weight, results = nn.Parameter(numod.ones(2, 2)), []
        optimizer = getattr(numod.optim, name, numod.optim.SGD)([weight], lr=0.1)
        schedule = numod.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)

        def closure() -> numod.Tensor:
            optimizer.zero_grad()
            loss = (weight - 0.5).pow(2).sum() + 1
            loss.backward()
            return loss

        def step() -> numod.Tensor:
            loss = optimizer.step(closure)
            if "plateau" in name:
                schedule.step(loss.item() if "item" in name else loss)
            return loss

        step = wrap(step)
        for _ in range(6):
            results += [step().item(), optimizer.param_groups[0]["lr"], weight.tolist()]
        return results

    with pytest.warns(UserWarning, match="step runs eagerly from here: .*cannot repeat"):
        assert run(numod.compile) == run(lambda step: step)
    with pytest.raises(RuntimeError, match=r"test_compile_training.py:\d+ "):
        run(compile)


def test_a_step_with_infinite_gradients_is_left_out_and_the_scale_goes_down() -> None:
    def run(wrap: Callable) -> list:
        weight = nn.Parameter(numod.ones(2))
        scaler = numod.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
        results = []
        optimizer = numod.optim.SGD([weight], lr=0.1, momentum=0.9)

        def step(x: numod.Tensor) -> None:
            optimizer.zero_grad()
            scaler.scale((weight * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

        step = wrap(step)
        for k in range(9):
            step(numod.full((2,), float("inf") if k in (4, 6) else 1.0 + k))
            results.append([weight.tolist(), weight.grad.tolist(), scaler.get_scale()])
        return results

    assert run(compile) == run(lambda step: step)


def _clipped(p: numod.Tensor, x: numod.Tensor) -> None:
    p.data = p.data.clamp(-0.5, 0.5)


def _grown(p: numod.Tensor, x: numod.Tensor) -> None:
    p.data = numod.cat([p.data, x[:1]])


def _shared(p: numod.Tensor, x: numod.Tensor) -> None:
    p.data = x


@pytest.mark.parametrize("change", [_clipped, _grown, _shared])
@pytest.mark.parametrize("drop", ["before", "after"])
@pytest.mark.filterwarnings("ignore:compile")
def test_memory_that_is_replaced(change: Callable, drop: str) -> None:
    def run(wrap: Callable) -> list:
        weight, results = nn.Parameter(numod.ones(2)), []
        optimizer, detached = numod.optim.SGD([weight], lr=0.1), weight.detach()

        def step(x: numod.Tensor) -> numod.Tensor:
            if drop == "before":
                optimizer.zero_grad()
            loss = weight.square().sum() * x[0]
            loss.backward()
            optimizer.step()
            if drop == "after":
                optimizer.zero_grad()
            change(weight, x)
            return loss.detach()

        step = wrap(step)
        for k in range(6):
            x = numod.full((2,), 1.0 + k)
            results.append([step(x), weight.detach().clone(), detached.clone(), weight.grad])
            x.add_(1)
            results.append(weight.detach().clone())
        return results

    assert equal(run(compile), run(lambda step: step))


SCHEDULES = {
    "steps": lambda all, optimizer: all.StepLR(optimizer, 2, 0.5),
    "cycle": lambda all, optimizer: all.OneCycleLR(optimizer, 0.9, 40),
    "lambda": lambda all, optimizer: all.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
    "sequence": lambda all, optimizer: all.SequentialLR(
        optimizer, [all.LinearLR(optimizer, 0.1, total_iters=3), all.ExponentialLR(optimizer, 0.9)], [3]
    ),
}


@pytest.mark.parametrize(
    "schedule, linked, order", pairwise(list(SCHEDULES), [True, False], ["after", "twice"], others=pytest.mark.fuzz)
)
def test_schedules_step_in_their_place(schedule: str, linked: bool, order: str) -> None:
    def run(wrap: Callable) -> tuple:
        weight, results = nn.Parameter(numod.ones(2)), []
        optimizer = numod.optim.SGD([weight], lr=0.5, momentum=0.9)
        rates = SCHEDULES[schedule](numod.optim.lr_scheduler, optimizer)

        def step(x: numod.Tensor, mask: numod.Tensor) -> None:
            for _ in range(1 + (order == "twice")):
                optimizer.zero_grad()
                (weight.square().sum() * x[mask].sum()).backward()  # how many are chosen is checked at every run
                optimizer.step()
                rates.step()

        step = wrap(step)
        for k in range(8):
            step(numod.arange(3.0) / 9, numod.tensor([True, k == 5, False]))
            results.append(
                [
                    weight.tolist(),
                    optimizer.param_groups[0]["lr"],
                    optimizer.param_groups[0]["momentum"],
                    rates.get_last_lr(),
                    rates.last_epoch,
                ]
            )
        return results, step

    expected, _ = run(lambda step: step)
    run_results, compiled = run(lambda step: numod.compile(step, options={"linked": linked}))
    assert (
        equal(run_results, expected)
        and compiled.recorded <= 3
        and compiled.explain().count("action(") >= 1 + (order == "twice")
    )


def test_reading_state_of_a_schedule_is_refused() -> None:
    weight = nn.Parameter(numod.ones(2))
    optimizer = numod.optim.SGD([weight], lr=0.5)
    schedule = numod.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step(x: numod.Tensor) -> float:
        weight.grad = x
        optimizer.step()
        schedule.step()
        return schedule.get_last_lr()[0]

    compiled = compile(step)
    with pytest.raises(
        RuntimeError, match=r"schedule.* changes in step, test_compile_training.py:\d+, whenever it runs"
    ):
        for k in range(4):
            assert compiled(numod.ones(2)) == 0.5 ** (k + 2)


def _edit_parameters(optimizer: numod.optim.Optimizer) -> None:
    optimizer.param_groups[0]["params"].pop()


def _edit_group(optimizer: numod.optim.Optimizer) -> None:
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.3}


def _new_list(optimizer: numod.optim.Optimizer) -> None:
    optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][1:]


def _other_group(optimizer: numod.optim.Optimizer) -> None:
    optimizer.param_groups = [{**optimizer.param_groups[0], "params": optimizer.param_groups[0]["params"][:1]}]


def _no_state(optimizer: numod.optim.Optimizer) -> None:
    optimizer.state = defaultdict(dict)


def _less_state(optimizer: numod.optim.Optimizer) -> None:
    del optimizer.state[optimizer.param_groups[0]["params"][0]]


def _cleared(optimizer: numod.optim.Optimizer) -> None:
    optimizer.state.clear()


def _still(optimizer: numod.optim.Optimizer) -> None:
    optimizer.step = lambda closure=None: None


def _keeping(optimizer: numod.optim.Optimizer) -> None:
    optimizer.zero_grad = lambda set_to_none=True: None


@pytest.mark.parametrize("kind, edit, linked", pairwise(
    ["Adam", "SGD"],
    [_edit_parameters, _edit_group, _new_list, _other_group, _no_state, _less_state, _cleared, _still, _keeping],
    [True, False], others=pytest.mark.fuzz,
))  # fmt: skip
def test_optimizers_that_are_edited_in_place(kind: str, edit: Callable, linked: bool) -> None:
    def run(wrap: Callable) -> list:
        weights = [numod.ones(3, requires_grad=True), numod.ones(3, requires_grad=True)]
        optimizer = getattr(numod.optim, kind)(weights, lr=0.1, **({"momentum": 0.9} if kind == "SGD" else {}))

        def step(x: numod.Tensor) -> None:
            optimizer.zero_grad()
            (weights[0] * x + (weights[1] * x).square()).sum().backward()
            optimizer.step()

        step, results = wrap(step), []
        for k in range(8):
            if k == 4:
                edit(optimizer)
            step(numod.ones(3) * (k + 1))
            results += [weight.detach().clone() for weight in weights]
        if "step" in vars(optimizer):
            del optimizer.step
            step(numod.ones(3))
        return [*results, *weights]

    assert equal(run(lambda step: step), run(partial(numod.compile, fullgraph=True, options={"linked": linked})))


COMPLEX = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {}),
    ("Adam", {"amsgrad": True, "maximize": True}),
    ("AdamW", {"amsgrad": True}), ("RMSprop", {}), ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Adagrad", {"initial_accumulator_value": 0.2}),
    ("NAdam", {}), ("RAdam", {}), ("Adadelta", {}), ("Adamax", {}), ("Rprop", {}), ("ASGD", {"lr": 0.1, "t0": 2}),
]  # fmt: skip


# one native function of each takes a tenth of a second to compile
@pytest.mark.parametrize(
    "number, linked",
    [*((number, False) for number in range(len(COMPLEX))), *((number, None) for number in range(0, len(COMPLEX), 3))],
)
def test_optimizers_take_both_parts_of_complex_parameters(number: int, linked: bool | None) -> None:

    def run(wrap: Callable) -> list:
        numod.manual_seed(0)
        whole, pairs = nn.Parameter(numod.randn(6, dtype=numod.complex64)[1::2]), nn.Parameter(numod.randn(3))
        name, settings = COMPLEX[number]
        optimizer = getattr(numod.optim, name)([whole, pairs], **settings)
        step = wrap(optimizer.step)
        for _ in range(6):
            whole.grad, pairs.grad = numod.randn(3, dtype=numod.complex64), numod.randn(3)
            step()
        return [numod.view_as_real(whole.detach()), pairs.detach()]

    assert equal(
        run(lambda function: compiled_natively(function, options={"linked": linked}, fullgraph=True)),
        run(lambda function: function),
    )


def test_a_rate_that_is_an_argument_stops_recording_with_advice() -> None:
    """Each call would record in vain, which takes many times as long as an eager call."""
    model = net()
    optimizer = numod.optim.SGD(model.parameters(), lr=0.1)

    def step(x: numod.Tensor, y: numod.Tensor, rate: numod.Tensor) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    compiled, rate = compiled_natively(step), numod.tensor(0.1)
    with pytest.warns(UserWarning, match="step passes one of its arguments to an optimizer.*param_groups before"):
        for k in range(4):
            compiled(*batch(k), rate)
    assert compiled.refused
    outside = compiled_natively(lambda x, y: step(x, y, rate))
    for k in range(4):
        outside(*batch(k))
    assert not outside.refused and outside.versions


def test_calls_that_make_state_one_after_the_other_are_recorded_later() -> None:
    models = [numod.nn.Linear(3, 2) for _ in range(5)]
    optimizers = [numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]

    def step(number: int, x: numod.Tensor) -> None:
        optimizers[number].zero_grad()
        models[number](x).sum().backward()
        optimizers[number].step()

    compiled = compiled_natively(step, fullgraph=True)
    for number in (*range(5), *range(5)):
        compiled(number, numod.ones(4, 3))
    assert not compiled.refused and compiled.versions


def test_layers_that_are_thawed_one_after_the_other_are_recorded_later() -> None:
    layers = [numod.nn.Linear(3, 3) for _ in range(5)]
    model = numod.nn.Sequential(*layers)
    optimizer = numod.optim.Adam(model.parameters(), lr=0.1)
    model.requires_grad_(False)

    def step(x: numod.Tensor) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    compiled = compiled_natively(step, fullgraph=True)
    for layer in reversed(layers):
        layer.requires_grad_(True)
        compiled(numod.ones(4, 3))
    compiled(numod.ones(4, 3))
    assert not compiled.refused and compiled.versions
