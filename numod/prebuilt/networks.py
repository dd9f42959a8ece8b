"""Training of networks of each kind, with the sizes that choose the forms of their kernels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numod
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.distributions import Categorical, Distribution, Normal

from .models import (
    Autoencoder,
    Characters,
    Language,
    Recurrent,
    Vision,
    bottlenecks,
    lenet,
    perceptron,
    plain_convolutions,
    residual,
)
from .training import ADAM, ADAMW, MOMENTUM, MOMENTUM_AND_DECAY, OPTIMIZERS, SGD, labelled, squared, train, update


def _perceptrons() -> None:
    for make in OPTIMIZERS:
        for count, width in ((8, 16), (64, 128), (512, 512)):
            train(perceptron(64, width, 10), numod.randn(count, 1, 8, 8), labelled(count, 10), make)
    for activation in (nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU):
        for count, width in ((8, 16), (150, 96), (512, 512)):
            train(perceptron(64, width, 2, activation), numod.randn(count, 64), squared)


def _linear() -> None:
    """A linear layer of each size that chooses another form of a product."""
    for count, inputs, outputs in product((1, 4, 7, 33, 150, 512), (1, 4, 13, 30, 96, 400), (1, 2, 5, 17, 64, 200)):
        train(nn.Linear(inputs, outputs), numod.randn(count, inputs, requires_grad=True), squared, SGD)


def _convolutions() -> None:
    for count, width in ((1, 6), (4, 6), (32, 6), (64, 16)):
        train(lenet(width), numod.randn(count, 1, 28, 28), labelled(count, 10))
        train(lenet(width, nn.Tanh, nn.AvgPool2d), numod.randn(count, 1, 28, 28), labelled(count, 10), ADAM)
        train(plain_convolutions(width), numod.randn(count, 1, 28, 28), labelled(count, 10), ADAM)


def _residual() -> None:
    for count, width, make in ((1, 16, MOMENTUM), (2, 8, MOMENTUM), (8, 32, MOMENTUM_AND_DECAY), (16, 64, ADAM)):
        train(residual(width), numod.randn(count, 3, 32, 32), labelled(count, 10), make)
    for count, width in ((2, 8), (8, 24)):
        train(bottlenecks(width), numod.randn(count, 3, 64, 64), labelled(count, 10), MOMENTUM_AND_DECAY)


def _language() -> None:
    for count, length, width, heads in ((2, 8, 32, 4), (3, 20, 48, 3), (8, 64, 128, 4), (12, 50, 96, 6)):
        words = numod.randint(0, 65, (count, length))
        train(Language(65, width, heads), words, lambda scores, words=words: F.cross_entropy(scores, words), ADAMW)
        for fused, dropout in product((True, False), (0.0, 0.1)):
            model, following = Characters(65, width, heads, fused, dropout), words.view(-1)
            train(model, words, lambda scores, labels=following: F.cross_entropy(scores, labels), ADAMW)
            update(model, F.cross_entropy(model(words), following, ignore_index=-1), ADAMW(model.parameters()), 1.0)


def _recurrent() -> None:
    """Sizes for each height of a tile, and each width of its panels."""
    for kind, count, width in product((nn.LSTM, nn.GRU, nn.RNN), (1, 2, 4, 6, 20, 64), (8, 20, 32, 48, 72, 100, 128)):
        train(Recurrent(kind, 12, width), numod.randn(count, 5, 12), labelled(count, 10), ADAM)
    for kind in (nn.LSTM, nn.GRU):
        for count, width in ((6, 20), (32, 100)):
            model = Recurrent(kind, 12, width, num_layers=2, bidirectional=True, dropout=0.1)
            train(model, numod.randn(count, 9, 12), labelled(count, 10), ADAM)


def _mobile(width: int) -> nn.Module:
    """Depthwise convolutions, as in MobileNet."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.Hardswish(),
        nn.Conv2d(width, width, 3, 1, 1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU6(),
        nn.Conv2d(width, width, 3, 2, 1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU6(inplace=True),
        nn.Conv2d(width, 2 * width, 1, bias=False), nn.BatchNorm2d(2 * width), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * width, 10),
    )  # fmt: skip


def _unet(width: int) -> nn.Module:
    """Convolutions that shrink and grow images, as in a U-Net."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.LeakyReLU(0.1), nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.LeakyReLU(0.1),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(2 * width, width, 3, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(width, width, 2, 2), nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(width, 3, 1),
    )  # fmt: skip


def _generator(width: int) -> nn.Module:
    """Strided convolutions 4 x 4 down and up, as in DCGAN and autoencoders of images."""
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
        nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


def _large_strides(width: int) -> nn.Module:
    """A convolution 8 x 8 with stride 4 comes first, as in deep Q-networks; AlexNet's has the stride, too."""
    return nn.Sequential(
        nn.Conv2d(3, width, 8, 4, 2), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * width, 10),
    )  # fmt: skip


