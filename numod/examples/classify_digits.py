"""Train a convolutional network on 8x8 digits, and save it.

python numod/examples/classify_digits.py
"""

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.datasets import Digits
from numod.utils.data import DataLoader


class Network(nn.Module):
    """Images (N, 1, 8, 8) to scores (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.output = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.output(x.flatten(1))


def accuracy(network: nn.Module, data: Digits) -> float:
    """The part of the digits that the network classifies correctly."""
    network.eval()
    with torch.no_grad():
        predicted = network(data.data.reshape(-1, 1, 8, 8)).argmax(dim=1)
    return (predicted == data.targets).float().mean().item()


def main(epochs: int = 8) -> float:
    torch.manual_seed(0)
    network = Network()
    optimizer = optim.AdamW(network.parameters(), lr=5e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    test = Digits(train=False)
    loss = torch.tensor(float("nan"))
    for epoch in range(epochs):
        network.train()
        for images, labels in DataLoader(Digits(train=True), batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch + 1:2}  loss {loss.item():.4f}  accuracy {accuracy(network, test):.1%}")
    torch.save(network.state_dict(), "digits.safetensors")
    return accuracy(network, test)


if __name__ == "__main__":
    main()
