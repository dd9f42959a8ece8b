"""Plans for all sizes are cached apart from other plans, also by threads at the same time."""

from __future__ import annotations

import copy
import os
from threading import Event, Thread

import pytest

import numod
from numod.ops.op import Op, every_op, planning_for_all_sizes
from numod.ops.table import rows


def in_thread(function: object) -> None:
    thread = Thread(target=function)
    thread.start()
    thread.join()


def tables(op: Op) -> tuple[dict, dict]:
    return op.tables.plain, op.tables.general


def test_a_thread_beside_one_that_plans_for_all_sizes_has_its_own_plans() -> None:
    op, x = rows["sinh"], numod.ones(3, 5, 7)
    plain, general = tables(op)
    op.forget()
    with planning_for_all_sizes():
        in_thread(x.sinh)
        assert len(plain) == 1 and not general
        x.sinh()
        assert len(plain) == len(general) == 1
        ((key, plan),) = general.items()
        assert op.plans.get(key) is plan is not plain[key]
        seen: list = []
        in_thread(lambda: seen.append(op.plans.get(key)))
        assert seen == [plain[key]]
    assert op.plans is plain and op.cached_plans() == [*plain.values(), *general.values()]


def test_threads_may_plan_for_all_sizes_at_the_same_time() -> None:
    op, x = rows["cosh"], numod.ones(2, 9)
    plain, general = tables(op)
    op.forget()

    def plan() -> None:
        with planning_for_all_sizes():
            x.cosh()

    with planning_for_all_sizes():
        in_thread(plan)
        assert not plain and len(general) == 1
        in_thread(x.cosh)  # the other thread has ended, this one has not
        assert len(plain) == len(general) == 1
    assert all(op.plans is op.tables.plain for op in every_op())


def test_an_op_that_is_created_meanwhile_keeps_them_apart() -> None:
    with planning_for_all_sizes():
        op = Op("new")
        assert op.plans is op.tables
    assert op.plans is op.tables.plain


def test_a_deep_copy_of_an_op_is_the_op() -> None:  # its plans are dropped and exchanged with those of all ops
    op = rows["add"]
    assert copy.deepcopy({"op": op})["op"] is op


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads
def test_a_forked_process_does_not_count_threads_that_it_does_not_have() -> None:
    started, finished = Event(), Event()

    def plan() -> None:
        with planning_for_all_sizes():
            started.set()
            finished.wait()

    thread = Thread(target=plan)
    thread.start()
    started.wait()
    if not (child := os.fork()):
        os._exit(0 if all(op.plans is op.tables.plain for op in every_op()) else 1)
    finished.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_the_former_name_of_attributes_is_refused() -> None:
    with pytest.raises(TypeError, match="Scale: ops have `attributes`, not `parameters`"):
        type("Scale", (Op,), {"inputs": ("x",), "parameters": ("factor",)})
