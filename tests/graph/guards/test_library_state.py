"""State of library objects, of objects in C and of the process: compiled functions notice that it changes.

Where no guard can compare it, the function runs eagerly, with a warning. Takes about 3 s.
"""

from __future__ import annotations

import argparse
import collections
import configparser
import contextvars
import csv
import datetime
import decimal
import enum
import gc
import hmac
import io
import logging
import multiprocessing
import os
import pathlib
import queue
import re
import signal
import sys
import threading
import types
import warnings
import weakref
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pairs import X, compile, equal

import numod
from numod import nn
from numod.graph import compile as compiled_natively


class Kind:
    """A class without methods."""


class Zone(datetime.tzinfo):
    hours = 1

    def utcoffset(self, moment: datetime.datetime | None) -> timedelta:
        return timedelta(hours=self.hours)


class Level(enum.Enum):
    LOW, HIGH = 1, 2


def parsed() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read_dict({"model": {"rate": "2", "flag": "yes"}})
    return parser


def logger() -> logging.Logger:
    child = logging.Logger("child", 20)
    child.parent = logging.Logger("parent", 30)
    return child


def filled(kind: type) -> Any:
    numbers = kind()
    for number in (1.0, 2.0, 3.0):
        numbers.put(number)
    return numbers


LIBRARY_OBJECTS: dict[str, tuple[Callable, Callable, Callable]] = {
    "option": (parsed, lambda p: p.getfloat("model", "rate"), lambda p: p.set("model", "rate", "5")),
    "option of a section": (
        lambda: parsed()["model"],
        lambda s: float(s["rate"]),
        lambda s: s.parser.set("model", "rate", "5"),
    ),
    "number of sections": (parsed, lambda p: len(p.sections()) * 1.0, lambda p: p.add_section("other")),
    "level of a logger": (logger, lambda log: log.getEffectiveLevel() * 1.0, lambda log: log.setLevel(40)),
    "handlers of a logger": (logger, lambda log: len(log.handlers) * 1.0, lambda log: log.addHandler(logging.Handler())),
    "event": (threading.Event, lambda event: 2.0 if event.is_set() else 3.0, lambda event: event.set()),
    "queue": (lambda: filled(queue.Queue), lambda q: q.qsize() * 1.0, lambda q: q.put(4.0)),
    "namespace": (
        lambda: types.SimpleNamespace(a=1.0),
        lambda n: 2.0 if n == types.SimpleNamespace(a=1.0) else 3.0,
        lambda n: setattr(n, "b", 1),
    ),
    "arguments": (
        lambda: argparse.Namespace(a=1.0),
        lambda n: 2.0 if "b" in n else 3.0,
        lambda n: setattr(n, "b", 1),
    ),
    "time zone": (
        lambda: datetime.datetime(2020, 1, 1, tzinfo=Zone()),
        lambda moment: moment.utcoffset().seconds * 1.0,
        lambda moment: setattr(moment.tzinfo, "hours", 3),
    ),
    "member of an enumeration": (lambda: Level, lambda kind: getattr(kind(1), "extra", 4.0),
        lambda kind: setattr(kind.LOW, "extra", 7.0)),
    "precision of a context": (
        lambda: decimal.Context(prec=5),
        lambda c: float(c.divide(decimal.Decimal(1), decimal.Decimal(3))),
        lambda c: setattr(c, "prec", 2),
    ),
    "writeable flag": (lambda: np.ones(2), lambda a: 2.0 if a.flags.writeable else 3.0, lambda a: a.setflags(write=False)),
    "name of a class": (
        lambda: type("Kind", (), {})(),
        lambda instance: len(type(instance).__name__) * 1.0,
        lambda instance: setattr(type(instance), "__name__", "Other"),
    ),
    "subclasses": (
        lambda: type("Base", (), {}),
        lambda kind: len(kind.__subclasses__()) + 1.0,
        lambda kind: setattr(kind, "child", type("Child", (kind,), {})),
    ),
    "attribute of a function": (
        lambda: lambda x: x,
        lambda function: getattr(function, "rate", 2.0),
        lambda function: setattr(function, "rate", 3.0),
    ),
    "samples of a loader": (
        lambda: numod.utils.data.DataLoader([1.0, 2.0], 1),
        lambda loader: len(loader) * 1.0,
        lambda loader: loader.dataset.append(3.0),
    ),
    "setting of a group": (
        lambda: numod.optim.SGD([nn.Parameter(X)], lr=0.1),
        lambda optimizer: optimizer.param_groups[0].get("scale", 4.0),
        lambda optimizer: optimizer.param_groups[0].update(scale=5.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIBRARY_OBJECTS)
def test_changes_of_library_objects_are_noticed(name: str) -> None:
    make, read, change = LIBRARY_OBJECTS[name]
    instance = make()
    compiled = compile(lambda x: x * read(instance))
    before = read(instance)
    assert equal(compiled(X), X * before) and equal(compiled(X), X * before)
    change(instance)
    assert read(instance) != before
    assert equal(compiled(X), X * read(instance)) and equal(compiled(X), X * read(instance))


OPAQUE: dict[str, tuple[Callable, Callable, Callable]] = {
    "lock": (threading.Lock, lambda lock: 2.0 if lock.locked() else 3.0, lambda lock: lock.acquire()),
    "simple queue": (lambda: filled(queue.SimpleQueue), lambda q: q.qsize() * 1.0, lambda q: q.put(4.0)),
    "context": (
        contextvars.Context,
        lambda context: len(context) + 1.0,
        lambda context: context.run(contextvars.ContextVar("other").set, 1),
    ),
    "text in memory": (lambda: io.StringIO("12"), lambda text: text.tell() + 1.0, lambda text: text.read(1)),
    "hash": (
        lambda: hmac.new(b"key", b"text", "sha256"),
        lambda code: code.digest()[0] * 1.0,
        lambda code: code.update(b"more"),
    ),
    "cause of an error": (
        ValueError,
        lambda error: 2.0 if error.__cause__ is None else 3.0,
        lambda error: setattr(error, "__cause__", KeyError()),
    ),
    "document": (
        lambda: ElementTree.ElementTree(ElementTree.fromstring("<a k='2'/>")),
        lambda document: float(document.getroot().get("k")),
        lambda document: document.getroot().set("k", "5"),
    ),
    "event of processes": (
        multiprocessing.Event,
        lambda event: 2.0 if event.is_set() else 3.0,
        lambda event: event.set(),
    ),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_functions_that_read_state_in_c_run_eagerly(name: str) -> None:
    make, read, change = OPAQUE[name]
    instance = make()
    compiled = compiled_natively(lambda x: x * read(instance))
    with pytest.warns(UserWarning, match="cannot compare them from call to call|a new value at every use"):
        assert equal(compiled(X), X * read(instance))
    change(instance)
    assert equal(compiled(X), X * read(instance)) and equal(compiled(X), X * read(instance))


def test_a_lock_that_is_only_held_and_a_logger_that_writes_are_no_obstacle() -> None:
    lock, log = threading.Lock(), logging.getLogger("numod.test")

    def scaled(x: numod.Tensor) -> numod.Tensor:
        with lock:
            log.debug("scaling")
            return x * 2

    compiled = compile(scaled)
    assert equal([compiled(X), compiled(X)], [X * 2, X * 2]) and compiled.recorded == 1


def test_output_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(x: numod.Tensor) -> numod.Tensor:
        print("scaling", file=sys.stderr)
        sys.stdout.write("scaling")
        sys.stdout.flush()
        return x * 2

    compiled, colored = compile(scaled), compile(lambda x: x * (2.0 if sys.stdout.isatty() else 3.0))
    for _ in range(2):
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        assert equal(compiled(X), X * 2) and equal(colored(X), X * 3)
    assert compiled.recorded == 1
    with pytest.raises(RuntimeError, match="may have another value at the next call"):
        compile(lambda x: x * sys.stdout.tell())(X)


def test_guards_keep_no_subclass_and_no_thread_alive() -> None:
    base = type("Base", (), {})
    holder = [type("Child", (base,), {}), threading.Thread(target=threading.Event().wait, daemon=True)]
    counted = compile(lambda x: x * len(base.__subclasses__()))
    assert equal(counted(X), X)
    child = weakref.ref(holder[0])
    holder.clear()
    gc.collect()
    assert child() is None and equal(counted(X), X * 0)


def test_only_the_loggers_that_the_code_uses_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "loggerDict", dict(logging.root.manager.loggerDict))
    log = logging.getLogger("numod.test.child")
    log.setLevel(10)

    def scaled(x: numod.Tensor) -> numod.Tensor:
        logging.getLogger("numod.test.child").debug("scaling")
        return x * (2.0 if logging.getLogger("numod.test.child").isEnabledFor(20) else 3.0)

    compiled = compile(scaled)
    for number in range(3):
        logging.getLogger(f"numod.test.other{number}").setLevel(number)
        assert equal(compiled(X), X * 2)
    assert compiled.recorded == 1
    monkeypatch.setattr(logging.root.manager, "disable", 30)
    log._cache.clear()
    assert equal(compiled(X), X * 3)
    monkeypatch.setattr(logging.root.manager, "disable", 0)
    log._cache.clear()
    log.setLevel(40)
    assert equal(compiled(X), X * 3)


def test_struct_sequences_are_constants() -> None:
    class Build:
        version = sys.version_info
        sizes = [os.terminal_size((3, 4))]

    def scaled(x: numod.Tensor, size: os.terminal_size) -> numod.Tensor:
        x = x * 2 if sys.version_info >= (3, 9) else x
        scale = sys.version_info.major + sys.flags.optimize + sys.float_info.epsilon + Build.version[0]
        return x * scale * Build.sizes[0].columns * size.lines

    compiled = compile(scaled)
    for size in [(3, 4), (3, 4), (3, 5), (3, 5)]:
        assert equal(compiled(X, os.terminal_size(size)), scaled(X, os.terminal_size(size)))
    assert compiled.recorded == 2
    Build.sizes[0] = os.terminal_size((5, 4))
    assert equal(compiled(X, os.terminal_size((3, 5))), scaled(X, os.terminal_size((3, 5))))


def test_settings_of_the_process_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, interval, size = sys.getrecursionlimit(), sys.getswitchinterval(), csv.field_size_limit()
    monkeypatch.setattr(sys, "path", [*sys.path])
    reads = [
        lambda x: x * sys.getrecursionlimit(), lambda x: x * sys.getswitchinterval(), lambda x: x * len(sys.path),
        lambda x: x * gc.isenabled(), lambda x: x * csv.field_size_limit(), lambda x: x * getattr(sys, "ps1", 2.0),
        lambda x: x * len(threading.current_thread().name), lambda x: x * ("numod.absent" in sys.modules),
        lambda x: x * len(warnings.filters), lambda x: x * float(decimal.Decimal(1) / 3),
    ]  # fmt: skip
    compiled = [compile(read) for read in reads]
    thread, precision = threading.current_thread(), decimal.getcontext().prec
    changes = [
        lambda: sys.setrecursionlimit(limit + 9), lambda: sys.setswitchinterval(interval * 2),
        lambda: sys.path.append("absent"), gc.disable, lambda: csv.field_size_limit(size + 1),
        lambda: monkeypatch.setattr(sys, "ps1", 3.0, raising=False),
        lambda: monkeypatch.setattr(thread, "name", thread.name + "x"),
        lambda: monkeypatch.setitem(sys.modules, "numod.absent", sys),
        lambda: monkeypatch.setattr(warnings, "filters", [*warnings.filters, warnings.filters[0]]),
        lambda: setattr(decimal.getcontext(), "prec", 5),
    ]  # fmt: skip
    try:
        for change in [lambda: None, *changes]:
            change()
            for one, other in zip(compiled, reads):
                assert equal(one(X), other(X)) and equal(one(X), other(X))
    finally:
        sys.setrecursionlimit(limit)
        sys.setswitchinterval(interval)
        csv.field_size_limit(size)
        decimal.getcontext().prec = precision
        gc.enable()


def test_functions_of_their_arguments_are_compiled() -> None:
    def scaled(x: numod.Tensor) -> numod.Tensor:
        x = numod.where(numod.isnan(x), 0.0, x.masked_fill(~x.isfinite(), 1.0))
        if np.isfinite(2.0) and np.isclose(1.0, 1.0) and np.isscalar(3) and np.issubdtype(np.int8, np.integer):
            x = x * len(np.setdiff1d([1, 2], [2]))
        return x * (sys.getsizeof(3) + bool(signal.getsignal(signal.SIGINT))) + len(logging.getLevelName(10))

    compiled = compile(scaled)
    assert equal([compiled(X), compiled(X)], [scaled(X), scaled(X)]) and compiled.recorded == 1


def test_settings_of_numpy_are_noticed() -> None:
    def scaled(x: numod.Tensor) -> numod.Tensor:
        return x * (2.0 if np.geterr()["over"] == "raise" else 3.0)

    compiled = compile(scaled)
    assert equal(compiled(X), X * 3)
    with np.errstate(over="raise"):
        assert equal(compiled(X), X * 2)
    with pytest.raises(RuntimeError, match="sets something of the process"):
        compile(lambda x: x * len(np.seterr()))(X)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x * len(os.path.abspath("file")),
        lambda x: x * len(str(pathlib.Path("file").absolute())),
        lambda x: x * len(os.path.expanduser("~")),
        lambda x: x * os.path.exists("file"),
        lambda x: x * numod.get_rng_state().sum(),
        lambda x: x * len(contextvars.copy_context()),
    ],
)
def test_functions_that_depend_on_the_process_are_refused(ask: Callable) -> None:
    with pytest.raises(RuntimeError, match="may have another value at the next call"):
        compile(ask)(X)


