"""Every optimizer beside PyTorch's, over 30 steps and every option; state dicts go both ways; averages of models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

CASES = [(name, options) for name, many in {
    "SGD": [{}, {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.1, "maximize": True}],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True},
        {"decoupled_weight_decay": True, "weight_decay": 0.1}], "AdamW": [{}, {"amsgrad": True}],
    "RMSprop": [{}, {"momentum": 0.9}, {"centered": True},
        {"centered": True, "momentum": 0.9, "weight_decay": 0.1, "maximize": True}],
    "Adagrad": [{}, {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "weight_decay": 0.1}],
    "Adadelta": [{}, {"rho": 0.8, "weight_decay": 0.1}],
    "Adamax": [{}, {"weight_decay": 0.1}],
    "NAdam": [{}, {"decoupled_weight_decay": True, "weight_decay": 0.1}, {"weight_decay": 0.1, "momentum_decay": 0.01}],
    "RAdam": [{}, {"decoupled_weight_decay": True, "weight_decay": 0.1}, {"betas": (0.8, 0.9)}],
    "Rprop": [{}, {"etas": (0.4, 1.3), "step_sizes": (1e-4, 0.2)}],
    "ASGD": [{}, {"t0": 3, "weight_decay": 0.1, "lambd": 0.1}],
    "Adafactor": [{}, {"weight_decay": 0.1, "d": 2.0, "maximize": True}, {"eps": (1e-6, 1e-2)}],
}.items() for options in many]  # fmt: skip


def twins(name: str, options: dict) -> list[tuple]:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal((2, 2, 3))]
    return [(t, [t.nn.Parameter(t.tensor(value)) for value in values]) for t in (numod, torch)]


def losses(t, parameters: list, x: np.ndarray, k: int):
    a, b, c = parameters
    return (t.tensor(x) @ a.T).tanh().sum() + (b**2).sum() * (k % 3 - 1) + (c * (k % 2)).sin().sum()


def advance(t, parameters: list, optimizer, steps: range) -> None:
    for k in steps:
        optimizer.zero_grad()
        losses(t, parameters, np.random.default_rng(k).standard_normal((5, 4)), k).backward()
        optimizer.step()


@pytest.mark.parametrize("name, options", CASES, ids=str)
def test_steps_and_state(name: str, options: dict) -> None:
    made = [
        (t, parameters, getattr(t.optim, name)(parameters, lr=0.05, **options))
        for t, parameters in twins(name, options)
    ]
    assert repr(made[0][2]) == repr(made[1][2])
    for t, parameters, optimizer in made:
        advance(t, parameters, optimizer, range(30))
    tolerance = 1e-6 if name in ("NAdam", "ASGD") else 1e-9  # those keep a float32 number where ours is exact
    for mine, theirs in zip(made[0][1], made[1][1]):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)
    ours, other = made[0][2].state_dict(), made[1][2].state_dict()
    assert ours["param_groups"][0].keys() == other["param_groups"][0].keys()
    if name != "SGD":
        assert list(ours["state"][0]) == list(other["state"][0])
    made[0][2].load_state_dict(_as(numod, other))
    made[1][2].load_state_dict(_as(torch, ours))
    for t, parameters, optimizer in made:
        advance(t, parameters, optimizer, range(30, 40))
    for mine, theirs in zip(made[0][1], made[1][1]):
        np.testing.assert_allclose(
            mine.detach().numpy(), theirs.detach().numpy(), rtol=10 * tolerance, atol=10 * tolerance
        )


def _as(t, value):
    """A state dict with tensors of library `t`."""
    if isinstance(value, dict):
        return {key: _as(t, entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_as(t, entry) for entry in value]
    return t.tensor(value.detach().numpy()) if isinstance(value, (numod.Tensor, torch.Tensor)) else value


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"line_search_fn": "strong_wolfe"},
        {"history_size": 3, "max_iter": 7, "lr": 0.5},
        {"line_search_fn": "strong_wolfe", "max_iter": 40, "lr": 2.0},
    ],
)
def test_lbfgs(options: dict) -> None:
    results = []
    for t in (numod, torch):
        x = t.nn.Parameter(t.tensor(np.array([-1.2, 1.0, 0.5, 2.0])))
        optimizer = t.optim.LBFGS([x], **options)

        def closure(t=t, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() * (
                0.01 if not options.get("line_search_fn") else 1
            )
            loss.backward()
            return loss

        losses = [float(optimizer.step(closure)) for _ in range(6)]
        state = optimizer.state[x]
        sizes = {
            key: len(value) if isinstance(value, list) else 0
            for key, value in optimizer.state_dict()["state"][0].items()
        }
        results.append((losses, x.tolist(), state["n_iter"], state["func_evals"], sizes))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-6)
    assert results[0][2:] == results[1][2:]


def test_lbfgs_goes_on_from_the_state_of_the_other_library() -> None:
    """`al` and the others hold numbers here, where PyTorch's are tensors."""
    results = []
    for first, second in ((torch, torch), (torch, numod), (numod, numod), (numod, torch)):
        state, start = None, np.array([-1.2, 1.0, 0.5])
        for t in (first, second):
            x = t.nn.Parameter(t.tensor(start))
            optimizer = t.optim.LBFGS([x], max_iter=5, history_size=3, line_search_fn="strong_wolfe")
            if state is not None:
                optimizer.load_state_dict(_as(t, state))

            def closure(x=x, optimizer=optimizer):
                optimizer.zero_grad()
                loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
                loss.backward()
                return loss

            optimizer.step(closure)
            state, start = optimizer.state_dict(), x.detach().numpy()
        results.append(start)
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-8)


