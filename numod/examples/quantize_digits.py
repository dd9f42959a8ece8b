"""Quantize two convolutional networks for 8x8 digits in three ways, and compare accuracy and the bytes of the weights.

python numod/examples/quantize_digits.py
"""

import copy
from collections.abc import Callable

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.ao import quantization
from numod.ao.quantization import quantize_fx
from numod.datasets import Digits
from numod.examples.classify_digits import Network, accuracy
from numod.utils.data import DataLoader


class MobileNetwork(nn.Module):
    """A block of MobileNet: a depthwise convolution between two of one tap, with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU6())
        self.block = nn.Sequential(
            nn.Conv2d(16, 48, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU6(),
            nn.Conv2d(48, 48, 3, padding=1, groups=48, bias=False), nn.BatchNorm2d(48), nn.ReLU6(),
            nn.Conv2d(48, 16, 1, bias=False), nn.BatchNorm2d(16),
        )  # fmt: skip
        self.output = nn.Linear(16 * 16, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        return self.output(F.avg_pool2d(x + self.block(x), 2).flatten(1))


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


def main(make: Callable[[], nn.Module] = Network, seed: int = 0) -> dict[str, tuple[float, int]]:
    """(accuracy, bytes) of the float, dynamic, static and trained quantized network."""
    torch.manual_seed(seed)
    test, images = Digits(train=False), Digits(train=True).data[:256].reshape(-1, 1, 8, 8)
    network = make()
    train(network, 8, 5e-3)
    train(network, 2, 1e-3)
    models = {"float": network.eval(), "dynamic": quantization.quantize_dynamic(network, {nn.Linear})}

    prepared = quantize_fx.prepare_fx(network, quantization.get_default_qconfig_mapping("onednn"), (images[:1],))
    prepared(images)  # calibrate
    models["static"] = quantize_fx.convert_fx(prepared)

    mapping = quantization.get_default_qat_qconfig_mapping("onednn")
    trained = quantize_fx.prepare_qat_fx(copy.deepcopy(network).train(), mapping, (images[:1],))
    train(trained, 8, 1e-3)
    train(trained, 2, 1e-4)
    models["QAT"] = quantize_fx.convert_fx(trained.eval())
    return {name: (accuracy(model, test), weight_bytes(model)) for name, model in models.items()}


if __name__ == "__main__":
    for kind in (Network, MobileNetwork):
        for name, (right, size) in main(kind).items():
            print(f"{kind.__name__:13} {name:8} accuracy {right:.2%}  {size:6,} bytes")
