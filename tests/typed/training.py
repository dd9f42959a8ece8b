"""Checked by `test_types.py`, not run: loops, data and layers, in the style of nanoGPT, miniai, d2l and tutorials."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numod as torch
import numod.nn as nn
import numod.nn.functional as F
from numod import Tensor
from numod.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from numod.optim.lr_scheduler import (
    CosineAnnealingWarmRestarts,
    LambdaLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from numod.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler, TensorDataset, random_split

Item = TypeVar("Item")


class Pairs(Dataset[tuple[Tensor, int]]):
    def __init__(self, transform: Callable[[Tensor], Tensor] | None = None) -> None:
        self.data, self.transform = torch.rand(100, 1, 8, 8), transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x = self.data[index]
        return (self.transform(x) if self.transform else x), index % 10


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from torch.rand(10, 3).unbind(0)


class Longest(Sampler[int]):
    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths

    def __iter__(self) -> Iterator[int]:
        return iter(torch.argsort(torch.tensor(self.lengths), descending=True).tolist())

    def __len__(self) -> int:
        return len(self.lengths)


def collate(batch: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
    sequences = [x for x, _ in batch]
    lengths = torch.tensor([len(x) for x in sequences])
    return pad_sequence(sequences, batch_first=True), torch.tensor([y for _, y in batch]), lengths


class Encoded(NamedTuple):
    mu: Tensor
    logvar: Tensor


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(64, 40), nn.Linear(40, 2), nn.Linear(40, 2)
        self.fc3 = nn.Linear(2, 64)

    def encode(self, x: Tensor) -> Encoded:
        h = F.relu(self.fc1(x))
        return Encoded(self.fc21(h), self.fc22(h))

    def forward(self, x: Tensor) -> tuple[Tensor, Encoded]:
        encoded = self.encode(x.view(-1, 64))
        std = torch.exp(0.5 * encoded.logvar)
        z = encoded.mu + torch.randn_like(std) * std
        return torch.sigmoid(self.fc3(z)), encoded


def vae_loss(recon: Tensor, x: Tensor, encoded: Encoded) -> Tensor:
    bce = F.binary_cross_entropy(recon, x.view(-1, 64), reduction="sum")
    return bce - 0.5 * torch.sum(1 + encoded.logvar - encoded.mu.pow(2) - encoded.logvar.exp())


class GraphAttention(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(size=(inputs, outputs)))
        self.a = nn.Parameter(torch.empty(size=(2 * outputs, 1)))
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a, gain=nn.init.calculate_gain("leaky_relu", 0.2))

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        transformed = torch.mm(h, self.W)
        half = self.a.shape[0] // 2
        e = F.leaky_relu(transformed @ self.a[:half, :] + (transformed @ self.a[half:, :]).T, 0.2)
        attention = F.softmax(torch.where(adjacency > 0, e, -9e15 * torch.ones_like(e)), dim=-1)
        return F.elu(torch.einsum("ij,jk->ik", F.dropout(attention, 0.6, training=self.training), transformed))


class Tagger(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16, padding_idx=0)
        self.rnn = nn.LSTM(16, 32, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(64, vocabulary)
        self.out.weight = nn.Parameter(torch.zeros(vocabulary, 64))

    def forward(self, x: Tensor, lengths: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Tensor:
        packed = pack_padded_sequence(self.embedding(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, (hidden, cell) = self.rnn(packed, state)
        padded, _ = pad_packed_sequence(output, batch_first=True)
        return self.out(padded) + (hidden.sum() + cell.sum()) * 0

    @torch.no_grad()
    def sample(self, x: Tensor, k: int | None = None, temperature: float = 1.0) -> Tensor:
        logits = self(x, torch.tensor([x.shape[1]]))[:, -1, :] / temperature
        if k is not None:
            v, _ = torch.topk(logits, min(k, logits.size(-1)))
            logits[logits < v[:, [-1]]] = -float("Inf")
        probs = F.softmax(logits, dim=-1)
        return torch.cat((x, torch.multinomial(probs, num_samples=1)), dim=1)


def schedulers(optimizer: torch.optim.Optimizer) -> list[LRScheduler]:
    warmup: LRScheduler = LambdaLR(optimizer, lr_lambda=lambda step: min(1.0, (step + 1) / 10))
    cosine = CosineAnnealingWarmRestarts(optimizer, T_0=10, T_mult=2)
    both = SequentialLR(optimizer, schedulers=[warmup, cosine], milestones=[10])
    cycle = OneCycleLR(optimizer, max_lr=0.1, total_steps=100)
    print(f"{both.get_last_lr()[0]:.4f}", optimizer.state_dict()["state"])
    return [both, cycle, StepLR(optimizer, step_size=1, gamma=0.7)]


def estimate_loss(model: nn.Module, loaders: dict[str, DataLoader[tuple[Tensor, int]]]) -> dict[str, float]:
    out: dict[str, float] = {}
    model.eval()
    for split, loader in loaders.items():
        losses = torch.zeros(len(loader))
        for k, (x, y) in enumerate(loader):
            losses[k] = F.cross_entropy(model(x), torch.as_tensor(y)).item()
        out[split] = losses.mean().item()
    model.train()
    return out


def train(path: str | os.PathLike[str], accumulate: int = 4) -> nn.Module:
    torch.manual_seed(1337)
    training, validation = random_split(Pairs(), [0.8, 0.2], generator=torch.Generator().manual_seed(0))
    loader = DataLoader(training, batch_size=16, shuffle=True, num_workers=2, pin_memory=True, drop_last=True)
    DataLoader(Pairs(), batch_sampler=BatchSampler(Longest([3, 1, 2]), 2, drop_last=False), collate_fn=collate)
    DataLoader(Stream(), batch_size=None)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding="same"), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(10)
    )
    decay = [p for p in model.parameters() if p.dim() >= 2]
    no_decay = [p for n, p in model.named_parameters() if p.dim() < 2 and not n.startswith("head")]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95)
    )
    plateau = ReduceLROnPlateau(optimizer, mode="min", patience=2)
    scaler, old_scaler = torch.amp.GradScaler("cpu", enabled=False), torch.cuda.amp.GradScaler(enabled=False)
    context: contextlib.AbstractContextManager[Any] = torch.autocast(device_type="cpu", dtype=torch.bfloat16)
    compiled = torch.compile(model)
    best = math.inf
    for epoch in range(3):
        for i, (x, y) in enumerate(loader):
            x, y = x.to("cpu", non_blocking=True), y.type(torch.long)
            with context:
                loss = F.cross_entropy(compiled(x), y, label_smoothing=0.1) / accumulate
            scaler.scale(loss).backward()
            if (i + 1) % accumulate == 0:
                scaler.unscale_(optimizer)
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                print(f"{norm.item():.2f} {loss.item() * accumulate:.4f} {old_scaler.get_scale()}")
        measured = estimate_loss(model, {"val": DataLoader(validation, batch_size=64)})
        plateau.step(measured["val"])
        if measured["val"] < best:
            best = measured["val"]
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    return model


class Hook:
    def __init__(self, module: nn.Module, function: Callable[["Hook", nn.Module, Any, Tensor], None]) -> None:
        self.handle = module.register_forward_hook(partial(function, self))
        self.stats: tuple[list[float], list[Tensor]] = ([], [])

    def remove(self) -> None:
        self.handle.remove()


def append_stats(hook: Hook, module: nn.Module, inputs: Any, output: Tensor) -> None:
    activations = output.detach().cpu()
    hook.stats[0].append(activations.mean().item())
    hook.stats[1].append(activations.abs().histc(40, 0, 10))


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return grad_output * result


def time_sequence(data: Tensor, model: nn.Module) -> float:
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nn.MSELoss()(model(data), data)
        loss.backward()
        return loss

    optimizer.step(closure)
    outputs = [piece.squeeze(1) for piece in data.split(1, dim=1)]
    return torch.stack(outputs, 1).std(unbiased=False).item()


def freeze_and_replace(backbone: nn.Module, classes: int) -> list[nn.Parameter]:
    for parameter in backbone.parameters():
        parameter.requires_grad = False
    head = nn.Linear(8, classes)
    setattr(backbone, "fc", head)  # noqa: B010
    backbone.apply(lambda module: nn.init.kaiming_normal_(module.weight) if isinstance(module, nn.Conv2d) else None)
    correct = (head(torch.rand(4, 8)).argmax(dim=1, keepdim=True) == torch.tensor([[1]])).sum().item()
    top = torch.rand(4, 10).topk(5, 1, True, True)
    print(correct, top.indices.t().eq(torch.arange(4).view(1, -1)).any(0), Exponential.apply(torch.ones(2)))
    data = TensorDataset(torch.rand(4, 3), torch.rand(4, 1))
    first, second = data[0][0], next(iter(DataLoader(data, batch_size=2)))[1]
    print(first.size(0), second.shape[0], Hook(head, append_stats).stats, torch.rand(3).sort().values)
    return [parameter for parameter in backbone.parameters() if parameter.requires_grad]


def gram_matrix(y: Tensor) -> Tensor:
    (b, ch, h, w) = y.size()
    features = y.view(b, ch, w * h)
    return features.bmm(features.transpose(1, 2)) / (ch * h * w)


class PatchExtractor(nn.Module):
    def forward(self, x: Tensor, patch: int = 4) -> Tensor:
        b, c, h, w = x.size()
        patches = x.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5).contiguous()
        attended, weights = nn.MultiheadAttention(16, 2, batch_first=True)(x, x, x)
        return patches.view(b, (h // patch) * (w // patch), -1) + attended.mean() + weights[0, 0]
