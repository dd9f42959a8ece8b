"""The networks and ops whose kernels a pack holds (`python -m numod cache build`).

Kernels depend on dtypes, layouts, kernel sizes and activations, but hardly on widths and batch sizes, so each case
stands for all networks of its kind. It runs small, for the serial kernels, and large, for those divided among threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

import numod
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.device import target
from numod.kernel import packs, store, trust
from numod.utils.data import DataLoader, TensorDataset

OPTIMIZERS: tuple[Callable, ...] = (
    lambda parameters: optim.SGD(parameters, lr=0.01),
    lambda parameters: optim.SGD(parameters, lr=0.01, momentum=0.9),
    lambda parameters: optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=5e-4),
    lambda parameters: optim.Adam(parameters, lr=1e-3),
    lambda parameters: optim.AdamW(parameters, lr=1e-3),
)


def train(model: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor], make: Callable = OPTIMIZERS[1]) -> None:
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


def residual(width: int) -> nn.Module:
    """A ResNet for images of 32 x 32."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        Block(width, width, 1), Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2), Block(4 * width, 8 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10),
    )  # fmt: skip


def lenet(width: int) -> nn.Module:
    """LeNet for images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(50 * width, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10),
    )  # fmt: skip


def perceptron(width: int, activation: Callable[[], nn.Module]) -> nn.Module:
    """A classifier of rows of 64 numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), activation(), nn.Dropout(0.3), nn.Linear(width, 10))


class Language(nn.Module):
    """A causal transformer over words, (N, T) -> (N, words, T)."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(words, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, F.gelu, batch_first=True, norm_first=True)
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


class Recurrent(nn.Module):
    """A recurrent layer and a classifier of its last output."""

    def __init__(self, kind: type[nn.Module], inputs: int, width: int) -> None:
        super().__init__()
        self.layer, self.head = kind(inputs, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, inputs) -> (N, 10)."""
        return self.head(self.layer(x)[0][:, -1])


def _perceptrons() -> None:
    for make in OPTIMIZERS:
        for count, width in ((8, 16), (64, 128), (512, 512)):
            train(perceptron(width, nn.ReLU), numod.randn(count, 1, 8, 8), labelled(count, 10), make)
    for activation in (nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU):
        for count, width in ((8, 16), (512, 512)):
            train(perceptron(width, activation), numod.randn(count, 64), squared)


def _convolutions() -> None:
    for count, width in ((4, 6), (32, 6), (64, 16)):
        train(lenet(width), numod.randn(count, 1, 28, 28), labelled(count, 10))


def _residual() -> None:
    for count, width, make in ((2, 8, 1), (8, 32, 2), (16, 64, 3)):
        train(residual(width), numod.randn(count, 3, 32, 32), labelled(count, 10), OPTIMIZERS[make])


def _language() -> None:
    for count, length, width in ((2, 8, 32), (8, 64, 128)):
        words = numod.randint(0, 65, (count, length))
        train(Language(65, width), words, lambda scores, words=words: F.cross_entropy(scores, words), OPTIMIZERS[4])


def _recurrent() -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for count, width in ((4, 16), (64, 128)):
            train(Recurrent(kind, 12, width), numod.randn(count, 16, 12), labelled(count, 10), OPTIMIZERS[3])


def _operations() -> None:
    """Arithmetic, reductions and comparisons of floats and integers, as scripts use them."""
    for shape in ((16, 24), (512, 1024)):
        x, y, row = numod.randn(shape), numod.rand(shape), numod.randn(shape[1])
        for other in (y, row, 2.0):
            (x + other, x - other, x * other, x / other, x > other, x < other, x == other)
        for name in ("exp", "abs", "neg", "sqrt", "log", "sin", "cos", "tanh", "sigmoid", "relu", "square"):
            getattr(y, name)()
        for reduced in (x, x.abs()):
            (reduced.sum(), reduced.mean(), reduced.max(), reduced.min(), reduced.std())
            (reduced.sum(0), reduced.sum(1), reduced.mean(0), reduced.mean(1), reduced.max(1), reduced.argmax(1))
        (x @ y.mT, x.mT @ y, x.softmax(1), x.clone(), x.mT.contiguous(), x.clamp(0, 1), numod.where(x > 0, x, y))
        (numod.cat([x, y]), numod.stack([x, y]), numod.zeros(shape), numod.ones(shape), numod.arange(9), x.double())
        counts = numod.randint(0, 9, shape)
        (counts + counts, counts * 2, counts.sum(), counts == 3, counts.float(), x[counts[:, 0]], str(x), str(counts))


