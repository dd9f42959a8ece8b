"""Stores: PyTorch's operations on each kind, waiting, several processes at once, and input that is no store."""

from __future__ import annotations

import errno
import gc
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

import numod.distributed as dist
from numod.distributed import tcp_store

SHORT = timedelta(milliseconds=50)
KINDS: dict[str, Callable] = {
    "HashStore": lambda folder: dist.HashStore(),
    "FileStore": lambda folder: dist.FileStore(str(folder / "store"), 1),
    "TCPStore": lambda folder: dist.TCPStore("127.0.0.1", 0, is_master=True),
    "PrefixStore": lambda folder: dist.PrefixStore("part", dist.HashStore()),
}


@pytest.fixture(params=KINDS)
def store(request, tmp_path) -> dist.Store:
    return KINDS[request.param](tmp_path)


def test_values_as_in_pytorch(store) -> None:
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    assert (store.get("a"), store.get("b"), store.add("a", 4), store.get("a")) == (b"1", b"\x00\xff", 5, b"5")
    assert store.add("new", 3) == 3 and store.check(["a", "new"]) and not store.check(["a", "other"])
    assert store.compare_set("c", "x", "y") == b"x" and not store.check(["c"])
    assert [store.compare_set("d", *values) for values in (("", "y"), ("y", "z"), ("y", "q"))] == [b"y", b"z", b"z"]
    assert store.delete_key("a") and not store.delete_key("a")
    store.append("e", "x")
    store.append("e", "y")
    store.multi_set(["m", "ü"], ["1", "é"])
    assert store.multi_get(["e", "m", "ü"]) == [b"xy", b"1", "é".encode()]
    assert store.num_keys() == 6 and set(store.list_keys()) == {"b", "new", "d", "e", "m", "ü"}
    assert store.has_extended_api() and store.clone().get("m") == b"1"


def test_queues(store) -> None:
    store.queue_push("q", "1")
    store.queue_push("q", b"2")
    assert (store.queue_len("q"), store.queue_pop("q"), store.queue_pop("q"), store.queue_len("q")) == (
        2,
        b"1",
        b"2",
        0,
    )
    with pytest.raises(dist.QueueEmptyError, match="queue 'q' is empty"):
        store.queue_pop("q", block=False)
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, queue: q"):
        store.queue_pop("q")


def test_a_missing_key_ends_the_wait(store) -> None:
    assert store.timeout == timedelta(seconds=300)
    store.set("a", "1")
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: .*z1, .*z2"):
        store.wait(["a", "z1", "z2"], SHORT)
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError, match="keys: .*z1"):
        store.get("z1")
    store.wait(["a"])
    store.wait([])


def test_a_wait_ends_when_another_thread_sets_the_key(store) -> None:
    other = store.clone() if isinstance(store, dist.TCPStore) else store
    results = []
    thread = threading.Thread(target=lambda: results.append(other.get("late")))
    thread.start()
    store.set("late", "value")
    thread.join()
    assert results == [b"value"]


def test_wrong_arguments(store) -> None:
    store.set("text", "x")
    for use, error, message in (
        (lambda: store.set(1, "x"), TypeError, "a key must be str, not int"),
        (lambda: store.set("k", 1), TypeError, "a value must be str or bytes, not int"),
        (lambda: store.wait("abc"), TypeError, r"write \['abc'\]"),
        (lambda: store.set_timeout(3), TypeError, "datetime.timedelta"),
        (lambda: store.add("k", 1.5), TypeError, "cannot be interpreted as an integer"),
        (lambda: store.add("k", "3"), TypeError, "cannot be interpreted as an integer"),
        (lambda: store.add("text", 1), ValueError, "not a number"),
        (lambda: store.multi_set(["a", "b"], ["1"]), dist.DistStoreError, "2 keys and 1 values"),
    ):
        with pytest.raises(error, match=message):
            use()
    assert store.get("text") == b"x"


