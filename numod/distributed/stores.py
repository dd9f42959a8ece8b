"""Stores: keys and values that processes share, by PyTorch's names. They need no MPI.

`HashStore` is for the threads of one process, `FileStore` for processes that see one file, `TCPStore` for processes
that reach one port; `PrefixStore` divides another store by prefixes of its keys.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from operator import index
from typing import Any, BinaryIO

from .errors import DistStoreError, QueueEmptyError
from .table import CHANGES, QueueIsEmpty, Table, check, decoded, encoded

_POLL = 0.01  # seconds between two looks at a file


def _key(name: str, key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{name}(): a key must be str, not {type(key).__name__}")
    return key


def _value(name: str, value: object) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name}(): a value must be str or bytes, not {type(value).__name__}; convert it with str()")
    return value.encode() if isinstance(value, str) else value


def _keys(name: str, keys: Sequence[str]) -> list[str]:
    if isinstance(keys, str):
        raise TypeError(f"{name}(): keys must be a list of str, not one str; write [{keys!r}]")
    return [_key(name, key) for key in keys]


def _duration(name: str, timeout: object) -> timedelta:
    """A timeout; floats are seconds, as in PyTorch."""
    if isinstance(timeout, float):
        return timedelta(seconds=timeout)
    if not isinstance(timeout, timedelta):
        raise TypeError(f"{name}(): timeout must be datetime.timedelta, not {type(timeout).__name__}")
    return timeout


class Store:
    """Keys and values that processes share.

    A subclass defines `_run(operation, arguments, keys, timeout)`: it waits until `keys` have values, then runs an
    operation of a `Table`, both at once for all users of the store. Keys are str, values str or bytes.

    Example::

        >>> store = numod.distributed.HashStore()
        >>> store.set("epoch", "3")
        >>> store.get("epoch"), store.add("steps", 10), store.add("steps", 5)
        (b'3', 10, 15)
    """

    def __init__(self) -> None:
        self._timeout = timedelta(seconds=300)

    def _run(self, operation: str, arguments: tuple, keys: Sequence[str] = (), timeout: float = 0.0) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _run(operation, arguments, keys, timeout)")

    @property
    def timeout(self) -> timedelta:
        """How long `get`, `wait` and `queue_pop` wait; 300 s at first."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get`, `wait` and `queue_pop` wait for a key."""
        self._timeout = _duration("set_timeout", timeout)

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value of a key, whether it exists or not."""
        self.multi_set([key], [value])

    def get(self, key: str) -> bytes:
        """The value of a key. Waits for it, and raises DistStoreError after the timeout."""
        return self.multi_get([_key("get", key)])[0]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, 0 if the key is new, and return its value. Raises ValueError if it is not a number."""
        return self._run("add", (_key("add", key), index(amount)))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Replace the value if it is `expected_value`, or if that is empty and the key is new. Returns the value."""
        values = (_value("compare_set", value) for value in (expected_value, desired_value))
        return self._run("compare_set", (_key("compare_set", key), *values))

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value of a key."""
        self._run("append", (_key("append", key), _value("append", value)))

    def delete_key(self, key: str) -> bool:
        """Remove a key. Returns whether it existed."""
        return self._run("delete", (_key("delete_key", key),))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values, without waiting."""
        return not self._run("missing", (_keys("check", keys),))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys have values. Raises DistStoreError after `timeout`, or the store's."""
        keys = _keys("wait", keys)
        timeout = self.timeout if timeout is None else _duration("wait", timeout)
        self._run("missing", (keys,), keys, timeout.total_seconds())

    def num_keys(self) -> int:
        """The number of keys that have values."""
        return len(self.list_keys())

    def list_keys(self) -> list[str]:
        """All keys that have values."""
        return self._run("keys", ())

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys. Waits for them, and raises DistStoreError after the timeout."""
        keys = _keys("multi_get", keys)
        return self._run("values_of", (keys,), keys, self.timeout.total_seconds())

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys at once. Raises DistStoreError unless there is one value for each."""
        keys, contents = _keys("set", keys), [_value("set", value) for value in values]
        if len(keys) != len(contents):
            raise DistStoreError(f"multi_set: {len(keys)} keys and {len(contents)} values; pass one value for each key")
        self._run("set", (keys, contents))

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Append a value to the queue of a key. Queues are apart from values."""
        self._run("push", (_key("queue_push", key), _value("queue_push", value)))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove and return the oldest value of a queue.

        Waits for one, and raises DistStoreError after the timeout; with `block=False`, QueueEmptyError at once.
        """
        limit = time.monotonic() + self.timeout.total_seconds()
        while True:
            try:
                return self._run("pop", (_key("queue_pop", key),))
            except QueueIsEmpty:
                if not block:
                    raise QueueEmptyError(f"queue {key!r} is empty") from None
                if time.monotonic() >= limit:
                    raise DistStoreError(f"wait timeout after {_ms(self.timeout)}, queue: {key}") from None
            time.sleep(_POLL)

    def queue_len(self, key: str) -> int:
        """The number of values in a queue."""
        return self._run("length", (_key("queue_len", key),))

    def has_extended_api(self) -> bool:
        """True: `append`, `multi_get`, `multi_set` and queues exist."""
        return True

    def clone(self) -> Store:
        """Another object for the same contents."""
        return self


def _ms(timeout: timedelta) -> str:
    return f"{1000 * timeout.total_seconds():.0f}ms"


