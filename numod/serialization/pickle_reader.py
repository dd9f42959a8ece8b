"""A safe unpickler: it builds only plain data, imports nothing, and calls only functions of a given table.

It does not use `pickle`.

A pickle is a program for a stack machine. This machine implements the opcodes for numbers, text, bytes, containers and
the memo. Globals are looked up in the caller's table, and REDUCE calls only a `Call` from that table. Memory use is
proportional to the pickle's length: arguments reused through the memo are counted, so that a short program cannot build
a large result.

Security. A file can build numbers, text and containers, one per instruction, and call the table's functions, which
check their arguments. It can also call the classes and functions that the user allows with `safe_globals`, and set
attributes of their objects, with any arguments. Dict keys are limited to types that hash quickly. Nothing is imported,
and nesting costs no recursion, since the stack is a list.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from .keys import checked_key
from .refusal import CheckpointError, shorten
from .safe_globals import is_allowed

_CALL_BUDGET = 16  # budget of elements passed to calls, per byte of the pickle
_FORBIDDEN = {
    "i": "INST", "o": "OBJ", "\x92": "NEWOBJ_EX", "\x82": "EXT1", "\x83": "EXT2", "\x84": "EXT4", "P": "PERSID",
    "\x97": "NEXT_BUFFER", "\x98": "READONLY_BUFFER",
}  # fmt: skip


class Call(NamedTuple):
    """A global that the opcode REDUCE may call."""

    name: str
    function: Callable

    def __call__(self, *arguments: object) -> object:
        """Call it as a trusted pickle does."""
        return self.function(*arguments)


class Allowed(Call):
    """A class or function that the user allows. NEWOBJ may also create objects of the class."""


class PickleReader:
    """Reads one pickle from `data`, starting at `position`; afterwards `position` is the end of the pickle.

    `find_global(module, name)` resolves a global, `load_persistent(id)` resolves a persistent id, and `build(object,
    state)` sets an object's state. They raise ValueError for input that they do not accept, as `read` does.
    """

    def __init__(
        self,
        data: bytes | bytearray,
        find_global: Callable,
        load_persistent: Callable,
        build: Callable,
        position: int = 0,
    ) -> None:
        self.data, self.position = data, position
        self.find_global, self.load_persistent, self.build = find_global, load_persistent, build
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []  # saved stacks of the open marks
        self.memo: dict[int, Any] = {}
        self.budget = _CALL_BUDGET * (len(data) - position) + 1024

    def read(self) -> Any:
        """Read the object. Raises ValueError with the position if the data is not a valid pickle of plain data."""
        while True:
            begin = self.position
            code = self.take(1)[0]
            try:
                if code == 0x2E:  # STOP
                    return _as_data(self.pop())
                _OPERATIONS.get(code, _refuse_operation)(self)
            except CheckpointError:
                raise
            except (ValueError, TypeError, OverflowError, LookupError, AttributeError, RuntimeError) as error:
                raise ValueError(f"byte {begin}{self.where()}: {error}") from error

    def where(self) -> str:
        """The path of keys to the value being built, for error messages."""
        path = ".".join(key for stack in [*self.marks[-20:], self.stack] for key in _open_keys(stack) if len(key) < 100)
        return f", in {shorten(path)}" if path else ""

    def take(self, count: int) -> bytes:
        """The next `count` bytes of the program."""
        end = self.position + count
        if end > len(self.data):
            raise ValueError(
                f"the pickle ends at byte {len(self.data)}, but {count} bytes are needed at byte {self.position}"
            )
        piece = bytes(self.data[self.position : end])
        self.position = end
        return piece

    def take_line(self) -> str:
        """The text up to the next line feed."""
        end = self.data.find(b"\n", self.position, self.position + 1000)
        if end < 0:
            raise ValueError("a name without an end")
        line = self.take(end - self.position).decode()
        self.position += 1
        return line

    def number(self, form: str) -> Any:
        """A number in the program, in a format of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def pop(self) -> Any:
        """Pop the top of the stack."""
        if not self.stack:
            raise ValueError("an instruction takes from an empty stack")
        return self.stack.pop()

    def top(self, *kinds: type) -> Any:
        """The top of the stack, which must have exactly one of these types or an allowed subclass."""
        top = self.stack[-1] if self.stack else None
        if not self.stack or not (type(top) in kinds or (isinstance(top, kinds) and is_allowed(type(top)))):
            raise ValueError(f"expected {' or '.join(kind.__name__ for kind in kinds)} on the stack")
        return self.stack[-1]

    def pop_mark(self) -> list:
        """Pop everything above the last mark, and the mark."""
        items = self.stack
        if not self.marks:
            raise ValueError("there is no mark on the stack")
        self.stack = self.marks.pop()
        return items

    def call(self, function: Any, arguments: Any) -> Any:
        """Call the function of a global, if it has one and the budget is not exhausted."""
        if not isinstance(function, Call) or type(arguments) is not tuple:
            raise ValueError(
                f"a call of {shorten(function)} with {shorten(arguments)}, which is not an allowed function"
            )
        self.charge(arguments)
        return function.function(*arguments)

    def charge(self, arguments: Any) -> None:
        """Subtract the sizes of a call's arguments from the budget, since the memo can repeat large arguments."""
        parts = arguments if type(arguments) is tuple else (arguments,)
        self.budget -= sum(
            len(part) for part in parts if isinstance(part, (str, bytes, bytearray, list, tuple, dict, set, frozenset))
        )
        if self.budget < 0:
            raise ValueError("it needs far more memory than its own length")