MUON = [dict(zip(("nesterov", "adjust_lr_fn", "weight_decay", "momentum"), flags)) for flags in itertools.product(
    (True, False), (None, "original", "match_rms_adamw"), (0.0, 0.1), (0.95, 0.0)
)]  # fmt: skip


@pytest.mark.parametrize(
    "options", [*MUON, {"ns_steps": 0}, {"ns_steps": 9}, {"eps": 1e-2}, {"ns_coefficients": (2.0, -1.5, 0.5)}]
)
def test_muon(options: dict) -> None:
    rng, results = np.random.default_rng(0), []
    values = [rng.standard_normal((6, 4)).astype(np.float32), rng.standard_normal((3, 8)).astype(np.float32)]
    for t in (numod, torch):
        parameters = [t.nn.Parameter(t.tensor(value)) for value in values]
        optimizer = t.optim.Muon(parameters, lr=0.02, **options)
        for k in range(5):
            optimizer.zero_grad()
            sum((p * p.sin()).sum() * (k + 1) for p in parameters).backward()
            optimizer.step()
        results.append([tensor.detach().numpy() for p in parameters for tensor in (p, *optimizer.state[p].values())])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=5e-3)  # bfloat16 inside: a last bit may differ between processors


@pytest.mark.parametrize("name, options", [
    ("SGD", {"lr": -1}), ("Adam", {"betas": (1.0, 0.9)}), ("RMSprop", {"alpha": -1}), ("Adagrad", {"lr_decay": -1}), ("Adadelta", {"rho": 2}), ("NAdam", {"momentum_decay": -1}), ("Rprop", {"etas": (1.5, 1.2)}),
    ("Adafactor", {"d": 0.5}), ("Adafactor", {"lr": -1}), ("Muon", {"adjust_lr_fn": "other"}), ("Adamax", {"eps": -1}), ("ASGD", {"weight_decay": -1}),
])  # fmt: skip
def test_errors(name: str, options: dict) -> None:
    messages = []
    for t in (torch, numod):
        with pytest.raises(ValueError) as caught:
            getattr(t.optim, name)([t.nn.Parameter(t.zeros(2, 2))], **options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("kind", ["plain", "ema", "ema_multi", "swa"])
def test_averaged_models(kind: str) -> None:
    results = []
    for t in (numod, torch):
        utils, model = t.optim.swa_utils, t.nn.Linear(2, 2).double()
        with t.no_grad():
            model.weight.fill_(1.0), model.bias.fill_(0.5)
        options = {
            "plain": {},
            "ema": {"avg_fn": utils.get_ema_avg_fn(0.9)},
            "ema_multi": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.9)},
            "swa": {"avg_fn": utils.get_swa_avg_fn()},
        }[kind]
        mean = utils.AveragedModel(model, **options)
        for k in range(5):
            with t.no_grad():
                model.weight.add_(0.1 * k)
            mean.update_parameters(model)
        results.append((mean.module.weight.tolist(), list(mean.state_dict()), int(mean.n_averaged)))
    np.testing.assert_allclose(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]


