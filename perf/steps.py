"""Rows of networks: eager training steps, and forward passes and steps compiled."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from .networks import actor_critic, convolutions, draw, gpt, gru, lenet, lstm_cell, perceptron, resnet18
from .operations import whole
from .peers import inference, network, training
from .row import Bar, Row, SharedRow, Timed

SMALL = perceptron(4, 3, 1, batch=1, activation="Tanh")
DIGITS = perceptron(64, 128, 10, batch=32)
LARGE = perceptron(784, 256, 10, batch=128)
TRAINED = {  # network, target, loss
    "MLP 4-3-1, batch 1": (SMALL, draw(1, 1, seed=9), "mse_loss"),
    "MLP 64-128-10, batch 32": (DIGITS, whole(10, 32), "cross_entropy"),
    "MLP 784-256-10, batch 128": (LARGE, whole(10, 128), "cross_entropy"),
    "LeNet, batch 64": (lenet(64), whole(10, 64), "cross_entropy"),
    "ResNet-18 CIFAR, batch 8": (resnet18(8), whole(10, 8), "cross_entropy"),
    "GPT 2×128, T=64, batch 4": (gpt(4, 64), whole(256, 256), "cross_entropy"),
}  # fmt: skip
EAGER = {"MLP 4-3-1, batch 1": 0.4, "MLP 64-128-10, batch 32": 0.6}  # of PyTorch's time; 0.9 for the others
COMPILED = {
    "MLP 4-3-1, batch 1": 0.1,
    "MLP 64-128-10, batch 32": 0.6,
    "MLP 784-256-10, batch 128": 0.95,
    "LeNet, batch 64": 0.9,
}
# of which model and loss are compiled, as in most programs: backward and step are eager
LOSSES = "MLP 4-3-1, batch 1", "MLP 64-128-10, batch 32"
FORWARD = {
    "MLP 4-3-1, batch 1": (SMALL, 0.25), "MLP 64-128-10, batch 32": (DIGITS, 0.7),
    "MLP 784-256-10, batch 128": (LARGE, 0.95),
    "actor-critic 64-64, batch 1": (actor_critic(1), 0.3), "actor-critic 64-64, batch 64": (actor_critic(64), 0.6),
    "LSTM cell 32, batch 1": (lstm_cell(32, 1), 0.3),
    "GRU 32, T=100": (gru(32, 100, 1), 0.3), "LeNet, batch 1": (lenet(1), 0.9),
    "ResNet-18 CIFAR, batch 1": (resnet18(1), 0.9),
    "GPT 2×128, a token after 63": (gpt(1, 1, past=63), 0.6),
}  # fmt: skip
FROZEN = (
    "MLP 64-128-10, batch 32",
    "MLP 784-256-10, batch 128",
    "actor-critic 64-64, batch 64",
    "ResNet-18 CIFAR, batch 1",
)


def calls() -> dict[str, Callable[[], Timed]]:
    """A hundred calls of a small layer where no gradient is wanted."""

    def of(library: str) -> Timed:
        torch = importlib.import_module(library)
        layer, (x,) = network(lambda torch: (torch.nn.Linear(4, 3), (draw(1, 4),)), library)
        x = torch.tensor(x)

        def call() -> list:
            with torch.no_grad():
                return [layer(x).numpy() for _ in range(100)][:1]

        return Timed(
            "with torch.no_grad():\n    for _ in range(100): layer(x)",
            {"torch": torch, "layer": layer, "x": x},
            call,
            call if library == "numod" else None,
        )

    return {"numod": lambda: of("numod"), "PyTorch": lambda: of("torch")}


def sharing() -> list[SharedRow]:
    """Training steps with two threads beside one thread: on cores that nobody else uses, and beside one and two busy
    processes.
    """
    networks = {"LeNet": TRAINED["LeNet, batch 64"], "3 conv": (convolutions(32), whole(10, 32), "cross_entropy")}
    return [
        SharedRow(
            f"two threads beside {count} busy, {'compiled' if compiled else 'eager'} step, {name}",
            {
                contender: partial(in_threads, threads, network, compiled)
                for contender, threads in (("numod", 2), ("one thread", 1))
            },
            Bar(1.3 if count else 1.0, peer="one thread"),
            busy=count,
        )
        for count in (0, 1, 2)
        for name, network in networks.items()
        for compiled in (False, True)
    ]


def in_threads(threads: int, network: tuple, compiled: bool) -> Timed:
    """A training step with so many threads."""
    timed = training(*network, compiled=compiled)["numod"]()
    names = {**timed.names, "set_num_threads": importlib.import_module("numod").set_num_threads}
    return Timed(f"set_num_threads({threads})\n{timed.statement}", names, timed.values)


STEPS = (
    Row("100 calls of Linear(4, 3), no_grad", calls()),
    *(
        Row(f"eager step, {name}", training(*network), Bar(EAGER.get(name, 0.9), peer="PyTorch"))
        for name, network in TRAINED.items()
    ),
    *(Row(f"compiled forward, {name}", inference(make), Bar(ratio)) for name, (make, ratio) in FORWARD.items()),
    *(
        Row(f"compiled forward, frozen, {name}", inference(FORWARD[name][0], frozen=True), Bar(FORWARD[name][1]))
        for name in FROZEN
    ),
    *(Row(f"compiled loss, {name}", training(*TRAINED[name], compiled=True, loss_alone=True)) for name in LOSSES),
    *(
        Row(f"compiled step, {name}", training(*TRAINED[name], compiled=True, jax=True), Bar(ratio))
        for name, ratio in COMPILED.items()
    ),
    *sharing(),
)
