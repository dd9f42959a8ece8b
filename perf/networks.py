"""The networks that are timed, written once for numod and PyTorch:

`make(torch)` gives (module, inputs as NumPy arrays). `in_jax` reads them for JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers in float32, of `shape`."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def perceptron(*sizes: int, batch: int, activation: str = "ReLU") -> Callable:
    """A multilayer perceptron, (batch, sizes[0]) -> (batch, sizes[-1])."""

    def make(torch: object) -> tuple:
        layers = []
        for inner, outer in zip(sizes, sizes[1:]):
            layers += [torch.nn.Linear(inner, outer), getattr(torch.nn, activation)()]
        return torch.nn.Sequential(*layers[:-1]), (draw(batch, sizes[0]),)

    return make


def actor_critic(batch: int, seen: int = 17, actions: int = 6) -> Callable:
    """Two bodies 64-64 with tanh, as PPO has them, (batch, seen) -> (batch, actions), (batch, 1)."""

    def make(torch: object) -> tuple:
        class ActorCritic(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.actor, self.critic = (
                    perceptron(seen, 64, 64, out, batch=batch, activation="Tanh")(torch)[0] for out in (actions, 1)
                )

            def forward(self, x: object) -> tuple:
                return self.actor(x), self.critic(x)

        return ActorCritic(), (draw(batch, seen),)

    return make


def lenet(batch: int, activation: str = "Tanh", pool: str = "AvgPool2d") -> Callable:
    """LeNet-5, (batch, 1, 28, 28) -> (batch, 10)."""

    def make(torch: object) -> tuple:
        nn = torch.nn
        act, halve = getattr(nn, activation), getattr(nn, pool)
        layers = (
            nn.Conv2d(1, 6, 5, padding=2), act(), halve(2), nn.Conv2d(6, 16, 5), act(), halve(2),
            nn.Flatten(), nn.Linear(400, 120),
            act(),
            nn.Linear(120, 84), act(), nn.Linear(84, 10),
        )  # fmt: skip
        return nn.Sequential(*layers), (draw(batch, 1, 28, 28),)

    return make


def convolutions(batch: int) -> Callable:
    """Three convolutions 3×3, (batch, 3, 32, 32) -> (batch, 10)."""

    def make(torch: object) -> tuple:
        nn = torch.nn
        layers = [
            layer
            for inner, outer in ((3, 32), (32, 64), (64, 64))
            for layer in (nn.Conv2d(inner, outer, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        ]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10)), (draw(batch, 3, 32, 32),)

    return make


def resnet18(batch: int) -> Callable:
    """ResNet-18 for CIFAR, (batch, 3, 32, 32) -> (batch, 10)."""

    def make(torch: object) -> tuple:
        nn, relu = torch.nn, torch.nn.functional.relu

        class BasicBlock(nn.Module):
            def __init__(self, inner: int, outer: int, stride: int) -> None:
                super().__init__()
                self.conv1, self.bn1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
                self.conv2, self.bn2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
                short = (
                    ()
                    if stride == 1 and inner == outer
                    else (nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
                )
                self.shortcut = nn.Sequential(*short)

            def forward(self, x: object) -> object:
                return relu(self.bn2(self.conv2(relu(self.bn1(self.conv1(x))))) + self.shortcut(x))

        widths = (
            (64, 64, 1),
            (64, 64, 1),
            (64, 128, 2),
            (128, 128, 1),
            (128, 256, 2),
            (256, 256, 1),
            (256, 512, 2),
            (512, 512, 1),
        )
        stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        return nn.Sequential(
            *stem, *(BasicBlock(*width) for width in widths), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10)
        ), (draw(batch, 3, 32, 32),)

    return make


def lstm_cell(size: int, batch: int) -> Callable:
    """A step of an LSTM, three of (batch, size) -> two of them."""

    def make(torch: object) -> tuple:
        class Cell(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.cell = torch.nn.LSTMCell(size, size)

            def forward(self, x: object, hidden: object, state: object) -> tuple:
                return self.cell(x, (hidden, state))

        return Cell(), tuple(draw(batch, size, seed=seed) for seed in range(3))

    return make


def gru(size: int, steps: int, batch: int) -> Callable:
    """A GRU over a sequence, (steps, batch, size) -> the same."""

    def make(torch: object) -> tuple:
        class Sequence(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.gru = torch.nn.GRU(size, size)

            def forward(self, x: object) -> object:
                return self.gru(x)[0]

        return Sequence(), (draw(steps, batch, size),)

    return make


def gpt(
    batch: int, steps: int, past: int = 0, layers: int = 2, size: int = 128, heads: int = 4, tokens: int = 256
) -> Callable:
    """A GPT, tokens (batch, steps), positions (steps,) -> (batch, steps, tokens).

    Where `past` > 0, keys and values of so many earlier positions are inputs, (batch, heads, past, size / heads) each,
    and those of all positions results too: decoding with a cache.
    """

    def make(torch: object) -> tuple:
        nn = torch.nn

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.heads = heads
                self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
                self.c_attn, self.c_proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
                self.mlp = nn.Sequential(
                    nn.Linear(size, 4 * size), nn.GELU(approximate="tanh"), nn.Linear(4 * size, size)
                )
                self.register_buffer("mask", torch.tril(torch.ones(steps, steps)).view(1, 1, steps, steps) == 0)

            def forward(self, x: object, *cache: object) -> tuple:
                q, k, v = (
                    word.reshape(batch, steps, heads, size // heads).transpose(1, 2)
                    for word in self.c_attn(self.ln_1(x)).split(size, dim=2)
                )
                if cache:
                    k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
                scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(size // heads))
                if not cache:
                    scores = scores.masked_fill(self.mask, float("-inf"))
                x = x + self.c_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, steps, size))
                return x + self.mlp(self.ln_2(x)), k, v

        class GPT(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.tokens, self.positions = nn.Embedding(tokens, size), nn.Embedding(past + steps, size)
                self.blocks, self.norm = nn.ModuleList([Block() for _ in range(layers)]), nn.LayerNorm(size)
                self.head = nn.Linear(size, tokens, bias=False)

            def forward(self, token: object, position: object, *cache: object) -> object:
                x, attention_caches = self.tokens(token) + self.positions(position), []
                for number, block in enumerate(self.blocks):
                    x, *both = block(x, *cache[2 * number : 2 * number + 2])
                    attention_caches += both
                scores = self.head(self.norm(x))
                return (scores, *attention_caches) if cache else scores

        generator = np.random.default_rng(0)
        cache = [draw(batch, heads, past, size // heads, seed=seed) for seed in range(2 * layers)] if past else []
        return GPT(), (generator.integers(0, tokens, (batch, steps)), np.arange(past, past + steps), *cache)

    return make