class Named(nn.Module):
    """Has attributes and a method with the names of functions that read files or set something of the process."""

    def __init__(self) -> None:
        super().__init__()
        self.group, self.stat, self.home, self.disable, self.stdout = 2, 3.0, nn.Identity(), False, 1.0
        self.folder = pathlib.Path("a")

    def resolve(self, x: numod.Tensor) -> numod.Tensor:
        return x.absolute() * self.stat

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        count = int(re.match("([0-9])", "3").group(1)) + len(os.path.join("a", self.folder.name))
        return self.home(self.resolve(x)) * self.group * self.stdout * (gc.isenabled() + count + sys.maxsize % 7)


def test_common_names_beside_modules_of_the_process_are_no_obstacle() -> None:
    module = Named()
    compiled = compile(module)
    assert equal([compiled(X), compiled(X)], [module(X), module(X)])


def reads_by_an_alias(x: numod.Tensor) -> numod.Tensor:
    from os import path as files

    exists = files.exists
    return x * exists("file")


class Folder:
    """Holds a path, and a module."""

    def __init__(self) -> None:
        self.folder, self.library = pathlib.Path("a"), os

    def absolute(self, x: numod.Tensor) -> numod.Tensor:
        return x * len(str(self.folder.absolute()))

    def real(self, x: numod.Tensor) -> numod.Tensor:
        return x * len(self.library.path.realpath("a"))


