"""What a function that is exported reaches by itself: modules, with their parameters and buffers, and optimizers.

While a function is captured it runs for real; `kept` makes all of this as it was before. An optimizer's numbers (its
learning rate, what follows from the count of its steps) come from Python. `with_numbers` has the program compute them,
of tensors that it holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..autograd import no_grad
from ..core.create.creation import full
from ..core.create.random import get_rng_state, set_rng_state
from ..core.tensor import Tensor
from ..dtypes import float64
from ..graph.capture.trace import trace
from ..graph.ir.alias_analysis import copied
from ..graph.ir.program import Program, Step, Value
from ..nn import Module
from ..ops.update import ACTION, Update
from ..optim import Optimizer
from ..optim.optimizer import Numbers, stand_in, to_update
from .state_file import plain

_COUNTS = ("step", "mu_product", "eta", "mu")  # of a parameter's state, Python's numbers that steps change


@dataclass
class State:
    """Modules and optimizers by the names that the function has for them."""

    modules: dict[str, Module] = field(default_factory=dict)
    optimizers: dict[str, Optimizer] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)  # ids of groups without a step, since `kept` began their states

    @property
    def names(self) -> dict[int, str]:
        """Names of tensors, by their ids. A parameter's is its name in the module, where there is one module only."""
        found: dict[int, str] = {}
        for name, module in self.modules.items():
            prefix = "" if len(self.modules) == 1 else f"{name}."
            for key, each in (*module.named_parameters(), *module.named_buffers()):
                found.setdefault(id(each), prefix + key)
        for name, optimizer in self.optimizers.items():
            for number, (parameter, _) in enumerate(_parameters(optimizer)):
                found.setdefault(id(parameter), f"{name}.params.{number}")
                for key, each in optimizer.state.get(parameter, {}).items():
                    if isinstance(each, Tensor):
                        found.setdefault(id(each), f"{name}.state.{number}.{key}")
        return found

    @property
    def parameters(self) -> list[Tensor]:
        """The tensors that may have gradients, each once."""
        found = [each for module in self.modules.values() for each in module.parameters()]
        found += [each for optimizer in self.optimizers.values() for each, _ in _parameters(optimizer)]
        return list({id(each): each for each in found}.values())

    def description(self) -> dict[str, Any]:
        """What `state_file` has to know to make state dicts of the tensors."""
        if not self.optimizers:
            return {}
        modules = {name: "" if len(self.modules) == 1 else f"{name}." for name in self.modules}
        return {"modules": modules, "optimizers": {name: _described(each) for name, each in self.optimizers.items()}}

    @contextmanager
    def kept(self) -> Iterator[Callable[[], None]]:
        """Makes all as it was before, at the end and when the function that it yields is called.

        Between the two, optimizers that have not made a step have the state that their first step would begin with.
        """
        tensors = [*self.parameters, *(buffer for module in self.modules.values() for buffer in module.buffers())]
        states = [state for optimizer in self.optimizers.values() for state in optimizer.state.values()]
        tensors += [value for state in states for value in state.values() if isinstance(value, Tensor)]
        tensors += [each._grad for each in self.parameters if each._grad is not None]
        before = [(each, each.detach().clone()) for each in tensors]
        settings = [(state, dict(state)) for state in states]
        begun: list[bool] = []  # whether states of optimizers without one were made
        fresh = [
            (optimizer, each)
            for optimizer in self.optimizers.values()
            for each, _ in _parameters(optimizer)
            if not optimizer.state.get(each)
        ]
        versions = {id(each): each._version for each, _ in before}
        gradients, stream = [(each, each._grad) for each in self.parameters], get_rng_state()

        def restore() -> None:
            with no_grad():
                for each, value in before:
                    if each._version != versions.get(id(each), 0):
                        each.copy_(value)
                        versions[id(each)] = each._version
            for state, former in settings:
                state.clear()
                state.update(former)
            set_rng_state(stream)

        def rewind() -> None:
            restore()
            if begun:
                return
            begun.append(True)
            for optimizer, each in fresh:
                optimizer.state.pop(each, None)
            for optimizer in dict.fromkeys(optimizer for optimizer, _ in fresh):
                for group in optimizer.param_groups:
                    optimizer._updates(to_update(group), group)
                    if all(any(each is one for _, one in fresh) for each in group["params"]):
                        self.fresh.add(id(group))
            for state in [optimizer.state[each] for optimizer, each in fresh if each in optimizer.state]:
                settings.append((state, dict(state)))
                for value in state.values():
                    if isinstance(value, Tensor):
                        before.append((value, value.detach().clone()))
                        versions[id(value)] = value._version

        try:
            yield rewind
        finally:
            restore()
            for optimizer, each in fresh:
                optimizer.state.pop(each, None)
            for each, gradient in gradients:
                each._grad = gradient


