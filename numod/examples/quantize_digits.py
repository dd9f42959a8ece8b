"""Quantize a convolutional network for 8x8 digits in four ways, and compare accuracy and the bytes of the weights.

python numod/examples/quantize_digits.py
"""

import copy

import numod as torch
import numod.nn.functional as F
from numod import nn, optim
from numod.ao import quantization
from numod.ao.quantization import quantize_fx
from numod.datasets import Digits
from numod.examples.classify_digits import Network, accuracy
from numod.utils.data import DataLoader


def train(network: nn.Module, epochs: int, lr: float) -> None:
    network.train()
    optimizer = optim.AdamW(network.parameters(), lr=lr)
    for _ in range(epochs):
        for images, labels in DataLoader(Digits(train=True), batch_size=64, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(network(images), labels).backward()
            optimizer.step()


def weight_bytes(network: nn.Module) -> int:
    """The bytes of a network's weights and biases."""
    entries = [entry if isinstance(entry, tuple) else (entry,) for entry in network.state_dict().values()]
    values = [value for entry in entries for value in entry]
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))


def main(epochs: int = 5) -> dict[str, tuple[float, int]]:
    """(accuracy, bytes) of the float, dynamic, static and trained quantized network."""
    torch.manual_seed(0)
    test, images = Digits(train=False), Digits(train=True).data[:256].reshape(-1, 1, 8, 8)
    network = Network()
    train(network, epochs, 5e-3)
    network.eval()
    models = {"float": network, "dynamic": quantization.quantize_dynamic(network, {nn.Linear})}

    prepared = quantize_fx.prepare_fx(network, quantization.get_default_qconfig_mapping("onednn"), (images[:1],))
    prepared(images)  # calibrate
    models["static"] = quantize_fx.convert_fx(prepared)

    mapping = quantization.get_default_qat_qconfig_mapping("onednn")
    trained = quantize_fx.prepare_qat_fx(copy.deepcopy(network).train(), mapping, (images[:1],))
    train(trained, 1, 5e-4)
    models["QAT"] = quantize_fx.convert_fx(trained.eval())

    results = {}
    for name, model in models.items():
        results[name] = accuracy(model, test), weight_bytes(model)
        print(f"{name:8} accuracy {results[name][0]:.2%}  {results[name][1]:6,} bytes")
    return results


if __name__ == "__main__":
    main()
