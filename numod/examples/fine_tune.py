"""Fine-tune a saved network for another task: load a checkpoint, freeze the features, train a new head.

python numod/examples/fine_tune.py
"""

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.datasets import Digits


def make_features() -> nn.Sequential:
    """Images (N, 64) to features (N, 64)."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())


def fit(model: nn.Module, x: Tensor, y: Tensor, epochs: int, lr: float) -> None:
    """Train the parameters that require a gradient."""
    optimizer = optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    train, test = Digits(train=True), Digits(train=False)
    x, x_test = train.data.reshape(-1, 64), test.data.reshape(-1, 64)

    # a network that tells small digits from large ones
    first = nn.Sequential(make_features(), nn.Linear(64, 2))
    fit(first, x, (train.targets >= 5).long(), epochs=20, lr=5e-3)
    torch.save(first.state_dict(), "first.pt")

    # its features, with a new head for all ten digits
    second = nn.Sequential(make_features(), nn.Linear(64, 10))
    saved = {name: value for name, value in torch.load("first.pt").items() if name.startswith("0.")}
    print(second.load_state_dict(saved, strict=False))
    second[0].requires_grad_(False)
    before = second[0][0].weight.clone()
    fit(second, x, train.targets, epochs=20, lr=5e-3)
    unchanged = torch.equal(before, second[0][0].weight)

    # then all layers, with a small learning rate
    second[0].requires_grad_(True)
    fit(second, x, train.targets, epochs=20, lr=1e-3)
    with torch.no_grad():
        accuracy = (second(x_test).argmax(dim=1) == test.targets).float().mean().item()
    print(f"accuracy {accuracy:.1%}")
    return accuracy, float(unchanged)


if __name__ == "__main__":
    main()
