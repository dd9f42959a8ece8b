"""`python -m numod demo`: train a network to read digits, save it, load it and show its predictions.

Code to read, not a benchmark.

The first part is what a user of numod writes; the second prints it nicely.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numod
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.datasets import Digits
from numod.export import browser
from numod.kernel import build
from numod.utils.data import DataLoader

EPOCHS = 30
BAR = 0.97  # accuracy on the test digits that the defaults must reach


class Network(nn.Module):
    """Images (N, 1, 8, 8) to scores (N, 10) through one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(64, 128)
        self.activation = nn.ReLU()
        self.dropout = nn.Dropout(0.3)
        self.output = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, 10), one per digit; the greatest is the prediction."""
        x = x.flatten(1)
        x = self.activation(self.hidden(x))
        return self.output(self.dropout(x))


def train(network: Network, epochs: int, device: str, report: Callable[[int, float, float, float], None]) -> None:
    """Adam on the training digits.

    `report` is told the epoch, the part of all work done, the loss and the accuracy so far in the epoch.
    """
    loader = DataLoader(Digits(train=True), batch_size=64, shuffle=True)
    optimizer = optim.Adam(network.parameters(), lr=5e-3)
    network.train()
    for epoch in range(1, epochs + 1):
        total, correct, sample_count = 0.0, 0, 0
        for step, (images, labels) in enumerate(loader, start=1):
            images, labels = images.to(device), labels.to(device)
            scores = network(images)
            loss = F.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sample_count += len(labels)
            total += loss.item() * len(labels)
            correct += (scores.argmax(1) == labels).sum().item()
            report(epoch, (epoch - 1 + step / len(loader)) / epochs, total / sample_count, correct / sample_count)


def predict(network: Network, images: Tensor) -> Tensor:
    """The digit the network reads in each image, (N, 1, 8, 8) -> (N,)."""
    network.eval()
    with numod.no_grad():
        return network(images).argmax(1)


def save_and_reload(network: Network, path: Path, device: str) -> Network:
    """A second network with the weights of the first, by way of a safetensors file."""
    numod.save(network.state_dict(), path)
    other = Network().to(device)
    other.load_state_dict(numod.load(path, device))
    return other


def write_page(network: Network, folder: str) -> bool:
    """Write the network for browsers, with a page that reads digits drawn by the user.

    Prints the path, or the missing requirement.
    """
    exported = numod.export.export(network.eval(), (numod.zeros(1, 1, 8, 8),))
    compiled = numod.export.aot_compile(exported, folder, name="digits", targets=("wasm",), optimize="size")
    if "digits.html" not in compiled.files:
        print("\n".join(("demo: there is no page without a linker", *compiled.notes)), file=sys.stderr)
        return False
    path = compiled.folder / "digits.html"
    about = json.loads((compiled.folder / "digits.json").read_text(encoding="utf-8"))
    title, prompt = "Draw a digit", "draw a digit from 0 to 9"
    page = browser.page(compiled.folder, about, title, prompt, [str(digit) for digit in range(10)], fit=True)
    path.write_text(page, encoding="utf-8", newline="\n")
    print(f"open {path} in a browser and draw a digit ({path.stat().st_size:,} bytes, it needs no server)\n")
    return True


# The command


def add_command(subcommands: argparse._SubParsersAction) -> None:
    """Register `demo` with its options."""
    parser = subcommands.add_parser("demo", help="train a small network on handwritten digits and show what it reads")
    parser.add_argument(
        "--epochs", type=_whole_number(1), default=EPOCHS, metavar="N", help=f"passes over the data (default: {EPOCHS})"
    )
    parser.add_argument(
        "--seed", type=_whole_number(0), default=0, metavar="N", help="of weights, order and dropout (default: 0)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to compute (default: cpu)")
    parser.add_argument(
        "--export", metavar="FOLDER", help="write the network as a page on which one draws a digit, FOLDER/digits.html"
    )
    parser.set_defaults(run=lambda options: run(options, parser))


def _whole_number(least: int, most: int = 2**32 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or len(text) > 10 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {most}, got {text!r}")
        return int(text)

    return parse


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Train, save, reload, show. Exit code 0, or 1 where the default number of epochs gives an accuracy below 97 %."""
    times = Times()
    _check_device(options.device, parser)
    numod.manual_seed(options.seed)
    network, test = Network().to(options.device), Digits(train=False)
    images = test.data.to(options.device)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{network}\n{parameters:,} parameters, {len(Digits())} digits to learn from, {len(test)} to test\n")
    with Progress(options.epochs, sys.stdout) as progress, times.training():
        train(network, options.epochs, options.device, progress.report)
    predicted = predict(network, images).cpu()
    accuracy = (predicted == test.targets).sum().item() / len(test)
    print(f"\naccuracy on the test digits: {100 * accuracy:.1f} %")
    _check_saving(network, images, predicted, options.device)
    print(draw_some(test, predicted, sys.stdout))
    if options.export and not write_page(network.cpu(), options.export):
        return 1
    print(times.table())
    if accuracy < BAR and options.epochs == EPOCHS:
        print(
            f"demo: accuracy {100 * accuracy:.1f} % is below {100 * BAR:.0f} %; something is wrong with this build",
            file=sys.stderr,
        )
        return 1
    return 0


