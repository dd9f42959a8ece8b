"""The table of a function's versions, and the limits on their number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numod
import pytest
from numod.graph.guards.cache_key import describe
from numod.graph.settings import Settings
from numod.graph.version import FAMILY_LIMIT, SIZE_LIMIT, LimitReached, Versions


def call(*sizes: int) -> tuple[tuple, tuple]:
    return describe((numod.ones(*sizes),), {})


def version(steps: int = 1) -> Any:
    return SimpleNamespace(executable=SimpleNamespace(lowered=SimpleNamespace(layouts=dict.fromkeys(range(steps)))))


def recorded(settings: Settings, *sizes: int) -> Versions:
    """The versions after recordings of calls with these sizes."""
    versions = Versions(settings)
    for size in sizes:
        key, tensors = call(size)
        _, counts = versions.plan(key, tensors, None)
        versions.add(key, version(), counts, None)
    return versions


def test_recordings_count_up_to_the_limit() -> None:
    versions = recorded(Settings(dynamic=False, limit=2), 2, 3)
    assert versions.recorded == 2 == len(list(versions))
    with pytest.raises(LimitReached, match=r"argument 0: numod.float32 \(3,\) was recorded, got .*\(4,\)") as limit:
        versions.plan(*call(4), None)
    assert limit.value.sizes_differ
    with pytest.raises(LimitReached, match="^a guard$"):
        versions.plan(*call(2), "a guard")


def test_the_third_size_is_compiled_for_all_sizes_and_does_not_count() -> None:
    versions = recorded(Settings(limit=2), 2, 3)
    form, counts = versions.plan(*call(4), None)
    assert form.dynamic and not counts


def test_many_sizes_are_recorded_at_their_second_call_up_to_a_limit() -> None:
    versions = recorded(Settings(dynamic=True), *range(1, FAMILY_LIMIT + 1))
    assert versions.plan(*call(50), None) is None
    assert versions.plan(*call(50), None) is not None
    for size in range(100, 100 + SIZE_LIMIT - FAMILY_LIMIT):
        versions.add(call(size)[0], version(), False, None)
    with pytest.raises(LimitReached):
        versions.plan(*call(51), None)


def test_a_marked_tensor_and_settings_decide_the_form() -> None:
    key, tensors = call(2)
    assert not Versions(Settings()).plan(key, tensors, None)[0].dynamic
    numod._dynamo.mark_dynamic(tensors[0], 0)
    assert Versions(Settings()).plan(key, tensors, None)[0].dynamic
    assert not Versions(Settings(dynamic=False)).plan(key, tensors, None)[0].dynamic
    form, _ = Versions(Settings(options={"freezing": True, "linked": False})).plan(key, tensors, None)
    assert form.freezing and form.linked is False


def test_clearing_frees_the_versions_and_keeps_the_counts() -> None:
    versions = recorded(Settings(dynamic=False, limit=2), 2, 3)
    before = versions.by_key
    versions.clear()
    assert not versions.by_key and len(before) == 2 and versions.recorded == 2
    with pytest.raises(LimitReached, match="its limit"):
        versions.plan(*call(4), None)
