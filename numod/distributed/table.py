"""The contents of a store: values and queues by key, and the operations on them.

A store runs an operation on a table in its own process (`HashStore`), on one in a file (`FileStore`), or on that of
another process (`TCPStore`).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

# The types of each operation's arguments. A list stands for a list of its element.
OPERATIONS: dict[str, tuple] = {
    "set": ([str], [bytes]), "add": (str, int), "compare_set": (str, bytes, bytes), "append": (str, bytes),
    "delete": (str,), "missing": ([str],), "values_of": ([str],), "keys": (), "push": (str, bytes), "pop": (str,),
    "length": (str,),
}  # fmt: skip
CHANGES = frozenset(("set", "add", "compare_set", "append", "delete", "push", "pop"))


def check(operation: object, arguments: object) -> None:
    """Raise ValueError unless this is an operation of a table, with arguments of its types.

    What another process or a file says is checked before it is run.
    """
    kinds = OPERATIONS.get(operation) if isinstance(operation, str) else None
    if kinds is None or not isinstance(arguments, list) or len(arguments) != len(kinds):
        raise ValueError("this is no operation of a store")
    if not all(_is(kind, argument) for kind, argument in zip(kinds, arguments, strict=True)):
        raise ValueError(f"{operation}: an argument has another type")


def _is(kind: type | list, argument: object) -> bool:
    if isinstance(kind, list):
        return type(argument) is list and all(type(element) is kind[0] for element in argument)
    return type(argument) is kind


class QueueIsEmpty(Exception):
    """There is nothing to pop from a queue."""


class Table:
    """Values and queues of bytes by key. Not safe for threads: its store holds a lock."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, list[bytes]] = {}

    def set(self, keys: Sequence[str], values: Sequence[bytes]) -> None:
        """Set the value of each key."""
        self.values.update(zip(keys, values, strict=True))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which is 0 if the key is new. Raises ValueError if the value is not a number."""
        value = self.values.get(key, b"0")
        try:
            total = int(value) + amount
        except ValueError:
            raise ValueError(f"add: the value of key {key!r} is {value!r}, not a number") from None
        self.values[key] = b"%d" % total
        return total

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Replace the value if it is the expected one, or if the key is new and nothing is expected.

        Returns the value after that; for a new key that has an expected value, the expected value.
        """
        if self.values.get(key, b"") == expected and (key in self.values or not expected):
            self.values[key] = desired
        return self.values.get(key, expected)

    def append(self, key: str, value: bytes) -> None:
        """Append to the value of a key."""
        self.values[key] = self.values.get(key, b"") + value

    def delete(self, key: str) -> bool:
        """Remove a key. Returns whether it existed."""
        return self.values.pop(key, None) is not None

    def missing(self, keys: Sequence[str]) -> list[str]:
        """The keys that have no value yet."""
        return [key for key in keys if key not in self.values]

    def values_of(self, keys: Sequence[str]) -> list[bytes]:
        """The values of keys that exist."""
        return [self.values[key] for key in keys]

    def keys(self) -> list[str]:
        """All keys that have a value."""
        return list(self.values)

    def push(self, key: str, value: bytes) -> None:
        """Append a value to a queue."""
        self.queues.setdefault(key, []).append(value)

    def pop(self, key: str) -> bytes:
        """Remove and return the oldest value of a queue. Raises QueueIsEmpty without one."""
        if not self.queues.get(key):
            raise QueueIsEmpty
        return self.queues[key].pop(0)

    def length(self, key: str) -> int:
        """The number of values in a queue."""
        return len(self.queues.get(key, ()))


def encoded(message: Any) -> bytes:
    """A message as JSON. Bytes are written as {"bytes": text in base 64}."""
    return json.dumps(message, default=lambda value: {"bytes": b64encode(value).decode()}).encode()


def decoded(text: bytes) -> Any:
    """The message that `encoded` wrote. Raises ValueError if it is none."""
    try:
        return json.loads(text, object_hook=_bytes)
    except RecursionError:
        raise ValueError("the message is nested too deep") from None


def _bytes(fields: dict) -> object:
    return b64decode(fields["bytes"], validate=True) if list(fields) == ["bytes"] else fields
