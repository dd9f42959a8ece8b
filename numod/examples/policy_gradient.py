"""Balance a pole on a cart by policy gradients (REINFORCE).

    python numod/examples/policy_gradient.py

Thirty-two carts run at once. Their physics is a few lines of NumPy, so that no other package is needed.
"""

import numpy as np

import numod as torch
from numod import nn, optim
from numod.distributions import Categorical

CARTS, LIMIT = 32, 200


class Carts:
    """Poles on carts: states (carts, 4) of position, speed, angle, angular speed. Barto, Sutton and Anderson, 1983."""

    def __init__(self, seed: int) -> None:
        self.state = np.random.default_rng(seed).uniform(-0.05, 0.05, (CARTS, 4))

    def step(self, pushes_right: np.ndarray) -> np.ndarray:
        """Advance by 0.02 s; the result says which poles still stand."""
        _, speed, angle, turning = self.state.T
        force = np.where(pushes_right, 10.0, -10.0)
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (force + 0.05 * turning**2 * sine) / 1.1
        angular = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        acceleration = push - 0.05 * angular * cosine / 1.1
        self.state = self.state + 0.02 * np.stack([speed, acceleration, turning, angular], axis=1)
        return (np.abs(self.state[:, 0]) < 2.4) & (np.abs(self.state[:, 2]) < 0.21)


def main(rounds: int = 40) -> tuple[float, float]:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = optim.Adam(policy.parameters(), lr=2e-2)
    lengths: list[float] = []
    for number in range(rounds):
        carts, standing = Carts(seed=number), np.ones(CARTS, bool)
        log_probs: list[torch.Tensor] = []
        stood: list[np.ndarray] = []
        while standing.any() and len(stood) < LIMIT:
            actions = Categorical(logits=policy(torch.tensor(carts.state, dtype=torch.float32)))
            action = actions.sample()
            log_probs.append(actions.log_prob(action))
            stood.append(standing)
            standing = standing & carts.step(action.numpy() == 1)
        alive = torch.tensor(np.array(stood), dtype=torch.float32)
        returns = alive.flip(0).cumsum(0).flip(0) * alive  # the number of steps that a pole still stood
        advantage = (returns - returns.sum() / alive.sum()) * alive / returns.std()
        optimizer.zero_grad()
        (-(torch.stack(log_probs) * advantage).sum() / alive.sum()).backward()
        optimizer.step()
        lengths.append(alive.sum(0).mean().item())
        if number % 10 == 9:
            print(f"round {number + 1:3}  poles stood for {lengths[-1]:.0f} of {LIMIT} steps")
    return lengths[0], max(lengths[-5:])


if __name__ == "__main__":
    main()
