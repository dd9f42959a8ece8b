"""gradcheck: what its options find, and how often the fast mode calls the function."""

from __future__ import annotations

import pytest

import numod as torch


def test_gradcheck_in_fast_mode_calls_the_function_a_few_times():
    calls, x = [], torch.rand(300, dtype=torch.float64, requires_grad=True)

    def function(x):
        calls.append(x)
        return x.sin() * x

    assert torch.autograd.gradcheck(function, (x,), fast_mode=True) and torch.autograd.gradgradcheck(
        function, (x,), fast_mode=True
    )
    assert len(calls) < 30


class _Careless(torch.autograd.Function):
    """Its gradient is wrong by `error`, grows with each backward by `drift`, and it fails where no gradient comes."""

    error, drift, strict = 0.0, 0.0, False

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    @classmethod
    def _run(cls, ctx, g):
        if g is None:
            if cls.strict:
                raise RuntimeError("no gradient")
            return None
        cls.error += cls.drift
        return g * (2 + cls.error)

    @staticmethod
    def backward(ctx, g):
        return _Careless._run(ctx, g)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "options, match, allowed",
    [
        ({"error": 0.5}, "mismatch", None),
        ({"drift": 1e-8}, "not reentrant", {"nondet_tol": 1e-5}),
        ({"strict": True}, "undefined", {"check_undefined_grad": False}),
    ],
)
def test_gradcheck_finds_what_its_options_ask_for(monkeypatch, options, match, allowed, fast):
    for name in ("error", "drift", "strict"):
        monkeypatch.setattr(_Careless, name, options.get(name, 0.0))
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=match):
        torch.autograd.gradcheck(_Careless.apply, x, fast_mode=fast)
    if allowed:
        assert torch.autograd.gradcheck(_Careless.apply, x, fast_mode=fast, **allowed)
