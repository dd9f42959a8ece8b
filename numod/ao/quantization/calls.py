"""The calls of a model as a graph: calls of the library's modules, and public functions called between them.

A model is run once with example inputs inside a TorchFunctionMode, which sees each function; hooks see the modules.
Later runs execute the model's own Python code again, and each quantizable call is matched with the recorded one by its
number. So sizes, Python numbers and loops stay alive; a run that takes another path raises.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ...autograd import no_grad
from ...core import Tensor, overrides
from ...core.create.generator import get_rng_state, set_rng_state
from ...core.overrides import TorchFunctionMode
from ...core.quantized import QuantizedTensor
from ...graph.values.pytree import is_data, replace as replace_leaves
from ...nn.module import Module
from ...nn.utils.computed import computes_parameter
from ...nn.utils.parametrize import type_before_parametrizations as kind_of
from .graph_patterns import ALIASES, MATCHED, activations_of, is_leaf


CONSTANT = "_tensor_constant"  # the target of tensors that are no inputs, parameters or buffers


@dataclass(eq=False)
class Call:
    """One call, and what the graph mode does with it.

    Inputs of the model are calls with `op` "placeholder". Its results are inputs of the last call, with `op` "output".
    """

    op: str  # PyTorch's: placeholder, get_attr, call_module, call_function, output
    target: str  # a module's path, a function's name, a parameter's name
    name: str
    scope: str = ""  # path of the module whose code makes the call
    key: Any = None  # object type: the module's class or the function's name
    index: int = 0  # among the calls of this object type in the scope
    inputs: tuple[Call, ...] = ()  # where its tensors come from
    numbers: tuple[int, ...] = ()  # which result of that call each of them is
    results: int = 0  # how many tensors it returns
    users: list[Call] = field(default_factory=list)
    qconfig: Any = None
    is_quantized: bool = False  # runs on integers after conversion
    is_dynamic: bool = False  # has a quantized weight, and takes floats
    is_skipped: bool = False  # is part of a call before it
    is_changed: bool = False  # its result is changed in place and read afterwards, so it stays in floats
    has_floats: bool = True  # activations and results are floating point: integers and masks are not quantized
    has_relu: bool = False  # the ReLU after it is part of it
    input_observers: dict[int, str] = field(default_factory=dict)  # by number of the tensor: inserted for this call
    sources: dict[int, str] = field(default_factory=dict)  # by number of the tensor: the observer of its scale
    output_observer: str | None = None

    @property
    def path(self) -> str:
        """The module whose qconfig counts, and after which scales are named."""
        return self.target if self.op == "call_module" else self.scope

    @property
    def is_matched(self) -> bool:
        """Whether later runs match this call."""
        return self.op == "call_module" or (self.op == "call_function" and self.target in MATCHED)

    def __str__(self) -> str:
        if self.op in ("placeholder", "get_attr"):
            return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={self.target}]"
        arguments = ", ".join(f"%{call.name}" for call in self.inputs)
        if self.op == "output":
            return f"return {arguments}"
        return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={self.target}](args = ({arguments}))"


class CallGraph:
    """The recorded calls, in order."""

    def __init__(self, nodes: list[Call]) -> None:
        self.nodes = nodes
        self.matched = [call for call in nodes if call.is_matched]
        self.targets = {call.target for call in self.matched}

    def __getstate__(self) -> list[Call]:
        """The calls with numbers in place of links: a chain of links may be too long for recursion."""
        numbers = {call: number for number, call in enumerate(self.nodes)}

        def numbered(calls: Iterable[Call]) -> list[int]:
            return [numbers[call] for call in calls]

        return [replace(call, inputs=numbered(call.inputs), users=numbered(call.users)) for call in self.nodes]

    def __setstate__(self, nodes: list[Call]) -> None:
        for call in nodes:
            call.inputs = tuple(nodes[number] for number in call.inputs)
            call.users = [nodes[number] for number in call.users]
        self.__init__(nodes)

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *map(str, self.nodes)])


def map_tensors(structure: Any, function: Callable[[Tensor], Any]) -> Any:
    """The structure with `function` of each tensor in it, also in tuples, lists, dicts and data classes."""
    if isinstance(structure, Tensor):
        return function(structure)
    if isinstance(structure, (tuple, list)) and not hasattr(structure, "numel"):
        parts = [map_tensors(part, function) for part in structure]
        return type(structure)._make(parts) if hasattr(structure, "_make") else type(structure)(parts)
    if isinstance(structure, dict):
        return type(structure)({key: map_tensors(part, function) for key, part in structure.items()})
    if is_data(structure):
        return replace_leaves(structure, lambda leaf: function(leaf) if isinstance(leaf, Tensor) else leaf)
    return structure


def map_numbered(structure: Any, function: Callable[[int, Tensor], Any]) -> Any:
    """The structure with `function` of each tensor's number and the tensor."""
    numbers = itertools.count()
    return map_tensors(structure, lambda tensor: function(next(numbers), tensor))


