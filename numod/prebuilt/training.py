"""Steps of training, as scripts write them, and the optimizers that they use."""

from __future__ import annotations

from collections.abc import Callable

import numod
import numod.nn.functional as F
from numod import Tensor, nn, optim

SGD, MOMENTUM, MOMENTUM_AND_DECAY, ADAM, ADAMW = OPTIMIZERS = (
    lambda parameters: optim.SGD(parameters, lr=0.01),
    lambda parameters: optim.SGD(parameters, lr=0.01, momentum=0.9),
    lambda parameters: optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=5e-4),
    lambda parameters: optim.Adam(parameters, lr=1e-3),
    lambda parameters: optim.AdamW(parameters, lr=1e-3),
)
RARER_OPTIMIZERS: tuple[Callable, ...] = (
    lambda parameters: optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4),
    lambda parameters: optim.SGD(parameters, lr=0.01, weight_decay=5e-4),
    lambda parameters: optim.Adam(parameters, lr=1e-3, weight_decay=1e-4),
    lambda parameters: optim.Adam(parameters, lr=1e-3, amsgrad=True),
    lambda parameters: optim.RMSprop(parameters, lr=1e-3),
    lambda parameters: optim.RMSprop(parameters, lr=1e-3, momentum=0.9),
    lambda parameters: optim.Adagrad(parameters),
    lambda parameters: optim.Adadelta(parameters),
)


def train(model: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor], make: Callable = MOMENTUM) -> None:
    """Two eager steps of training (the second adds to existing state), and a prediction."""
    optimizer = make(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        value = loss(model(x))
        value.backward()
        optimizer.step()
        value.item()
    model.eval()
    with numod.no_grad():
        model(x)
    model.train()


def labelled(count: int, classes: int) -> Callable[[Tensor], Tensor]:
    """Cross-entropy with random labels."""
    labels = numod.randint(0, classes, (count,))

    def loss(scores: Tensor) -> Tensor:
        (scores.argmax(1) == labels).sum().item()
        return F.cross_entropy(scores, labels)

    return loss


def squared(out: Tensor) -> Tensor:
    """A loss that fits every output."""
    return F.mse_loss(out, numod.zeros_like(out))


def update(model: nn.Module, loss: Tensor, optimizer: optim.Optimizer, clip: float) -> None:
    """A step of an optimizer with clipped gradients."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
