"""`numod.utils.summary`: exact counts for known networks, and what is shared counted once."""

from __future__ import annotations

import pytest

import numod
from numod import nn
from numod.utils import summary


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)
        )
        self.classifier = nn.Sequential(
            nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def test_lenet():
    result = summary(LeNet(), (1, 1, 28, 28), verbose=0)
    assert result.total_params == result.trainable_params == 61_706
    assert result.total_mult_adds == 6 * 28 * 28 * 25 + 16 * 10 * 10 * 150 + 400 * 120 + 120 * 84 + 84 * 10
    layers = {f"{type(row.module).__name__}: {row.depth}-{row.index}": row for row in result.summary_list}
    assert layers["Conv2d: 2-4"].output_size == [1, 16, 10, 10] and layers["Conv2d: 2-4"].parameters == 2416
    assert layers["Sequential: 1-1"].mult_adds == 117_600 + 240_000
    assert (result.total_input, result.total_param_bytes) == (28 * 28 * 4, 61_706 * 4)


def test_the_table(capsys):
    result = summary(LeNet(), (1, 28, 28), batch_dim=0, depth=1, row_settings=("var_names",))
    text = capsys.readouterr().out
    assert str(result) == text.rstrip("\n")
    lines = text.splitlines()
    assert (
        lines[3].split() == ["LeNet", "[1,", "10]", "61,706", "416,520"]
        and lines[4].startswith("├─Sequential (features): 1-1")
        and lines[5].startswith("└─Sequential (classifier): 1-2")
    )
    assert "Conv2d" not in text and "Total mult-adds: 416,520" in text and len(set(map(len, (lines[0], lines[2])))) == 1


def test_shared_modules_are_counted_once():
    layer = nn.Linear(4, 4)
    result = summary(nn.Sequential(layer, nn.ReLU(), layer), (2, 4), verbose=0)
    assert result.total_params == 20 and result.total_mult_adds == 2 * 2 * 16
    assert [row.text("num_params") for row in result.summary_list] == ["20", "20", "--", "(recursive)"]


def test_recurrent_layers_and_attention():
    assert summary(nn.LSTM(4, 8), (5, 3, 4), verbose=0).total_mult_adds == 5 * 3 * 32 * (4 + 8)
    assert summary(nn.GRU(4, 8), (5, 3, 4), verbose=0).total_mult_adds == 5 * 3 * 24 * (4 + 8)


def test_data_keywords_modes_and_frozen_parameters():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.drop = nn.Linear(3, 2), nn.Dropout(0.5)

        def forward(self, x, *, y, scale=1.0):
            assert not self.training and scale == 2.0
            return {"sum": self.drop(self.first(x)) + y}

    model = Two()
    model.first.bias.requires_grad_(False)
    result = summary(
        model,
        input_data={"x": numod.ones(1, 3), "y": numod.ones(1, 2)},
        scale=2.0,
        mode="eval",
        col_names=("trainable", "input_size"),
        verbose=0,
    )
    assert model.training and model.drop.training and result.trainable_params == 6 and "Partial" in str(result)
    assert not model._forward_hooks and not model.first._forward_pre_hooks


def test_integer_inputs_and_errors():
    assert summary(nn.Embedding(10, 3), (4,), dtypes=[numod.int64], verbose=0).summary_list[0].output_size == [4, 3]
    with pytest.raises(ValueError, match="column 'size' is unknown; choose from output_size"):
        summary(nn.ReLU(), (1,), col_names=("size",))
    with pytest.raises(ValueError, match="not both"):
        summary(nn.ReLU(), (1,), numod.ones(1))
    model = nn.Linear(3, 2)
    with pytest.raises(RuntimeError):
        summary(model, (1, 4), verbose=0)
    assert not model._forward_hooks


def test_memory_of_outputs_and_the_time_of_a_second_pass():
    calls = []

    class Counted(nn.Module):
        def forward(self, x):
            calls.append(self.training)
            return x.repeat(250, 1)

    result = summary(nn.Sequential(Counted()), (4, 10), col_names=("memory", "time"), mode="eval", verbose=0)
    assert (
        calls == [False, False]
        and "0.04" in result.summary_list[1].text("memory")
        and result.summary_list[1].seconds > 0
    )
    summary(Counted(), (4, 10), verbose=0)
    assert len(calls) == 3
