"""Averages over slices of one name, and their table."""

from __future__ import annotations

import pytest
from profiled import find

import numod
from numod.profiler import profile


def test_the_table_fits_100_columns_and_is_sorted(profiled: profile) -> None:
    averages = profiled.key_averages()
    for options in ({}, {"header": "steps"}, {"row_limit": 3}):
        lines = averages.table(sort_by="self_cpu_time_total", **options).splitlines()
        assert max(map(len, lines)) <= 100
    assert len(averages.table(row_limit=3).splitlines()) == 8
    wide = profiled.key_averages(group_by_input_shape=True, group_by_stack_n=2).table(
        sort_by="count", max_name_column_width=20
    )
    assert max(map(len, wide.splitlines())) <= 100 and "[4, 1, 8, 8]"[:6] in wide and "profiled.py" in wide
    with pytest.raises(AttributeError):
        averages.table(sort_by="bogus")


def test_averages_add_up(profiled: profile) -> None:
    for key_average in profiled.key_averages():
        events = find(profiled, key_average.key)
        assert key_average.count == len(events)
        assert key_average.self_cpu_time_total == pytest.approx(sum(event.self_cpu_time_total for event in events))
        assert key_average.cpu_time == pytest.approx(key_average.cpu_time_total / key_average.count)
        assert key_average.cuda_time_total == key_average.device_time_total == 0


def test_shapes_and_lines_part_the_averages() -> None:
    with profile(record_shapes=True, with_stack=True) as prof:
        numod.zeros(2).exp()
        numod.zeros(3).exp()

    def count(**options: object) -> int:
        return sum(key_average.key == "numod::exp" for key_average in prof.key_averages(**options))

    assert (count(), count(group_by_input_shape=True), count(group_by_stack_n=1)) == (1, 2, 2)


def test_the_older_names() -> None:
    with numod.autograd.profiler.profile(record_shapes=True) as prof, numod.autograd.profiler.record_function("mine"):
        numod.ones(3).exp()
    assert [
        function_event.input_shapes for function_event in prof.function_events if function_event.name == "numod::exp"
    ] == [[[3]]]
    assert "mine" in prof.table() and prof.total_average().count == len(prof.function_events)
    assert prof.self_cpu_time_total == pytest.approx(
        sum(key_average.self_cpu_time_total for key_average in prof.key_averages())
    )
    with numod.autograd.profiler.profile(enabled=False) as off:
        numod.ones(3).exp()
    assert off.function_events is None
    with pytest.raises(AttributeError, match="no attribute 'profilers'"):
        numod.autograd.profilers  # noqa: B018
