"""Marks for compilers, which change nothing, and settings of compiling."""

from __future__ import annotations

import pytest

import numod
from numod import nn


def test_marks_for_compilers_change_nothing() -> None:
    @numod.jit.script
    def double(x: numod.Tensor) -> numod.Tensor:
        return x * 2

    class Layer(nn.Module):
        size: numod.jit.Final[int] = 3

        @numod.jit.export
        def forward(self, x):
            return double(x) if not numod.jit.is_scripting() and not numod.jit.is_tracing() else x

        @numod.jit.ignore(drop=True)
        def other(self):
            return 1

        @numod.jit.unused
        def third(self):
            return 2

    assert issubclass(numod.jit.TracerWarning, Warning)
    layer = numod.jit.script(Layer())
    assert not isinstance(layer, numod.jit.ScriptModule) and not isinstance(double, numod.jit.ScriptFunction)
    assert (
        layer(numod.ones(2)).tolist() == [2, 2]
        and layer.other() == 1
        and layer.third() == 2
        and numod.fx.wrap("double") == "double"
    )
    assert (
        numod.jit.isinstance([1], list[int])
        and not numod.compiler.is_compiling()
        and numod.compiler.disable(double) is double
    )


def test_settings_of_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    import numod._dynamo.config
    import numod._inductor.config as tuning

    def double(x: str) -> str:
        return x * 2

    monkeypatch.setattr(tuning, "coordinate_descent_tuning", True, raising=False)
    monkeypatch.setattr(numod._dynamo.config, "recompile_limit", 2)
    function, other = numod.compile(double, name="twice"), numod.compile(double, recompile_limit=0)
    with pytest.warns(
        UserWarning,
        match="twice was recorded 2 times, the last time because of argument 0: 'b' was recorded, got 'c'; it runs "
        "eagerly from here",
    ):
        assert "".join(map(function, "abcd")) == "aabbccdd"
    with pytest.warns(UserWarning, match="double was recorded 0 times"):
        assert other("a") == "aa"
    with pytest.raises(RuntimeError, match="Invalid backend: 'nimble'"):
        numod.compile(double, backend="nimble")
    x = numod.ones(2)
    numod._dynamo.mark_dynamic(x, 0, min=1)
    numod._dynamo.mark_static(x)
    assert (
        "inductor" in numod._dynamo.list_backends()
        and not numod.compiler.is_exporting()
        and numod._dynamo.graph_break() is None
    )


def test_accelerate_asks_whether_a_module_is_compiled() -> None:
    assert not isinstance(nn.Linear(1, 1), numod._dynamo.eval_frame.OptimizedModule)
    with pytest.raises(AttributeError, match=r"numod\._dynamo.*nothing"):
        print(numod._dynamo.nothing)