def state_of(function: Callable) -> State:
    """What a function reaches: the module or optimizer that it is a method of or that it is, and those that its
    closure, the globals that it names and the object it is a method of hold.
    """
    found, seen = State(), set()
    _collect(found, seen, "model", function)
    return found


def _collect(found: State, seen: set[int], name: str, each: Any, depth: int = 0) -> None:
    if id(each) in seen or depth > 4:
        return
    seen.add(id(each))
    if isinstance(each, Module):
        found.modules[name] = each
    elif isinstance(each, Optimizer):
        found.optimizers[name] = each
    elif isinstance(each, partial):
        for part in (each.func, *each.args, *each.keywords.values()):
            _collect(found, seen, name, part, depth + 1)
    elif inspect.ismethod(each):
        _collect(found, seen, name, each.__self__, depth)
        if not isinstance(each.__self__, (Module, Optimizer)):
            for key, part in getattr(each.__self__, "__dict__", {}).items():
                _collect(found, seen, key, part, depth + 1)
    elif inspect.isfunction(each):
        names = inspect.getclosurevars(each)
        for key, part in (*names.nonlocals.items(), *names.globals.items()):
            if isinstance(part, (Module, Optimizer, partial)) or inspect.isfunction(part) or inspect.ismethod(part):
                _collect(found, seen, key, part, depth + 1)
    elif hasattr(each, "function") and callable(each):  # a compiled function
        _collect(found, seen, name, each.function, depth + 1)


def _parameters(optimizer: Optimizer) -> list[tuple[Tensor, dict[str, Any]]]:
    """An optimizer's parameters, numbered as in its state_dict, each with its group."""
    found = {id(each): (each, group) for group in optimizer.param_groups for each in group["params"]}
    return list(found.values())


