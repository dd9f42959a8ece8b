"""Compile a whole training step, and compare its time with the eager one.

python numod/examples/compiled_training_step.py
"""

import time
from collections.abc import Callable

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim


def make_step() -> Callable[[Tensor, Tensor], float]:
    """A model and a function that trains it on one batch and returns the loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 1))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Tensor, y: Tensor) -> float:
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def train(step: Callable[[Tensor, Tensor], float], steps: int) -> tuple[list[float], float]:
    """The losses, and the median time of a step in microseconds."""
    torch.manual_seed(1)
    x = torch.randn(32, 16)
    y = x[:, :4].prod(dim=1, keepdim=True)
    losses, times = [], []
    for _ in range(steps):
        begin = time.perf_counter()
        losses.append(step(x, y))
        times.append(time.perf_counter() - begin)
    return losses, sorted(times)[steps // 2] * 1e6


def main(steps: int = 200) -> tuple[list[float], list[float]]:
    eager_losses, eager_time = train(make_step(), steps)
    compiled = torch.compile(make_step())
    compiled_losses, compiled_time = train(compiled, steps)
    print(f"eager    {eager_time:7.1f} us a step, last loss {eager_losses[-1]:.6f}")
    print(f"compiled {compiled_time:7.1f} us a step, last loss {compiled_losses[-1]:.6f}")
    print(compiled.explain())
    return eager_losses, compiled_losses


if __name__ == "__main__":
    main()
