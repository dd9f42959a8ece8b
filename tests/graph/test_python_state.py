"""What a compiled function changes in Python: tensors and numbers that it puts in the place of others are kept, everything else is refused at its line."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable

import numpy as np
import pytest
from pairs import batch, compile, equal, net

import numod
from numod import nn
from numod.nn import functional as F


LAST = None
COUNT = 0


class Slotted:
    __slots__ = ("count", "held")

    def __init__(self) -> None:
        self.count, self.held = 0, numod.zeros(2)


class Classwide:
    count = 0
    held = None


def a_dict() -> tuple:
    held = {"a": numod.zeros(2), 1: None}

    def function(x: numod.Tensor) -> numod.Tensor:
        held["a"], held[1] = held["a"] * 0.5 + x, x * 3
        return x + 1

    return function, lambda: [*held.values()]


def a_list_and_a_deque() -> tuple:
    held, last = [numod.zeros(2), numod.zeros(2)], deque([numod.zeros(2)] * 3, maxlen=3)

    def function(x: numod.Tensor) -> numod.Tensor:
        held[0], held[1] = held[1], held[0] + x
        last.append(x * 2)
        return x + last[0]

    return function, lambda: [*held, *last]


def a_closure() -> tuple:
    held, last = numod.zeros(2), None

    def function(x: numod.Tensor) -> numod.Tensor:
        nonlocal held, last
        held, last = numod.tanh(held + x), x * 2
        return held

    return function, lambda: [held, last]


def a_global() -> tuple:
    def function(x: numod.Tensor) -> numod.Tensor:
        global LAST
        LAST = x * 3
        return x * 2

    return function, lambda: [LAST]


def an_object() -> tuple:
    class Agent:
        def __init__(self) -> None:
            self.hidden, self.slotted = numod.zeros(2), Slotted()

        def act(self, x: numod.Tensor) -> numod.Tensor:
            self.hidden = numod.tanh(self.hidden + x)
            self.slotted.held = self.hidden * 2
            return self.hidden + 1

    agent = Agent()
    return agent.act, lambda: [agent.hidden, agent.slotted.held]


def tuples_and_lists_made_anew() -> tuple:
    class Agent:
        def __init__(self) -> None:
            self.state, self.layers = None, [numod.zeros(2)]

        def act(self, x: numod.Tensor) -> numod.Tensor:
            first, second = self.state or (numod.zeros(2), numod.ones(2))
            self.state, self.layers = (second + x, first), [each + x for each in self.layers]
            return first * 2

    agent = Agent()
    return agent.act, lambda: [*agent.state, *agent.layers]


@pytest.mark.parametrize("make", [a_dict, tuples_and_lists_made_anew, a_list_and_a_deque, a_closure, a_global, an_object])
def test_tensors_put_in_the_place_of_others_are_kept(make: Callable) -> None:
    eager, seen = make()
    expected = [(eager(numod.ones(2) * k), seen()) for k in range(6)]
    function, seen = make()
    compiled = compile(function)
    found = [(compiled(numod.ones(2) * k), seen()) for k in range(6)]
    assert equal(expected, found) and compiled.recorded <= 2


def test_a_dictionary_that_is_cleared_before_every_call() -> None:
    seen: dict[str, numod.Tensor] = {}

    def function(x: numod.Tensor) -> numod.Tensor:
        seen["first" if "first" not in seen else "second"] = x * 2
        return x + len(seen)

    compiled = compile(function)
    for k in range(12):
        if k % 3 == 0:
            seen.clear()
        assert compiled(numod.ones(2)).tolist() == [2.0 + min(k % 3, 1)] * 2 and list(seen) == ["first", "second"][: k % 3 + 1]
    assert compiled.recorded <= 7


def test_entries_with_new_names_at_every_call_are_refused() -> None:
    seen: dict[int, numod.Tensor] = {}

    def function(x: numod.Tensor) -> numod.Tensor:
        seen[len(seen)] = x * 2
        return x

    compiled = compile(function)
    with pytest.raises(RuntimeError, match=r"len\(seen\) was"):
        for k in range(40):
            compiled(numod.ones(2))
            assert list(seen) == list(range(k + 1))


def test_a_compiled_method_serves_several_objects() -> None:
    class Agent:
        def __init__(self, scale: float) -> None:
            self.scale, self.total = scale, numod.zeros(2)

        @compile
        def act(self, x: numod.Tensor) -> numod.Tensor:
            self.total = self.total + x * self.scale
            return self.total * 2

    agents = [Agent(1.0), Agent(3.0)]
    for k in range(6):
        for each in agents:
            assert each.act(numod.ones(2)).tolist() == [2 * (k + 1) * each.scale] * 2


def test_modes_that_are_left_changed_are_refused() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        numod.set_grad_enabled(False)
        return x * 2

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="the grad mode"):
        for _ in range(3):
            with numod.enable_grad():
                compiled(numod.ones(2))


def counting_in(held: object, change: Callable) -> Callable:
    def function(x: numod.Tensor) -> numod.Tensor:
        change(held)
        return x * 2

    return function


def slot(held: Slotted) -> None:
    held.count += 1


def globally(_: object) -> None:
    global COUNT
    COUNT += 1


def item(held: object) -> None:
    held[0] += 1


def classwide(_: object) -> None:
    Classwide.count += 1


def classwide_tensor(_: object) -> None:
    Classwide.held = numod.zeros(2)


def on_the_function(_: object) -> None:
    on_the_function.calls = getattr(on_the_function, "calls", 0) + 1


@pytest.mark.parametrize(("make", "change"), [
    (list, lambda held: held.append(1)), (dict, lambda held: held.update({len(held): 1})), (set, lambda held: held.add(len(held))), (deque, lambda held: held.append(1)),
    (lambda: np.zeros(2), item), (lambda: array("i", [0]), item), (lambda: bytearray(2), item), (object, classwide), (object, classwide_tensor), (object, on_the_function),
])
def test_other_state_is_refused(make: Callable, change: Callable) -> None:
    compiled = compile(counting_in(make(), change))
    with pytest.raises(RuntimeError, match="cannot repeat"):
        for _ in range(20):
            compiled(numod.ones(2))


def test_a_refusal_tells_the_line() -> None:
    count = {"calls": "a"}

    def function(x: numod.Tensor) -> numod.Tensor:
        y = x * 2
        count["calls"] += "a"
        return y

    line = function.__code__.co_firstlineno + 2
    compiled = compile(function)
    with pytest.raises(RuntimeError, match=rf"count\['calls'\] was 'aa', is 'aaa' in function, test_python_state.py:{line}, whenever it runs"):
        for _ in range(3):
            compiled(numod.ones(2))


class Counting(nn.Module):
    """Numbers in all places that are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.mean, self.average, self.slotted, self.counts = 0, 0.0, None, Slotted(), Counter()

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        y = x.sum()
        self.calls += 1
        self.mean = self.mean + (y.item() - self.mean) / self.calls
        self.average = 0.9 * self.average + 0.1 * y.item() if self.average is not None else y.item()
        self.last = self.slotted.count - 2 * self.calls
        self.counts["seen"] += len(x)
        slot(self.slotted)
        globally(None)
        return x * 2

    def seen(self) -> list:
        return [self.calls, self.mean, self.average, self.last, self.slotted.count, dict(self.counts), COUNT, type(self.calls), type(self.mean)]