def _double(width: int) -> nn.Module:
    """Two convolutions with norms of groups and of instances, halved in size, as a U-Net has them at each level."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(2, width), nn.SiLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.InstanceNorm2d(2 * width, affine=True), nn.LeakyReLU(0.1),
        nn.AvgPool2d(2), nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.SiLU(),
    )  # fmt: skip


def _series(width: int) -> nn.Module:
    """Convolutions along a line, (N, 3, T) -> (N, 10)."""
    return nn.Sequential(
        nn.Conv1d(3, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(width, width, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 10),
    )  # fmt: skip


def _images() -> None:
    for count, width in ((2, 8), (16, 32)):
        images = numod.randn(count, 3, 32, 32)
        train(_mobile(width), images, labelled(count, 10))
        train(_large_strides(width), images, labelled(count, 10), ADAM)
        train(_unet(width), images, squared, ADAM)
        train(_generator(width), images, squared, ADAM)
        train(_series(width), numod.randn(count, 3, 50), labelled(count, 10), ADAM)
    for count, size, width, heads in ((2, 16, 24, 3), (3, 16, 48, 4), (16, 32, 64, 4)):
        train(Vision(size, width, heads), numod.randn(count, 3, size, size), labelled(count, 10), ADAM)
    for count, size, width in ((2, 16, 4), (3, 24, 8), (8, 64, 16)):
        train(_double(width), numod.randn(count, 1, size, size), squared, ADAM)


def _compiled() -> None:
    """Compiled steps and predictions. Small ones become one function each, which is not for other networks."""
    models = (
        (residual(32), (8, 3, 32, 32)), (residual(24), (1, 3, 32, 32)), (perceptron(64, 256, 10), (512, 64)),
        (lenet(6), (64, 1, 28, 28)), (lenet(16), (32, 1, 28, 28)), (lenet(6, nn.Tanh, nn.AvgPool2d), (64, 1, 28, 28)),
    )  # fmt: skip
    for model, shape in models:
        for make in (MOMENTUM, MOMENTUM_AND_DECAY, ADAM, ADAMW):
            _compile(model, numod.randn(shape), labelled(shape[0], 10), make)
    for count, width, heads in ((3, 48, 3), (8, 128, 4)):
        words = numod.randint(0, 65, (count, 32))
        for fused in (True, False):
            labels = words.view(-1)
            _compile(
                Characters(65, width, heads, fused, 0.1), words, lambda out, y=labels: F.cross_entropy(out, y), ADAMW
            )


def _compile(model: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor], make: Callable) -> None:
    optimizer = make(model.parameters())

    @numod.compile
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        value = loss(model(x))
        value.backward()
        optimizer.step()
        return value

    step(x)
    model.eval()
    with numod.no_grad():
        numod.compile(model)(x)
    model.train()


def _policies() -> None:
    """Steps of PPO and REINFORCE, for continuous and for discrete actions."""
    for count, width, actions in ((1, 64, 2), (64, 64, 6), (256, 128, 3)):
        actor, critic = perceptron(11, width, actions, nn.Tanh), perceptron(11, width, 1, nn.Tanh)
        models, scale = nn.ModuleList([actor, critic]), nn.Parameter(numod.zeros(actions))
        optimizer = optim.Adam([*models.parameters(), scale], lr=3e-4, eps=1e-5)
        x, advantage, returns = numod.randn(count, 11), numod.randn(count), numod.randn(count)
        for policy_of in (
            lambda scores: Normal(scores, numod.ones(scores.shape[1])),
            lambda scores, scale=scale: Normal(scores, scale.exp()),
            lambda scores, scale=scale: Normal(scores, scale.expand_as(scores).exp()),
            lambda scores: Categorical(logits=scores), lambda scores: Categorical(scores.softmax(-1)),
        ):  # fmt: skip
            update(models, _clipped_loss(policy_of(actor(x)), critic(x), advantage, returns), optimizer, 0.5)
            policy = policy_of(actor(x))
            update(models, (-policy.log_prob(policy.sample()).sum(-1) * advantage).sum(), optimizer, 0.5)


def _clipped_loss(policy: Distribution, value: Tensor, advantage: Tensor, returns: Tensor) -> Tensor:
    """The loss of PPO, in the ways in which its parts are written."""
    with numod.no_grad():
        actions = policy.sample()
    log_prob, entropy, value = policy.log_prob(actions), policy.entropy(), value[:, 0]
    if log_prob.ndim == 2:
        log_prob, entropy = log_prob.sum(-1), entropy.sum(-1)
    advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
    ratio = (log_prob - log_prob.detach()).exp()
    gain = numod.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    clipped = numod.max(-advantage * ratio, -advantage * numod.clamp(ratio, 0.8, 1.2)).mean()
    value_loss = 0.5 * ((value - returns) ** 2).mean() + 0.5 * (value - returns).square().mean()
    return value_loss - gain + clipped - 0.01 * entropy.mean()


def _autoencoders() -> None:
    for count, inputs, width in ((5, 20, 16), (128, 784, 400)):
        model, x = Autoencoder(inputs, width), numod.rand(count, inputs)
        for from_scores in (True, False):
            scores, mean, log_variance = model(x)
            if from_scores:
                loss = F.binary_cross_entropy_with_logits(scores, x, reduction="sum")
            else:
                loss = F.binary_cross_entropy(scores.sigmoid(), x, reduction="sum")
            divergence = -0.5 * numod.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
            update(model, (loss + divergence) / count, ADAM(model.parameters()), 1.0)


CASES: dict[str, Callable[[], None]] = {
    "networks of linear layers": _perceptrons, "linear layers": _linear, "LeNet": _convolutions, "ResNet": _residual,
    "transformers": _language, "recurrent networks": _recurrent, "image networks": _images, "policies": _policies,
    "autoencoders": _autoencoders, "compiled networks": _compiled,
}  # fmt: skip
