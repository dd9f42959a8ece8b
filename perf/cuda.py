"""`python -m perf.cuda`: kernels on a GPU.

First are they right (against float64 on the CPU), then how fast, beside PyTorch in one process, then are they stable.

On a fresh machine with an NVIDIA driver: `pip install ".[cuda]"` (and `torch`, for the comparison), then this command
in the repository's root. Each part can be had alone: `check`, `times`, `races`. A row that fails is told and the others
go on; after `--seconds` what is left is left out. `--json` is written before and after every row, so that what was
found is not lost: `--resume` goes on from there, in a process of its own where a kernel broke the GPU for this one.
With NUMBA_ENABLE_CUDASIM=1 and `--tiny` all of it runs in Numba's simulator, where times say nothing.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import numod

from . import measure, networks

NO_GPU = (
    "perf.cuda: there is no GPU that numod can use.\n"
    "On a machine with an NVIDIA GPU: install its driver (nvidia-smi must list the GPU), then `pip install '.[cuda]'` "
    "here, and run this again.\n"
    "Without one: `NUMBA_ENABLE_CUDASIM=1 python -m perf.cuda --tiny` runs every row in Numba's simulator."
)
MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    """`run(torch, *tensors)` on any library with PyTorch's names; `inputs(tiny)` gives the arrays.

    Costs are per run: bytes that must move, flops that must be done.
    """

    name: str
    inputs: Callable[[bool], list[np.ndarray]]
    run: Callable
    bytes: Callable[[list[np.ndarray]], float] = lambda arrays: 0
    flops: Callable[[list[np.ndarray]], float] = lambda arrays: 0
    tolerance: float = 1e-4
    # the least share of "copy" bandwidth, or of the speed of PyTorch's "cuBLAS", "cuDNN" or "eager"; or the most "us"
    bar: tuple[float, str] | None = None

    def bar_text(self, numbers: dict[str, float]) -> str:
        """The bar in words, and whether it was met: a part of what is known without PyTorch is not."""
        if self.bar is None:
            return ""
        amount, of = self.bar
        if of == "us":
            reached: float | None = amount / 1e6 / numbers["numod"]
            amount, text = 1.0, f"{amount:g} us"
        else:
            reached = numbers.get("of limit") if of == "copy" else 1 / numbers["ratio"] if "ratio" in numbers else None
            text = f"{amount:.0%} of {of}"
        return f"   bar {text}: {'not known' if reached is None else 'met' if reached >= amount else 'MISSED'}"


@dataclass
class Report:
    """What was found: rows of (name, numbers), and the limits of this GPU as measured."""

    device: str
    rows: dict[str, dict] = field(default_factory=dict)
    bandwidth: float = 0.0
    peak: float = 0.0
    left_out: list[str] = field(default_factory=list)
    ended: list[list] = field(default_factory=list)  # (part, row, whether it was right) of each that was begun
    bars: dict[str, str] = field(default_factory=dict)


@functools.lru_cache(maxsize=2)
def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal numbers of float32, kept for the next row of that shape: no row writes to them."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape, dtype=np.float32)


def _vector(size: int, tiny: int = 37, count: int = 1) -> Callable:
    return lambda small: [normal(tiny if small else size // 4, seed=k) for k in range(count)]


def _matrix(rows: int, columns: int, tiny: tuple[int, int] = (5, 7)) -> Callable:
    return lambda small: [normal(*(tiny if small else (rows, columns)))]


def _definite(torch: object, x: object) -> object:
    return x @ x.mT / x.shape[1] + torch.eye(x.shape[0], device=x.device)


def _pair(n: int) -> Callable:
    return lambda small: [normal(5, 7), normal(7, 3)] if small else [normal(n, n), normal(n, n, seed=1)]


def _images(images: int, channels: int, size: int, features: int, kernel: int) -> Callable:
    return lambda small: (
        [normal(1, 2, 5, 4), normal(3, 2, 3, 3)]
        if small
        else [normal(images, channels, size, size), normal(features, channels, kernel, kernel) * 0.05]
    )


def _moved(times: float) -> Callable:
    return lambda arrays: times * arrays[0].nbytes


def _product_flops(arrays: list[np.ndarray]) -> float:
    (m, k), n = arrays[0].shape, arrays[1].shape[1]
    return 2.0 * m * n * k


def _convolution_flops(stride: int) -> Callable:
    return lambda arrays: 2.0 * arrays[0].shape[0] * np.prod(arrays[0].shape[2:]) / stride**2 * arrays[1].size


def _convolve(stride: int, padding: int) -> Callable:
    return lambda torch, x, w: torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)


def _convolve_back(stride: int, padding: int) -> Callable:
    def run(torch: object, x: object, w: object) -> tuple:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        torch.nn.functional.conv2d(x, w, stride=stride, padding=padding).sum().backward()
        return x.grad, w.grad

    return run


def _scatter(torch: object, x: object) -> object:
    index = (torch.arange(x.shape[0], device=x.device) * 7) % max(x.shape[0] // 4, 1)
    return torch.zeros_like(x).index_add_(0, index, x)


def _pooled(torch: object, x: object) -> object:
    x = x.detach().requires_grad_()
    torch.nn.functional.max_pool2d(x, 3, 2, 1).square().sum().backward()
    return x.grad


def _attended(torch: object, *args: object) -> tuple:
    args = [tensor.detach().requires_grad_() for tensor in args]
    torch.nn.functional.scaled_dot_product_attention(*args, is_causal=True).square().sum().backward()
    return tuple(tensor.grad for tensor in args)


def _words(small: bool) -> list[np.ndarray]:
    words, count = ((7, 5), 9) if small else ((32000, 512), 16384)
    return [normal(*words), np.arange(count) * 7919 % words[0]]


def _embedded(torch: object, weight: object, index: object) -> object:
    weight = weight.detach().requires_grad_()
    torch.nn.functional.embedding(index, weight).square().sum().backward()
    return weight.grad


_GPT = networks.gpt(8, 256, layers=4, size=256)


def _step(torch: object, x: object, target: object, *weights: object) -> tuple:
    """A step of gradient descent of LeNet; the new weights."""
    functional = torch.nn.functional
    a, b, c, d, e, f = weights = [weight.detach().requires_grad_() for weight in weights]
    hidden = functional.max_pool2d(functional.relu(functional.conv2d(x, a, padding=a.shape[2] // 2)), 2)
    hidden = functional.max_pool2d(functional.relu(functional.conv2d(hidden, b)), 2).flatten(1)
    hidden = functional.relu(functional.linear(functional.relu(functional.linear(hidden, c)), d))
    functional.cross_entropy(functional.linear(hidden, e, f), target).backward()
    with torch.no_grad():
        return tuple(weight - 0.1 * weight.grad for weight in weights)


@functools.cache
def _compiled_step() -> Callable:
    return numod.compile(functools.partial(_step, numod))


def _lenet(small: bool) -> list[np.ndarray]:
    if small:
        shapes, images, side, classes = [(2, 1, 3, 3), (2, 2, 2, 2), (3, 2), (3, 3), (2, 3), (2,)], 2, 6, 2
    else:
        shapes = [(6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84), (10,)]
        images = 128
        side = 28
        classes = 10
    weights = [
        normal(*shape, seed=k) / np.float32(np.prod(shape[1:])) ** np.float32(0.5) for k, shape in enumerate(shapes)
    ]
    return [normal(images, 1, side, side), np.arange(images) % classes, *weights]


def _trained(make: Callable, compiled: bool = False) -> dict[str, Callable]:
    """Inputs and run of a row: a step of training of a network of `perf.networks`; its loss.

    The rate is 0, so that every step is like the first.
    """
    small, steps = networks.perceptron(3, 2, batch=2), {}

    def inputs(tiny: bool) -> list[np.ndarray]:
        return list((small if tiny else make)(numod)[1])

    def run(torch: object, *args: object) -> object:
        kind = next(
            (tensor.dtype for tensor in args if tensor.dtype.is_floating_point and tensor.dtype is not torch.float32),
            torch.float32,
        )
        key = torch.__name__, str(args[0].device), str(kind)
        if key not in steps:
            torch.manual_seed(0)
            model = (small if args[0].shape == (2, 3) else make)(torch)[0].to(args[0].device, kind)
            steps[key] = _step_of(torch, model, compiled and torch is numod)
        return steps[key](*args)

    return {"inputs": inputs, "run": run}


def _step_of(torch: object, model: object, compiled: bool) -> Callable:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)

    def step(*args: object) -> object:
        optimizer.zero_grad()
        loss = model(*args).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return numod.compile(step) if compiled else step


ROWS = [
    Row("add 256 MiB", _vector(256 * MIB, count=2), lambda torch, x, y: x + y, _moved(3), bar=(0.85, "copy")),
    Row("gelu 256 MiB", _vector(256 * MIB), lambda torch, x: torch.nn.functional.gelu(x), _moved(2),
        bar=(0.85, "copy")),
    Row("softmax 65536 x 1024", _matrix(1 << 16, 1024), lambda torch, x: x.softmax(1), _moved(2), bar=(0.85, "copy")),
    Row("layer_norm 65536 x 1024", _matrix(1 << 16, 1024), lambda torch,
        x: torch.nn.functional.layer_norm(x, x.shape[1:]), _moved(2), bar=(0.85, "copy")),
    Row("sum 1 GiB", _vector(1 << 30), lambda torch, x: x.sum(), _moved(1), tolerance=1e-2, bar=(0.8, "copy")),
    Row("argmax 1 GiB", _vector(1 << 30), lambda torch, x: x.argmax(), _moved(1), bar=(0.8, "copy")),
    Row("sum of rows", _matrix(1 << 16, 1024), lambda torch, x: x.sum(1), _moved(1), bar=(0.8, "copy")),
    Row("sum of columns", _matrix(1 << 16, 1024), lambda torch, x: x.sum(0), _moved(1), tolerance=1e-2,
        bar=(0.8, "copy")),
    Row("argmax of rows", _matrix(1 << 16, 1024), lambda torch, x: x.argmax(1), _moved(1), bar=(0.8, "copy")),
    Row("cumsum of rows", _matrix(1 << 12, 1024), lambda torch, x: x.cumsum(1), _moved(2)),
    Row("sort of rows", _matrix(1 << 12, 1024), lambda torch, x: x.sort(1)[0], _moved(2)),
    Row("cumsum 64 MiB", _vector(64 * MIB), lambda torch, x: x.cumsum(0), _moved(2), tolerance=1e-3),
    Row("fft of rows", _matrix(1 << 12, 1024), lambda torch, x: torch.view_as_real(torch.fft.rfft(x)), _moved(2),
        tolerance=1e-3),
    Row("cholesky 1024", _matrix(1024, 1024, (3, 3)), lambda torch, x: torch.linalg.cholesky(_definite(torch, x)),
        tolerance=1e-3),
    Row("inverse 1024", _matrix(1024, 1024, (3, 3)), lambda torch, x: torch.linalg.inv(_definite(torch, x)),
        tolerance=1e-3),
    Row("eigenvalues 512", _matrix(512, 512, (3, 3)), lambda torch, x: torch.linalg.eigvalsh(x + x.mT), tolerance=1e-3),
    Row("singular values 512", _matrix(512, 512, (2, 3)), lambda torch, x: torch.linalg.svdvals(x), tolerance=1e-3),
    Row("sort 16 MiB", _vector(16 * MIB), lambda torch, x: x.sort()[0], _moved(2)),
    Row("turned copy 8192", _matrix(8192, 8192), lambda torch, x: x.T.contiguous(), _moved(2)),
    Row("batch_norm 32 x 64 x 56", lambda small: [normal(2, 3, 4, 5) if small else normal(32, 64, 56, 56)],
        lambda torch, x: torch.nn.functional.batch_norm(x, None, None, training=True), _moved(2), tolerance=1e-3),
    Row("cross_entropy 8192 x 32000",
        lambda small: [normal(5, 7), np.arange(5) % 7] if small else [normal(8192, 32000), np.arange(8192) * 7 % 32000],
        lambda torch, x, target: torch.nn.functional.cross_entropy(x, target), _moved(1)),
    Row("index_add", _matrix(1 << 14, 256), _scatter, _moved(2), tolerance=1e-3),
    Row("sgemm 4096", _pair(4096), lambda torch, a, b: a @ b, flops=_product_flops, tolerance=1e-2,
        bar=(0.6, "cuBLAS")),
    Row("sgemm 512", _pair(512), lambda torch, a, b: a @ b, flops=_product_flops, tolerance=1e-3),
    Row(
        "sgemm 4096, turned", _pair(4096), lambda torch, a, b: (a.T if a.shape[0] == a.shape[1] else a) @ b,
        flops=_product_flops, tolerance=1e-2,
        bar=(0.6, "cuBLAS"),
    ),
    # with its conversions
    Row("product 4096 of bfloat16", _pair(4096), lambda torch, a, b: (a.bfloat16() @ b.bfloat16()).float(),
        flops=_product_flops, tolerance=2e-2),
    Row(
        "conv2d 3x3 of float16", _images(32, 64, 56, 64, 3), lambda torch, x,
        w: torch.nn.functional.conv2d(x.half(), w.half(), padding=1).float(),
        flops=_convolution_flops(1), tolerance=1e-2,
    ),
    Row("conv2d 3x3, 32 x 64 x 56", _images(32, 64, 56, 64, 3), _convolve(1, 1), flops=_convolution_flops(1),
        tolerance=1e-3, bar=(0.4, "cuDNN")),
    Row("conv2d 1x1, 32 x 256 x 56", _images(32, 256, 56, 64, 1), _convolve(1, 0), flops=_convolution_flops(1),
        tolerance=1e-3, bar=(0.4, "cuDNN")),
    Row("conv2d 3x3 stride 2, 32 x 128 x 56", _images(32, 128, 56, 128, 3), _convolve(2, 1),
        flops=_convolution_flops(2), tolerance=1e-3, bar=(0.4, "cuDNN")),
    Row(
        "conv2d 3x3 and gradients", _images(32, 64, 56, 64, 3), _convolve_back(1, 1),
        flops=lambda arrays: 3 * _convolution_flops(1)(arrays), tolerance=3e-2,
        bar=(0.4, "cuDNN"),
    ),
    Row("LeNet step, eager", _lenet, _step, tolerance=1e-3, bar=(0.5, "eager")),
    Row(
        "LeNet step, compiled", _lenet, lambda torch,
        *args: _compiled_step()(*args) if torch is numod else _step(torch, *args), tolerance=1e-3,
        bar=(1.0, "eager"),
    ),
    Row("max_pool2d 3x3/2 and gradient", lambda small: [normal(2, 3, 5, 5) if small else normal(32, 64, 112, 112)],
        _pooled, _moved(3)),
    Row("attention 8 x 8 x 512 x 64 and gradients",
        lambda small: [normal(*((1, 2, 5, 4) if small else (8, 8, 512, 64)), seed=k) for k in range(3)], _attended),
    Row("embedding 32 k x 512 and gradient", _words, _embedded, tolerance=1e-3),
    Row("ResNet-18 CIFAR step, batch 32, eager", **_trained(networks.resnet18(32)), tolerance=1e-3),
    Row("ResNet-18 CIFAR step, batch 32, compiled", **_trained(networks.resnet18(32), compiled=True), tolerance=1e-3),
    Row("GPT 4 x 256 step, T = 256, batch 8, eager", **_trained(_GPT), tolerance=1e-3),
    Row("GPT 4 x 256 step, T = 256, batch 8, compiled", **_trained(_GPT, compiled=True), tolerance=1e-3),
    Row("launch, 3 arrays", lambda small: [normal(1), normal(1, seed=1)], lambda torch, x, y: x + y, bar=(8, "us")),
]  # fmt: skip


def results(result: object) -> list[np.ndarray]:
    """What a row gave, on the host."""
    return [tensor.detach().cpu().numpy() for tensor in (result if isinstance(result, (tuple, list)) else [result])]


@functools.lru_cache(maxsize=1)
def arrays_of(row: Row, tiny: bool) -> list[np.ndarray]:
    """A row's arrays, kept until another's are asked for: a gibibyte of random numbers takes seconds."""
    return row.inputs(tiny)


def moved(library: object, arrays: list[np.ndarray], device: str, double: bool = False) -> list:
    """The arrays as a library's tensors."""
    tensors = [
        library.from_numpy(array.astype(np.float64) if double and array.dtype == np.float32 else array)
        for array in arrays
    ]
    return [tensor.to(device) for tensor in tensors]


