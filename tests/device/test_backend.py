"""All back ends have the interface that `numod.device.backend` describes."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from numod.device import cpu, cuda, meta
from numod.device.backend import Backend, GPUBackend

CASES = [(cpu, Backend), (meta, Backend), (cuda, GPUBackend)]
IDS = ["cpu", "meta", "cuda"]


def _methods(protocol: type) -> dict[str, object]:
    return dict(inspect.getmembers(protocol, lambda member: inspect.isfunction(member) and member.__name__[0] != "_"))


@pytest.mark.parametrize(("backend", "protocol"), CASES, ids=IDS)
def test_a_back_end_has_every_name_of_the_protocol(backend: ModuleType, protocol: type) -> None:
    assert isinstance(backend, protocol)


@pytest.mark.parametrize(("backend", "protocol"), CASES, ids=IDS)
def test_functions_take_the_parameters_of_the_protocol(backend: ModuleType, protocol: type) -> None:
    methods = _methods(protocol)
    assert {"empty", "scratch", "choose", "compile"} <= methods.keys()
    for name, method in methods.items():
        _, *expected = inspect.signature(method).parameters.values()
        actual = inspect.signature(getattr(backend, name)).parameters.values()
        assert [(p.name, p.default) for p in actual] == [(p.name, p.default) for p in expected], name


@pytest.mark.parametrize(("backend", "protocol"), CASES, ids=IDS)
def test_constants_have_the_types_of_the_protocol(backend: ModuleType, protocol: type) -> None:
    kinds = {name: kind for base in protocol.__mro__ for name, kind in vars(base).get("__annotations__", {}).items()}
    assert {name: type(getattr(backend, name)).__name__ for name in kinds} == kinds


def test_a_module_without_a_name_is_no_back_end() -> None:
    assert not isinstance(inspect, Backend) and not isinstance(cpu, GPUBackend)
