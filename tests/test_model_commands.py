"""The commands warmup and summary, run as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from numod import graph, nn
from numod.__main__ import main

MODELS = """
import numod as torch
from numod import nn

calls = []

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 2)
    def forward(self, x, y=None):
        calls.append((tuple(x.shape), x.dtype, self.training, torch.is_grad_enabled(), y and tuple(y.shape)))
        return self.hidden(x)

class Any(nn.Module):
    def forward(self, *inputs):
        calls.append([(tuple(x.shape), str(x.dtype)) for x in inputs])

class Pair(Net):
    def forward(self, x):
        return {"both": (super().forward(x), x)}

class Failing(Net):
    def forward(self, x):
        x = super().forward(x)
        x.register_hook(lambda grad: 1 / 0)
        return x

net, several, plain, pair, failing = Net(), Any(), nn.Linear(3, 2), Pair(), Failing()
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    """The module of models, which begins anew, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "warm_models", raising=False)
    (tmp_path / "warm_models.py").write_text(MODELS)
    (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:]); sys.exit(sys.argv[1] != '--eval')")
    yield lambda: sys.modules["warm_models"].calls
    sys.modules.pop("warm_models", None)


def test_a_script_gets_its_own_arguments_and_prints_nothing(models, capsys):
    assert main(["warmup", "script.py", "--eval"]) == 0
    text = capsys.readouterr().out
    assert "--eval" not in text and "kernels compiled" in text


def test_kernels_whose_results_nothing_reads_are_compiled(models, tmp_path):
    """While LLVM works on a kernel, its launch waits until the result is read."""
    (tmp_path / "unread.py").write_text("import numod; x = numod.tensor([1.0, 2.0]).tanh()")
    cache = tmp_path / "cache"
    finished = subprocess.run(
        [sys.executable, "-m", "numod", "warmup", "unread.py"],
        env={**os.environ, "NUMOD_CACHE_DIR": str(cache)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert finished.stdout.startswith("1 kernels compiled") and [path for path in cache.rglob("*") if path.is_file()]


def test_a_model_is_trained_once(models, capsys):
    assert main(["warmup", "warm_models:net", "4", "3"]) == 0
    (call,) = models()
    assert call[0] == (4, 3) and call[2:4] == (True, True)
    assert sys.modules["warm_models"].net.hidden.weight.grad is not None


def test_backward_runs_from_tensors_in_containers_and_its_errors_are_one_line(models, capsys):
    assert main(["warmup", "warm_models:pair", "4", "3"]) == 0
    assert sys.modules["warm_models"].pair.hidden.weight.grad is not None
    assert main(["warmup", "warm_models:failing", "4", "3"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("before", [True, False])
def test_inference_for_each_batch_with_the_shape_of_the_first_layer(models, before):
    options = ["--batch", "1", "2", "4", "--eval"]
    target = ["warm_models:Net"]
    assert main(["warmup", *(["--eval", *target, *options[:4]] if before else [*target, *options])]) == 0
    assert [call[0] for call in models()] == [(1, 3), (2, 3), (4, 3)]
    assert {call[2:4] for call in models()} == {(False, False)}


def test_a_compiled_model_is_recorded_for_each_batch(models, monkeypatch):
    made, compile = [], graph.compile
    monkeypatch.setattr(graph, "compile", lambda *args, **options: made.append(compile(*args, **options)) or made[-1])
    assert main(["warmup", "warm_models:plain", "--batch", "2", "3", "--eval", "--dynamic"]) == 0
    (model,) = made
    assert sum(map(len, model.forward.versions.values())) == 2


def test_several_inputs_and_dtypes(models):
    assert main(["warmup", "warm_models:several", "--input", "2,5:int64", "--input", "2", "--dtype", "float64"]) == 0
    assert main(["warmup", "warm_models:several", "2", "--input", "3", "--dtype", "bool", "float32"]) == 0
    assert models() == [
        [((2, 5), "numod.int64"), ((2,), "numod.float64")],
        [((2,), "numod.bool"), ((3,), "numod.float32")],
    ]


def test_a_model_that_fails_is_named(models, capsys):
    assert main(["warmup", "numod.nn:Linear", "4", "7"]) == 1
    assert "warmup: numod.nn:Linear cannot be made without arguments: TypeError" in capsys.readouterr().err
    assert main(["warmup", "warm_models:net", "4", "7"]) == 1
    assert "warmup: warm_models:net with an input of (4, 7): RuntimeError: linear" in capsys.readouterr().err


def test_a_file_or_an_unknown_option_in_the_place_of_a_shape(models, capsys):
    assert main(["summary", "./warm_models.py:net"]) == 2
    assert "such as warm_models:net, got the file ./warm_models.py" in capsys.readouterr().err
    assert main(["warmup", "warm_models:net", "--shape", "4,3"]) == 2
    assert "expected sizes such as 1 3 32 32, got '4,3'" in capsys.readouterr().err


def test_a_summary_as_text_and_as_json(models, capsys):
    assert main(["summary", "warm_models:net"]) == 0
    assert "Linear: 1-1" in capsys.readouterr().out
    assert main(["summary", "--json", "warm_models:net", "4", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["total_params"] == sum(parameter.numel() for parameter in nn.Linear(3, 2).parameters())
    assert [(layer["type"], layer["output_size"]) for layer in report["layers"]] == [
        ("Net", [4, 2]),
        ("Linear", [4, 2]),
    ]
