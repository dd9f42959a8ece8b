"""Kernels of all layers of a module are begun by its first op, without other effects."""

from collections.abc import Callable

import pytest
from asked_kernels import forget_plans, record_asked

import numod
from numod import nn
from numod.core.extensions import extensions
from numod.device import background
from numod.nn import early_layers


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return record_asked(monkeypatch)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Flatten(),
        nn.Linear(36, 5), nn.Tanh(), nn.Linear(5, 3),
    )  # fmt: skip


class Residual(nn.Module):
    """A network whose forward pass is the program's."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)
        self.calls = 0

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.calls += 1
        return self.second(x + self.norm(self.first(x)))


NETWORKS = {"convolutional": (convolutional, (3, 2, 8, 8)), "residual": (Residual, (4, 6))}
NOT_OF_LAYERS = {"convolutional": {"dropout", "dropout_grad_x"}, "residual": {"add"}}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_layers_need_only_kernels_that_the_first_op_began(
    name: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, shape = NETWORKS[name]
    net, x, begun = make(), numod.randn(*shape), []
    plain = early_layers.begin_layers

    def begin_layers() -> None:  # the ops of the layers call it, too
        monkeypatch.setattr(extensions, "begin_layers", lambda: None)
        plain()
        begun.extend(asked)

    monkeypatch.setattr(extensions, "begin_layers", begin_layers)
    asked.clear()
    net(x)
    others = {kernel.rpartition("_")[0] for kernel in {*asked} - {*begun}}
    assert len({*begun}) > 3 and others == NOT_OF_LAYERS[name]


def trained(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> list[numod.Tensor]:
    """The state after three steps, and the next random numbers."""
    numod.manual_seed(0)
    net, x = make(), numod.randn(*shape)
    optimizer = numod.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return [*net.state_dict().values(), numod.rand(3)]


@pytest.mark.parametrize("name", NETWORKS)
def test_training_is_that_without(name: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    early = trained(*NETWORKS[name])
    monkeypatch.setattr(background, "works", lambda: False)
    forget_plans()
    assert all(map(numod.equal, early, trained(*NETWORKS[name])))


def test_a_compiled_step_records_none_of_it(asked: list[str]) -> None:
    net, x = convolutional().eval(), numod.randn(3, 2, 8, 8)
    compiled = numod.compile(net, fullgraph=True)
    assert numod.allclose(compiled(x), net(x), atol=1e-6) and numod.equal(compiled(x), compiled(x))


def test_the_programs_own_code_runs_once_for_each_call(asked: list[str]) -> None:
    class Counted(nn.Linear):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            calls.append("subclass")
            return super().forward(x)

    def replaced(x: numod.Tensor) -> numod.Tensor:
        calls.append("replaced")
        return x

    calls: list[str] = []
    net = nn.Sequential(nn.Linear(3, 3), Counted(3, 3), nn.Linear(3, 3), nn.ReLU())
    net[2].register_forward_hook(lambda *arguments: calls.append("hook"))
    net[3].forward = replaced
    net(numod.randn(2, 3))
    assert calls == ["subclass", "hook", "replaced"]
    net = Residual()
    net(numod.randn(2, 6))
    assert net.calls == 1


def test_overrides_are_told_of_no_layer_that_did_not_run(asked: list[str]) -> None:
    class Names(numod.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None):
            names.append(function.__name__)
            return function(*args, **(kwargs or {}))

    names: list[str] = []
    net, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), numod.randn(2, 3)
    with Names():
        net(x)
    assert names.count("linear") == 1


@pytest.mark.filterwarnings("always")
def test_layers_in_another_order_than_that_of_their_calls_warn_of_nothing(
    asked: list[str], recwarn: pytest.WarningsRecorder
) -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.second = nn.Conv2d(2, 3, 1), nn.InstanceNorm2d(4), nn.Conv2d(3, 4, 1)

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.norm(self.second(self.first(x)))

    Other()(numod.randn(1, 2, 5, 5))
    assert not recwarn.list


def test_the_layers_of_a_module_are_begun_once(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    plain = early_layers._result
    monkeypatch.setattr(early_layers, "_result", lambda layer, x: ran.append(layer) or plain(layer, x))
    net = convolutional()
    for count in (3, 4):  # another size, whose ops have no plans
        net(numod.randn(count, 2, 8, 8))
    assert [type(layer).__name__ for layer in ran] == [
        "Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d", "Flatten", "Linear", "Tanh", "Linear"
    ]  # fmt: skip


def test_a_profile_counts_no_layer_that_did_not_run(asked: list[str]) -> None:
    net, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), numod.randn(5, 4)
    with numod.profiler.profile(with_flops=True) as prof:
        net(x)
    events = prof.events()
    assert any(event.name == "begin kernels of layers" for event in events)
    assert sum(event.multiply_adds for event in events) == 5 * 4 * 3 + 5 * 3 * 2
    assert [event.name for event in events if event.category == "op"] == [
        "numod::linear",
        "numod::tanh",
        "numod::linear",
    ]
