"""The state of an exported function: modules, with their parameters and buffers, and optimizers.

A capture runs the function for real; `restoring` undoes its effects on the state. An optimizer's numbers (the learning
rate, bias corrections) come from Python; `with_numbers` adds steps to the program that compute them from held tensors.
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
from ..core.create.generator import get_rng_state, set_rng_state
from ..core.tensor import Tensor
from ..dtypes import float64
from ..graph.capture.trace import trace
from ..graph.ir.alias_analysis import copied
from ..graph.ir.program import Program, Step, Value
from ..nn import Module
from ..ops.update import ACTION, Update
from ..optim import Optimizer
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import to_update
from ..optim.steps import Numbers, mark_exported
from .state_file import plain

_COUNTS = ("step", "mu_product", "eta", "mu")  # Python numbers in a parameter's state that each step changes


@dataclass
class State:
    """Modules and optimizers by the names under which the function refers to them."""

    modules: dict[str, Module] = field(default_factory=dict)
    optimizers: dict[str, Optimizer] = field(default_factory=dict)
    schedulers: dict[str, LRScheduler] = field(default_factory=dict)  # of learning rates
    fresh: set[int] = field(default_factory=set)  # ids of parameter groups without a step

    @property
    def names(self) -> dict[int, str]:
        """Names of tensors by id. If there is one module, the names of its tensors have no prefix."""
        names: dict[int, str] = {}
        for name, module in self.modules.items():
            prefix = "" if len(self.modules) == 1 else f"{name}."
            for key, tensor in (*module.named_parameters(), *module.named_buffers()):
                names.setdefault(id(tensor), prefix + key)
        for name, optimizer in self.optimizers.items():
            for number, (parameter, _) in enumerate(_parameters(optimizer)):
                names.setdefault(id(parameter), f"{name}.params.{number}")
                for key, tensor in optimizer.state.get(parameter, {}).items():
                    if isinstance(tensor, Tensor):
                        names.setdefault(id(tensor), f"{name}.state.{number}.{key}")
        return names

    @property
    def non_persistent(self) -> set[str]:
        """The names of buffers that `state_dict` leaves out."""
        names: set[str] = set()
        for name, module in self.modules.items():
            prefix = "" if len(self.modules) == 1 else f"{name}."
            for path, part in module.named_modules(prefix=prefix.removesuffix(".")):
                names |= {f"{path}.{key}" if path else key for key in part._non_persistent_buffers_set}
        return names

    @property
    def parameters(self) -> list[Tensor]:
        """The tensors that may have gradients, each once."""
        parameters = [parameter for module in self.modules.values() for parameter in module.parameters()]
        parameters += [parameter for optimizer in self.optimizers.values() for parameter, _ in _parameters(optimizer)]
        return list({id(parameter): parameter for parameter in parameters}.values())

    @property
    def rates(self) -> dict[int, Any]:
        """The learning rates by their groups' ids."""
        groups = [group for optimizer in self.optimizers.values() for group in optimizer.param_groups]
        return {id(group): group["lr"] for group in groups}

    def description(self) -> dict[str, Any]:
        """The description from which `state_file` builds state dicts."""
        if not self.optimizers:
            return {}
        modules = {name: "" if len(self.modules) == 1 else f"{name}." for name in self.modules}
        return {
            "modules": modules,
            "optimizers": {name: _described(optimizer) for name, optimizer in self.optimizers.items()},
            **({"non_persistent": sorted(non_persistent)} if (non_persistent := self.non_persistent) else {}),
        }

    @contextmanager
    def restoring(self) -> Iterator[Callable[[], None]]:
        """Restore the state at the end, and whenever the yielded function is called.

        The first call of the yielded function also creates the initial state of optimizers that have not stepped.
        """
        tensors = [*self.parameters, *(buffer for module in self.modules.values() for buffer in module.buffers())]
        states = [state for optimizer in self.optimizers.values() for state in optimizer.state.values()]
        tensors += [value for state in states for value in state.values() if isinstance(value, Tensor)]
        tensors += [tensor._grad for tensor in self.parameters if tensor._grad is not None]
        before = [(tensor, tensor.detach().clone()) for tensor in tensors]
        settings = [(state, dict(state)) for state in states]
        begun: list[bool] = []  # whether the states of fresh optimizers were created
        fresh = [
            (optimizer, tensor)
            for optimizer in self.optimizers.values()
            for tensor, _ in _parameters(optimizer)
            if not optimizer.state.get(tensor)
        ]
        versions = {id(tensor): tensor._version for tensor, _ in before}
        gradients, stream = [(tensor, tensor._grad) for tensor in self.parameters], get_rng_state()
        rates = self.rates

        def restore() -> None:
            with no_grad():
                for tensor, value in before:
                    if tensor._version != versions.get(id(tensor), 0):
                        tensor.copy_(value)
                        versions[id(tensor)] = tensor._version
            for state, former in settings:
                state.clear()
                state.update(former)
            set_rng_state(stream)

        def rewind() -> None:
            restore()
            if begun:
                return
            begun.append(True)
            updated = {id(tensor) for optimizer, tensor in fresh if optimizer.state.pop(tensor, None)}
            for optimizer in dict.fromkeys(optimizer for optimizer, _ in fresh):
                for group in optimizer.param_groups:
                    # those that the step updated; it may have removed their gradients
                    known = {id(tensor) for tensor in to_update(group)} | updated
                    optimizer._create_state([tensor for tensor in group["params"] if id(tensor) in known], group)
                    if all(any(tensor is one for _, one in fresh) for tensor in group["params"]):
                        self.fresh.add(id(group))
            for state in [optimizer.state[tensor] for optimizer, tensor in fresh if tensor in optimizer.state]:
                settings.append((state, dict(state)))
                for value in state.values():
                    if isinstance(value, Tensor):
                        before.append((value, value.detach().clone()))
                        versions[id(value)] = value._version

        try:
            yield rewind
        finally:
            restore()
            for group in (group for optimizer in self.optimizers.values() for group in optimizer.param_groups):
                group["lr"] = rates[id(group)]
            for optimizer, tensor in fresh:
                optimizer.state.pop(tensor, None)
            for tensor, gradient in gradients:
                tensor._grad = gradient


