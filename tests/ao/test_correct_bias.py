"""Bias correction brings back biases that were changed."""

import numod as torch
from numod import nn
from numod.ao.quantization import QuantWrapper, convert, default_qconfig, prepare
from numod.ao.quantization._correct_bias import bias_correction, get_param


def test_changed_biases_are_corrected():
    torch.manual_seed(0)
    model = QuantWrapper(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))).eval()
    data = [(torch.rand(10, 3),) for _ in range(20)]
    model.qconfig = default_qconfig
    quantized = prepare(model)
    for (x,) in data:
        quantized(x)
    quantized = convert(quantized)
    layer = quantized.module[0]
    layer.set_weight_bias(layer.weight(), layer.bias().detach() + 0.1)
    bias_correction(model, quantized, data, neval_batches=15)
    corrected = quantized.module[0].orig_module
    torch.testing.assert_close(get_param(corrected, "bias"), model.module[0].bias.detach(), rtol=0.05, atol=0.02)
