"""Recorded programs in files: they run in another process without the model's Python, and a damaged file is an
error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numod
from numod import nn
from numod.core.apply import apply
from numod.graph import Executable
from numod.graph import trace
from numod.graph import verify
from numod.nn import functional as F
from numod.ops import quantize
from numod.serialization import load_file, load_metadata, load_program, save_file, save_program

MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 2), nn.LogSoftmax(1)),
        lambda: numod.randn(5, 4),
    ),
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        ),
        lambda: numod.randn(2, 1, 6, 6),
    ),
    "lstm": (lambda: nn.LSTM(3, 4), lambda: numod.randn(5, 2, 3)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: numod.randn(2, 3, 8)),
    "embedding": (lambda: nn.Embedding(7, 3), lambda: numod.tensor([[1, 2], [6, 0]])),
}


def leaves(nested: object) -> list[numod.Tensor]:
    return [nested] if isinstance(nested, numod.Tensor) else [leaf for part in nested for leaf in leaves(part)]


def same(a: object, b: object, exactly: bool = True) -> bool:
    return all(
        np.array_equal(x.numpy(), y.numpy()) if exactly else np.allclose(x.numpy(), y.numpy(), atol=1e-6)
        for x, y in zip(leaves(a), leaves(b), strict=True)
    )


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    model, x = MODELS[name][0]().eval(), MODELS[name][1]()
    with numod.no_grad():
        recorded = trace(model, x)
        save_program(recorded, tmp_path / "model.safetensors")
        loaded = load_program(tmp_path / "model.safetensors")
        assert same(loaded(x), model(x)) and same(Executable(loaded, name)(x), model(x), exactly=False)
    assert verify(loaded) is loaded and str(loaded) == str(recorded)


def test_gradients_writes_and_draws(tmp_path: Path) -> None:
    weight = numod.randn(3, requires_grad=True)
    buffer = numod.zeros(3)

    def step(x: numod.Tensor) -> dict:
        loss = F.smooth_l1_loss(F.dropout(x * weight, 0.5).tanh(), x.relu())
        buffer.add_(x)
        return {
            "loss": loss.detach(),
            "slope": numod.autograd.grad(loss, weight)[0],
            "parts": [buffer * 2, (x[1:].flip(0), float("inf"))],
        }

    x = numod.randn(3)
    save_program(trace(step, x), tmp_path / "p.safetensors")
    loaded = load_program(tmp_path / "p.safetensors")
    numod.manual_seed(1)
    with numod.no_grad():
        actual = loaded(x)
    numod.manual_seed(1)
    expected = step(x)
    assert same(
        [actual["loss"], actual["slope"], actual["parts"][0], actual["parts"][1][0]],
        [expected["loss"], expected["slope"], expected["parts"][0], expected["parts"][1][0]],
    )
    assert actual["parts"][1][1] == float("inf") and type(actual["parts"][1]) is tuple


READER = """
import sys, numod
from numod.graph import Executable
from numod.serialization import load_program
program = Executable(load_program(sys.argv[1]))
print(program(numod.ones(2, 4)).tolist())
"""


def test_another_process_needs_no_python_of_the_model(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.layer(x).sin() * 3

    model = Odd()
    with numod.no_grad():
        save_program(trace(model, numod.randn(2, 4)), tmp_path / "odd.safetensors")
        expected = model(numod.ones(2, 4)).tolist()
    completed = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path / "odd.safetensors")], capture_output=True, text=True, check=True
    ).stdout
    assert np.allclose(json.loads(completed), expected, atol=1e-6)


def test_process_local_values_are_refused(tmp_path: Path) -> None:
    weight = numod.ones(3, requires_grad=True)
    optimizer = numod.optim.SGD([weight], lr=0.1)

    def step() -> None:
        weight.grad = numod.ones(3)
        optimizer.step()

    with pytest.raises(ValueError, match="optimizer's step"):
        save_program(trace(step), tmp_path / "x")
    generator = numod.Generator()
    with pytest.raises(ValueError, match="generator of its own"):
        save_program(trace(lambda: numod.rand(3, generator=generator)), tmp_path / "x")


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    path, broken = tmp_path / "good.safetensors", tmp_path / "broken.safetensors"
    with numod.no_grad():
        save_program(trace(nn.Linear(2, 2), numod.ones(1, 2)), path)
    tensors, text = load_file(path), load_metadata(path)["numod.program"]
    save_file(tensors, broken)
    with pytest.raises(ValueError, match="holds no program"):
        load_program(broken)
    source = np.random.default_rng(0)
    for _ in range(300):
        position = int(source.integers(len(text)))
        damaged = text[:position] + str(source.choice(list('0123456789[]{}",:x-'))) + text[position + 1 :]
        save_file(tensors, broken, {"numod.program": damaged})
        try:
            load_program(broken)
        except ValueError:
            pass


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_a_program_over_packed_sequences_takes_all_lengths(kind: type, tmp_path: Path) -> None:
    layer, x = kind(3, 4), numod.randn(8, 4, 3)

    def function(x: numod.Tensor, lengths: numod.Tensor) -> numod.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(layer(packed)[0], total_length=8)[0]

    with numod.no_grad():
        save_program(trace(function, x, numod.tensor([3, 5, 8, 1])), tmp_path / "program")
        program = load_program(tmp_path / "program")
        for lengths in ([3, 5, 8, 1], [1, 8, 8, 2], [1, 1, 1, 1]):
            assert numod.allclose(program(x, numod.tensor(lengths)), function(x, numod.tensor(lengths)), atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_rows_that_only_older_files_have(dtype: str, tmp_path: Path) -> None:
    """A static quantized layer was a product of integers and a row that requantizes."""

    def layer(sums: numod.Tensor, multiplier: numod.Tensor) -> numod.Tensor:
        return apply(quantize.requantize[dtype], (sums, 2, multiplier, 3, 0, 100))

    sums, multiplier = numod.tensor([-20, 0, 4, 90, 900], dtype=numod.int32), numod.full((5,), 0.5)
    save_program(trace(layer, sums, multiplier), tmp_path / "program")
    program = load_program(tmp_path / "program")
    for run in (program, Executable(program)):
        assert run(sums, multiplier).tolist() == [0, 4, 6, 49, 100]
