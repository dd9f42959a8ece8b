"""The networks whose kernels a pack holds, as people's model files have them."""

from __future__ import annotations

from collections.abc import Callable

import numod
import numod.nn.functional as F
from numod import Tensor, nn


class Block(nn.Module):
    """Two convolutions with a shortcut, as in ResNet."""

    def __init__(self, channels: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x: Tensor) -> Tensor:
        """(N, channels, H, W) -> (N, planes, H / stride, W / stride)."""
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        out += self.shortcut(x)
        return F.relu(out)


class Bottleneck(nn.Module):
    """Three convolutions with a shortcut, as in ResNet-50; relu is in place, as in torchvision."""

    def __init__(self, channels: int, planes: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, planes, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(inplace=True),
            nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(inplace=True),
            nn.Conv2d(planes, 4 * planes, 1, bias=False), nn.BatchNorm2d(4 * planes),
        )  # fmt: skip
        self.shortcut = nn.Sequential(
            nn.Conv2d(channels, 4 * planes, 1, stride, bias=False), nn.BatchNorm2d(4 * planes)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """(N, channels, H, W) -> (N, 4 * planes, H / stride, W / stride)."""
        out = self.body(x)
        out += self.shortcut(x)
        return self.relu(out)


def residual(width: int) -> nn.Module:
    """A ResNet for images of 32 x 32."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        Block(width, width, 1), Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2), Block(4 * width, 8 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10),
    )  # fmt: skip


def bottlenecks(width: int) -> nn.Module:
    """A ResNet for larger images, with the stem of those for ImageNet."""
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Bottleneck(width, width, 1), Bottleneck(4 * width, 2 * width, 2),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(8 * width, 10),
    )  # fmt: skip


def lenet(width: int, activation: Callable[[], nn.Module] = nn.ReLU, pool: type[nn.Module] = nn.MaxPool2d) -> nn.Module:
    """LeNet for images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, width, 5, padding=2), activation(), pool(2), nn.Conv2d(width, 2 * width, 5), activation(),
        pool(2), nn.Flatten(), nn.Linear(50 * width, 120), activation(), nn.Linear(120, 84), activation(),
        nn.Linear(84, 10),
    )  # fmt: skip


def plain_convolutions(width: int) -> nn.Module:
    """Convolutions 3 x 3 without padding, as in the first example of many tutorials, for images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3), nn.ReLU(), nn.Conv2d(width, 2 * width, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(288 * width, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
        nn.LogSoftmax(1),
    )  # fmt: skip


def perceptron(inputs: int, width: int, outputs: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, width), activation(), nn.Dropout(0.3), nn.Linear(width, width), activation(),
        nn.Linear(width, outputs),
    )  # fmt: skip


class Language(nn.Module):
    """A causal transformer over words, (N, T) -> (N, words, T)."""

    def __init__(self, words: int, width: int, heads: int) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(words, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, F.gelu, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        """Scores of the next word at each place."""
        count = words.shape[1]
        x = self.embedding(words) + self.position(numod.arange(count))
        mask = nn.Transformer.generate_square_subsequent_mask(count)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(self.norm(x)).mT


class Attention(nn.Module):
    """Causal attention with a residual connection, written as nanoGPT and minGPT write it: fused, or step by step."""

    def __init__(self, width: int, heads: int, fused: bool, dropout: float) -> None:
        super().__init__()
        self.heads, self.fused, self.dropout = heads, fused, dropout
        self.norm, self.inputs, self.output = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.rest = nn.LayerNorm(width), nn.Dropout(dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("none" if fused else "tanh"), nn.Linear(4 * width, width), self.rest
        )
        self.register_buffer("mask", numod.tril(numod.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, width) -> the same."""
        count, steps, width = x.shape
        q, k, v = (
            part.view(count, steps, self.heads, width // self.heads).transpose(1, 2)
            for part in self.inputs(self.norm(x)).split(width, 2)
        )
        if self.fused:
            out = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0
            )
        else:
            scores = (q @ k.transpose(-2, -1)) * k.shape[-1] ** -0.5
            scores = scores.masked_fill(self.mask[:, :, :steps, :steps] == 0, float("-inf"))
            out = self.rest(F.softmax(scores, dim=-1)) @ v
        out = out.transpose(1, 2).contiguous().view(count, steps, width)
        x = x + self.rest(self.output(out))
        return x + self.mlp(self.norm2(x))


class Characters(nn.Module):
    """A GPT, (N, T) -> (N * T, words)."""

    def __init__(self, words: int, width: int, heads: int, fused: bool, dropout: float) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(*(Attention(width, heads, fused, dropout) for _ in range(2)))
        self.norm, self.head, self.dropout = (
            nn.LayerNorm(width),
            nn.Linear(width, words, bias=False),
            nn.Dropout(dropout),
        )

    def forward(self, words: Tensor) -> Tensor:
        """Scores of the next word at each place."""
        x = self.dropout(self.words(words) + self.places(numod.arange(words.shape[1])))
        scores = self.head(self.norm(self.blocks(x)))
        return scores.view(-1, scores.shape[-1])


class Recurrent(nn.Module):
    """Recurrent layers and a classifier of their last output."""

    def __init__(self, kind: type[nn.Module], inputs: int, width: int, **options: object) -> None:
        super().__init__()
        self.layer = kind(inputs, width, batch_first=True, **options)
        self.head = nn.Linear(width * (1 + self.layer.bidirectional), 10)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, inputs) -> (N, 10)."""
        return self.head(self.layer(x)[0][:, -1])


class Autoencoder(nn.Module):
    """A variational autoencoder."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(inputs, width), nn.Linear(8, width)
        self.mean, self.variance, self.output = nn.Linear(width, 8), nn.Linear(width, 8), nn.Linear(width, inputs)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, inputs) -> (reconstruction, mean, logarithm of the variance)."""
        hidden = F.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.variance(hidden)
        code = mean + numod.randn_like(mean) * numod.exp(0.5 * log_variance)
        return self.output(F.relu(self.decoder(code))), mean, log_variance


class Vision(nn.Module):
    """A transformer over the patches of an image, (N, 3, H, W) -> (N, 10)."""

    def __init__(self, size: int, width: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Parameter(numod.zeros(1, 1, width))
        self.positions = nn.Parameter(numod.zeros(1, (size // 4) ** 2 + 1, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of an image, read from the first place."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = numod.cat((self.first.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        return self.head(self.encoder(x)[:, 0])
