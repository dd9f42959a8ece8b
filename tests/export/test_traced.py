"""What `jit.trace` and `jit.trace_module` check, and the types of what they return."""

from __future__ import annotations

import copy
import io
import random
import warnings
from typing import Any

import pytest

import numod as torch
from numod import nn


def _dict(x: Any) -> dict:
    return {"a": x + 1, "b": x * 2}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)

    def weighted(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * weight


def test_a_dict_is_returned_with_strict_false_only() -> None:
    x = torch.ones(2)
    for function in (_dict, lambda x: (x, _dict(x))):
        with pytest.raises(RuntimeError, match="Encountering a dict at the output of the tracer.*pass strict=False"):
            torch.jit.trace(function, x)
    traced = torch.jit.trace(_dict, x, strict=False)
    loaded = torch.jit.load(io.BytesIO(traced.save_to_buffer()))
    assert {key: tensor.tolist() for key, tensor in loaded(x).items()} == {"a": [2.0, 2.0], "b": [2.0, 2.0]}


def test_a_list_is_returned_with_a_warning() -> None:
    with pytest.warns(torch.jit.TracerWarning, match="Encountering a list"):
        traced = torch.jit.trace(lambda x: [x, x * 2], torch.ones(2))
    assert isinstance(traced(torch.ones(2)), list)
    assert isinstance(torch.jit.trace(lambda x: [x], torch.ones(2), strict=False)(torch.ones(2)), list)


def test_functions_are_script_functions_and_modules_script_modules() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    function, module = torch.jit.trace(scaled, torch.ones(2)), torch.jit.trace(Net(), torch.ones(1, 2))
    assert type(function).__name__ == "ScriptFunction" and isinstance(function, torch.jit.ScriptFunction)
    assert not isinstance(function, torch.jit.ScriptModule) and function.name == "scaled"
    assert isinstance(module, torch.jit.ScriptModule) and not isinstance(module, torch.jit.ScriptFunction)
    assert isinstance(torch.jit.load(io.BytesIO(function.save_to_buffer())), torch.jit.ScriptModule)
    assert torch.jit.script(function) is function and torch.jit.trace(function, torch.ones(2)) is function


def test_random_numbers_are_warned_of() -> None:
    generator = torch.Generator()
    for function in (nn.Dropout(), lambda x: x + torch.rand(2), lambda x: x + torch.rand(2, generator=generator)):
        with pytest.warns(torch.jit.TracerWarning, match="nondeterministic nodes. Did you forget call .eval()") as seen:
            torch.jit.trace(function, torch.ones(2))
        assert seen[0].filename == __file__
        torch.jit.trace(function, torch.ones(2), check_trace=False)


def test_captures_that_differ_are_refused() -> None:
    calls = [0.0]

    def counting(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x * calls[0]

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations"):
        torch.jit.trace(counting, torch.ones(2))
    with pytest.raises(torch.jit.TracingCheckError, match="Constant nodes differed in value"):
        torch.jit.trace(lambda x: x + torch.tensor([random.random()]), torch.ones(2))
    torch.jit.trace(counting, torch.ones(2), check_trace=False)


def test_the_check_leaves_the_modules_state() -> None:
    net = nn.BatchNorm1d(2)
    torch.jit.trace(net, torch.randn(4, 2))
    assert net.num_batches_tracked.item() == 0 and net.running_mean.tolist() == [0.0, 0.0]


def test_example_kwarg_inputs_are_arguments_by_name() -> None:
    x = torch.ones(2)
    assert torch.jit.trace(lambda x, y: x - y, example_kwarg_inputs={"y": x * 2, "x": x})(x=x, y=x * 2).tolist() == [
        -1,
        -1,
    ]
    with pytest.raises(RuntimeError, match="example_kwarg_inputs should be a dict"):
        torch.jit.trace(lambda x: x, example_kwarg_inputs=[x])


def test_arguments_are_passed_by_position_or_name() -> None:
    def minus(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y

    x, y = torch.ones(2), torch.full((2,), 3.0)
    for options in ({"example_inputs": (x, y)}, {"example_kwarg_inputs": {"y": y, "x": x}}):
        traced = torch.jit.trace(minus, **options)
        loaded = torch.jit.load(io.BytesIO(traced.save_to_buffer()))
        for module in (traced, loaded):
            for result in (module(x, y), module(x, y=y), module(y=y, x=x)):
                assert result.tolist() == [-2.0, -2.0]
        for args, kwargs in (((x,), {"x": y}), ((x, y), {"y": y}), ((x,), {}), ((), {"x": x, "z": y})):
            with pytest.raises(RuntimeError, match="as captured"):
                loaded(*args, **kwargs)


def test_methods_of_a_module_are_traced() -> None:
    net, x, weight = Net().eval(), torch.ones(1, 2), torch.tensor([1.0, 3.0])
    traced = torch.jit.trace_module(net, {"forward": x, "weighted": (x, weight)})
    assert isinstance(traced, torch.jit.ScriptModule)
    assert torch.equal(traced(x), net(x)) and torch.equal(traced.weighted(x, weight), net.weighted(x, weight))
    assert traced.state_dict().keys() == net.state_dict().keys()
    copied = copy.deepcopy(traced)
    with torch.no_grad():
        net.layer.weight.zero_()
        assert torch.equal(traced.weighted(x, weight), net.weighted(x, weight))
        assert not torch.equal(copied.weighted(x, weight), net.weighted(x, weight))
    with pytest.raises(NotImplementedError, match="forward, weighted; write each to its own file"):
        torch.jit.save(traced, io.BytesIO())
    frozen = torch.jit.freeze(traced)
    assert torch.equal(frozen.weighted(x, weight), net.weighted(x, weight)) and not [*frozen.parameters()]
    only = torch.jit.trace_module(net, {"weighted": {"x": x, "weight": weight}}, example_inputs_is_kwarg=True)
    assert torch.equal(only.weighted(x=x, weight=weight), net.weighted(x, weight))
    assert isinstance(only, torch.jit.ScriptModule) and [*only.state_dict()] == [*net.state_dict()]


def test_trace_module_refuses_what_pytorch_refuses() -> None:
    with pytest.raises(AttributeError, match="nope"):
        torch.jit.trace_module(Net(), {"nope": torch.ones(1)})
    with pytest.raises(AttributeError, match="as the first argument"):
        torch.jit.trace_module(_dict, {"forward": torch.ones(1)})
    with pytest.raises(AttributeError, match="expected a dictionary"):
        torch.jit.trace_module(Net(), torch.ones(1))


def _outcomes(library: Any) -> list[Any]:
    """What a library says of the same calls: types of errors and warnings, or the kind of the result."""
    x, calls = library.ones(2), [0.0]

    def counting(x: Any) -> Any:
        calls[0] += 1
        return x * calls[0]

    cases = [
        (_dict, {}), (_dict, {"strict": False}), (lambda x: [x, x * 2], {}), (lambda x: (x, _dict(x)), {}),
        (library.nn.Dropout(), {}), (library.nn.Dropout(), {"check_trace": False}), (counting, {}), (lambda x: x, {}),
    ]  # fmt: skip
    outcomes: list[Any] = []
    for function, options in cases:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                traced = library.jit.trace(function, x, **options)
                outcome: Any = (
                    isinstance(traced, library.jit.ScriptFunction),
                    isinstance(traced, library.jit.ScriptModule),
                )
            except Exception as error:
                outcome = type(error).__name__, str(error).splitlines()[:2]
        kinds = {
            str(warning.message)[:30] for warning in seen if issubclass(warning.category, library.jit.TracerWarning)
        }
        outcomes.append((outcome, sorted(kind for kind in kinds if not kind.startswith("Output nr"))))
    return outcomes


@pytest.mark.parity
def test_checks_are_pytorchs() -> None:
    assert _outcomes(torch) == _outcomes(pytest.importorskip("torch"))