PROCESS = """
import sys
import numod.distributed as dist
path, port = sys.argv[1], int(sys.argv[2])
for store in (dist.FileStore(path, 3), dist.TCPStore("127.0.0.1", port, 3)):
    for _ in range(100):
        store.add("count", 1)
    store.set(f"done{sys.argv[3]}", "yes")
    store.wait(["go"])
"""


def test_several_processes(tmp_path) -> None:
    stores = dist.FileStore(str(tmp_path / "store"), 3), dist.TCPStore("127.0.0.1", 0, is_master=True)
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, stores[0].path, str(stores[1].port), str(number)])
        for number in range(2)
    ]
    for store in stores:
        store.wait(["done0", "done1"])
        assert store.add("count", 0) == 200
        store.set("go", "1")
    assert [process.wait() for process in processes] == [0, 0] and stores[1].get("init/") == b"2"


def test_prefixes_divide_a_store() -> None:
    whole = dist.HashStore()
    first, second = dist.PrefixStore("1", whole), dist.PrefixStore("2", whole)
    first.set("a", "x")
    second.set("b", "y")
    assert whole.list_keys() == ["1/a", "2/b"] and first.list_keys() == ["a"] and first.num_keys() == 1
    assert not first.check(["b"]) and first.underlying_store is whole
    first.set_timeout(SHORT)
    assert whole.timeout == SHORT
    with pytest.raises(TypeError, match="must be a Store, not dict"):
        dist.PrefixStore("a", {})


def test_a_file_with_an_unfinished_line_goes_on(tmp_path) -> None:
    """A process that dies while it writes leaves a part of a line."""
    path = tmp_path / "store"
    dist.FileStore(str(path)).set("a", "1")
    whole = path.read_bytes()
    path.write_bytes(whole + b'["set", [["b')
    store = dist.FileStore(str(path))
    assert store.get("a") == b"1" and path.read_bytes() == whole
    store.set("b", "2")
    assert dist.FileStore(str(path)).multi_get(["a", "b"]) == [b"1", b"2"]


@pytest.mark.parametrize("text", [
    b"hello\n", b"[]\n", b"{}\n", b'["set", ["a", "b"]]\n', b'["__init__", []]\n', b'["add", ["a", "1"]]\n',
    b'["set", [["a"], []]]\n', b'["pop", ["a"]]\n', b"[" * 100_000 + b"\n", b"\xff\xfe\n", b'[["set"], []]\n',
])  # fmt: skip
def test_a_file_of_another_kind_is_refused(tmp_path, text) -> None:
    (tmp_path / "file").write_bytes(text)
    with pytest.raises(ValueError, match="is not a file of a FileStore"):
        dist.FileStore(str(tmp_path / "file")).check(["a"])
    assert (tmp_path / "file").read_bytes() == text


@pytest.mark.parametrize("message", [
    b"GET / HTTP/1.1\r\n\r\n", struct.pack("!I", 3) + b"[1]", struct.pack("!I", 1 << 31),
    *(
        struct.pack("!I", len(text)) + text
        for text in (json.dumps(["__class__", [], [], 0]).encode(), json.dumps(["set", [["a"], [1]], [], 0]).encode(),
                     json.dumps(["keys", [], [1], 0]).encode(), json.dumps(["keys", [], [], "x"]).encode())
    ),
])  # fmt: skip
def test_a_server_closes_on_other_messages_and_goes_on(message) -> None:
    master = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with socket.create_connection(("127.0.0.1", master.port)) as connection:
        connection.sendall(message)
        try:
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
        except OSError as error:  # the server closed before it read all: the system resets the connection
            assert error.errno in {errno.ENOTCONN, errno.ECONNRESET}
    master.set("a", "1")
    assert master.get("a") == b"1"


def test_no_master() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(dist.DistNetworkError, match="timed out after 50ms while trying to connect"):
            dist.TCPStore("127.0.0.1", bound.getsockname()[1], timeout=SHORT)
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, SHORT)


