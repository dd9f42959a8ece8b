"""Containers: modules that are lists or dictionaries of modules or parameters. Only Sequential can be called.

The entries are ordinary submodules and parameters, named by their index or key, so every traversal finds them.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Any, Self, overload

from ..core import Tensor
from .module import Module, indent
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _ModuleSequence(Module):
    """Base of Sequential and ModuleList: the list protocol over `_modules`, whose names are the indices."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, index: int) -> str:
        return list(self._modules)[_position(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index if isinstance(index, slice) else _position(index, len(self))]
        self._renumber(modules)

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(index): module for index, module in enumerate(modules)}

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end, in order."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{self._get_name()}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one at `index`. Raises IndexError outside [-len, len]."""
        if not isinstance(module, Module):
            raise AssertionError(f"{self._get_name()}.insert: expected a Module, got {type(module).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}, with {len(self)} modules")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove and return the module, or the container of modules, at `key`."""
        module = self[key]
        del self[key]
        return module


class Sequential(_ModuleSequence):
    """Modules called one after the other: each receives the output of the one before.

    `Sequential(first, second, ...)` names them by index, `Sequential(OrderedDict(name=module, ...))` by key.

    Example:

        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> net(torch.ones(3, 4)).shape
        numod.Size([3, 2])
    """

    def __init__(self, *args: Module | OrderedDict[str, Module]) -> None:
        super().__init__()
        modules = (
            args[0]
            if len(args) == 1 and isinstance(args[0], OrderedDict)
            else {str(index): arg for index, arg in enumerate(args)}
        )
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(_sequential(other))

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*list(self) * _times(self, times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        return self.extend(list(self) * (_times(self, times) - 1))


class ModuleList(_ModuleSequence):
    """A list of registered modules. It has no `forward`: its owner calls the modules.

    Example:

        >>> layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        >>> len(list(layers.parameters()))
        6
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name_at(index)]

    def _name_at(self, index: int) -> str:
        return str(_position(index, len(self)))

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Equal neighbours share a line: `(0-2): 3 x Linear(...)`."""
        blocks: list[list] = []  # first index, last index, text
        for index, module in enumerate(self):
            text = repr(module)
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = index
            else:
                blocks.append([index, index, text])
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in blocks]
        return "\n  ".join([f"{self._get_name()}(", *map(indent, lines)]) + "\n)" if lines else f"{self._get_name()}()"


class ModuleDict(Module):
    """A dictionary of modules, in order of insertion. Keys are attribute names, so they may not contain a dot.

    Example:

        >>> layers = nn.ModuleDict({"in": nn.Linear(2, 3), "out": nn.Linear(3, 1)})
        >>> layers["out"]
        Linear(in_features=3, out_features=1, bias=True)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Module]:
        """The keys with their modules."""
        return self._modules.items()

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module of `key`."""
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules, from a mapping or from pairs."""
        for key, module in _pairs(self, modules):
            self[key] = module


class ParameterList(Module):
    """A list of registered parameters. Tensors become Parameters; other values are stored but not registered.

    Example:

        >>> parameters = nn.ParameterList([nn.Parameter(torch.ones(2)) for _ in range(3)])
        >>> len(parameters)
        3
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self))), _as_parameter(value))

    def __delitem__(self, index: int | slice) -> None:
        values = list(self)
        del values[index if isinstance(index, slice) else _position(index, len(self))]
        self._refill(values)

    def _refill(self, values: list[Any]) -> None:
        for index in range(len(self)):
            delattr(self, str(index))
        self._size = 0
        self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end, in order."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    __iadd__ = extend

    def insert(self, index: int, value: Any) -> None:
        """Put a value before the one at `index`."""
        values = list(self)
        values.insert(index, value)
        self._refill(values)

    def pop(self, index: int = -1) -> Any:
        """Remove and return the value at `index`."""
        value = self[index]
        del self[index]
        return value

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({index}): {_describe(value, str(getattr(value, 'dtype', '')))}" for index, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of registered parameters.

    Tensors become Parameters; other values are stored but not registered. Keys are attribute names: strings without
    dots. A plain mapping is read in the order of its sorted keys, as in PyTorch.

    Example:

        >>> parameters = nn.ParameterDict({"scale": nn.Parameter(torch.ones(1))})
        >>> list(parameters)
        ['scale']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _string(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _string(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, _string(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> KeysView[str]:
        """The keys, in order of insertion."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """The keys with their values."""
        return ((key, self[key]) for key in self._keys)

    def copy(self) -> ParameterDict:
        """A new ParameterDict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, set to `default` first if the key is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A ParameterDict with `default` under every key."""
        return ParameterDict((key, default) for key in keys)

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of `key`."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the pair inserted last."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("popitem(): ParameterDict is empty")
        return key, self.pop(key)

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add or replace values, from a mapping or from pairs."""
        pairs = _pairs(self, parameters)
        ordered = isinstance(parameters, (OrderedDict, ParameterDict)) or not isinstance(parameters, Mapping)
        for key, value in pairs if ordered else sorted(pairs, key=operator.itemgetter(0)):
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        result = ParameterDict(other)
        result.update(self)
        return result

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({key}): {_describe(value, value.type() if isinstance(value, Tensor) else '')}"
            for key, value in self.items()
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _position(index: int, size: int) -> int:
    """`index` counted from the front, or IndexError."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range, with {size} entries")
    return index % size


def _sequential(other: Any) -> list[Module]:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
    return list(other)


def _times(sequential: Sequential, times: Any) -> int:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(sequential)} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {type(sequential)}")
    return times


def _pairs(container: Module, entries: Any) -> list[tuple[str, Any]]:
    """The keys and values of a mapping or of an iterable of pairs. Raises for other values."""
    name = type(container).__name__
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(entries).__name__}"
        )
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    pairs = list(entries)
    for index, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name} update sequence element #{index} should be Iterable; is {type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{name} update sequence element #{index} has length {len(pair)}; 2 is required")
    return pairs


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _string(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}')."
        )
    return key


def _describe(value: Any, dtype: str) -> str:
    """An entry's line. PyTorch shows tensors' dtypes in lists, and their types in dictionaries."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    device = f" ({value.device})" if value.device.type == "cuda" else ""
    return f"{kind} containing: [{dtype} of size {'x'.join(map(str, value.shape))}{device}]"
