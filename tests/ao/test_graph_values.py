"""Graph mode: which observer each value has. The quantized model is compared with the float one."""

import pytest

import numod
import numod.nn.functional as F
from numod import nn
from numod.ao.quantization import get_default_qconfig_mapping
from numod.ao.quantization.quantize_fx import convert_fx, prepare_fx

pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min")


class Code(nn.Module):
    """Two layers, `a` and `b`, and the code between them."""

    def __init__(self, code):
        super().__init__()
        numod.manual_seed(0)
        self.a, self.b, self.code = nn.Linear(4, 4), nn.Linear(4, 4), code

    def forward(self, x):
        return self.code(self, x)


def quantized(code):
    """The converted model, the float one, and the input."""
    model, x = Code(code).eval(), numod.linspace(-1, 3, 32).reshape(8, 4)
    prepared = prepare_fx(model, get_default_qconfig_mapping(), (x[:2].clone(),))
    prepared(x.clone())
    return convert_fx(prepared), model, x


def check(code, steps=6):
    """The quantized result is within some steps of the float one, and does not depend on the number of the run."""
    converted, model, x = quantized(code)
    expected, result = model(x.clone()), converted(x.clone())
    assert (result - expected).abs().max() <= steps * expected.abs().max() / 127
    assert converted(x.clone()).equal(result)
    return converted


RELUS = {
    "numod.relu": numod.relu,
    "F.relu": F.relu,
    "F.relu inplace": lambda y: F.relu(y, inplace=True),
    "nn.ReLU": nn.ReLU(),
    "nn.ReLU inplace": nn.ReLU(inplace=True),
    "Tensor.relu": lambda y: y.relu(),
    "Tensor.relu_": lambda y: y.relu_(),
    "numod.relu_": numod.relu_,
}
ARITHMETIC = {
    "x + y": lambda y, x: y + x,
    "x * y": lambda y, x: y * x,
    "x + 1": lambda y, x: y + 0.5,
    "x * 2": lambda y, x: y * 2.0,
    "add_": lambda y, x: y.add_(x),
    "numod.mul": lambda y, x: numod.mul(y, x),
}


@pytest.mark.parametrize("relu", RELUS)
@pytest.mark.parametrize("arithmetic", ARITHMETIC)
def test_a_relu_follows_arithmetic(relu, arithmetic):
    check(lambda self, x: self.b(RELUS[relu](ARITHMETIC[arithmetic](self.a(x), x))))


@pytest.mark.parametrize("relu", RELUS)
def test_a_relu_follows_nothing_that_it_joins(relu):
    check(lambda self, x: self.b(RELUS[relu](self.a(x))))