@pytest.mark.parametrize("ask", [reads_by_an_alias, Folder().absolute, Folder().real])
def test_reads_of_files_are_refused_under_other_names(ask: Callable) -> None:
    with pytest.raises(RuntimeError, match="may have another value at the next call"):
        compile(ask)(X)


def test_settings_of_the_process_are_not_set_by_compiled_functions() -> None:
    def set_limit(x: numod.Tensor) -> numod.Tensor:
        sys.setrecursionlimit(sys.getrecursionlimit())
        return x * 2

    with pytest.raises(RuntimeError, match="sets something of the process"):
        compile(set_limit)(X)


def test_finalizers_are_noticed_and_recording_keeps_nothing_alive() -> None:
    held = collections.deque([Kind()])
    finalizer = weakref.finalize(held[0], int)
    compiled = compile(lambda x: x * (2.0 if finalizer.alive else 3.0))
    assert equal(compiled(X), X * 2) and equal(compiled(X), X * 2)
    held.clear()
    assert not finalizer.alive and equal(compiled(X), X * 3) and equal(compiled(X), X * 3)


def test_objects_of_a_recording_go_without_a_garbage_collection() -> None:
    held = [Kind()]
    reference = weakref.ref(held[0])
    compiled = compile(lambda x, items: x * (2.0 if items else 3.0))
    assert equal(compiled(X, held), X * 2)
    gc.disable()
    try:
        held.clear()
        assert reference() is None
    finally:
        gc.enable()