def state_of(function: Callable) -> State:
    """The modules and optimizers that a function can reach.

    They are searched in the function itself, its closure, the globals that it names and, for a method, its object.
    """
    state, seen = State(), set()
    _collect(state, seen, "model", function)
    return state


def _collect(state: State, seen: set[int], name: str, reached: Any, depth: int = 0) -> None:
    """Add the modules and optimizers that can be reached from a value to the state."""
    if id(reached) in seen or depth > 4:
        return
    seen.add(id(reached))
    if isinstance(reached, Module):
        state.modules[name] = reached
    elif isinstance(reached, Optimizer):
        state.optimizers[name] = reached
    elif isinstance(reached, LRScheduler):
        state.schedulers[name] = reached
    elif isinstance(reached, partial):
        for part in (reached.func, *reached.args, *reached.keywords.values()):
            _collect(state, seen, name, part, depth + 1)
    elif inspect.ismethod(reached):
        _collect(state, seen, name, reached.__self__, depth)
        if not isinstance(reached.__self__, (Module, Optimizer)):
            for key, part in getattr(reached.__self__, "__dict__", {}).items():
                if isinstance(part, LRScheduler):  # the method need not use it
                    continue
                _collect(state, seen, key, part, depth + 1)
    elif inspect.isfunction(reached):
        names = inspect.getclosurevars(reached)
        for key, part in (*names.nonlocals.items(), *names.globals.items()):
            if (
                isinstance(part, (Module, Optimizer, LRScheduler, partial))
                or inspect.isfunction(part)
                or inspect.ismethod(part)
            ):
                _collect(state, seen, key, part, depth + 1)
    elif hasattr(reached, "function") and callable(reached):  # a compiled function
        _collect(state, seen, name, reached.function, depth + 1)


def _parameters(optimizer: Optimizer) -> list[tuple[Tensor, dict[str, Any]]]:
    """An optimizer's parameters, numbered as in its state_dict, each with its group."""
    by_id = {id(parameter): (parameter, group) for group in optimizer.param_groups for parameter in group["params"]}
    return list(by_id.values())


