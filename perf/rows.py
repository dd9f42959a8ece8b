"""What is timed, a row each: the same code with numod and with PyTorch in the place of `torch`, and NumPy's own where it has the operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .measure import KernelFolders, Result, printed_seconds, statement_timer, take_turns, wait_for_line


@dataclass(frozen=True)
class Bar:
    """What numod is to reach: a ratio to `peer` (the best one where none is named), or a number of seconds; either will do."""

    ratio: float | None = None
    seconds: float | None = None
    peer: str | None = None

    def __str__(self) -> str:
        parts = [f"{self.seconds:g} s" if self.seconds and self.seconds > 0.01 else f"{1e6 * self.seconds:g} µs"] if self.seconds else []
        parts += [f"{self.ratio:g} × {self.peer or 'best'}"] if self.ratio else []
        return "≤ " + " or ".join(parts)

    def met(self, result: Result) -> bool | None:
        """Whether `result` meets the bar. None where the peer to compare with is missing."""
        if self.seconds is not None and result.best("numod") <= self.seconds:
            return True
        if self.ratio is None:
            return False
        peer = self.peer or result.best_peer()
        return result.ratio(peer) <= self.ratio if peer in result.rounds else None


@dataclass(frozen=True)
class Row:
    """A statement in names that `setup(torch)` makes, numod or PyTorch given as `torch`, and `numpy()` where NumPy takes part."""

    name: str
    statement: str
    setup: Callable[[object], dict]
    numpy: Callable[[], dict] | None = None
    numpy_statement: str = ""
    bar: Bar | None = None

    def measure(self, libraries: dict[str, object], quick: bool) -> Result:
        """Time the statement in turns."""
        seconds, rounds = (0.01, 7) if quick else (0.05, 25)
        contenders = {name: statement_timer(self.statement, self.setup(library), seconds) for name, library in libraries.items()}
        if self.numpy:
            contenders["NumPy"] = statement_timer(self.numpy_statement or self.statement, self.numpy(), seconds)
        return take_turns(contenders, rounds)


@dataclass(frozen=True)
class FreshRow:
    """Something that happens once per process. `measure_once(module, folders)` starts a process that uses `module` as `torch`, for its seconds."""

    name: str
    measure_once: Callable[[str, KernelFolders], float]
    bar: Bar | None = None
    rounds: int = 7
    quick_rounds: int = 2

    def measure(self, libraries: dict[str, object], quick: bool, folders: KernelFolders) -> Result:
        """Start processes in turns."""
        contenders = {name: (lambda module=library.__name__: self.measure_once(module, folders)) for name, library in libraries.items()}
        return take_turns(contenders, self.quick_rounds if quick else self.rounds)


def small_step(torch: object) -> dict:
    """A training step of a network 4-3-1 on one sample: nearly all of it is the cost of calls."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(1, 4), torch.randn(1, 1)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    return {"step": step}


