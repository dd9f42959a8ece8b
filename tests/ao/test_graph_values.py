"""Graph mode: which observer each value has. The quantized model is compared with the float one."""

import dataclasses

import pytest

import numod
import numod.nn.functional as F
from numod import nn
from numod.ao.quantization import get_default_qat_qconfig_mapping, get_default_qconfig_mapping
from numod.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx

pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min")


class Code(nn.Module):
    """Two layers, `a` and `b`, and the code between them."""

    def __init__(self, code):
        super().__init__()
        numod.manual_seed(0)
        self.a, self.b, self.code = nn.Linear(4, 4), nn.Linear(4, 4), code

    def forward(self, *inputs):
        return self.code(self, *inputs)


def quantized(code):
    """The converted model, the float one, and the input."""
    model, x = Code(code).eval(), numod.linspace(-1, 3, 32).reshape(8, 4)
    prepared = prepare_fx(model, get_default_qconfig_mapping(), (x[:2].clone(),))
    with numod.no_grad():
        prepared(x.clone())
    return convert_fx(prepared), model, x


def check(code, steps=6):
    """The quantized result is within some steps of the float one, and does not depend on the number of the run."""
    converted, model, x = quantized(code)
    with numod.no_grad():
        expected, result = model(x.clone()), converted(x.clone())
        assert converted(x.clone()).equal(result)
    assert result.shape == expected.shape
    assert (result - expected).abs().max() <= steps * expected.abs().max() / 127
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


class Unequal(nn.Module):
    """A function of no table, whose two results have very different ranges."""

    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def forward(self, x):
        first, second = self.parts(x * numod.tensor([0.01, 0.01, 1.0, 1.0]))
        return first + second


@pytest.mark.parametrize(
    "parts",
    [lambda x: x.split(2, 1), lambda x: x.reshape(-1, 2, 2).unbind(1), lambda x: numod.chunk(x, 2, 1)],
    ids=["split", "unbind", "chunk"],
)
def test_each_result_of_a_call_has_its_observer(parts):
    x = numod.linspace(1, 10, 8).reshape(2, 4)
    mapping = get_default_qconfig_mapping().set_object_type("mul", None)
    prepared = prepare_fx(Unequal(parts).eval(), mapping, (x,))
    prepared(x)
    expected = Unequal(parts)(x)
    assert (convert_fx(prepared)(x) - expected).abs().max() < 0.02 * expected.abs().max()


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 2, batch_first=True)
        for weight in self.lstm.parameters():
            nn.init.constant_(weight, 1.0)

    def forward(self, x):
        _, (h, c) = self.lstm(x)
        return h * c


def test_the_states_of_an_lstm_have_their_observers():
    x = numod.ones(1, 8, 2)
    prepared = prepare_fx(Cell().eval(), get_default_qconfig_mapping(), (x,))
    prepared(x)
    expected = Cell()(x)
    assert (convert_fx(prepared)(x) - expected).abs().max() < 0.05 * expected.abs().max()


def small_and_large(self, x):
    small, large = self.a(x), self.a(x.exp())
    return self.b(small) + self.b(large)


def large_and_small(self, x):
    large, small = self.a(x.exp()).relu(), self.a(x).relu()
    return large - small


def rounds(self, x):
    for _ in range(3):
        x = self.a(x) + x
    return x


@pytest.mark.parametrize("code", [small_and_large, large_and_small, rounds])
def test_the_scale_of_a_layer_covers_all_its_calls(code):
    check(code)


def zero_column(self, x):
    y = self.a(x)
    y[:, 0] = 0
    return self.b(y)


def change_view(self, x):
    y = self.a(x)
    y.view(-1, 2)[::2].fill_(3.0)
    return self.b(y.relu())


def change_after_use(self, x):
    y = self.a(x)
    z = self.b(y)
    y[:] = 30.0
    return z + self.b(y)


def read_alias(self, x):
    y = self.a(x).relu()
    z = y.add_(x)
    return self.b(y) + z


def change_input(self, x):
    z = self.b(x)
    x[:, 1] = 50.0
    return self.a(x) + z


