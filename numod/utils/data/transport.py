"""Sending objects between processes, with their arrays in shared memory. `worker` and `pool` define the messages.

A message is a pickle (protocol 5) and the buffers of its tensors and arrays. Large messages are written to an anonymous
file in memory. Its descriptor goes through the socket, and the receiver maps it, so nothing is copied and no named file
can be left behind. Small messages, and all messages without `memfd_create`, go through the connection.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import weakref
from collections.abc import Iterator
from multiprocessing import reduction
from multiprocessing.connection import Connection

import numpy as np

from ...core.tensor import Tensor
from ...core.convert.transfer import in_order
from ...core.create.values import from_array
from ...dtypes import dtype as DType

_INLINE = 1 << 16  # size in bytes up to which a message is faster through the socket than as a file
_ALIGNMENT = 64  # of every buffer in a message: a cache line
# maximum number of mapped messages; others are copied. Each needs a descriptor, and a process has about a thousand
_MAPPED = 200
_maps: weakref.WeakSet = weakref.WeakSet()


class _Pickler(pickle.Pickler):
    """A pickler that uses the memory of CPU tensors directly, without the copy of `Tensor.__reduce_ex__`."""

    def reducer_override(self, obj: object) -> object:
        if (
            not isinstance(obj, Tensor)
            or type(obj).__reduce_ex__ is not Tensor.__reduce_ex__
            or obj.device.type != "cpu"
        ):
            return NotImplemented  # a subclass with its own pickling contains a Tensor
        _, (cls, values, dtype, _, requires_grad, order), attributes = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return _tensor_over, (cls, values, dtype, requires_grad, order), attributes


def _tensor_over(
    cls: type, values: np.ndarray, dtype: DType, requires_grad: bool, order: tuple[int, ...] | None
) -> Tensor:
    result = in_order(from_array(values, dtype), order)._alias(cls)
    result._requires_grad = requires_grad
    return result


def pack(message: object) -> list[memoryview]:
    """The pickle of a message, followed by the buffers it refers to. Raises the errors of pickling."""
    stream, buffers = io.BytesIO(), []
    _Pickler(stream, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append).dump(message)
    return [stream.getbuffer(), *[buffer.raw() for buffer in buffers]]


def unpack(parts: list[memoryview]) -> object:
    """The message of `pack`. Its arrays use the memory of the parts. Raises the errors of unpickling."""
    return pickle.loads(parts[0], buffers=parts[1:])


def send(connection: Connection, label: tuple, parts: list[memoryview]) -> None:
    """Send the parts from `pack` with a label."""
    sizes = [part.nbytes for part in parts]
    total = sum(_padded(size) for size in sizes)
    through_memory = total > _INLINE and hasattr(os, "memfd_create")
    connection.send_bytes(pickle.dumps((label, through_memory, sizes)))
    if not through_memory:
        connection.send_bytes(b"".join(_with_padding(parts)))
        return
    file = _in_memory(parts, total)
    try:
        reduction.send_handle(connection, file, None)
    finally:
        os.close(file)


def receive(connection: Connection) -> tuple[tuple, list[memoryview]]:
    """The next message's label and parts. Raises EOFError or OSError if the connection is closed."""
    label, through_memory, sizes = pickle.loads(connection.recv_bytes())
    memory = memoryview(
        _mapped(reduction.recv_handle(connection)) if through_memory else bytearray(connection.recv_bytes())
    )
    parts, start = [], 0
    for size in sizes:
        parts.append(memory[start : start + size])
        start += _padded(size)
    return label, parts


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _with_padding(parts: list[memoryview]) -> Iterator[memoryview | bytes]:
    for part in parts:
        yield part
        yield bytes(_padded(part.nbytes) - part.nbytes)


def _in_memory(parts: list[memoryview], total: int) -> int:
    """A file in memory with the contents of the parts."""
    file = os.memfd_create("numod")
    try:
        os.ftruncate(file, total)
        start = 0
        for part in parts:
            _write(file, part.cast("B"), start)
            start += _padded(part.nbytes)
    except BaseException:
        os.close(file)
        raise
    return file


def _write(file: int, part: memoryview, start: int) -> None:
    while part.nbytes:  # one call writes 2 GB at most
        written = os.pwrite(file, part, start)
        part, start = part[written:], start + written


def _mapped(file: int) -> mmap.mmap | bytearray:
    """The file's memory, which lives as long as something refers to it. The descriptor is closed."""
    try:
        size = os.fstat(file).st_size
        if len(_maps) < _MAPPED:
            memory = mmap.mmap(file, size)
            _maps.add(memory)
            return memory
        memory = bytearray(size)
        with open(file, "rb", closefd=False) as source:
            source.readinto(memory)
        return memory
    finally:
        os.close(file)
