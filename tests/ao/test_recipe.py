"""The eager recipe: what a user does with it, and what it refuses. Values side by side: `test_recipe_parity`."""

import copy

import pytest

import numod as torch
from ao_models import GROUPS, every_layer, recurrent
from numod import nn
from numod.ao import quantization

pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min", "ignore:must run observer")


@pytest.fixture(scope="module")
def static():
    """(the float model, the quantized one, an input)."""
    torch.manual_seed(0)
    model = every_layer(torch).eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    x = torch.randn(8, 1, 8, 8)
    prepared = quantization.prepare(quantization.fuse_modules(model, GROUPS))
    prepared(x)
    return model, quantization.convert(prepared), x


def test_the_integer_model_is_close_to_the_float_one(static):
    model, quantized, x = static
    error, size = (quantized(x) - model(x)).abs().max(), model(x).abs().max()
    assert error < 0.1 * size


def test_both_paths_are_one_module():
    import numod.quantization
    import numod.quantization.observer

    assert numod.quantization is quantization and numod.quantization.observer is quantization.observer
    assert nn.quantized is torch.ao.nn.quantized and nn.intrinsic.qat is torch.ao.nn.intrinsic.qat


def test_texts_are_pytorchs(static):
    text = repr(static[1])
    assert "(conv): QuantizedConvReLU2d(1, 4, kernel_size=(3, 3), stride=(1, 1), scale=" in text
    assert "(fc): QuantizedLinearReLU(in_features=4, out_features=3, scale=" in text
    assert "qscheme=numod.per_channel_affine)" in text and "(bn): Identity()" in text and "DeQuantize()" in text


def test_a_state_dict_loads_in_another_model(static, tmp_path):
    _, quantized, x = static
    for name in ("model.pt", "model.safetensors"):
        torch.save(quantized.state_dict(), tmp_path / name)
        other = copy.deepcopy(quantized)
        other.fc.set_weight_bias(torch.quantize_per_tensor(torch.zeros(3, 4), 1.0, 0, torch.qint8), None)
        other.load_state_dict(torch.load(tmp_path / name))
        assert other(x).equal(quantized(x))


def test_the_weights_take_a_quarter_of_the_bytes(static):
    weight = static[1].fc.weight()
    assert weight.element_size() == 1 and weight.int_repr().dtype is torch.int8


def test_a_float_checkpoint_says_what_to_do(static):
    model, quantized, _ = static
    with pytest.raises(RuntimeError, match="conv.weight is a float weight.*load the checkpoint into the float model"):
        copy.deepcopy(quantized).load_state_dict(model.state_dict())
    float_model = recurrent(torch)
    with pytest.raises(RuntimeError, match="is a float weight"):
        quantization.quantize_dynamic(float_model).load_state_dict(float_model.state_dict())


def test_quantized_models_compile(static):
    _, quantized, x = static
    compiled = torch.compile(copy.deepcopy(quantized), fullgraph=True)
    assert compiled(x).equal(quantized(x))
    assert compiled(x * 2).equal(quantized(x * 2))


def test_dynamic_layers_compile():
    layer = quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)))
    x = torch.randn(2, 4)
    assert torch.allclose(torch.compile(layer, fullgraph=True)(x), layer(x))


def test_a_layer_without_a_stub_is_refused(static):
    with pytest.raises(NotImplementedError, match="put a QuantStub before it"):
        static[1].fc(torch.randn(2, 4))
    with pytest.raises(NotImplementedError, match="put a QuantStub before it"):
        static[1].conv(torch.randn(2, 1, 4, 4))


def test_uncalibrated_observers_warn():
    with pytest.warns(UserWarning, match="must run observer before"):
        scale, zero_point = quantization.MinMaxObserver().calculate_qparams()
    assert (scale.item(), zero_point.item()) == (1.0, 0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quantization.MinMaxObserver(quant_min=5, quant_max=10), AssertionError, "must include 0"),
        (lambda: quantization.MinMaxObserver(qscheme=torch.per_channel_affine), NotImplementedError, "only support"),
        (lambda: quantization.QConfig(quantization.MinMaxObserver(), None), ValueError, "observer class instead"),
        (lambda: quantization.get_default_qconfig("tpu"), AssertionError, "not supported"),
        (lambda: quantization.prepare_qat(nn.Linear(1, 1).eval()), AssertionError, "training mode"),
        (lambda: quantization.fuse_modules(nn.Sequential(nn.ReLU(), nn.ReLU()), ["0", "1"]), AssertionError, "fuser"),
        (lambda: quantization.quantize_dynamic(nn.Linear(1, 1), dtype=torch.qint32), ValueError, "Don't know how"),
        (lambda: setattr(torch.backends.quantized, "engine", "mkl"), RuntimeError, "quantized engine"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_model_without_a_qconfig_is_warned_of():
    with pytest.warns(UserWarning, match="None of the submodule got qconfig"):
        quantization.prepare(nn.Sequential(nn.Linear(1, 1)))


def test_training_improves_the_rounded_model():
    torch.manual_seed(0)
    model = every_layer(torch).train()
    model.qconfig = quantization.get_default_qat_qconfig("x86")
    model = quantization.prepare_qat(quantization.fuse_modules_qat(model, GROUPS))
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.05), torch.randn(8, 1, 8, 8)
    losses = []
    for _ in range(4):
        loss = (model(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    model.apply(quantization.disable_observer)
    model.apply(nn.intrinsic.qat.freeze_bn_stats)
    assert not model.conv.bn.training and model.conv.to_float().weight.equal(model.conv.weight)
    trained = model.eval()
    quantized = quantization.convert(trained)
    assert (quantized(x) - trained(x)).abs().max() < 0.1
