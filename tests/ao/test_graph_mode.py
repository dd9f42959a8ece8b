"""Graph mode: what a user does with it, and what it refuses. Values side by side: `test_graph_mode_parity`."""

import copy
import pickle
import subprocess
import sys

import pytest

import numod as torch
from ao_models import functional
from numod import nn
from numod.ao.quantization import QConfigMapping, default_dynamic_qconfig, get_default_qconfig, quantize_fx
from numod.ao.quantization import get_default_qat_qconfig_mapping, get_default_qconfig_mapping
from numod.ao.quantization.custom_config import ConvertCustomConfig, PrepareCustomConfig

pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min", "ignore:must run observer")


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)).eval()


@pytest.fixture(scope="module")
def static():
    """(the float model, the prepared one, the quantized one, an input)."""
    torch.manual_seed(0)
    model, x = functional(torch).eval(), torch.randn(8, 1, 8, 8)
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x[:2],))
    prepared(x)
    return model, prepared, quantize_fx.convert_fx(prepared), x


def test_the_integer_model_is_close_to_the_float_one(static):
    model, _, quantized, x = static
    for result, expected in zip(quantized(x), model(x)):
        assert not result.is_quantized
        assert (result - expected).abs().max() < 0.1 * expected.abs().max()


def test_the_float_model_stays_as_it_is(static):
    model, prepared, _, _ = static
    assert type(model.conv) is nn.Conv2d and not model.conv._forward_hooks and type(model.bn) is nn.BatchNorm2d
    assert isinstance(prepared, type(model)) and type(prepared) is not type(model)


def test_layers_are_replaced_and_fused(static):
    quantized = static[2]
    assert isinstance(quantized.conv, nn.intrinsic.quantized.ConvReLU2d)
    assert isinstance(quantized.fc, nn.intrinsic.quantized.LinearReLU)
    assert type(quantized.bn) is nn.Identity and quantized.weight.is_quantized
    assert "conv_input_scale_0" in quantized.state_dict() and "relu_scale_0" in quantized.state_dict()


def test_the_graph_prints(static):
    text = str(static[1].graph)
    assert (
        "%conv : [num_users=1] = call_module[target=conv](args = (%x))" in text and "call_function[target=cat]" in text
    )


def test_quantized_models_compile(static):
    _, _, quantized, x = static
    compiled = torch.compile(copy.deepcopy(quantized), fullgraph=True)
    for result, expected in zip(compiled(x), quantized(x)):
        assert result.allclose(expected)


def test_a_state_dict_and_a_pickle_restore_the_model(static):
    _, prepared, quantized, x = static
    torch.manual_seed(1)
    fresh = quantize_fx.convert_fx(
        quantize_fx.prepare_fx(functional(torch).eval(), get_default_qconfig_mapping("onednn"), (x[:2],))
    )
    fresh.load_state_dict(quantized.state_dict())
    assert fresh(x)[0].equal(quantized(x)[0])
    layers = quantize_fx.convert_fx(quantize_fx.prepare_fx(mlp(), get_default_qconfig_mapping(), (x[0, 0, :, :4],)))
    assert pickle.loads(pickle.dumps(layers))(x[0, 0, :, :4]).equal(layers(x[0, 0, :, :4]))


@pytest.mark.parametrize(
    ("change", "floats"),
    [
        (lambda mapping: mapping.set_object_type(nn.Linear, None), {"0", "2"}),
        (lambda mapping: mapping.set_module_name("2", None), {"2"}),
        (lambda mapping: mapping.set_module_name_regex("[2-9]", None), {"2"}),
        (lambda mapping: mapping.set_module_name("0", None).set_module_name_regex("2", get_default_qconfig()), {"0"}),
        (lambda mapping: mapping.set_module_name_object_type_order("", nn.Linear, 1, None), {"2"}),
        (lambda mapping: mapping.set_global(None), {"0", "2"}),
    ],
)
def test_mappings_leave_layers_in_floats(change, floats):
    mapping = change(QConfigMapping().set_global(get_default_qconfig()))
    x = torch.ones(2, 4)
    quantized = quantize_fx.convert_fx(quantize_fx.prepare_fx(mlp(), mapping, (x,)))
    kinds = {path: type(quantized.get_submodule(path)).__module__ for path in ("0", "2")}
    assert {path for path, module in kinds.items() if "quantized" not in module} == floats
    assert quantized(x).shape == (2, 3)