def _mobile(width: int) -> nn.Module:
    """Depthwise convolutions, as in MobileNet."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.Hardswish(),
        nn.Conv2d(width, width, 3, 1, 1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU6(),
        nn.Conv2d(width, width, 3, 2, 1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU6(),
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


def _images() -> None:
    for count, width in ((2, 8), (16, 32)):
        images = numod.randn(count, 3, 32, 32)
        train(_mobile(width), images, labelled(count, 10))
        train(_unet(width), images, squared, OPTIMIZERS[3])


def _compiled() -> None:
    """Compiled steps and predictions. Small ones become one function each, which is not for other networks."""
    for model, x in ((residual(32), numod.randn(8, 3, 32, 32)), (perceptron(256, nn.ReLU), numod.randn(512, 64))):
        for make in OPTIMIZERS[1:4]:
            optimizer, loss = make(model.parameters()), labelled(len(x), 10)

            @numod.compile
            def step(
                x: Tensor, model: nn.Module = model, optimizer: optim.Optimizer = optimizer, loss: Callable = loss
            ) -> Tensor:
                optimizer.zero_grad()
                value = loss(model(x))
                value.backward()
                optimizer.step()
                return value

            step(x)
        model.eval()
        with numod.no_grad():
            numod.compile(model)(x)


def _optimizers() -> None:
    """Updates of several parameters at once are kernels by their number."""
    for make in OPTIMIZERS:
        for count in range(1, 9):
            for size in (8, 1 << 18):
                parameters = [nn.Parameter(numod.randn(size)) for _ in range(count)]
                optimizer = make(parameters)
                for _ in range(2):
                    for parameter in parameters:
                        parameter.grad = numod.ones(size)
                    optimizer.step()


def _losses() -> None:
    for shape in ((16, 10), (512, 512)):
        x, y = numod.randn(shape, requires_grad=True), numod.rand(shape)
        labels = numod.randint(0, shape[1], shape[:1])
        for loss in (
            F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.cross_entropy(x, labels),
            F.binary_cross_entropy(x.sigmoid(), y), F.binary_cross_entropy_with_logits(x, y),
            F.nll_loss(x.log_softmax(1), labels), F.kl_div(x.log_softmax(1), y, reduction="batchmean"),
            x.softmax(1).square().mean(),
        ):  # fmt: skip
            loss.backward()


def _gradients() -> None:
    """Gradients of arithmetic and functions, over vectors of the same size, rows, columns and numbers."""
    for shape in ((16, 24), (512, 1024)):
        x = numod.rand(shape).add(0.5).requires_grad_()
        others = [numod.rand(size).add(0.5).requires_grad_() for size in (shape, shape[1:], (shape[0], 1), (1,))]
        results = [
            result
            for other in (*others, 2.0)
            for result in (x + other, x - other, x * other, x / other)
        ]  # fmt: skip
        results += [numod.minimum(x, others[0]), numod.maximum(x, others[0]), numod.where(x > 1, x, others[0])]
        results += [
            getattr(x, name)()
            for name in (
                "exp", "log", "sqrt", "rsqrt", "square", "tanh", "sigmoid", "relu", "sin", "cos", "abs", "neg", "erf",
                "log1p", "reciprocal",
            )
        ]  # fmt: skip
        results += [x**2, x**3, x.clamp(0.7, 1.2), 1 - x, 1 / x, F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh")]
        results += [F.softplus(x), F.elu(x), F.leaky_relu(x), F.hardswish(x), F.relu6(x), x.log_softmax(1)]
        results += [x.sum(0), x.sum(1), x.mean(0), x.mean(1), x.max(1).values, x.std(1), x.norm(), x.mT @ x, x @ x.mT]
        results += [
            x[1:],
            x[:, 1:],
            x.reshape(-1),
            x.mT.reshape(-1),
            numod.cat([x, x]),
            x.unsqueeze(1).expand(-1, 2, -1),
        ]
        for result in results:
            (result * 1.0).sum().backward()


def _data() -> None:
    """Loaders, and what steps do besides: shuffled batches, clipped gradients, norms, schedules."""
    for count in (100, 4000):
        dataset = TensorDataset(numod.randn(count, 1, 8, 8), numod.randint(0, 10, (count,)))
        for x, labels in DataLoader(dataset, batch_size=50, shuffle=True):
            (x.float().div(255), F.one_hot(labels, 10), x.mean(), x.std(), (labels == 1).float().mean().item())
            break
        layer = nn.Linear(64, count)
        layer(x.flatten(1)).square().mean().backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        for start in (nn.init.xavier_uniform_, nn.init.kaiming_normal_, nn.init.zeros_, nn.init.ones_):
            start(layer.weight)


CASES: dict[str, Callable[[], None]] = {
    "networks of linear layers": _perceptrons, "LeNet": _convolutions, "ResNet": _residual, "transformer": _language,
    "recurrent networks": _recurrent, "image networks": _images,
    "compiled networks": _compiled, "optimizers": _optimizers, "losses": _losses, "gradients": _gradients,
    "tensor operations": _operations, "data": _data,
}  # fmt: skip


def run() -> Iterator[str]:
    """Run the cases; yields the name of each when its kernels are compiled."""
    numod.manual_seed(0)
    for name, case in CASES.items():
        case()
        yield name


def build(path: str, levels: Sequence[str] = (), report: Callable[[str], None] = print) -> dict[str, int]:
    """Compile the kernels for each level (none: this processor's) and write them to a pack.

    Returns the number of kernels by level. Raises ValueError for a level that this processor does not have, since the
    cases run while they are compiled.
    """
    levels = tuple(dict.fromkeys(levels)) or (target.level() or "",)
    for level in levels:
        if level not in runnable():
            raise ValueError(
                f"{level or 'no level'} cannot be compiled here: a pack is built on a processor that runs it, and this "
                f"one has {', '.join(runnable()) or 'none of ' + ', '.join(target.LEVELS)}"
            )
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise ValueError(f"there is no folder {parent}")
    _check_writable(parent)
    with tempfile.TemporaryDirectory() as folder:
        entries = {level: _compiled(level, os.path.join(folder, level), report) for level in levels}
        return packs.write(path, entries)


def _check_writable(folder: str) -> None:
    """Raise ValueError, before minutes of compiling, if no pack can be written or used there."""
    try:
        trust.Folder(folder).close()
    except trust.Untrusted as error:
        raise ValueError(f"a pack in {folder} would not be used, since {error}; choose a folder of your own") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} cannot be written; choose a folder that can")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        raise ValueError(
            "no folder for temporary files can be written; set TMPDIR, or build the pack where the image is built"
        ) from None


def runnable() -> list[str]:
    """The levels of which this processor has all instructions, the least first."""
    names = set(target.features().split(","))
    this_level = target.level()
    return [
        level
        for level, needed in target.LEVELS.items()
        if this_level is not None
        and (level == "aarch64") == (this_level == "aarch64")
        and all(name in names for name in needed.split(",") if name.startswith("+"))
    ]


def _compiled(level: str, folder: str, report: Callable[[str], None]) -> list:
    """The entries that a process for the level, with an empty cache and no packs, compiles."""
    features = ",".join(name for name in target.LEVELS[level].split(",") if name.startswith("+"))
    settings = {
        "NUMOD_CACHE_DIR": folder, "NUMOD_CACHE_SIZE": "1T", "NUMOD_KERNEL_PATH": "", "NUMOD_NUM_THREADS": "2",
        "NUMBA_CPU_NAME": target.level_processor(level), "NUMBA_CPU_FEATURES": features,
    }  # fmt: skip
    paths = [os.path.dirname(os.path.dirname(numod.__file__)), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings["PYTHONPATH"] = os.pathsep.join(paths)
    with subprocess.Popen(
        [sys.executable, "-m", "numod.prebuilt"], env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            report(f"{level}: {line.strip()}")
    if process.returncode:
        raise RuntimeError(f"the process that compiles for {level} ended with code {process.returncode}")
    return store.kernels(folder)


if __name__ == "__main__":
    packs.find = lambda key: None  # an installed pack must not keep kernels out of this one
    for finished in run():
        print(finished, flush=True)