def _open_keys(stack: list) -> list[str]:
    """The keys on a stack whose values are being built.

    These are the last string, and the strings before it that are followed only by an empty dict.
    """
    position = next(
        (len(stack) - 1 - back for back, item in enumerate(reversed(stack[-4:])) if isinstance(item, str)), -1
    )
    keys: list[str] = []
    while position >= 0 and isinstance(stack[position], str) and len(keys) < 20:
        keys.append(stack[position])
        position = (
            position - 2
            if position >= 2 and type(stack[position - 1]) in (dict, OrderedDict) and not stack[position - 1]
            else -1
        )
    return keys[::-1]


def _refuse_operation(machine: PickleReader) -> None:
    code = chr(machine.data[machine.position - 1])
    if code in _FORBIDDEN:
        raise ValueError(f"the instruction {_FORBIDDEN[code]}, which plain data does not need, is not supported")
    raise ValueError(f"the instruction {code!r}, which torch.save does not write")


def _as_data(value: Any) -> Any:
    """`value`, or the class or function itself if it is one that the user allows."""
    return value.function if isinstance(value, Allowed) else value


def _checked_value(value: Any) -> Any:
    """`value` if it may be stored in a container: not a function of the table."""
    value = _as_data(value)
    if isinstance(value, Call):
        raise ValueError(f"the bare function {value.name}, which is not data")
    return value


def _pairs(items: list) -> list[tuple]:
    if len(items) % 2:
        raise ValueError("a key without a value")
    return [(checked_key(_as_data(key)), _checked_value(value)) for key, value in zip(items[::2], items[1::2])]


def _set_items(machine: PickleReader, items: list) -> None:
    target = machine.top(dict, OrderedDict, Counter)
    for key, value in _pairs(items):
        target[key] = value


def _set_item(machine: PickleReader) -> None:
    value, key = machine.pop(), machine.pop()
    _set_items(machine, [key, value])


def _append(machine: PickleReader) -> None:
    value = _checked_value(machine.pop())
    machine.top(list, deque).append(value)


def _tuple_of(count: int) -> Callable:
    def operation(machine: PickleReader) -> None:
        items = [_as_data(machine.pop()) for _ in range(count)]
        machine.stack.append(tuple(reversed(items)))

    return operation


def _constant(make: Callable) -> Callable:
    return lambda machine: machine.stack.append(make())


def _text(form: str) -> Callable:
    return lambda machine: machine.stack.append(machine.take(machine.number(form)).decode("utf-8", "surrogatepass"))


def _bytes(form: str, kind: type = bytes) -> Callable:
    return lambda machine: machine.stack.append(kind(machine.take(machine.number(form))))


def _number(form: str) -> Callable:
    return lambda machine: machine.stack.append(machine.number(form))


def _long(form: str) -> Callable:
    return lambda machine: machine.stack.append(
        int.from_bytes(machine.take(machine.number(form)), "little", signed=True)
    )