def test_functions_are_left_in_floats_by_object_type():
    mapping = get_default_qconfig_mapping().set_object_type(torch.add, None).set_object_type("add", None)
    model = quantize_fx.prepare_fx(functional(torch).eval(), mapping, (torch.randn(8, 1, 8, 8),))
    assert not any(call.is_quantized for call in model.graph.matched if "add" in call.name)


def test_mappings_are_dicts_and_texts():
    mapping = get_default_qconfig_mapping()
    assert QConfigMapping.from_dict(mapping.to_dict()).to_dict() == mapping.to_dict()
    assert "object_type_qconfigs" in repr(mapping)


def test_dynamic_layers():
    x = torch.randn(2, 4)
    prepared = quantize_fx.prepare_fx(mlp(), QConfigMapping().set_global(default_dynamic_qconfig), x)
    quantized = quantize_fx.convert_fx(prepared)
    assert isinstance(quantized.get_submodule("2"), nn.quantized.dynamic.Linear)
    assert (quantized(x) - mlp()(x)).abs().max() < 0.05


def test_training():
    torch.manual_seed(0)
    model, x = functional(torch).train(), torch.randn(8, 1, 8, 8)
    means = model.bn.running_mean.clone()
    prepared = quantize_fx.prepare_qat_fx(model, get_default_qat_qconfig_mapping("onednn"), (x,))
    assert model.bn.running_mean.equal(means)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = prepared(x)[0].square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    expected = prepared.eval()(x)[0]
    assert (quantize_fx.convert_fx(prepared)(x)[0] - expected).abs().max() < 0.15 * expected.abs().max()


def test_fusing_alone():
    model = functional(torch).eval()
    fused = quantize_fx.fuse_fx(model, example_inputs=(torch.randn(8, 1, 8, 8),))
    assert isinstance(fused.conv, nn.intrinsic.ConvReLU2d) and isinstance(fused.fc, nn.intrinsic.LinearReLU)
    assert isinstance(quantize_fx.fuse_fx(mlp()).get_submodule("0"), nn.intrinsic.LinearReLU)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.first(x) if len(x) > 2 else self.second(x)


def test_another_path_is_refused():
    prepared = quantize_fx.prepare_fx(Branches().eval(), get_default_qconfig_mapping(), (torch.ones(2, 4),))
    prepared(torch.ones(1, 4))
    with pytest.raises(RuntimeError, match="the model calls first where its example run came to a call of second"):
        prepared(torch.ones(3, 4))


def test_opaque_modules_stay_in_floats():
    model = nn.Sequential(nn.Linear(4, 4), Branches()).eval()
    config = PrepareCustomConfig().set_non_traceable_module_classes([Branches])
    x = torch.ones(2, 4)
    quantized = quantize_fx.convert_fx(quantize_fx.prepare_fx(model, get_default_qconfig_mapping(), x, config))
    assert type(quantized.get_submodule("1").first) is nn.Linear
    assert quantized(torch.ones(3, 4)).shape == (3, 3)


def test_wrong_arguments_say_what_is_expected():
    with pytest.raises(ValueError, match="expected the model that prepare_fx or prepare_qat_fx returned"):
        quantize_fx.convert_fx(mlp())
    with pytest.raises(AssertionError, match="must be a QConfigMapping, got QConfig"):
        quantize_fx.prepare_fx(mlp(), get_default_qconfig(), (torch.ones(2, 4),))
    with pytest.raises(TypeError, match="example_inputs must be a tuple"):
        quantize_fx.prepare_fx(mlp(), QConfigMapping(), 3)


def test_mappings_before_the_first_quantized_tensor() -> None:
    """In a process that has not overridden any function yet."""
    code = """if True:
        from numod.ao.quantization import get_default_qconfig_mapping, qconfig_mapping
        if __import__("sys").argv[1:]:
            print(len(get_default_qconfig_mapping().object_type_qconfigs))
        print(qconfig_mapping.type_key(qconfig_mapping.F.linear))
    """
    for arguments, expected in (
        ([], []),
        (["default"], [str(len(get_default_qconfig_mapping().object_type_qconfigs))]),
    ):
        completed = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert completed.stdout.split() == [*expected, "nn.functional.linear"]


