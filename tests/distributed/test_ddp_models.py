"""Weights of a GPT and of a ResNet-18 with SyncBatchNorm after 20 steps on two ranks: those of one process on the whole
batch, and the same bits in each run (about a minute).
"""

from __future__ import annotations

from ranks import on_ranks
from shares import difference, own_share

import numod
import numod.distributed as dist
from numod import nn
from numod.nn import functional as F
from numod.nn.parallel import DistributedDataParallel

STEPS, BATCH = 20, 8


class Block(nn.Module):
    """A transformer's block, with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.out(y)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Two blocks; the output layer shares the embedding's weight."""

    def __init__(self, words: int = 17, length: int = 12, width: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 2), Block(width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        x = self.words(x) + self.places(numod.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class Residual(nn.Module):
    """Two convolutions of a ResNet, with a shortcut."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out_channels), nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out_channels:
            layers = nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            self.shortcut = nn.Sequential(*layers)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def resnet18(width: int = 4, classes: int = 5) -> nn.Module:
    """ResNet-18 of small images, with few channels."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    channels = width
    for stage in range(4):
        for number in range(2):
            layers.append(Residual(channels, width << stage, 2 if stage and not number else 1))
            channels = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def text(dtype: numod.dtype) -> tuple[numod.Tensor, numod.Tensor]:
    """Words and the words after them, (STEPS, BATCH, 12)."""
    words = numod.randint(0, 17, (STEPS, BATCH, 13), generator=numod.Generator().manual_seed(1))
    return words[..., :-1], words[..., 1:]


def images(dtype: numod.dtype) -> tuple[numod.Tensor, numod.Tensor]:
    """Images and labels, (STEPS, BATCH, ...)."""
    generator = numod.Generator().manual_seed(1)
    pictures = numod.randn(STEPS, BATCH, 3, 16, 16, generator=generator).to(dtype)
    return pictures, numod.randint(0, 5, (STEPS, BATCH), generator=generator)


def trained(model: nn.Module, batches: tuple[numod.Tensor, numod.Tensor], share: slice, compiled: bool) -> nn.Module:
    """The model after STEPS steps of SGD on a share of each batch."""
    optimizer = numod.optim.SGD(model.parameters(), lr=0.005)  # more, and a ReLU's input changes its sign by rounding

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y.flatten()).backward()
        optimizer.step()

    run = numod.compile(step) if compiled else step
    for x, y in zip(*batches):
        run(x[share], y[share])
    return model


def check(make, batches) -> None:
    for dtype, bound in ((numod.float64, 1e-8), (numod.float32, 1e-5)):
        data = batches(dtype)

        def fresh(dtype=dtype) -> nn.Module:
            numod.manual_seed(0)
            return make().to(dtype)

        def distributed(compiled, fresh=fresh, data=data, **options) -> nn.Module:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(fresh())
            return trained(DistributedDataParallel(model, **options), data, own_share(BATCH), compiled).module

        whole = trained(fresh(), data, slice(None), False)
        runs = [distributed(False, bucket_cap_mb=0.01) for _ in range(2)] + [distributed(True)]
        for model in runs:
            assert difference(model, whole) < bound, (dtype, difference(model, whole))
        first, second = (model.state_dict() for model in runs[:2])
        assert all(numod.equal(first[name], second[name]) for name in first)
        every: list = [None, None]
        dist.all_gather_object(every, [value.sum().item() for value in first.values()])
        assert every[0] == every[1]


@on_ranks()
def test_gpt() -> None:
    check(GPT, text)


@on_ranks()
def test_resnet_18_with_synchronized_batch_norm() -> None:
    check(resnet18, images)