def _described(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer's settings, and for each parameter the first one that has taken as many steps."""
    numbers = {id(each): number for number, (each, _) in enumerate(_parameters(optimizer))}
    groups, counts = [], {}
    for group in optimizer.param_groups:
        settings = {name: value for name, value in group.items() if name != "params" and plain(value)}
        groups.append({**settings, "params": [numbers[id(each)] for each in group["params"]]})
        firsts: dict[Any, int] = {}
        for each in group["params"]:
            if "step" in optimizer.state.get(each, {}):
                counts[str(numbers[id(each)])] = firsts.setdefault(optimizer.state[each]["step"], numbers[id(each)])
    return {"param_groups": groups, "counts": counts, "names": list(_COUNTS)}


def with_numbers(program: Program, state: State, names: dict[int, str]) -> Program:
    """The program, with steps that compute the optimizers' numbers. Adds the names of the tensors that it now holds.

    Updates whose numbers nothing can compute stay as they are.
    """
    made: dict[tuple, Tensor] = {}
    result = copied(program, [])
    result.held = dict(program.held)
    for step in program.steps:
        numbers = step.attributes[0] if isinstance(step, Step) and isinstance(step.op, Update) else None
        if isinstance(numbers, Numbers) and step.op is not ACTION:
            part, values = _numbers(numbers, state, names, made)
            step = _joined(result, part, values, step)
        result.steps.append(step)
    return result


def _numbers(numbers: Numbers, state: State, names: dict[int, str], made: dict) -> tuple[Program, list]:
    """(a program that computes an update's numbers, what it returns: values and numbers)."""
    where = _place_of(numbers, state)
    group = {**numbers.group, "lr": _tensor(f"{where[0]}.lr", numbers.group["lr"], names, made)}
    settings = {}
    if group.get("dampening") and id(numbers.group) in state.fresh:
        # the first step of SGD with momentum takes the gradient as it is
        settings["dampening"] = _tensor(f"{where[0]}.dampening", 0.0, names, made)
        group |= settings
    former = numbers.states[0] if numbers.states else {}
    counts = {key: _tensor(f"{where[1]}.{key}", former[key], names, made) for key in _COUNTS if key in former}
    states = [{**former, **counts}] if numbers.states else []

    def compute() -> tuple:
        held = [*counts.values()]
        found = [each.clone() if any(each is one for one in held) else each for each in numbers.formula(group, states)]
        for key, count in counts.items():  # some are replaced, not written to
            if states[0][key] is not count:
                count.copy_(states[0][key])
        for key, setting in settings.items():
            setting.fill_(numbers.group[key])
        return tuple([each if isinstance(each, Tensor) else float(each) for each in found])

    with no_grad():
        before = [(each, each.clone()) for each in (*counts.values(), *settings.values())]
        part = trace(compute)
        for count, value in before:
            count.copy_(value)
    return part, list(part.outputs)


def _tensor(name: str, value: float | Tensor, names: dict[int, str], made: dict) -> Tensor:
    """The tensor that takes the place of a setting or count."""
    if name not in made:
        made[name] = stand_in(full((), float(value), dtype=float64))
        names[id(made[name])] = name
    return made[name]


def _place_of(numbers: Numbers, state: State) -> tuple[str, str]:
    """The names of an update's group, and of the state of its first parameter."""
    for name, optimizer in state.optimizers.items():
        for k, group in enumerate(optimizer.param_groups):
            if group is numbers.group:
                firsts = [
                    number
                    for number, (each, _) in enumerate(_parameters(optimizer))
                    if any(optimizer.state.get(each) is one for one in numbers.states[:1])
                ]
                return f"{name}.param_groups.{k}", f"{name}.state.{firsts[0] if firsts else 0}"
    raise RuntimeError(
        "export: the function takes a step of an optimizer that was not found; let the function name the optimizer, "
        "in its closure, as a global or as an attribute of the object it is a method of"
    )


def _joined(program: Program, part: Program, values: list, update: Step) -> Step:
    """Append the steps of `part` to a program; returns the update with their results as its numbers."""
    known = {id(tensor): value for value, tensor in program.held.items()}
    following = 1 + max(each.number for each in program.layouts)
    names: dict[Value, Value] = {}

    def renamed(value: Value) -> Value:
        nonlocal following
        if value not in names:
            tensor = part.held.get(value)
            if tensor is not None and id(tensor) in known:
                names[value] = known[id(tensor)]
                return names[value]
            names[value] = Value(following)
            program.layouts[names[value]] = part.layouts[value]
            following += 1
            if tensor is not None:
                program.held[names[value]] = tensor
        return names[value]

    def given(each: Any) -> Any:
        return renamed(each) if isinstance(each, Value) else each

    for step in part.steps:
        inputs, results = tuple(map(given, step.inputs)), tuple(map(given, step.results))
        program.steps.append(Step(step.op, inputs, step.attributes, results, step.in_place, update.location))
    numbers = [given(each) for each in values]
    parameters = None, update.attributes[1], (0.0,) * len(numbers)
    return Step(update.op, (*update.inputs, *numbers), parameters, update.results, True, update.location)