def test_reference_models_round_what_integer_models_hold(static):
    model, prepared, quantized, x = static
    reference = quantize_fx.convert_to_reference_fx(prepared)
    assert type(reference.depthwise) is nn.quantized.reference.Conv2d
    assert [type(layer) for layer in reference.fc] == [nn.quantized.reference.Linear, nn.ReLU]
    for result, integers, expected in zip(reference(x), quantized(x), model(x)):
        assert not result.is_quantized
        assert (result - expected).abs().max() < 0.1 * expected.abs().max()
        assert (result - integers).abs().max() < 0.05 * expected.abs().max()
    assert torch.equal(copy.deepcopy(reference)(x)[0], reference(x)[0])
    x, layers = torch.randn(3, 4), mlp()
    layers = quantize_fx.prepare_fx(layers, get_default_qconfig_mapping("onednn"), (x,))
    layers(x)
    layers = quantize_fx.convert_to_reference_fx(layers)
    assert torch.equal(pickle.loads(pickle.dumps(layers))(x), layers(x))
    with pytest.raises(ValueError, match="convert_to_reference_fx: expected the model that prepare_fx"):
        quantize_fx.convert_to_reference_fx(reference)


def test_reference_models_after_training():
    model, x = functional(torch).train(), torch.randn(8, 1, 8, 8)
    prepared = quantize_fx.prepare_qat_fx(model, get_default_qat_qconfig_mapping("onednn"), (x[:2],))
    prepared(x)
    prepared.eval()
    reference = quantize_fx.convert_to_reference_fx(prepared)
    assert not any("weight_fake_quant" in name for name, _ in reference.named_modules())
    for result, expected in zip(reference(x), prepared(x)):
        assert (result - expected).abs().max() < 0.1 * expected.abs().max()


def test_quantized_inputs_and_results():
    model, x = mlp(), torch.randn(5, 4)
    config = PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,), config)
    prepared(x)
    assert sum(name.startswith("activation_post_process") for name in prepared._modules) == 2
    quantized = torch.quantize_per_tensor(x, 0.03, 128, torch.quint8)
    result = quantize_fx.convert_fx(prepared)(quantized)
    assert result.is_quantized
    assert (result.dequantize() - model(quantized.dequantize())).abs().max() < 0.05
    from_dict = PrepareCustomConfig.from_dict({"input_quantized_idxs": [0], "output_quantized_idxs": [0]})
    assert vars(from_dict) == vars(config)
    with pytest.raises(IndexError, match="has 1 tensor arguments"):
        quantize_fx.prepare_fx(mlp(), QConfigMapping(), (x,), PrepareCustomConfig().set_input_quantized_indexes([1]))


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (lambda: PrepareCustomConfig().set_float_to_observed_mapping(nn.Linear, nn.ReLU), "prepare"),
        (lambda: PrepareCustomConfig().set_standalone_module_name("0", None, None, None, None), "that part alone"),
        (lambda: ConvertCustomConfig().set_observed_to_quantized_mapping(nn.Linear, nn.ReLU), "convert"),
        (lambda: PrepareCustomConfig.from_dict({"float_to_observed_custom_module_class": {}}), "eager|prepare"),
    ],
)
def test_what_graph_mode_leaves_to_eager_mode(make, instead):
    with pytest.raises(NotImplementedError, match=instead):
        make()


def test_a_layer_at_several_places_is_converted_at_all_of_them():
    torch.manual_seed(0)
    layer, x = nn.Linear(8, 8), torch.randn(32, 8)
    for model in (nn.Sequential(layer, nn.Sigmoid(), layer), nn.Sequential(nn.Sequential(layer), nn.Sequential(layer))):
        model.eval()
        prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
        prepared(x)
        quantized = quantize_fx.convert_fx(prepared)
        kinds = [type(module) for module in quantized.modules() if type(module).__name__ == "Linear"]
        assert kinds == [nn.quantized.Linear] and (quantized(x) - model(x)).abs().max() < 0.1
        assert not any("activation_post_process" in name for name in quantized.state_dict())