@pytest.mark.parametrize("linked", [True, False])
def test_numbers_that_are_counted_on_are_kept(linked: bool) -> None:
    def run(wrap: Callable) -> list:
        global COUNT
        COUNT, module, found = 0, Counting(), []
        compiled = wrap(module.forward)
        for k in range(7):
            if k == 5:
                module.calls, module.mean = 40, 2.5
            found.append([compiled(numod.arange(3.0) * k), *module.seen()])
        return found, compiled

    expected, _ = run(lambda function: function)
    found, compiled = run(lambda function: numod.compile(function, options={"linked": linked}))
    assert equal(expected, found) and compiled.recorded <= 2


def test_numbers_in_a_dictionary_that_is_returned() -> None:
    seen, totals = {}, []

    def function(x: numod.Tensor) -> dict:
        seen["total"] = x.sum().item()
        seen["calls"] = seen.get("calls", 0) + 1
        return seen

    compiled = compile(function)
    for k in range(7):
        totals.append(dict(compiled(numod.ones(2) * k)))
        assert seen == totals[-1] == {"total": 2 * k, "calls": k + 1}
    assert compiled.recorded <= 2


def test_counts_after_a_call_that_raises_are_those_of_eager() -> None:
    count = {"calls": 0}

    def function(x: numod.Tensor, fails: bool) -> numod.Tensor:
        count["calls"] += 1
        if fails:
            raise ValueError("half-way")
        count["calls"] += 1
        return x * 2

    compiled = compile(function)
    for k, fails in enumerate([False] * 4 + [True, False]):
        try:
            compiled(numod.ones(2), fails)
        except ValueError:
            assert fails
        assert count["calls"] == 2 * (k + 1) - (k >= 4)