def statement(change):
    def code(self, x):
        y = self.a(x)
        change(y, x)
        return self.b(y)

    return code


IN_PLACE = {
    "zero_": lambda y, x: y.zero_(),
    "mul_": lambda y, x: y.mul_(2.0),
    "add_": lambda y, x: y.add_(x),
    "sub_": lambda y, x: y.sub_(x),
    "copy_": lambda y, x: y.copy_(x),
    "numod.relu_": lambda y, x: numod.relu_(y),
    "Tensor.relu_": lambda y, x: y.relu_(),
    "F.relu": lambda y, x: F.relu(y, inplace=True),
    "nn.ReLU": lambda y, x: nn.ReLU(inplace=True)(y),
    "F.hardtanh": lambda y, x: F.hardtanh(y, inplace=True),
    "out": lambda y, x: numod.add(x, x, out=y),
    "chain": lambda y, x: y.mul_(2.0).add_(x),
    "squeeze_": lambda y, x: y.unsqueeze_(0),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_statement_changes_a_quantized_result(name):
    check(statement(IN_PLACE[name]))


@pytest.mark.parametrize("code", [zero_column, change_view, change_after_use, read_alias, change_input])
def test_changes_in_place_are_seen_by_all_that_share_memory(code):
    check(code)


def test_only_what_is_changed_and_read_stays_in_floats():
    converted = check(zero_column)
    assert type(converted.a) is nn.Linear and type(converted.b) is nn.quantized.Linear
    converted = check(lambda self, x: self.b(self.a(x).add_(x)))
    assert type(converted.a) is nn.quantized.Linear


INTEGERS = {
    "clamp": lambda x, indices: indices.clamp(0, 7),
    "add": lambda x, indices: (indices + 1) + indices,
    "cat": lambda x, indices: numod.cat([indices, indices], -1),
    "view": lambda x, indices: indices.view(-1).flatten().contiguous(),
    "matmul": lambda x, indices: numod.matmul(indices, indices.mT).clamp(0, 7),
    "mask": lambda x, indices: (x > 0).reshape(-1, 2).squeeze(0).long().relu(),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("is_qat", [False, True])
def test_functions_of_integers_are_not_quantized(name, is_qat):
    def code(self, x, indices):
        y = self.a(x)
        return self.b(y) + table[INTEGERS[name](y, indices).clamp(0, 7)].sum()

    numod.manual_seed(0)
    table, model = numod.randn(8, 4), Code(code).train(is_qat)
    inputs = numod.linspace(-1, 3, 32).reshape(8, 4), numod.tensor([[1, 2], [3, 0]])
    mapping = get_default_qat_qconfig_mapping() if is_qat else get_default_qconfig_mapping()
    prepared = (prepare_qat_fx if is_qat else prepare_fx)(model, mapping, inputs)
    prepared(*inputs)
    converted = convert_fx(prepared.eval())
    assert type(converted.a) is type(converted.b) is nn.quantized.Linear
    assert (converted(*inputs) - model(*inputs)).abs().max() < 0.1


def test_products_with_a_mask_and_indices_of_pooling_stay_as_they_are():
    def code(self, x):
        y = self.a(x)
        values, indices = F.max_pool1d(y * (y > 0), 2, return_indices=True)
        return self.b(F.max_unpool1d(values, indices, 2))

    check(code)


def test_masks_and_indices_are_not_observed():
    class Masked(nn.Module):
        def forward(self, x, mask, index):
            index = numod.cat([index, index]).reshape(2, -1) + index
            return numod.relu(x.masked_fill(mask.unsqueeze(0), 1.0)) * mask, index

    inputs = numod.randn(1, 3, 4), numod.ones(3, 4).tril().bool(), numod.tensor([1, 2])
    model = Masked().eval()
    mapping = get_default_qconfig_mapping("onednn")
    prepared = prepare_fx(model, mapping, inputs)
    prepared(*inputs)
    results = convert_fx(prepared)(*inputs)
    for result, expected in zip(results, model(*inputs)):
        assert result.dtype is expected.dtype and (result - expected).abs().max() < 0.05


def test_qconfigs_of_layers():
    mapping = get_default_qconfig_mapping("onednn").set_module_name("1", None)
    x, model = numod.randn(4, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).eval()
    prepared = prepare_fx(model, mapping, (x,))
    prepared(x)
    assert prepared.get_submodule("0").qconfig is mapping.global_qconfig and prepared.get_submodule("1").qconfig is None
    assert not hasattr(convert_fx(prepared).get_submodule("1"), "qconfig")
    assert hasattr(convert_fx(prepared, _remove_qconfig=False).get_submodule("1"), "qconfig")
    assert not hasattr(model[0], "qconfig")


@dataclasses.dataclass
class Pair:
    before: numod.Tensor
    after: numod.Tensor


RETURNED = {
    "in a data class": lambda self, x: (lambda y: Pair(y, F.relu(y)))(self.a(x)),
    "a layer before a ReLU": lambda self, x: (lambda y: (y, F.relu(y)))(self.a(x)),
    "a layer before a ReLU module": lambda self, x: (lambda y: {"before": y, "after": nn.ReLU()(y)})(self.a(x)),
    "a sum before a ReLU": lambda self, x: (lambda y: [y, y.relu()])(x + self.a(x)),
    "a product before a ReLU": lambda self, x: (lambda y: (y, y.relu()))(F.linear(x, self.b.weight)),
}


@pytest.mark.parametrize("code", RETURNED.values(), ids=list(RETURNED))
@pytest.mark.parametrize("is_qat", [False, True], ids=["static", "in training"])
def test_what_is_returned_stays_as_it_was_before_the_relu(code, is_qat):
    model, x = Code(code).eval(), numod.linspace(-1, 3, 32).reshape(8, 4)
    prepare = prepare_qat_fx if is_qat else prepare_fx
    mapping = get_default_qat_qconfig_mapping() if is_qat else get_default_qconfig_mapping()
    prepared = prepare(model.train(is_qat), mapping, (x,))
    prepared(x)
    results = [model.eval()(x), convert_fx(prepared.eval())(x)]
    results = [vars(result) if isinstance(result, Pair) else result for result in results]
    for expected, result in zip(*(list(r.values()) if isinstance(r, dict) else r for r in results)):
        assert not result.is_quantized
        assert (result - expected).abs().max() <= 6 * expected.abs().max() / 127
    assert str(prepared.graph).rpartition("\n")[2].strip().startswith("return %")


class Containers(nn.Module):
    """A layer in a list (twice) and in a dict, which has another one, also as an attribute."""

    def __init__(self):
        super().__init__()
        numod.manual_seed(0)
        shared = nn.Linear(4, 4)
        self.items = nn.ModuleList([shared, nn.ReLU(), shared])
        self.heads = nn.ModuleDict({"other": nn.Linear(4, 4), "shared": shared})
        self.alias = self.heads["other"]

    def forward(self, x):
        for layer in self.items:
            x = layer(x)
        results = {"x": x, "y": [self.heads["other"](x), self.alias(x)]}
        return self.heads["shared"](results["y"][0] + results["y"][1])


def test_shared_layers_in_lists_and_dicts():
    model, x = Containers().eval(), numod.linspace(-1, 3, 32).reshape(8, 4)
    prepared = prepare_fx(model, get_default_qconfig_mapping(), (x,))
    prepared(x)
    converted = convert_fx(prepared)
    assert (converted(x) - model(x)).abs().max() <= 0.05  # the shared layer has one scale for all its calls
    assert converted.heads["shared"] is converted.items[0] is converted.items[2]
    assert converted.alias is converted.heads["other"] and isinstance(converted.alias, nn.quantized.Linear)


def test_a_failed_recording_leaves_the_generator_as_it_was():
    def fail(self, x):
        numod.randn(3)
        raise ValueError("a fault of the model")

    model, x = Code(fail), numod.ones(1, 4)
    state = numod.get_rng_state()
    with pytest.raises(ValueError, match="of the model"):
        prepare_fx(model, get_default_qconfig_mapping(), (x,))
    assert numod.equal(numod.get_rng_state(), state)