def _check_device(device: str, parser: argparse.ArgumentParser) -> None:
    try:
        numod.empty(1, device=device)
    except (RuntimeError, ImportError, AssertionError, NotImplementedError) as error:
        parser.error(f"--device {device} cannot be used here ({error}); try --device cpu")


def _check_saving(network: Network, images: Tensor, predicted: Tensor, device: str) -> None:
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        print("not saved: no folder for temporary files can be written (TMPDIR)\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.safetensors"
        other = save_and_reload(network, path, device)
        if predict(other, images).tolist() != predicted.tolist():
            raise RuntimeError("the reloaded network predicts other digits than the one that was saved")
        print(f"saved as safetensors ({path.stat().st_size:,} bytes), reloaded into a new network: same predictions\n")


# What the terminal shows


class Progress:
    """Progress of the training: one line drawn over and over on a terminal, plain lines anywhere else."""

    def __init__(self, epochs: int, stream: TextIO) -> None:
        self.epochs, self.stream, self.live = epochs, stream, stream.isatty()
        self.every = max(1, epochs // 10)
        self.full, self.rest = ("█", "░") if can_show("█░", stream) else ("#", ".")
        self.drawn, self.width = 0.0, 0

    def report(self, epoch: int, done: float, loss: float, accuracy: float) -> None:
        """Show where the training stands: on a terminal a few times a second, elsewhere at the end of every tenth of
        the epochs.
        """
        text = (
            f"epoch {epoch:>{len(str(self.epochs))}}/{self.epochs}  loss {loss:.4f}  accuracy {100 * accuracy:5.1f} %"
        )
        epoch_ended = done * self.epochs > epoch - 1e-6
        if not self.live:
            if epoch_ended and (epoch % self.every == 0 or epoch == self.epochs):
                print(text, file=self.stream, flush=True)
        elif time.perf_counter() - self.drawn > 0.05 or (epoch_ended and epoch == self.epochs):
            self._draw(f"{self._bar(done)}  {text}")

    def kernel_built(self, kernel: object) -> None:
        """Show a first run that it is compiling, which takes longer than the training."""
        if not kernel.cached:
            self._draw(f"compiling kernels: {build.statistics.compiled}")

    def _bar(self, done: float) -> str:
        filled = round(20 * done)
        return self.full * filled + self.rest * (20 - filled)

    def _draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]  # a line that wraps could not be drawn over
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.drawn, self.width = time.perf_counter(), len(text)

    def __enter__(self) -> Progress:
        if self.live:
            build.listeners.append(self.kernel_built)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            build.listeners.remove(self.kernel_built)
            self.stream.write("\n")


def can_show(text: str, stream: TextIO) -> bool:
    """Whether the stream's encoding has these characters."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def draw_some(test: Digits, predicted: Tensor, stream: TextIO) -> str:
    """Four test digits side by side with their predictions, the last one a mistake if there is one."""
    wrong = [index for index, right in enumerate((predicted == test.targets).tolist()) if not right]
    chosen = [*(len(test) * part // 4 for part in range(3)), wrong[0] if wrong else len(test) - 1]
    shades = " ░▒▓█" if can_show("░▒▓█", stream) else " .:*#"
    columns = []
    for index in chosen:
        image, label = test[index]
        columns.append([*draw(image, shades), f"predicted {predicted[index].item()}", f"true      {label}"])
    return "\n".join("  ".join(cell.ljust(16) for cell in row).rstrip() for row in zip(*columns, strict=True)) + "\n"


def draw(image: Tensor, shades: str) -> list[str]:
    """An image (1, 8, 8) of values 0 to 1 as eight lines, two characters a pixel."""
    return ["".join(2 * shades[round(value * (len(shades) - 1))] for value in row) for row in image[0].tolist()]


class Times:
    """Where the time of this process went. What was before is the processor time of Python's start and the imports."""

    def __init__(self) -> None:
        self.imports, self.start = time.process_time(), time.perf_counter()
        self.compute = 0.0

    def training(self) -> Times:
        """A context that measures training time, without kernel compilation."""
        return self

    def __enter__(self) -> None:
        self.compute -= time.perf_counter() - _kernel_seconds()

    def __exit__(self, *_: object) -> None:
        self.compute += time.perf_counter() - _kernel_seconds()

    def table(self) -> str:
        """A line for each part, with the number of kernels where there is one, and the sum."""
        built, total = build.statistics, self.imports + time.perf_counter() - self.start
        rows = [
            ("Python and imports", "", self.imports),
            ("kernels compiled", built.compiled, built.compile_seconds),
            ("kernels loaded from the cache", built.loaded, built.load_seconds),
            ("training", "", self.compute),
            ("everything else", "", total - self.imports - _kernel_seconds() - self.compute),
            ("total", "", total),
        ]
        lines = [f"{name:<30} {count:>6} {seconds:>8.2f} s" for name, count, seconds in rows]
        return "\n".join([f"{'where the time went':<30} {'number':>6} {'time':>10}", *lines])


def _kernel_seconds() -> float:
    return build.statistics.compile_seconds + build.statistics.load_seconds
