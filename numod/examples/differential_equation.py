"""Solve a differential equation with a network: u'' = -u, u(0) = 0, u'(0) = 1, whose solution is sin(t).

    python numod/examples/differential_equation.py

The loss contains derivatives of the network, so its gradient needs derivatives of derivatives.
"""

import math

import numod as torch
from numod import Tensor, nn, optim


def derivative(y: Tensor, t: Tensor) -> Tensor:
    """dy/dt for each element, itself differentiable."""
    (gradient,) = torch.autograd.grad(y.sum(), t, create_graph=True)
    return gradient


def main(steps: int = 1500) -> float:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optim.Adam(network.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    times = torch.linspace(0, math.pi, 40).reshape(-1, 1)

    def solution(t: Tensor) -> Tensor:
        return t + t**2 * network(t)  # satisfies both initial conditions, whatever the network

    for step in range(steps):
        t = times.clone().requires_grad_()
        u = solution(t)
        residual = derivative(derivative(u, t), t) + u
        loss = (residual**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 249:
            print(f"step {step + 1:5}  loss {loss.item():.2e}")
    with torch.no_grad():
        error = (solution(times) - times.sin()).abs().max().item()
    print(f"largest error on [0, pi]: {error:.1e}")
    return error


if __name__ == "__main__":
    main()