def test_lists_that_numbers_are_appended_to_are_refused() -> None:
    seen = []
    compiled = compile(lambda x: seen.append(x.sum().item()))
    with pytest.raises(RuntimeError, match=r"len\(seen\) was 1, is 2"):
        for k in range(3):
            compiled(numod.ones(2) * k)
    assert seen == [0, 2]


@pytest.mark.parametrize("use", [
    lambda count, x: x if count % 2 else -x, lambda count, x: x * count, lambda count, x: x + numod.tensor(count), lambda count, x: F.dropout(x, 1 / (2 + count)),
    lambda count, x: x[: int(count > 2)], lambda count, x: numod.full((2,), float(count)),
])
def test_a_count_that_matters_is_refused_at_its_line(use: Callable) -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        count["calls"] += 1
        return use(count["calls"], x)

    count, compiled = {"calls": 0}, compile(function)
    with pytest.raises(RuntimeError, match=r"compile: calls changes whenever the function runs, and test_python_state.py:\d+ depends on its value"):
        for _ in range(4):
            compiled(numod.ones(2))
    assert count == {"calls": 3}


def test_defaults_of_names_are_looked_at() -> None:
    settings = {"scale": 1.0}

    def function(x: numod.Tensor, *, held: dict = settings) -> numod.Tensor:
        return x * held["scale"]

    compiled = compile(function)
    for k in range(5):
        settings["scale"] = k % 2
        assert compiled(numod.ones(2)).tolist() == [k % 2] * 2


def test_a_deque_that_turns_outside() -> None:
    held = deque([1.0, 2.0])
    compiled = compile(lambda x: x * held[0])
    for k in range(5):
        assert compiled(numod.ones(1)).tolist() == [1.0 + k % 2]
        held.rotate(1)


def test_a_cache_that_is_filled_size_by_size() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache: dict[int, numod.Tensor] = {}

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            if len(x) not in self.cache:
                self.cache[len(x)] = numod.arange(len(x)).float()
            return x + self.cache[len(x)]

    compiled = compile(Positions())
    for n in (2, 3, 4, 3, 2, 2, 5, 5):
        assert compiled(numod.ones(n)).tolist() == [1.0 + k for k in range(n)]


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
        return [[step(*batch(k)), *[each.detach().clone() for each in (*seen.values(), *model.parameters())]] for k in range(5)]

    assert equal(run(lambda step: step), run(compile))


def test_hooks_of_leaves_that_change_or_come_and_go() -> None:
    def run(wrap: Callable) -> list:
        model, scale, found = net(), [1.0], []
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
            found.append([each.grad.clone() for each in model.parameters()])
        return found

    assert equal(run(lambda step: step), run(compile))


def test_optimizers_that_run_in_hooks() -> None:
    def run(wrap: Callable) -> list:
        model, found = net(), []
        optimizers = {each: numod.optim.SGD([each], lr=0.1, momentum=0.9) for each in model.parameters()}

        def hook(leaf: numod.Tensor) -> None:
            optimizers[leaf].step()
            optimizers[leaf].zero_grad()

        for each in model.parameters():
            each.register_post_accumulate_grad_hook(hook)

        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss.detach()

        step = wrap(step)
        for k in range(5):
            found.append([step(*batch(k)), *[each.detach().clone() for each in model.parameters()]])
        return found

    assert equal(run(lambda step: step), run(compile))


