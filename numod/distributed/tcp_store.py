"""A store that one process serves at a TCP port.

A message is its length in 4 bytes and JSON. A request is (operation, arguments, keys to wait for, seconds to wait), a
reply (kind, result). The server runs operations of `table.OPERATIONS` only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import socketserver
import struct
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .errors import DistNetworkError, DistStoreError
from .stores import SharedTable, Store
from .table import QueueIsEmpty, check, decoded, encoded

_LIMIT = 1 << 28  # bytes of a message
_STEP = 1 << 16
_JOINED = "init/"  # counts the processes that have joined, as in PyTorch
_ERRORS = {"store": DistStoreError, "value": ValueError, "queue": QueueIsEmpty}
_POLL = 0.05  # seconds between two looks whether the server is to end
_MAX_TIMEOUT = 1e6  # seconds of a socket's timeout
_SLACK = 5.0  # seconds that a reply may come later than the server's own timeout


def _send(connection: socket.socket, message: Any) -> None:
    text = encoded(message)
    if len(text) > _LIMIT:
        raise ValueError(
            f"a message to a TCPStore has {len(text)} bytes, more than {_LIMIT}; send tensors by broadcast"
        )
    connection.sendall(struct.pack("!I", len(text)) + text)


def _receive(connection: socket.socket) -> Any:
    (length,) = struct.unpack("!I", _exactly(connection, 4))
    if length > _LIMIT:
        raise ValueError("this is no message of a TCPStore")
    return decoded(_exactly(connection, length))


def _exactly(connection: socket.socket, length: int) -> bytes:
    """Read so many bytes. Memory grows with what arrives, not with what the length says."""
    received = bytearray()
    while len(received) < length:
        part = connection.recv(min(length - len(received), _STEP))
        if not part:
            raise ConnectionError("the other side closed the connection")
        received += part
    return bytes(received)


class _Server(socketserver.ThreadingTCPServer):
    """Serves one table. Each connection has a thread."""

    daemon_threads, allow_reuse_address, request_queue_size = True, True, 1024

    def __init__(self, host: str, port: int, listening: int | None) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.address_family, self.shared = family, SharedTable()
        super().__init__(address, _Handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = socket.socket(fileno=listening)
            self.server_address = self.socket.getsockname()
            self.server_activate()
        threading.Thread(target=self.serve_forever, args=(_POLL,), name="TCPStore", daemon=True).start()


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        """Reply to requests until the connection is closed, or something comes that is no request."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            while True:
                operation, arguments, keys, timeout = _receive(self.request)
                check(operation, arguments)
                check("missing", [keys])
                reply = self._reply(operation, arguments, keys, float(timeout))
                try:
                    _send(self.request, reply)
                except ValueError as error:  # too large
                    _send(self.request, ("value", str(error)))

    def _reply(self, operation: str, arguments: list, keys: list[str], timeout: float) -> tuple[str, Any]:
        try:
            return "result", self.server.shared.run(operation, arguments, keys, timeout)
        except DistStoreError as error:
            return "store", str(error)
        except QueueIsEmpty as error:
            return "queue", str(error)
        except ValueError as error:
            return "value", str(error)


class _Connection:
    """A connection to the master, for one request at a time.

    It is made anew after a failure or an interrupt, since a late reply would be taken for another's, and in a forked
    child, which shares its parent's socket.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port, self.socket = host, port, None
        self._start()

    def _start(self) -> None:
        self.process, self.lock = os.getpid(), threading.Lock()

    def open(self, timeout: float) -> None:
        """Connect to a master that may begin to listen later. Raises DistNetworkError after `timeout` seconds."""
        limit = time.monotonic() + timeout
        while True:
            try:
                self.socket = socket.create_connection((self.host, self.port), _limited(limit - time.monotonic()))
                return
            except OSError as error:
                if time.monotonic() + 0.1 > limit:
                    raise DistNetworkError(
                        f"The client socket has timed out after {1000 * timeout:.0f}ms while trying to connect to "
                        f"({self.host}, {self.port}): {error}; one process must be the master"
                    ) from None
                time.sleep(0.1)

    def request(self, message: tuple, timeout: float) -> tuple[str, Any]:
        """The reply to a request, which the server sends within `timeout` seconds."""
        if os.getpid() != self.process:
            self._start()
            self.close()
        with self.lock:
            try:
                if self.socket is None:
                    self.socket = socket.create_connection((self.host, self.port), _SLACK)
                self.socket.settimeout(_limited(timeout + _SLACK))
                _send(self.socket, message)
                return tuple(_receive(self.socket))
            except (OSError, struct.error) as error:
                self.close()
                raise DistNetworkError(
                    f"{message[0]} in the TCPStore at ({self.host}, {self.port}) failed: {error}. Did the master end?"
                ) from error
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the socket."""
        if self.socket is not None:
            self.socket.close()
        self.socket = None


