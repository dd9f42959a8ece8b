"""`numod.compile`: values read in Python, arguments and results of every kind, versions, and the library's own
checks.
"""

from __future__ import annotations

import pickle
import random
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from pairs import X, batch, compile, equal, net, step_of
from selection import diagonals

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.graph import mark_dynamic
from numod.kernel import build
from numod.nn import functional as F


READS = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "item": lambda x: x[x.sum().item() :],
    "print": lambda x: str(x),
    "format": lambda x: f"{x.sum():.2f}",
    "numpy": lambda x: x.numpy() + 1,
    "tolist": lambda x: x.tolist()[0],
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "len": lambda x: [0] * x.long().sum(),
    "array": lambda x: np.asarray(x),
    "pickle": lambda x: pickle.dumps(x),
    "in": lambda x: 1.0 in x,
    "list of tensors": lambda x: numod.tensor([x.sum(), x.sum()]),
    "nonzero loop": lambda x: [value for value in x.sum(0) if value > 1],
}
GLOBAL = {"factor": 0}


@pytest.mark.parametrize("name", READS)
def test_reading_a_value_names_the_line(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"test_compile.py:\d+"):
        compile(READS[name])(X.clone())
    assert not numod.core.listeners.listeners


class Steered(nn.Module):
    """Networks that Python steers in ways that no program can repeat.

    Results, parameters, gradients and what is kept in Python are as without compilation.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.use, self.layer, self.seen, self.calls = getattr(self, kind), nn.Linear(3, 3), [], 0
        self.register_buffer("position", numod.tensor(0))
        self.register_buffer("history", numod.zeros(3, 9))
        self.optimizer = numod.optim.SGD(self.layer.parameters(), lr=0.1, momentum=0.9)
        if kind == "hook":
            self.layer.register_full_backward_hook(
                lambda module, inputs, outputs: self.seen.append(inputs[0].sum().item())
            )

    def forward(self, x: numod.Tensor) -> object:
        self.calls += 1
        self.position += 2
        self.optimizer.zero_grad()
        loss = self.layer(x).square().sum()
        loss.backward()
        result = self.use(x, loss)
        self.optimizer.step()
        return result, numod.rand(2)

    def branch(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        return x + 1 if loss > 2 else x - loss

    def slices(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        p = int(self.position)
        self.history[:, p : p + 1] = x[:, :1]
        return self.history[: self.position.item()] * 2

    def array(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        return numod.from_numpy(np.full(3, self.calls, np.float32)) + x

    def coin(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        return x * 2 if random.random() < 0.5 else x * 3

    def log(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        self.seen.append((self.calls, (loss.item(), {"sum": x.sum().item()})))
        return x.sum()

    def hook(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        return (self.layer(x * 2) * x).sum()

    def argument(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        return x.t_() + 1

    def holder(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        return Holder((loss * 2).item() + loss.item())

    def rate(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        self.optimizer.param_groups[0]["lr"] = 0.1 / (1 + loss.item())
        return self.optimizer.param_groups[0]["lr"]

    def seeded(self, x: numod.Tensor, loss: numod.Tensor) -> object:
        numod.manual_seed(5)
        return numod.rand(2) + x.sum()


@pytest.mark.parametrize(
    "kind",
    [
        name
        for name, var in vars(Steered).items()
        if getattr(var, "__code__", None) and name[0] != "_" and name != "forward"
    ],
)
def test_unsupported_functions_run_eagerly_with_one_warning(kind: str) -> None:
    def run(wrap: object) -> tuple:
        numod.manual_seed(1)
        random.seed(1)
        model = Steered(kind)
        step, results = wrap(model), []
        for _ in range(5):
            x = numod.randn(3, 3, requires_grad=kind != "argument")
            outputs = step(x)
            results += [
                getattr(outputs[0], "x", outputs[0]),
                outputs[1],
                x,
                x.grad,
                [parameter.grad.clone() for parameter in model.parameters()],
            ]
        return results, {**model.state_dict()}, model.seen, model.calls, step

    with pytest.warns(
        UserWarning, match="runs eagerly from here.*cannot repeat|runs eagerly from here.*has a hook"
    ) as warned:
        *outcomes, compiled = run(lambda model: compile(model, fullgraph=False))
    *expected, _ = run(lambda model: model)
    assert len(warned) == 1 and equal(outcomes, expected) and not numod.core.listeners.listeners
    assert (
        "runs eagerly" in compiled.explain()
        and str(warned[0].message).split(": ", 2)[2].split(" (fullgraph")[0] in compiled.explain()
    )
    with pytest.raises(RuntimeError, match="has a hook|cannot repeat|depends on its value"):
        run(compile)


def test_nothing_is_recorded_after_an_error_and_the_function_still_works() -> None:
    def function(x: numod.Tensor, fail: bool) -> numod.Tensor:
        y = x * 2
        if fail:
            raise KeyError("half-way")
        return y + 1

    compiled = compile(function)
    for fail in (True, False, True, False):
        if fail:
            with pytest.raises(KeyError, match="half-way"):
                compiled(X, fail)
        else:
            assert equal(compiled(X, fail), function(X, fail))
    assert not numod.core.listeners.listeners


def test_structures_of_arguments_and_results() -> None:
    def function(pair: tuple, *, options: dict, scale: float | None = None, parts: list = ()) -> dict:
        a, b = pair
        total = a + b * (1.0 if scale is None else scale)
        for part in parts:
            total = total + part
        return {"total": total, "more": [total.sum(), (options["x"] * 2, None, "text", 3)], 5: a}

    compiled = compile(function)
    for _ in range(2):
        for more in ({}, {"scale": 2.0}, {"scale": None, "parts": [X, X]}, {"parts": [X]}):
            keywords = {"options": {"x": X + 1, "name": "n"}, **more}
            assert equal(compiled((X, X + 1), **keywords), function((X, X + 1), **keywords))


Point = namedtuple("Point", "x y")


class Holder:
    """An object with tensors."""

    def __init__(self, x: numod.Tensor) -> None:
        self.x = x


@pytest.mark.parametrize("linked", [False, None])
def test_types_of_results_are_kept(linked: bool | None) -> None:
    def function(x: numod.Tensor) -> tuple:
        return Point(x + 1, [x * 2]), x.max(1), OrderedDict(a=x - 1, b=x.shape), x.dtype

    compiled = compiled_natively(function, options={"linked": linked})
    for k in range(4):
        a, b = compiled(X + k), function(X + k)
        assert (
            equal(a[0], b[0])
            and type(a[1]) is type(b[1])
            and equal(a[1].values, b[1].values)
            and type(a[2]) is OrderedDict
            and equal(a[2]["a"], b[2]["a"])
            and a[2]["b"] == b[2]["b"]
        )
    with pytest.raises(RuntimeError, match="returns a Holder"):
        compiled_natively(lambda x: Holder(x * 2), options={"linked": linked}, fullgraph=True)(X)


def test_objects_given_as_arguments() -> None:
    model, holder = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2)), Holder(X)
    function = lambda model, holder, scale: model(holder.x) * scale  # noqa: E731
    compiled = compile(function)

    def check(scale: float = 1.0) -> None:
        for _ in range(2):
            numod.manual_seed(0)
            result = compiled(model, holder, scale)
            numod.manual_seed(0)
            assert equal(result, function(model, holder, scale))

    check()
    model.eval()
    check()
    holder.x = X * 2
    check()
    model[1] = nn.Linear(3, 4)
    check()
    assert compiled(model, holder, 0.0).signbit().tolist() != compiled(model, holder, -0.0).signbit().tolist()


@pytest.mark.parametrize("shape, dtype", diagonals(
    [(), (3,), (0,), (2, 0, 3), (2, 3)],
    ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"], 2, others=pytest.mark.fuzz,
))  # fmt: skip
def test_dtypes_and_shapes(shape: tuple, dtype: str) -> None:
    x = numod.ones(shape).to(getattr(numod, dtype))
    function = lambda x: (x + x, (x * 2).sum(), x.clone().fill_(1), x.reshape(-1))  # noqa: E731
    compiled = compile(function)
    for _ in range(3):
        for a, b in zip(compiled(x), function(x)):
            assert a.dtype is b.dtype and a.shape == b.shape and a.tolist() == b.tolist()


class Rows(nn.Module):
    """An embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(numod.randn(5, 3))

    def forward(self, index: numod.Tensor) -> numod.Tensor:
        return F.embedding(index, self.weight)