def test_a_port_in_use(tmp_path) -> None:
    master = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(dist.DistNetworkError, match="pass port 0 for a free one"):
        dist.TCPStore("127.0.0.1", master.port, is_master=True)
    master.set("a", "1")
    assert dist.TCPStore("127.0.0.1", master.port, is_master=True, multi_tenant=True).get("a") == b"1"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        store = dist.TCPStore("127.0.0.1", port, is_master=True, master_listen_fd=os.dup(listening.fileno()))
    assert store.port == port and store.add("a", 1) == 1


def test_a_master_that_ends(monkeypatch) -> None:
    master = dist.TCPStore("127.0.0.1", 0, is_master=True)
    worker = dist.TCPStore("127.0.0.1", master.port)
    assert repr(worker) == f"TCPStore(host='127.0.0.1', port={master.port}, is_master=False)"
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="more than 99; send tensors by broadcast"):
        patch.setattr(tcp_store, "_LIMIT", 99)
        worker.set("a", bytes(100))
    script = "import numod.distributed as d; s = d.TCPStore('127.0.0.1', 0, is_master=True); print(s.port, flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    other = dist.TCPStore("127.0.0.1", port)
    process.communicate("\n")
    assert process.returncode == 0
    with pytest.raises(dist.DistNetworkError, match="Did the master end"):
        other.set("a", "1")


def test_a_store_that_is_gone_leaves_no_server() -> None:
    port = dist.TCPStore("127.0.0.1", 0, is_master=True).port
    gc.collect()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_master_counts_the_processes_that_join() -> None:
    master = dist.TCPStore("127.0.0.1", 0, 1, True)
    assert master.num_keys() == 1 and master.list_keys() == [] and master.get("init/") == b"1"
    master.clone()
    dist.TCPStore("127.0.0.1", master.port)
    assert master.get("init/") == b"1"
    with pytest.raises(ValueError, match="port must be from 0 to 65535, got 70000"):
        dist.TCPStore("127.0.0.1", 70000)


def test_an_interrupted_wait_does_not_mix_up_later_replies(monkeypatch) -> None:
    master = dist.TCPStore("127.0.0.1", 0, is_master=True)
    worker = master.clone()
    receive = tcp_store._receive

    def interrupted(connection: socket.socket) -> object:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return receive(connection)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tcp_store, "_receive", interrupted)
        worker.get("x")
    master.multi_set(["x", "y"], ["of x", "of y"])
    assert (worker.get("y"), worker.add("n", 1), worker.get("x")) == (b"of y", 1, b"of x")


def test_a_forked_child_has_a_connection_of_its_own() -> None:
    script = """
import os
import numod.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True)
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        for _ in range(100):
            store.add("n", 1)
        os._exit(0)
    children.append(child)
for _ in range(100):
    store.add("n", 1)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
assert store.add("n", 0) == 300
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


def test_a_clone_of_a_part_has_its_own_connection() -> None:
    part = dist.PrefixStore("a", dist.TCPStore("127.0.0.1", 0, is_master=True))
    results = []
    thread = threading.Thread(target=lambda: results.append(part.get("late")))
    thread.start()
    part.clone().set("late", "value")
    thread.join()
    assert results == [b"value"]


def test_long_timeouts_and_seconds() -> None:
    for make in KINDS.values():
        store = make(None) if make is not KINDS["FileStore"] else dist.HashStore()
        store.set_timeout(timedelta.max)
        store.set("a", "1")
        assert store.get("a") == b"1"
        store.set_timeout(3.0)
        assert store.timeout == timedelta(seconds=3)


def test_a_value_that_outgrows_a_message_is_an_error(monkeypatch) -> None:
    master = dist.TCPStore("127.0.0.1", 0, is_master=True)
    for _ in range(3):
        master.append("a", bytes(200))
    monkeypatch.setattr(tcp_store, "_LIMIT", 400)
    with pytest.raises(ValueError, match="more than 400"):
        master.get("a")
    assert master.add("n", 1) == 1