def error_of(row: Row, tiny: bool) -> float:
    """The greatest difference between the GPU's float32 and the CPU's float64, relative to the greatest element."""
    arrays = arrays_of(row, tiny)
    actual = results(row.run(numod, *moved(numod, arrays, "cuda")))
    expected = results(row.run(numod, *moved(numod, arrays, "cpu", double=True)))
    errors = [
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1.0)) for a, b in zip(actual, expected, strict=True) if a.size
    ]
    return float(np.max(errors, initial=0.0))  # NaN if one is, which `max` would pass over


def unstable(row: Row, tiny: bool, runs: int, seconds: float) -> tuple[int, int]:
    """How many runs, of at most `runs` in so many seconds, gave other bits than the first, with deterministic
    algorithms; and how many there were.
    """
    numod.use_deterministic_algorithms(True)
    try:
        return _unstable(row, tiny, runs, seconds)
    finally:
        numod.use_deterministic_algorithms(False)


def _unstable(row: Row, tiny: bool, runs: int, seconds: float) -> tuple[int, int]:
    tensors = moved(numod, arrays_of(row, tiny), "cuda")
    first = [_bits(result) for result in results(row.run(numod, *tensors))]
    others = 0
    done = 1
    start = time.perf_counter()
    while done < runs and (done < 3 or time.perf_counter() - start < seconds):
        others += not all(map(np.array_equal, first, [_bits(result) for result in results(row.run(numod, *tensors))]))
        done += 1
    return others, done