def tensors_in(structure: Any) -> list[Tensor]:
    """The tensors of a structure, in order."""
    result: list[Tensor] = []
    map_tensors(structure, lambda tensor: result.append(tensor))
    return result


class Interception(TorchFunctionMode):
    """Sees the calls of a model. Functions inside a library module belong to that module's call."""

    recordable = True  # what it does ends in ops on tensors, so that `numod.compile` may record it

    def __init__(self) -> None:
        self.depth = 0
        self.skipping = False

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = overrides.overridable.get(func, "").removeprefix("numod.")
        kwargs = kwargs or {}
        if not self.depth:
            return self.call_function(func, ALIASES.get(name, name), args, kwargs)
        return args[0] if self.skipping else func(*args, **kwargs)

    def call_function(self, func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        """The result of a function that the model's own code calls."""
        raise NotImplementedError(f"{type(self).__name__} must define call_function(func, name, args, kwargs)")

    def enter_module(self, module: Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        """Before a module's call; returns new arguments."""
        raise NotImplementedError(f"{type(self).__name__} must define enter_module(module, args, kwargs)")

    def leave_module(self, module: Module, result: Any) -> Any:
        """After a module's call; returns the result."""
        raise NotImplementedError(f"{type(self).__name__} must define leave_module(module, result)")


def _active() -> Interception | None:
    modes = overrides.state.modes
    return modes[-1] if modes and isinstance(modes[-1], Interception) else None


def _enter(module: Module, args: tuple, kwargs: dict) -> Any:
    mode = _active()
    return None if mode is None else mode.enter_module(module, args, kwargs)


def _leave(module: Module, args: tuple, kwargs: dict, result: Any) -> Any:
    mode = _active()
    return None if mode is None else mode.leave_module(module, result)


def watch(module: Module, path: str) -> None:
    """Let calls of a module be seen."""
    object.__setattr__(module, "_graph_path", path)
    if _enter not in module._forward_pre_hooks.values():
        # what computes a parameter belongs to the module
        is_first = any(map(computes_parameter, module._forward_pre_hooks.values()))
        module.register_forward_pre_hook(_enter, prepend=is_first, with_kwargs=True)
        module.register_forward_hook(_leave, prepend=True, with_kwargs=True)


def unwatch(module: Module) -> None:
    """Undo `watch`."""
    for hooks, hook in ((module._forward_pre_hooks, _enter), (module._forward_hooks, _leave)):
        for key in [key for key, registered in hooks.items() if registered is hook]:
            del hooks[key]


def watch_all(
    model: Module, opaque: Callable[[str, Module], bool], path: str = "", seen: set[int] | None = None
) -> None:
    """Let calls of all modules below a model be seen, under their first path; what is in a leaf belongs to the leaf."""
    seen = set() if seen is None else seen
    for name, child in model._modules.items():
        if child is None or id(child) in seen:
            continue
        seen.add(id(child))
        child_path = f"{path}.{name}" if path else name
        watch(child, child_path)
        if not is_leaf(child) and not opaque(child_path, child):
            watch_all(child, opaque, child_path, seen)


def _state(tensor: Tensor) -> tuple:
    """What a change in place changes: the version of the memory, or the shape."""
    return tensor._storage.version, tensor._layout, tensor._offset


def _are_floats(tensors: Iterable[Tensor]) -> bool:
    """Whether all are floating point or quantized. A question to the tensor itself would be recorded."""
    return all(isinstance(tensor, QuantizedTensor) or tensor._layout.dtype.is_floating_point for tensor in tensors)


class _Recorder(Interception):
    def __init__(self, model: Module, opaque: Callable[[str, Module], bool]) -> None:
        super().__init__()
        self.model, self.opaque = model, opaque
        self.calls: list[Call] = []
        self.scopes = [""]
        self.producers: dict[int, tuple[Call, int]] = {}  # by id of the tensor: the call and the number of the result
        self.alive: list[Tensor] = []  # an id stands for a tensor as long as the tensor lives
        self.by_storage: dict[int, list[Call]] = defaultdict(list)  # the calls whose results share a storage
        self.changed: set[int] = set()  # ids of tensors that a call changed in place, without being its result
        self.states: list[tuple] = []
        self.names: Counter = Counter()
        self.by_type: Counter = Counter()
        self.open: Call | None = None
        self.attributes = {id(tensor): name for name, tensor in (*model.named_parameters(), *model.named_buffers())}

    def add(self, op: str, target: str, stem: str, inputs: Iterable[Tensor] = (), key: Any = None) -> Call:
        values = list(map(self.producer, inputs))
        producers, numbers = tuple(call for call, _ in values), tuple(number for _, number in values)
        count, self.names[stem] = self.names[stem], self.names[stem] + 1
        name, scope = f"{stem}_{count}" if count else stem, self.scopes[-1]
        call = Call(op, target, name, scope, key, self.by_type[scope, key], producers, numbers)
        self.by_type[scope, key] += 1
        for producer in dict.fromkeys(producers):
            producer.users.append(call)
        self.calls.append(call)
        return call

    def call(self, op: str, target: str, stem: str, inputs: list[Tensor], key: Any) -> Call:
        """Add the call of a module or function."""
        call = self.add(op, target, stem, inputs, key)
        call.has_floats = _are_floats(inputs[: activations_of(key, len(inputs))])
        return call

    def producer(self, tensor: Tensor) -> tuple[Call, int]:
        if id(tensor) not in self.producers:
            path = self.attributes.get(id(tensor), CONSTANT)
            self.keep(tensor, self.add("get_attr", path, path.replace(".", "_")))
        self.read(tensor)
        return self.producers[id(tensor)]

    def read(self, tensor: Tensor) -> None:
        """Keep all in floats that shares memory with a tensor which is read after a change in place.

        A quantized result is a copy for the functions that are computed in floats: a change of it would be lost.
        """
        if id(tensor) in self.changed:
            for call in self.by_storage[id(tensor._storage)]:
                call.is_changed = True

    def keep(self, result: Any, call: Call) -> None:
        for tensor in tensors_in(result):
            self.producers[id(tensor)] = call, call.results
            call.results += 1
            self.alive.append(tensor)
            self.by_storage[id(tensor._storage)].append(call)

    def before(self, inputs: list[Tensor]) -> None:
        """Keep the states of a call's inputs."""
        self.states = [(tensor, _state(tensor)) for tensor in inputs]

    def after(self, call: Call, result: Any) -> Any:
        """Keep a call's result and what it changed in place. A result that is an input becomes an object of its own,
        so that it has one producer."""
        changed = [tensor._storage for tensor, state in self.states if state != _state(tensor)]
        result = map_tensors(result, lambda tensor: tensor.detach() if id(tensor) in self.producers else tensor)
        others = [tensor for tensor in self.alive if any(tensor._storage is storage for storage in changed)]
        self.keep(result, call)
        call.has_floats = call.has_floats and _are_floats(tensors_in(result))
        for number, tensor in enumerate(others, call.results):
            self.producers[id(tensor)] = call, number
            self.changed.add(id(tensor))
        return result

    def call_function(self, func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        inputs = tensors_in((args, kwargs))
        call = self.call("call_function", name, name.rpartition(".")[2].strip("_"), inputs, name) if inputs else None
        self.before(inputs)
        result = func(*args, **kwargs)
        return result if call is None else self.after(call, result)

    def enter_module(self, module: Module, args: tuple, kwargs: dict) -> None:
        path = module._graph_path
        if self.depth:
            self.depth += 1
        elif is_leaf(module) or self.opaque(path, module):
            inputs = tensors_in((args, kwargs))
            self.open = self.call("call_module", path, path.replace(".", "_"), inputs, kind_of(module))
            self.before(inputs)
            self.depth = 1
        else:
            self.scopes.append(path)

    def leave_module(self, module: Module, result: Any) -> Any:
        if self.depth > 1:
            self.depth -= 1
        elif self.depth:
            result = self.after(self.open, result)
            self.depth = 0
        else:
            self.scopes.pop()
        return result


def record(model: Module, example_inputs: tuple, opaque: Callable[[str, Module], bool]) -> CallGraph:
    """The calls that a model makes for these inputs. The model's state stays as it is."""
    model = copy.deepcopy(model)
    watch_all(model, opaque)
    recorder = _Recorder(model, opaque)
    for k, tensor in enumerate(tensors_in(example_inputs)):
        recorder.keep(tensor, recorder.add("placeholder", f"x{k}" if k else "x", f"x{k}" if k else "x"))
    random_state = get_rng_state()
    try:
        with no_grad(), recorder:
            result = model(*example_inputs)
    finally:
        set_rng_state(random_state)
    recorder.add("output", "output", "output", tensors_in(result))
    return CallGraph(recorder.calls)