def timed_out(missing: Sequence[str], timeout: float) -> DistStoreError:
    """The error for keys that had no value within `timeout` seconds."""
    return DistStoreError(
        f"wait timeout after {1000 * timeout:.0f}ms, keys: {', '.join(missing)}; another process must set them, "
        "or raise the timeout with set_timeout"
    )


class SharedTable:
    """A table with a lock, for the threads of one process."""

    def __init__(self) -> None:
        self.table, self.changed = Table(), threading.Condition()

    def run(self, operation: str, arguments: Sequence, keys: Sequence[str], timeout: float) -> Any:
        """Wait for keys, then run an operation. Raises DistStoreError after `timeout` seconds."""
        with self.changed:
            if not self.changed.wait_for(lambda: not self.table.missing(keys), min(timeout, threading.TIMEOUT_MAX)):
                raise timed_out(self.table.missing(keys), timeout)
            result = getattr(self.table, operation)(*arguments)
            self.changed.notify_all()
            return result


class HashStore(Store):
    """A store for the threads of one process.

    Example::

        >>> store = numod.distributed.HashStore()
        >>> store.set("a", "1")
        >>> store.check(["a"]), store.check(["a", "b"])
        (True, False)
    """

    def __init__(self) -> None:
        super().__init__()
        self._shared = SharedTable()

    def _run(self, operation: str, arguments: tuple, keys: Sequence[str] = (), timeout: float = 0.0) -> Any:
        return self._shared.run(operation, arguments, keys, timeout)


class FileStore(Store):
    """A store in a file, for processes on machines that see it.

    Args:
        file_name (str): The file. It is made if it does not exist, and it stays when the processes have ended.
        world_size (int): The number of processes that use it; only kept.

    Raises ValueError if the file holds something else than a store.

    Example::

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "store")
        >>> numod.distributed.FileStore(path, 2).set("address", "node1")
        >>> numod.distributed.FileStore(path, 2).get("address")  # in another process
        b'node1'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path, self.world_size, self._lock = os.fspath(file_name), int(world_size), threading.Lock()
        self._table, self._end = Table(), 0  # the table as of this place in the file

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def _run(self, operation: str, arguments: tuple, keys: Sequence[str] = (), timeout: float = 0.0) -> Any:
        limit = time.monotonic() + timeout
        while True:
            with self._lock:
                missing, result = self._attempt(operation, arguments, keys)
            if not missing:
                return result
            if time.monotonic() >= limit:
                raise timed_out(missing, timeout)
            time.sleep(_POLL)

    def _attempt(self, operation: str, arguments: tuple, keys: Sequence[str]) -> tuple[list[str], Any]:
        """Read what others have added to the file. Then run the operation, and add it, unless a key is missing."""
        import fcntl

        with open(self._path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # ends when the file is closed, also by a process that dies
            self._read(file)
            if missing := self._table.missing(keys):
                return missing, None
            result = getattr(self._table, operation)(*arguments)
            if operation in CHANGES:
                self._end += file.write(encoded([operation, arguments]) + b"\n")
            return [], result

    def _read(self, file: BinaryIO) -> None:
        file.seek(self._end)
        for line in file.read().splitlines(keepends=True):
            if not line.endswith(b"\n"):  # its process died while it wrote
                file.truncate(self._end)
                return
            try:
                operation, arguments = decoded(line)
                check(operation, arguments)
                getattr(self._table, operation)(*arguments)
            except (ValueError, TypeError, QueueIsEmpty):
                raise ValueError(f"{self._path} is not a file of a FileStore; name a new file") from None
            self._end += len(line)


class PrefixStore(Store):
    """The part of a store whose keys begin with a prefix.

    Args:
        prefix (str): What is put before each key, with a slash.
        store (Store): The store that holds the values.

    Example::

        >>> whole = numod.distributed.HashStore()
        >>> numod.distributed.PrefixStore("worker", whole).set("state", "ready")
        >>> whole.list_keys()
        ['worker/state']
    """

    def __init__(self, prefix: str, store: Store) -> None:
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore: store must be a Store, not {type(store).__name__}")
        self.prefix, self.underlying_store = _key("PrefixStore", prefix), store

    @property
    def timeout(self) -> timedelta:
        """The underlying store's."""
        return self.underlying_store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the underlying store's."""
        self.underlying_store.set_timeout(timeout)

    def clone(self) -> PrefixStore:
        """The same part of a clone of the underlying store."""
        return PrefixStore(self.prefix, self.underlying_store.clone())

    def list_keys(self) -> list[str]:
        """The keys that begin with the prefix, without it."""
        start = f"{self.prefix}/"
        return [key.removeprefix(start) for key in self.underlying_store.list_keys() if key.startswith(start)]

    def _run(self, operation: str, arguments: tuple, keys: Sequence[str] = (), timeout: float = 0.0) -> Any:
        first, *others = arguments
        result = self.underlying_store._run(operation, (self._full(first), *others), self._full(keys), timeout)
        return [key.removeprefix(f"{self.prefix}/") for key in result] if operation == "missing" else result

    def _full(self, keys: str | Sequence[str]) -> str | list[str]:
        """The underlying store's name of a key, or of each."""
        if isinstance(keys, str):
            return f"{self.prefix}/{keys}"
        return [f"{self.prefix}/{key}" for key in keys]