def _limited(seconds: float) -> float:
    """Seconds that a socket takes as its timeout."""
    return min(max(seconds, 0.01), _MAX_TIMEOUT)


class TCPStore(Store):
    """A store that one process, the master, serves at a TCP port.

    Args:
        host_name (str): The master's address. The master listens at this address only.
        port (int): Its port. The master takes a free one for 0: see the attribute `port`.
        world_size (int): The number of processes that join, the master too; None where it is not known. Default: None
        is_master (bool): Whether this process serves. Default: False
        timeout (timedelta): How long to wait for the connection, for keys and for others. Default: 300 s
        wait_for_workers (bool): Whether the master waits until `world_size` processes have joined. Default: True
        multi_tenant (bool): Whether a second master of this address joins the first. Default: False
        master_listen_fd (int): A file descriptor that listens already. Default: None
        use_libuv (bool): No effect. Default: True

    Raises DistNetworkError if there is no connection, and DistStoreError if not all join within the timeout.

    Values are sent as they are, so use it in a network that you trust.

    Example::

        >>> master = numod.distributed.TCPStore("127.0.0.1", 0, is_master=True)
        >>> worker = numod.distributed.TCPStore("127.0.0.1", master.port)  # in another process
        >>> worker.set("state", "ready")
        >>> master.get("state")
        b'ready'
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300), wait_for_workers: bool = True, multi_tenant: bool = False,
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.set_timeout(timeout)
        self._host = host_name
        if not 0 <= int(port) < 1 << 16:
            raise ValueError(f"TCPStore: port must be from 0 to 65535, got {port}")
        self._server = self._serve(int(port), multi_tenant, master_listen_fd) if is_master else None
        self._connection = _Connection(host_name, self._server.server_address[1] if self._server else int(port))
        weakref.finalize(self, _close, os.getpid(), self._connection, self._server)
        self._connection.open(self.timeout.total_seconds())
        if world_size is not None and world_size > 0:
            joined = self.add(_JOINED, 1)
            if is_master and wait_for_workers:
                self._wait_for_others(joined, world_size)

    def _serve(self, port: int, multi_tenant: bool, listening: int | None) -> _Server | None:
        try:
            return _Server(self._host, port, listening)
        except OSError as error:
            if not (multi_tenant and error.errno == errno.EADDRINUSE):
                raise DistNetworkError(
                    f"The server socket has failed to listen at ({self._host}, {port}): {error.strerror or error}; "
                    "pass port 0 for a free one"
                ) from error
            return None  # another store of this address serves

    def _wait_for_others(self, joined: int, world_size: int) -> None:
        limit = time.monotonic() + self.timeout.total_seconds()
        while joined < world_size:
            if time.monotonic() > limit:
                raise DistStoreError(
                    f"Timed out after {self.timeout.total_seconds():g} seconds waiting for clients. "
                    f"{joined}/{world_size} clients joined."
                )
            time.sleep(0.01)
            joined = self.add(_JOINED, 0)

    @property
    def host(self) -> str:
        """The master's address."""
        return self._host

    @property
    def port(self) -> int:
        """The master's port."""
        return self._connection.port

    def list_keys(self) -> list[str]:
        """All keys that have values, without the one that counts the processes."""
        return [key for key in super().list_keys() if key != _JOINED]

    def num_keys(self) -> int:
        """The number of keys that have values. The processes that joined are counted in a key."""
        return len(super().list_keys())

    def _run(self, operation: str, arguments: tuple, keys: Sequence[str] = (), timeout: float = 0.0) -> Any:
        longest = max(timeout, self.timeout.total_seconds())
        kind, result = self._connection.request((operation, arguments, keys, timeout), longest)
        if kind in _ERRORS:
            raise _ERRORS[kind](result)
        return result

    def clone(self) -> TCPStore:
        """Another connection to the same master."""
        return TCPStore(self.host, self.port, timeout=self.timeout)

    def __repr__(self) -> str:
        """The address, and whether this process serves."""
        return f"TCPStore(host={self.host!r}, port={self.port}, is_master={self._server is not None})"


def _close(process: int, connection: _Connection, server: _Server | None) -> None:
    """Close a connection, and end the master's thread. A forked child has no such thread to wait for."""
    connection.close()
    if server is not None and os.getpid() == process:
        server.shutdown()
        server.server_close()