def digits_step(torch: object) -> dict:
    """A training step of a network 64-128-10 on 32 samples, the size of the demo."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return {"step": step}


def linear_call(torch: object) -> dict:
    """A call of a small layer where no gradient is wanted."""
    layer, x = torch.nn.Linear(4, 3), torch.randn(1, 4)

    def call() -> None:
        with torch.no_grad():
            for _ in range(100):
                layer(x)

    return {"call": call}


def floats(count: int) -> dict:
    """Options of a row over tensors `x` and `y` of `count` floats, for all three libraries."""

    def of_torch(torch: object) -> dict:
        return {"x": torch.rand(count), "y": torch.rand(count)}

    def of_numpy() -> dict:
        import numpy as np

        x, y = np.random.default_rng(0).random((2, count), np.float32)
        return {"x": x, "y": y, "np": np}

    return {"setup": of_torch, "numpy": of_numpy}


def matrices(rows: int, inner: int, columns: int) -> dict:
    """Options of a row over matrices `a` and `b`, for all three libraries."""

    def of_torch(torch: object) -> dict:
        return {"a": torch.rand(rows, inner), "b": torch.rand(inner, columns)}

    def of_numpy() -> dict:
        import numpy as np

        generator = np.random.default_rng(0)
        return {"a": generator.random((rows, inner), np.float32), "b": generator.random((inner, columns), np.float32)}

    return {"setup": of_torch, "numpy": of_numpy}


def window(name: str, shape: tuple, *weight: tuple, backward: bool, **options: object) -> Callable:
    """The set-up of `call()`: the functional `name` on random images, and on a weight where a shape of one is given, with its gradients if `backward`."""

    def setup(torch: object) -> dict:
        function = getattr(torch.nn.functional, name)
        inputs = [torch.randn(*each, requires_grad=backward) for each in (shape, *weight)]
        g = torch.randn(*function(*inputs, **options).shape)

        def forward() -> None:
            with torch.no_grad():
                function(*inputs, **options)

        def both() -> None:
            for each in inputs:
                each.grad = None
            function(*inputs, **options).backward(g)

        return {"call": both if backward else forward}

    return setup


def convolutions() -> tuple[Row, ...]:
    """The layers of known networks, forward and with gradients."""
    layers = {
        "3×3, 64→64 at 56², N=1": ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        "3×3, 64→64 at 56², N=8": ((8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        "1×1, 256→64 at 56²": ((1, 256, 56, 56), (64, 256, 1, 1), {}),
        "11×11/4, 3→64 at 224²": ((1, 3, 224, 224), (64, 3, 11, 11), {"stride": 4, "padding": 2}),
        "depthwise 3×3, 128 at 56²": ((1, 128, 56, 56), (128, 1, 3, 3), {"padding": 1, "groups": 128}),
    }
    kinds = (("forward", False), ("forward+backward", True))
    return tuple(
        Row(f"conv2d {name}, {kind}", "call()", window("conv2d", x, weight, backward=backward, **options), bar=Bar(1.0))
        for name, (x, weight, options) in layers.items() for kind, backward in kinds
    )  # fmt: skip


FIRST_STEP = """
import {module} as torch
from {module} import nn
import {module}.nn.functional as F
torch.set_num_threads({threads})
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
loss = F.cross_entropy(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(loss.item(), flush=True)
"""
IMPORT = """
import time, numpy
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def _script(module: str) -> str:
    import numod

    return FIRST_STEP.format(module=module, threads=numod.get_num_threads())


def import_time(module: str, folders: KernelFolders) -> float:
    """Seconds `import module` takes where NumPy is already imported."""
    return printed_seconds(IMPORT.format(module=module))


def cold_start(module: str, folders: KernelFolders) -> float:
    """Seconds from the start of a process to its first training step, every kernel to be compiled."""
    variables = {"NUMOD_CACHE_DIR": folders.empty()} if module == "numod" else {}
    return wait_for_line(_script(module), **variables)


def warm_start(module: str, folders: KernelFolders) -> float:
    """Seconds from the start of a process to its first training step, every kernel in the cache."""
    variables = {"NUMOD_CACHE_DIR": folders.filled(_script(module))} if module == "numod" else {}
    return wait_for_line(_script(module), **variables)


ROWS = (
    Row("training step, MLP 4-3-1, batch 1", "step()", small_step, bar=Bar(0.4, peer="PyTorch")),
    Row("training step, MLP 64-128-10, batch 32", "step()", digits_step, bar=Bar(0.6, peer="PyTorch")),
    Row("100 calls of Linear(4, 3), no_grad", "call()", linear_call),
    Row("add, 32 floats", "x + y", **floats(32), bar=Bar(1.6, 2e-6, "PyTorch")),
    Row("add, 1 k floats", "x + y", **floats(1000)),
    Row("exp, 1 k floats", "x.exp()", **floats(1000), numpy_statement="np.exp(x)"),
    Row("sum, 1 k floats", "x.sum()", **floats(1000)),
    Row("add, 1 M floats", "x + y", **floats(1_000_000), bar=Bar(1.0)),
    Row("exp, 1 M floats", "x.exp()", **floats(1_000_000), numpy_statement="np.exp(x)"),
    Row("sum, 1 M floats", "x.sum()", **floats(1_000_000)),
    *(Row(f"product {m}×{k}×{n}", "a @ b", **matrices(m, k, n), bar=Bar(1.05)) for m, k, n in ((256, 256, 256), (1024, 1024, 1024), (128, 784, 256), (32, 64, 128), (1, 1024, 1024))),
    *convolutions(),
    Row("max_pool2d 3×3/2, 8×64×56×56", "call()", window("max_pool2d", (8, 64, 56, 56), backward=False, kernel_size=3, stride=2), bar=Bar(0.3)),
    FreshRow("import, beyond import numpy", import_time, Bar(seconds=0.15)),
    FreshRow("process start to first step, cold", cold_start, rounds=3, quick_rounds=1),
    FreshRow("process start to first step, warm", warm_start, Bar(seconds=1.0)),
)
