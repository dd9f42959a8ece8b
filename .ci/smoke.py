"""A minute of numod for environments at the ends of what pyproject.toml allows: import, train, compile, export."""

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numod as torch
from numod import nn, optim

net = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
)  # fmt: skip
optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
torch.manual_seed(0)
x, labels = torch.randn(4, 1, 28, 28), torch.randint(0, 10, (4,))


def step() -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), labels)
    loss.backward()
    optimizer.step()
    return loss


eager = step().item()
compiled = torch.compile(step)
losses = [compiled().item() for _ in range(5)]
assert losses[-1] < eager, (eager, losses)
with tempfile.TemporaryDirectory() as folder:
    torch.export.save(torch.export.export(net.eval(), (x,)), Path(folder) / "net.pt2")
    again = torch.export.load(Path(folder) / "net.pt2").module()
    assert torch.allclose(again(x), net(x))
print("smoke: Python", sys.version.split()[0], *(f"{name} {version(name)}" for name in ("numod", "numba", "numpy")))