def _bits(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def timer(library: object, run: Callable[[], object], seconds: float) -> Callable[[], float]:
    """A measurement on the default stream, seconds a run.

    The GPU is waited for before and behind, so that long rows are its own time and short ones the host's.
    """
    run()
    library.cuda.synchronize()
    start = time.perf_counter()
    run()
    library.cuda.synchronize()
    count = max(1, int(seconds / max(time.perf_counter() - start, 1e-6)))

    def once() -> float:
        library.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            run()
        library.cuda.synchronize()
        return (time.perf_counter() - start) / count

    return once


def peer() -> object | None:
    """PyTorch, if it is there and can use the GPU, computing in true float32."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch


def times(row: Row, tiny: bool, torch: object | None, rounds: int, seconds: float) -> measure.Result:
    """numod's and PyTorch's times, in turns."""
    arrays, contenders = arrays_of(row, tiny), {}
    for name, library in (("numod", numod), ("torch", torch)):
        if library is not None:
            tensors = moved(library, arrays, "cuda")
            contenders[name] = timer(
                library, lambda library=library, tensors=tensors: row.run(library, *tensors), seconds
            )
    return measure.take_turns(contenders, rounds)


def ceilings(tiny: bool, torch: object | None) -> tuple[float, float]:
    """Bytes and flops a second that this GPU reached here: the best of both libraries' copies and products."""
    copy = Row("copy", _vector(256 * MIB), lambda library, x: x.clone(), _moved(2))
    product = next(row for row in ROWS if row.name == "sgemm 4096")
    results = []
    for row in (copy, product):
        result, arrays = times(row, tiny, torch, 3, 0.05), arrays_of(row, tiny)
        least = min(min(round_) for round_ in result.rounds.values())
        results.append((row.bytes(arrays) or row.flops(arrays)) / least)
    return results[0], results[1]


def _say(report: Report, row: Row, tiny: bool, result: measure.Result) -> str:
    arrays, best = arrays_of(row, tiny), result.best("numod")
    numbers = {"numod": best}
    text = f"{row.name:36} {1e6 * best:12.1f} us"
    if "torch" in result.rounds:
        numbers["torch"], numbers["ratio"] = result.best("torch"), result.ratio("torch")
        text += f"   torch {1e6 * numbers['torch']:12.1f} us   ratio {numbers['ratio']:6.2f}"
    for cost, limit, unit in (
        (row.bytes(arrays), report.bandwidth, "GB/s"),
        (row.flops(arrays), report.peak, "GFLOP/s"),
    ):
        if cost and limit:
            numbers["of limit"] = cost / best / limit
            text += f"   {cost / best / 1e9:9.1f} {unit} ({numbers['of limit']:.0%} of what was measured)"
    report.rows.setdefault(row.name, {}).update(numbers)
    if bar_text := row.bar_text(numbers):
        report.bars[row.name] = bar_text.rpartition(" ")[2]
    return text + bar_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for.

    Exit code 0 if all that was checked is right and stable, 1 if not, 2 where there is no GPU.
    """
    parser = argparse.ArgumentParser(
        prog="python -m perf.cuda", description="numod's kernels on a GPU: right, stable, fast."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="check, times, races; all where none is named")
    parser.add_argument(
        "--rows",
        type=re.compile,
        default=re.compile(""),
        metavar="REGEX",
        help="only rows whose name this matches somewhere",
    )
    parser.add_argument("--tiny", action="store_true", help="a few elements: for the simulator")
    parser.add_argument(
        "--runs", type=int, default=100, metavar="N", help="runs that must agree to the bit (default: 100)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=440.0,
        metavar="S",
        help="when to begin no further row, in seconds from the start (default: 440)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="take what the file of --json has, such as from a run that was ended, and measure only the rest",
    )
    options = parser.parse_args(arguments)
    if options.resume and not options.json:
        parser.error("--resume needs --json FILE, with what was found so far")
    if unknown := set(options.parts) - {"check", "races", "times"}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    if not numod.cuda.is_available():
        print(NO_GPU)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        options.json = options.json or os.path.join(folder, "report.json")
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    deadline, report = time.perf_counter() + options.seconds, Report(numod.cuda.get_device_name())
    if options.resume:
        with open(options.json) as file:
            report = Report(**{**json.load(file), "left_out": []})
    ended = {(part, name) for part, name, _ in report.ended}
    rows = [row for row in ROWS if options.rows.search(row.name)]
    print(f"{report.device}, capability {'.'.join(map(str, numod.cuda.get_device_capability()))}", flush=True)
    for part, measured in (("check", _check), ("times", _time), ("races", _race)):
        if part not in (options.parts or ("check", "times", "races")):
            continue
        torch = peer() if part == "times" else None
        if part == "times" and not report.peak:
            report.ended.append(["limits", "", _measure_limits(report, options, torch)])
        for row in rows:
            if (part, row.name) in ended:
                continue
            if time.perf_counter() > deadline:
                report.left_out.append(f"{part}: {row.name}")
                continue
            report.ended.append([part, row.name, False])
            _keep(report, options)  # for who ends this process because of a kernel that does not end
            try:
                report.ended[-1][2] = bool(measured(report, row, options, torch))
            except Exception as error:  # the other rows are worth having, whatever is wrong with this one
                report.rows.setdefault(row.name, {})[f"{part} failed"] = f"{type(error).__name__}: {error}"
                print(f"{row.name:36} FAILED in {part}: {type(error).__name__}: {error}", flush=True)
                if _broken():
                    _keep(report, options)
                    return _go_on(options, deadline - time.perf_counter())
            _keep(report, options)
    if report.bars:
        verdicts = list(report.bars.values())
        missed = "; ".join(name for name, bar in report.bars.items() if bar == "MISSED")
        print(
            f"bars: {verdicts.count('met')} met, {verdicts.count('MISSED')} missed, {verdicts.count('known')} not "
            f"known{f': missed {missed}' if missed else ''}"
        )
    if report.left_out:
        print(f"left out after {options.seconds:.0f} seconds: {'; '.join(report.left_out)}")
    _keep(report, options)
    return int(not all(right for *_, right in report.ended))


def _broken() -> bool:
    """Whether a kernel broke the GPU for this process: then whatever waits for it fails, PyTorch too."""
    try:
        numod.cuda.synchronize()
    except Exception:  # what a check in a kernel reported is told once
        try:
            numod.cuda.synchronize()
        except Exception:
            return True
    return False


def _go_on(options: argparse.Namespace, seconds: float) -> int:
    """The exit code of a process that measures the rest."""
    print(f"the GPU is lost to this process; a new one measures the rest in {seconds:.0f} seconds", flush=True)
    arguments = [
        *options.parts,
        f"--rows={options.rows.pattern}",
        "--runs",
        str(options.runs),
        f"--seconds={seconds}",
        "--json",
        options.json,
        "--resume",
    ]
    return subprocess.call([sys.executable, "-m", "perf.cuda", *arguments, *["--tiny"] * options.tiny])


def _measure_limits(report: Report, options: argparse.Namespace, torch: object | None) -> bool:
    """Note the copy bandwidth and the products' rate; False where they cannot be had."""
    try:
        report.bandwidth, report.peak = ceilings(options.tiny, torch)
    except Exception as error:  # as above
        print(f"limits could not be measured: {type(error).__name__}: {error}", flush=True)
        return False
    print(
        f"measured: copy {report.bandwidth / 1e9:.1f} GB/s, product {report.peak / 1e9:.1f} "
        f"GFLOP/s{'' if torch else '; PyTorch cannot be compared with here'}",
        flush=True,
    )
    return True


def _check(report: Report, row: Row, options: argparse.Namespace, torch: object | None) -> bool:
    error = error_of(row, options.tiny)
    report.rows.setdefault(row.name, {})["error"] = error
    print(
        f"{row.name:36} error {error:.1e}{'' if error <= row.tolerance else f'   WRONG: above {row.tolerance:.0e}'}",
        flush=True,
    )
    return error <= row.tolerance


def _time(report: Report, row: Row, options: argparse.Namespace, torch: object | None) -> bool:
    result = times(row, options.tiny, torch, 2 if options.tiny else 7, 0.001 if options.tiny else 0.05)
    print(_say(report, row, options.tiny, result), flush=True)
    return True


def _race(report: Report, row: Row, options: argparse.Namespace, torch: object | None) -> bool:
    others, runs = unstable(row, options.tiny, options.runs, 6.0)
    report.rows.setdefault(row.name, {})["unstable runs"] = others
    print(f"{row.name:36} {runs - others} of {runs} runs agree to the bit{'   UNSTABLE' if others else ''}", flush=True)
    return not others


def _keep(report: Report, options: argparse.Namespace) -> None:
    with open(options.json, "w") as file:
        json.dump(vars(report), file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