@pytest.mark.parametrize("average", [None, "ema", "swa"])
def test_averages_of_weights(average: str | None) -> None:
    make = {None: None, "ema": numod.optim.swa_utils.get_ema_multi_avg_fn(0.9), "swa": numod.optim.swa_utils.get_swa_multi_avg_fn()}[average]

    def run(wrap: Callable) -> list:
        model = net()
        mean, optimizer = numod.optim.swa_utils.AveragedModel(model, multi_avg_fn=make), numod.optim.SGD(model.parameters(), lr=0.1)

        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            mean.update_parameters(model)

        step = wrap(step)
        return [[step(*batch(k)), *[each.detach().clone() for each in mean.parameters()]] for k in range(6)]

    assert equal(run(lambda step: step), run(compile))


def test_what_is_not_a_number_is_one_value() -> None:
    compiled = compile(lambda x, scale: x * scale)
    for _ in range(4):
        assert np.isnan(compiled(numod.ones(1), float("nan")).numpy()).all()
        assert compiled(numod.ones(1), np.float32(2)).item() == 2
    assert compiled.recorded == 2


def test_a_setting_of_an_argument_is_refused() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        x.requires_grad_()
        x.square().sum().backward()
        return x.grad

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="requires_grad is set"):
        for _ in range(3):
            compiled(numod.ones(2))


def _seeded(x: numod.Tensor, own: numod.Generator) -> numod.Tensor:
    numod.manual_seed(3)
    return x + numod.rand(2)


def _seeded_itself(x: numod.Tensor, own: numod.Generator) -> numod.Tensor:
    own.manual_seed(3)
    return x + numod.rand(2, generator=own)


def _with_a_new_one(x: numod.Tensor, own: numod.Generator) -> numod.Tensor:
    return x + numod.rand(2, generator=numod.Generator())


def _forked(x: numod.Tensor, own: numod.Generator) -> numod.Tensor:
    with numod.random.fork_rng():
        x = x + numod.rand(2)
    return x + numod.rand(2)


@pytest.mark.parametrize("function", [_seeded, _seeded_itself, _with_a_new_one, _forked])
def test_random_streams_begun_anew_are_refused_never_continued(function: Callable) -> None:
    numod.manual_seed(3)
    own = numod.Generator().manual_seed(3)
    compiled = compile(function)
    with pytest.raises(RuntimeError, match="random .* whenever it runs"):
        for _ in range(3):
            before = numod.get_rng_state(), own.get_state()
            found = compiled(numod.ones(2), own)
            numod.set_rng_state(before[0])
            own.set_state(before[1])
            assert equal(found, function(numod.ones(2), own))


def test_a_fork_that_draws_nothing_and_a_generator_from_outside_are_recorded() -> None:
    own = numod.Generator().manual_seed(3)

    def function(x: numod.Tensor) -> numod.Tensor:
        with numod.random.fork_rng():
            x = x * 2
        return x + numod.rand(2) + numod.rand(2, generator=own)

    results = []
    for each in (function, compile(function)):
        own.manual_seed(3)
        numod.manual_seed(4)
        results.append([each(numod.ones(2)) for _ in range(4)])
    assert equal(*results)


def test_gradients_of_a_checkpoint_inside_are_wanted_outside() -> None:
    def function(x: numod.Tensor, weight: numod.Tensor) -> numod.Tensor:
        return numod.utils.checkpoint.checkpoint(lambda each: numod.nn.functional.dropout((each * weight).tanh(), 0.5), x, use_reentrant=False).sum()

    found = []
    for each in (function, compile(function)):
        weight = numod.arange(4.0).requires_grad_()
        for k in range(3):
            numod.manual_seed(k)
            each(numod.ones(4), weight).backward()
        found.append(weight.grad)
    assert equal(*found)


def test_gradients_of_each_example_are_recorded() -> None:
    function = compile(lambda p, x: numod.func.vmap(numod.func.grad(lambda p, x: (x * p).pow(2).sum()), (None, 0))(p, x))
    for k in range(3):
        p, x = numod.full((2,), float(k)), numod.arange(6.0).reshape(3, 2)
        assert equal(function(p, x), 2 * p * x * x)