@pytest.mark.parametrize("strategy, epochs", [("cos", 10), ("linear", 7), ("cos", 0)])
def test_swalr(strategy: str, epochs: int) -> None:
    rates = []
    for t in (numod, torch):
        optimizer = t.optim.SGD([t.nn.Parameter(t.zeros(2))], lr=0.5)
        schedule = t.optim.swa_utils.SWALR(optimizer, 0.05, epochs, strategy)
        rates.append([])
        for _ in range(15):
            optimizer.step(), schedule.step()
            rates[-1].append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(rates[1])


def test_update_bn() -> None:
    x, results = np.random.default_rng(0).standard_normal((4, 8, 3)), []
    for t in (numod, torch):
        model = t.nn.Sequential(t.nn.BatchNorm1d(3)).double()
        t.optim.swa_utils.update_bn([t.tensor(batch) for batch in x], model)
        results.append(model[0].running_var.tolist())
    assert results[0] == pytest.approx(results[1])


def iterable_module(library, items):
    class Iterable(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = library.nn.Parameter(library.ones(2))

        def __iter__(self):
            return iter(items(self))

    return Iterable()


PARAMS = {
    "ParameterList": lambda l: l.nn.ParameterList([l.ones(2), l.ones(3)]),
    "empty ParameterList": lambda l: l.nn.ParameterList([]),
    "ParameterDict": lambda l: l.nn.ParameterDict({"a": l.ones(2)}),
    "values of a ParameterDict": lambda l: l.nn.ParameterDict({"a": l.ones(2)}).values(),
    "a module that iterates parameters": lambda l: iterable_module(l, lambda module: [module.weight]),
    "a module that iterates names": lambda l: iterable_module(l, lambda module: module.named_parameters()),
    "a module that iterates numbers": lambda l: iterable_module(l, lambda module: [1]),
    "Linear": lambda l: l.nn.Linear(2, 2),
    "Sequential": lambda l: l.nn.Sequential(l.nn.Linear(2, 2)),
    "empty ModuleList": lambda l: l.nn.ModuleList([]),
    "ModuleDict": lambda l: l.nn.ModuleDict({"a": l.nn.Linear(2, 2)}),
    "a bound method": lambda l: l.nn.Linear(2, 2).parameters,
    "modules": lambda l: [l.nn.Linear(2, 2)],
    "a state dict": lambda l: l.nn.Linear(2, 2).state_dict(),
    "a number": lambda l: 3,
}


@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "LBFGS"])
@pytest.mark.parametrize("name", PARAMS)
def test_what_an_optimizer_takes_as_parameters(name, optimizer, in_group):
    outcomes = []
    for library in (torch, numod):
        params = PARAMS[name](library)
        try:
            made = getattr(library.optim, optimizer)([{"params": params}] if in_group else params, lr=0.1)
            outcomes.append([tuple(parameter.shape) for parameter in made.param_groups[0]["params"]])
        except (TypeError, ValueError) as error:
            text = str(error).replace("torch.nn.modules.linear.", "")
            outcomes.append((type(error), text))
    if isinstance(outcomes[0], tuple) and outcomes[0][0] is TypeError and name != "a number":
        outcomes[0] = TypeError, outcomes[0][1] + "; pass model.parameters()"
    assert outcomes[1] == outcomes[0]
