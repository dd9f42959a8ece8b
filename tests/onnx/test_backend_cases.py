"""The `onnx` package's own cases for operators and its stored models, eager and compiled.

Budget: 3 minutes on two cores with an empty kernel cache. All cases run eagerly, one per operator compiled as well; set
NUMOD_ONNX_COMPILED to compile all, which takes half an hour.
"""

from __future__ import annotations

import os

import pytest
from onnx_cases import Case, check, listed, node_cases, stored_cases, unsupported_types

import numod

pytest.importorskip("onnx")
pytestmark = [pytest.mark.onnx, pytest.mark.filterwarnings("ignore")]
PARTS = 12  # so that workers share the cases


def failures(cases: list[Case], *wraps: object) -> dict[str, str]:
    """The cases that fail, with the reason."""
    problems = {}
    for case in cases:
        try:
            for wrap in wraps:
                check(case, wrap)
        except Exception as problem:
            problems[case.name] = f"{type(problem).__name__}: {problem}"[:500]
    return problems


def eager(module: object) -> object:
    return module


def in_numods_dtypes() -> list[Case]:
    return [case for case in node_cases() if not unsupported_types(case.model)]


@pytest.mark.parametrize("part", range(PARTS))
def test_all_cases_but_those_listed_in_the_guide_pass(part: int) -> None:
    expected = listed("Operators that numod has not") | listed("Random numbers")
    cases = [case for case in in_numods_dtypes()[part::PARTS] if case.name not in expected]
    assert failures(cases, eager) == {}


def test_the_guide_lists_the_cases_of_other_dtypes_and_operators() -> None:
    names = {case.name for case in node_cases()}
    other_dtypes = {case.name for case in node_cases() if unsupported_types(case.model)}
    assert other_dtypes == listed("Types that numod has not") & names
    missing = [case for case in in_numods_dtypes() if case.name in listed("Operators that numod has not")]
    assert missing and set(failures(missing, eager)) == {case.name for case in missing}
    assert len(names) - len(other_dtypes) - len(missing) - len(listed("Random numbers")) >= 1500


def sample() -> list[Case]:
    """One case for each operator, by the first name that starts with it."""
    chosen: dict[str, Case] = {}
    for case in in_numods_dtypes():
        if not case.name.endswith("_expanded"):
            chosen.setdefault(case.model.graph.node[-1].op_type, case)
    return list(chosen.values())


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_models_give_the_same(part: int) -> None:
    skipped = listed("Operators that numod has not") | listed("Random numbers")
    cases = in_numods_dtypes() if os.environ.get("NUMOD_ONNX_COMPILED") else sample()
    cases = [case for case in cases[part::PARTS] if case.name not in skipped]
    assert failures(cases, numod.compile) == {}


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator", "pytorch-converted"])
def test_all_stored_models_in_numods_dtypes_pass(kind: str) -> None:
    cases = [case for case in stored_cases(kind) if not unsupported_types(case.model)]
    assert len(cases) >= {"simple": 17, "pytorch-operator": 35, "pytorch-converted": 82}[kind]
    assert failures(cases, eager) == {}