def _described(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer's settings and, for each parameter, the first parameter with the same step count."""
    numbers = {id(parameter): number for number, (parameter, _) in enumerate(_parameters(optimizer))}
    groups, counts = [], {}
    for group in optimizer.param_groups:
        rate = {"lr": float(group["lr"])} if isinstance(group.get("lr"), Tensor) else {}
        settings = {name: value for name, value in (group | rate).items() if name != "params" and plain(value)}
        groups.append({**settings, "params": [numbers[id(parameter)] for parameter in group["params"]]})
        firsts: dict[Any, int] = {}
        for parameter in group["params"]:
            if "step" in optimizer.state.get(parameter, {}):
                counts[str(numbers[id(parameter)])] = firsts.setdefault(
                    optimizer.state[parameter]["step"], numbers[id(parameter)]
                )
    return {"param_groups": groups, "counts": counts, "names": list(_COUNTS)}


def with_numbers(program: Program, state: State, names: dict[int, str], inputs: list[Tensor]) -> Program:
    """The program with added steps that compute the optimizers' numbers; their tensors are added to `names`.

    `inputs`: the tensors with which the program was recorded. One of them may be a learning rate.
    Updates without a formula for their numbers stay unchanged.
    """
    tensors_by_name: dict[tuple, Tensor] = {}
    result = copied(program, [])
    result.held = dict(program.held)
    for step in program.steps:
        numbers = step.attributes[0] if isinstance(step, Step) and isinstance(step.op, Update) else None
        if isinstance(numbers, Numbers) and step.op is not ACTION:
            part, values = _numbers(numbers, state, names, tensors_by_name, inputs)
            step = _joined(result, part, values, step, [numbers.group["lr"] is input for input in inputs])
        result.steps.append(step)
    return result


def _numbers(
    numbers: Numbers, state: State, names: dict[int, str], tensors_by_name: dict, inputs: list[Tensor]
) -> tuple[Program, list]:
    """(a program that computes an update's numbers, its outputs: values and numbers)."""
    where, rate = _place_of(numbers, state), numbers.group["lr"]
    is_input = any(rate is input for input in inputs)
    group = dict(numbers.group)
    if not is_input:
        group["lr"] = _tensor(f"{where[0]}.lr", rate, names, tensors_by_name)
    settings = {}
    if group.get("dampening") and id(numbers.group) in state.fresh:
        # the first step of SGD with momentum does not dampen the gradient
        settings["dampening"] = _tensor(f"{where[0]}.dampening", 0.0, names, tensors_by_name)
        group |= settings
    former = numbers.states[0] if numbers.states else {}
    counts = {
        key: _tensor(f"{where[1]}.{key}", former[key], names, tensors_by_name) for key in _COUNTS if key in former
    }
    states = [{**former, **counts}] if numbers.states else []

    def compute(*rates: Tensor) -> tuple:
        held_counts = [*counts.values()]
        for passed in rates:  # as `float(lr)`
            group["lr"] = mark_exported(passed.reshape(()).to(float64))
        values = [
            number.clone() if any(number is one for one in held_counts) else number
            for number in numbers.formula(group, states)
        ]
        for key, count in counts.items():  # the formula replaces some counts instead of writing to them
            if states[0][key] is not count:
                count.copy_(states[0][key])
        for key, setting in settings.items():
            setting.fill_(numbers.group[key])
        return tuple([number if isinstance(number, Tensor) else float(number) for number in values])

    with no_grad():
        before = [(tensor, tensor.clone()) for tensor in (*counts.values(), *settings.values())]
        part = trace(compute, *([rate] if is_input else []))
        for count, value in before:
            count.copy_(value)
    return part, list(part.outputs)


def _tensor(name: str, value: float | Tensor, names: dict[int, str], tensors_by_name: dict) -> Tensor:
    """The tensor that replaces a setting or a count."""
    if name not in tensors_by_name:
        tensors_by_name[name] = mark_exported(full((), float(value), dtype=float64))
        names[id(tensors_by_name[name])] = name
    return tensors_by_name[name]


def _place_of(numbers: Numbers, state: State) -> tuple[str, str]:
    """The names of an update's group, and of the state of its first parameter."""
    for name, optimizer in state.optimizers.items():
        for k, group in enumerate(optimizer.param_groups):
            if group is numbers.group:
                firsts = [
                    number
                    for number, (parameter, _) in enumerate(_parameters(optimizer))
                    if any(optimizer.state.get(parameter) is one for one in numbers.states[:1])
                ]
                return f"{name}.param_groups.{k}", f"{name}.state.{firsts[0] if firsts else 0}"
    raise RuntimeError(
        "export: the function calls step() of an optimizer that export did not find; refer to the optimizer by name: "
        "in the function's closure, as a global, or as an attribute of the object whose method is exported"
    )


def _joined(program: Program, part: Program, values: list, update: Step, is_rate: list[bool]) -> Step:
    """Append the steps of `part` to a program; return the update with their results as its numbers.

    `is_rate`: for each input of the program, whether it is the learning rate, the input of `part`.
    """
    known = {id(tensor): value for value, tensor in program.held.items()}
    following = 1 + max(value.number for value in program.layouts)
    rates = [value for value, chosen in zip(program.inputs, is_rate) if chosen]
    names: dict[Value, Value] = dict(zip(part.inputs, rates))

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

    def renamed_input(value: Any) -> Any:
        return renamed(value) if isinstance(value, Value) else value

    for step in part.steps:
        inputs, results = tuple(map(renamed_input, step.inputs)), tuple(map(renamed_input, step.results))
        program.steps.append(Step(step.op, inputs, step.attributes, results, step.in_place, update.location))
    numbers = [renamed_input(number) for number in values]
    parameters = None, update.attributes[1], (0.0,) * len(numbers)
    return Step(update.op, (*update.inputs, *numbers), parameters, update.results, True, update.location)