def _put(form: str) -> Callable:
    def operation(machine: PickleReader) -> None:
        index = machine.number(form)
        machine.memo[index] = machine.stack[-1]

    return operation


def _get(form: str) -> Callable:
    def operation(machine: PickleReader) -> None:
        index = machine.number(form)
        if index not in machine.memo:
            raise ValueError(f"the memo has no entry {index}")
        machine.stack.append(machine.memo[index])

    return operation


def _mark(machine: PickleReader) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _reduce(machine: PickleReader) -> None:
    arguments, function = machine.pop(), machine.pop()
    machine.stack.append(function)  # keeps the key below it on the stack for `where`
    machine.stack[-1] = machine.call(function, arguments)


def _new_object(machine: PickleReader) -> None:
    arguments, kind = machine.pop(), machine.pop()
    if not isinstance(kind, Allowed) or not isinstance(kind.function, type):
        raise ValueError(
            "the instruction NEWOBJ, which plain data does not need, is supported only for classes that the user allows"
        )
    machine.stack.append(kind)
    machine.stack[-1] = machine.call(Call(kind.name, partial(kind.function.__new__, kind.function)), arguments)


def _build(machine: PickleReader) -> None:
    state = machine.pop()
    machine.charge(state)
    machine.build(machine.stack[-1], state)


def _find_global(machine: PickleReader) -> None:
    module = machine.take_line()
    machine.stack.append(machine.find_global(module, machine.take_line()))


def _find_global_on_stack(machine: PickleReader) -> None:
    name, module = machine.pop(), machine.pop()
    if type(name) is not str or type(module) is not str:
        raise ValueError("the name of a global must be text")
    machine.stack.append(machine.find_global(module, name))


def _append_all(machine: PickleReader) -> None:
    items = machine.pop_mark()
    machine.top(list, deque).extend(map(_checked_value, items))


def _add_members(machine: PickleReader) -> None:
    items = machine.pop_mark()
    machine.top(set).update(map(checked_key, items))


def _collect(machine: PickleReader, kind: Callable) -> None:
    items = kind(map(_as_data, machine.pop_mark()))
    machine.stack.append(items)


_OPERATIONS: dict[int, Callable[[PickleReader], object]] = {
    ord(code): operation
    for code, operation in {
        "\x80": lambda machine: machine.take(1),  # PROTO
        "\x95": lambda machine: machine.take(8),  # FRAME
        "(": _mark,
        "0": PickleReader.pop,
        "1": PickleReader.pop_mark,
        "N": _constant(lambda: None),
        "\x88": _constant(lambda: True),
        "\x89": _constant(lambda: False),
        "]": _constant(list),
        "}": _constant(dict),
        ")": _constant(tuple),
        "\x8f": _constant(set),
        "J": _number("<i"),
        "K": _number("<B"),
        "M": _number("<H"),
        "G": _number(">d"),
        "\x8a": _long("<B"),
        "\x8b": _long("<I"),
        "X": _text("<I"),
        "\x8c": _text("<B"),
        "\x8d": _text("<Q"),
        "U": _text("<B"),
        "T": _text("<I"),
        "C": _bytes("<B"),
        "B": _bytes("<I"),
        "\x8e": _bytes("<Q"),
        "\x96": _bytes("<Q", bytearray),
        "t": lambda machine: _collect(machine, tuple),
        "\x85": _tuple_of(1),
        "\x86": _tuple_of(2),
        "\x87": _tuple_of(3),
        "a": _append,
        "e": _append_all,
        "s": _set_item,
        "u": lambda machine: _set_items(machine, machine.pop_mark()),
        "\x90": _add_members,
        "\x91": lambda machine: _collect(machine, lambda items: frozenset(map(checked_key, items))),
        "q": _put("<B"),
        "r": _put("<I"),
        "h": _get("<B"),
        "j": _get("<I"),
        "\x94": lambda machine: machine.memo.__setitem__(len(machine.memo), machine.stack[-1]),
        "c": _find_global,
        "\x93": _find_global_on_stack,
        "R": _reduce,
        "\x81": _new_object,
        "b": _build,
        "Q": lambda machine: machine.stack.append(machine.load_persistent(machine.pop())),
    }.items()
}
