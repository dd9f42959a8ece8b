"""BackendConfig: what `prepare_fx` fuses and quantizes, and its form as a dict."""

from __future__ import annotations

import pytest

import numod
from numod import nn
from numod.ao.quantization import get_default_qconfig_mapping
from numod.ao.quantization.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
    get_fbgemm_backend_config,
    get_native_backend_config,
    get_native_backend_config_dict,
)
from numod.ao.quantization.quantize_fx import convert_fx, fuse_fx, prepare_fx

STATIC = DTypeConfig(numod.quint8, numod.quint8, numod.qint8, numod.float32)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.relu, self.fc = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Linear(144, 3)

    def forward(self, x):
        return self.fc(self.relu(self.bn(self.conv(x))).flatten(1)) + 1


def converted(backend_config):
    x = numod.randn(2, 1, 8, 8)
    prepared = prepare_fx(
        Net().eval(), get_default_qconfig_mapping("onednn"), (x,), backend_config=backend_config
    )  # fmt: skip
    prepared(x)
    return convert_fx(prepared, backend_config=backend_config)


@pytest.mark.parametrize("config", [None, get_native_backend_config(), get_native_backend_config_dict()])
def test_the_native_config_has_all_that_is_quantized(config):
    model = converted(config)
    assert [model.conv._get_name(), model.fc._get_name()] == ["QuantizedConvReLU2d", "QuantizedLinear"]


def test_a_config_with_one_pattern_leaves_the_rest_in_floats():
    model = converted(
        BackendConfig("one").set_backend_pattern_config(BackendPatternConfig(nn.Linear).add_dtype_config(STATIC))
    )
    assert [type(layer) for layer in (model.conv, model.bn, model.relu)] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]
    assert model.fc._get_name() == "QuantizedLinear"


def test_a_fuser_method_is_called():
    calls = []

    def fuse(is_qat, *layers):
        calls.append((is_qat, [type(layer) for layer in layers]))
        return nn.Sequential(*layers)

    pattern = BackendPatternConfig((nn.Conv2d, nn.BatchNorm2d, nn.ReLU)).set_fuser_method(fuse)
    fuse_fx(Net().eval(), None, BackendConfig().set_backend_pattern_config(pattern), (numod.randn(2, 1, 8, 8),))
    assert calls == [(False, [nn.Conv2d, nn.BatchNorm2d, nn.ReLU])]


def test_constraints_of_dtypes_decide():
    narrow = DTypeWithConstraints(numod.quint8, quant_min_lower_bound=0, quant_max_upper_bound=127)
    pattern = BackendPatternConfig(nn.Linear).add_dtype_config(DTypeConfig(narrow, numod.quint8, numod.qint8))
    config = BackendConfig().set_backend_pattern_config(pattern)
    assert type(converted(config).fc) is nn.Linear  # onednn uses 0 to 255


def test_dicts_give_the_config_again():
    pattern = BackendPatternConfig((nn.Linear, nn.ReLU)).set_dtype_configs([STATIC]).set_qat_module(nn.Linear)
    pattern.set_observation_type(ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT)
    config = get_fbgemm_backend_config().set_name("mine").set_backend_pattern_configs([pattern])
    again = BackendConfig.from_dict(config.to_dict())
    assert again.name == "mine" and again.to_dict() == config.to_dict() and len(again.configs) == len(config.configs)
    reversed_pattern = BackendPatternConfig()._set_pattern_complex_format((nn.ReLU, (nn.BatchNorm2d, nn.Conv2d)))
    assert reversed_pattern._key == (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)


def test_wrong_values_are_refused():
    with pytest.raises(ValueError, match="Expected input_dtype to be a numod.dtype"):
        DTypeConfig.from_dict({"input_dtype": 8})
    with pytest.raises(ValueError, match="to be a list of dictionaries"):
        BackendConfig.from_dict({"configs": [3]})
    with pytest.raises(ValueError, match="Expected a list of DTypeConfigs"):
        BackendPatternConfig.from_dict({"dtype_configs": [3]})
    with pytest.raises(TypeError, match="backend_config must be a BackendConfig, got int"):
        converted(3)


def test_a_pattern_of_a_fused_layer():
    """As in PyTorch's tutorial: (Conv2d, ReLU) is fused to ConvReLU2d, which is quantized; Conv2d alone is not."""
    fused = BackendPatternConfig((nn.Conv2d, nn.ReLU)).set_fuser_method(
        lambda _, *layers: nn.intrinsic.ConvReLU2d(*layers)
    )
    config = BackendConfig("fused").set_backend_pattern_configs(
        [fused, BackendPatternConfig(nn.intrinsic.ConvReLU2d).add_dtype_config(STATIC)]
    )
    model, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3)).eval(), numod.randn(1, 1, 8, 8)
    prepared = prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,), backend_config=config)
    prepared(x)
    converted = convert_fx(prepared, backend_config=config)
    kinds = [type(converted._modules[name]) for name in "02"]
    assert kinds == [nn.intrinsic.quantized.ConvReLU2d, nn.Conv2d]
