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
                _send(self.request, self._reply(operation, arguments, keys, float(timeout)))

    def _reply(self, operation: str, arguments: list, keys: list[str], timeout: float) -> tuple[str, Any]:
        try:
            return "result", self.server.shared.run(operation, arguments, keys, timeout)
        except DistStoreError as error:
            return "store", str(error)
        except QueueIsEmpty as error:
            return "queue", str(error)
        except ValueError as error:
            return "value", str(error)


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
        self._host, self._lock = host_name, threading.Lock()
        self._server = self._serve(int(port), multi_tenant, master_listen_fd) if is_master else None
        self._port = self._server.server_address[1] if self._server else int(port)
        self._connection = self._connect()
        weakref.finalize(self, _close, os.getpid(), self._connection, self._server)
        joined = self.add(_JOINED, 1)
        if world_size is not None and world_size > 0 and is_master and wait_for_workers:
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

    def _connect(self) -> socket.socket:
        """A connection to the master, which may begin to listen later."""
        limit = time.monotonic() + self.timeout.total_seconds()
        while True:
            try:
                return socket.create_connection((self._host, self._port), max(limit - time.monotonic(), 0.01))
            except OSError as error:
                if time.monotonic() + 0.1 > limit:
                    raise DistNetworkError(
                        f"The client socket has timed out after {1000 * self.timeout.total_seconds():.0f}ms while "
                        f"trying to connect to ({self._host}, {self._port}): {error}; one process must be the master"
                    ) from None
                time.sleep(0.1)

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
        return self._port

    def _run(self, operation: str, arguments: tuple, keys: Sequence[str] = (), timeout: float = 0.0) -> Any:
        with self._lock:
            self._connection.settimeout(max(timeout, self.timeout.total_seconds()) + _SLACK)
            try:
                _send(self._connection, (operation, arguments, keys, timeout))
                kind, result = _receive(self._connection)
            except (OSError, struct.error) as error:
                self._connection.close()  # a later reply would be taken for another's
                raise DistNetworkError(
                    f"{operation} in the TCPStore at ({self._host}, {self._port}) failed: {error}. Did the master end?"
                ) from error
        if kind in _ERRORS:
            raise _ERRORS[kind](result)
        return result

    def clone(self) -> TCPStore:
        """Another connection to the same master."""
        return TCPStore(self._host, self._port, timeout=self.timeout)

    def __repr__(self) -> str:
        """The address, and whether this process serves."""
        return f"TCPStore(host={self._host!r}, port={self._port}, is_master={self._server is not None})"


def _close(process: int, connection: socket.socket, server: _Server | None) -> None:
    """Close a connection, and end the master's thread. A forked child has no such thread to wait for."""
    connection.close()
    if server is not None and os.getpid() == process:
        server.shutdown()
        server.server_close()