def test_embedding_and_targets_out_of_range() -> None:
    numod.manual_seed(0)
    model, twin = (nn.Sequential(Rows(), nn.Flatten(), nn.BatchNorm1d(6), nn.Dropout(0.2)) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    optimizers = [numod.optim.Adam(value.parameters(), lr=0.1) for value in (model, twin)]
    eager, compiled = step_of(model, optimizers[0]), compile(step_of(twin, optimizers[1]))
    calls = [
        ([[0, 1], [2, 3]], [0, 1]),
        ([[4, 0], [0, 0]], [5, 2]),
        ([[1, 1], [2, 2]], [-100, 3]),
        ([[1, 1], [2, 2]], [0, 6]),
        ([[1, 5], [2, 2]], [0, 1]),
        ([[1, -1], [2, 2]], [0, 1]),
        ([[3, 1], [2, 4]], [1, 2]),
    ]
    for index, target in [*calls, *calls]:
        outcomes = []
        for step in (eager, compiled):
            numod.manual_seed(1)
            try:
                outcomes.append(step(numod.tensor(index), numod.tensor(target)))
            except IndexError as error:
                outcomes.append((str(error), numod.default_generator._offset))
        assert equal(*outcomes)
        assert equal(dict(model.state_dict()), dict(twin.state_dict()))
    assert [value["step"] for value in optimizers[0].state_dict()["state"].values()] == [
        value["step"] for value in optimizers[1].state_dict()["state"].values()
    ]


@pytest.mark.parametrize("mode", ["dynamic", "marked", "automatic"])
def test_a_function_for_all_batch_sizes_is_compiled_once(mode: str) -> None:
    model = net()
    compiled = compiled_natively(model, dynamic={"dynamic": True}.get(mode))
    with numod.no_grad():
        for n in (2, 5, 7, 9, 4, 31, 4, 9, *range(32, 48)):
            x = batch(1, n)[0]
            expected = model(x)
            kernels = build.statistics.compiled + build.statistics.loaded
            if mode == "marked":
                mark_dynamic(x, 0)
            for _ in range(2):
                assert equal(compiled(x), expected)
            if n not in ((2, 5, 7) if mode == "automatic" else (2,)):
                assert build.statistics.compiled + build.statistics.loaded == kernels
    assert "one native function" in compiled.explain() and "in turn" not in compiled.explain()


def test_a_training_step_for_all_batch_sizes_is_compiled_once() -> None:
    models = [net(), net()]
    optimizers = [numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]
    eager = step_of(models[0], optimizers[0])
    native = compiled_natively(step_of(models[1], optimizers[1]), dynamic=True)
    for n in (3, 5, 11, 4, 5, 6, 1, 3, 12, 300, 4096):  # the first step creates buffers and is not recorded
        expected = eager(*batch(n, n))
        kernels = build.statistics.compiled + build.statistics.loaded
        assert equal(native(*batch(n, n)), expected)
        assert n in (3, 5) or build.statistics.compiled + build.statistics.loaded == kernels
    assert equal(dict(models[0].state_dict()), dict(models[1].state_dict()))


def test_marking_a_dimension_that_is_not_there() -> None:
    with pytest.raises(IndexError, match="dimension 2 of a tensor of 2"):
        mark_dynamic(X, 2)


def test_versions_are_bounded_with_one_warning() -> None:
    compiled = compiled_natively(lambda x, n: x[:0] * len(range(n)))
    with pytest.warns(UserWarning, match="argument 1: 8 was recorded, got 9; it runs eagerly from here") as warned:
        for n in range(12):
            compiled(X, n)
    assert len(warned) == 1 and compiled.recorded == 8


def test_the_warning_names_the_shape_or_the_guard_that_failed() -> None:
    compiled = compiled_natively(lambda x: x[:0] * 1, dynamic=False)
    with pytest.warns(
        UserWarning,
        match=r"argument 0: numod.float32 \(9, 4\) was recorded, got numod.float32 \(10, 4\).*dynamic=True compiles "
        r"once",
    ):
        for n in range(2, 12):
            compiled(batch(1, n)[0])
    compiled = compile(lambda x: x[:0] * 1, recompile_limit=1)
    with pytest.warns(UserWarning, match=r"eagerly from here(?!; dynamic)"):
        for dtype in (numod.float32, numod.float64):
            compiled(numod.ones(2, dtype=dtype))
    GLOBAL["factor"] = 0
    compiled = compile(lambda x: x[:0] * len(range(GLOBAL["factor"])))
    with pytest.warns(UserWarning, match="because of GLOBAL\\['factor'\\]"):
        for _ in range(12):
            GLOBAL["factor"] += 1
            compiled(X)


def test_number_of_compiled_sizes_is_limited() -> None:
    compiled = compiled_natively(lambda x: x.sum(), dynamic=True, options={"linked": False})
    for n in range(1, 80):
        assert compiled(numod.ones(n)).item() == n
    assert len(compiled.versions) == 8  # others are recorded when they come again
    with pytest.warns(UserWarning, match="was recorded 64 times.*runs eagerly from here"):
        for n in range(1, 80):
            assert compiled(numod.ones(n)).item() == n
    assert len(compiled.versions) == 64 and compiled(numod.ones(5)).item() == 5


def test_distributions_and_losses_check_their_arguments_in_compiled_functions() -> None:
    policy = lambda x, action: numod.distributions.Normal(x, x.exp()).log_prob(action).sum()  # noqa: E731
    loss = lambda x, target: F.binary_cross_entropy(x, target)  # noqa: E731
    for function, right, wrong in (
        (policy, numod.tensor([0.1, 0.2]), numod.tensor([float("nan"), 1.0])),
        (loss, numod.tensor([0.1, 0.2]), numod.tensor([1.5, 0.2])),
    ):
        compiled, other = compile(function), numod.tensor([0.0, 1.0])
        for _ in range(3):
            assert equal(compiled(right, other), function(right, other))
        with pytest.raises((ValueError, RuntimeError), match="Expected parameter|between 0 and 1"):
            compiled(wrong, other)
        assert compiled.recorded == 1 and equal(compiled(right, other), function(right, other))