def _taken(group: dict, rate: numod.Tensor) -> None:
    group["lr"] = rate


def _made(group: dict, rate: numod.Tensor) -> None:
    group["lr"] = rate * 2


def _written(group: dict, rate: numod.Tensor) -> None:
    group["lr"].mul_(0.5)


@pytest.mark.parametrize(("change", "refusal"), [(_taken, None), (_made, "a setting of an optimizer's param_groups changes"), (_written, "a rate or metric that the function computes")])
def test_rates_that_are_tensors_are_those_of_the_moment(change: Callable, refusal: str | None) -> None:
    rates = numod.tensor([0.1, 0.2])

    def run(wrap: Callable) -> list:
        weight, found = nn.Parameter(numod.ones(2)), []
        optimizer = numod.optim.SGD([weight], lr=rates[0].clone())

        def step(rate: numod.Tensor) -> None:
            weight.grad = numod.ones(2)
            change(optimizer.param_groups[0], rate)
            optimizer.step()

        step = wrap(step)
        for k in range(6):
            step(rates[k // 3])
            found.append(weight.tolist())
        return found

    if refusal is None:
        assert run(compile) == run(lambda step: step)
    else:
        with pytest.raises(RuntimeError, match=refusal):
            run(compile)


def test_a_step_with_infinite_gradients_is_left_out_and_the_scale_goes_down() -> None:
    def run(wrap: Callable) -> list:
        weight, scaler, found = nn.Parameter(numod.ones(2)), numod.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3), []
        optimizer = numod.optim.SGD([weight], lr=0.1, momentum=0.9)

        def step(x: numod.Tensor) -> None:
            optimizer.zero_grad()
            scaler.scale((weight * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

        step = wrap(step)
        for k in range(9):
            step(numod.full((2,), float("inf") if k in (4, 6) else 1.0 + k))
            found.append([weight.tolist(), weight.grad.tolist(), scaler.get_scale()])
        return found

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
        weight, found = nn.Parameter(numod.ones(2)), []
        optimizer, kept = numod.optim.SGD([weight], lr=0.1), weight.detach()

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
            found.append([step(x), weight.detach().clone(), kept.clone(), weight.grad])
            x.add_(1)
            found.append(weight.detach().clone())
        return found

    assert equal(run(compile), run(lambda step: step))


SCHEDULES = {
    "steps": lambda all, optimizer: all.StepLR(optimizer, 2, 0.5), "cycle": lambda all, optimizer: all.OneCycleLR(optimizer, 0.9, 40),
    "lambda": lambda all, optimizer: all.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
    "sequence": lambda all, optimizer: all.SequentialLR(optimizer, [all.LinearLR(optimizer, 0.1, total_iters=3), all.ExponentialLR(optimizer, 0.9)], [3]),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("order", ["after", "twice"])
def test_schedules_step_in_their_place(schedule: str, linked: bool, order: str) -> None:
    def run(wrap: Callable) -> tuple:
        weight, found = nn.Parameter(numod.ones(2)), []
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
            found.append([weight.tolist(), optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"], rates.get_last_lr(), rates.last_epoch])
        return found, step

    expected, _ = run(lambda step: step)
    found, compiled = run(lambda step: numod.compile(step, options={"linked": linked}))
    assert equal(found, expected) and compiled.recorded <= 3 and compiled.explain().count("action(") >= 1 + (order == "twice")


def test_what_a_function_reads_of_a_schedule_is_refused_not_kept() -> None:
    weight = nn.Parameter(numod.ones(2))
    optimizer = numod.optim.SGD([weight], lr=0.5)
    schedule = numod.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step(x: numod.Tensor) -> float:
        weight.grad = x
        optimizer.step()
        schedule.step()
        return schedule.get_last_lr()[0]

    compiled = compile(step)
    with pytest.raises(RuntimeError, match=r"schedule.* changes in step, test_python_state.py:\d+, whenever it runs"):
        for k in range(4):
            assert compiled(numod.ones(2)) == 0.5 ** (k + 2)
