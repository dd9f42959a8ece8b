"""Dictionaries whose values die with their last user, without callbacks."""

import gc
import weakref

import numod
from numod.graph.capture.call_lock import CallLock
from numod.ops import op
from numod.weak_values import FIRST_SWEEP, WeakValues


class Held:
    pass


def test_a_value_dies_with_its_last_user():
    values, first, second = WeakValues(), Held(), Held()
    values["first"], values["second"] = first, second
    assert values.get("first") is first and values.get("third") is None
    del first
    gc.collect()
    assert values.get("first") is None and list(values.values()) == [second]


def test_dead_entries_are_removed():
    values, living = WeakValues(), [Held() for _ in range(10)]
    for number, value in enumerate(living):
        values[number] = value
    for number in range(100 * FIRST_SWEEP):
        values[1000 + number] = Held()
    assert len(values) <= FIRST_SWEEP
    assert list(values.values()) == living


def test_a_key_that_is_set_again_while_dead_entries_are_removed_stays():
    values, replacement = WeakValues(), Held()

    class Racing(dict):
        """Sets a key between the look and the removal, as another thread may."""

        def pop(self, key, default=None):
            self[key] = weakref.ref(replacement)
            return super().pop(key, default)

    values._references = Racing()
    values["key"] = Held()
    gc.collect()
    values._sweep()
    assert values.get("key") is replacement


def test_no_python_code_runs_when_an_op_or_a_lock_dies():
    """An exception that a signal's handler raises in a callback of a weak reference is lost, and so is Ctrl-C."""
    compiled = numod.compile(lambda x: x.sin() + 2)
    compiled(numod.ones(3))
    lock = CallLock()
    with lock.locked():
        pass
    for dying in (lock, *op.every_op()):
        assert [reference for reference in weakref.getweakrefs(dying) if reference.__callback__ is not None] == []
