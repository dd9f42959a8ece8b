"""The report of a quantized model: what its rows say."""

import math

import pytest

import numod as torch
from ao_models import GROUPS, every_layer
from numod.ao import quantization

pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min", "ignore:must run observer")


def test_each_layer_has_a_row(capsys):
    torch.manual_seed(0)
    model, x = every_layer(torch).eval(), torch.randn(8, 1, 8, 8)
    model.qconfig = quantization.get_default_qconfig("onednn")
    fused = quantization.fuse_modules(model, GROUPS)
    prepared = quantization.prepare(fused)
    prepared(x)
    rows = {row.path: row for row in quantization.report(quantization.convert(prepared), x, fused)}
    assert rows["conv"].kind == "QuantizedConvReLU2d" and rows["conv"].dtype == "qint8"
    assert rows["conv"].sqnr > 20 and rows["conv"].seconds > 0
    assert rows["fc"].nbytes == 4 * 3 + 3 * 4 + 4 + 8  # weight, bias, scale, zero point
    assert rows["hardswish"].note == "not called" and rows["hardswish"].seconds is None
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:3] == ["layer", "kind", "weights"] and len(printed) == len(rows) + 1


def test_observers_without_data_are_named(capsys):
    model = every_layer(torch).eval()
    model.qconfig = quantization.default_qconfig
    prepared = quantization.prepare(model)
    prepared(torch.randn(2, 1, 8, 8))
    rows = {row.path: row for row in quantization.report(prepared, torch.randn(2, 1, 8, 8))}
    assert "observer has seen no data" in rows["elu"].note and rows["conv"].note == ""
    assert math.isclose(rows["conv"].nbytes, 4 * 40, abs_tol=40)


def test_layers_left_in_float_state_the_reason(capsys, monkeypatch):
    monkeypatch.setattr(quantization.quant_api, "_time", lambda layer, x: 1.0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    quantization.quantize_(model, "auto", torch.ones(1, 4))
    assert quantization.report(model, torch.ones(1, 4))[0].note == "float: int8 is not faster"
