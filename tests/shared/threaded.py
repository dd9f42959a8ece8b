"""Work for several threads at once: each checks that nothing raises or warns and that values equal those of one thread.

A piece of work is a function of (the number of threads, the number of the repeat). `together` runs it, for threads that
start at the same moment.
"""

from __future__ import annotations

import copy
import gc
import io
import itertools
import threading
from collections.abc import Callable

import numod
from numod import nn, optim
from numod.func import vmap
from numod.nn import functional as F

PATIENCE = 120  # seconds, after which threads that have not ended hang
LAYERS: list[tuple[Callable, tuple]] = [
    (lambda: nn.Conv2d(1, 9, 3), (2, 1, 8, 8)),
    (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)),
        (2, 1, 8, 8),
    ),
    (lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), (5, 4)),
    (lambda: nn.LSTM(4, 5), (3, 2, 4)),
    (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 3, 8)),
]
DTYPES = [numod.float32, numod.float64, numod.int64, numod.int32, numod.uint8, numod.bfloat16]
fresh = itertools.count(3)  # sizes that no call had before


def together(count: int, *works: Callable[[int], object]) -> list:
    """What `count` threads return for their number, thread k from works[k % len(works)].

    They begin at once. Raises what the first of them raises.
    """
    start, results, errors = threading.Barrier(count), [None] * count, []

    def run(k: int) -> None:
        try:
            start.wait(PATIENCE)
            results[k] = works[k % len(works)](k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def tensors(value: object) -> list[numod.Tensor]:
    """The tensors in tuples, lists and dictionaries."""
    if isinstance(value, numod.Tensor):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [leaf for member in inside for leaf in tensors(member)]


def same(actual: object, right: object, tolerance: float = 1e-5) -> None:
    """Raises unless the values are equal to rounding."""
    for one, other in zip(tensors(actual), tensors(right), strict=True):
        assert one.dtype is other.dtype and one.shape == other.shape
        assert numod.allclose(one.detach().double(), other.detach().double(), rtol=tolerance, atol=tolerance), (
            one,
            other,
        )


def data(*shape: int, k: int = 0) -> numod.Tensor:
    """Numbers that differ for each k, without drawing any."""
    size = numod.Size(shape).numel()
    return ((numod.arange(size) * (k + 3) % 17 - 8) / 8).reshape(shape)


def layer(number: int) -> tuple[nn.Module, tuple]:
    """A layer in eval mode, and its input's shape."""
    make, shape = LAYERS[number % len(LAYERS)]
    return make().eval(), shape


# ---- first uses, sizes, dtypes
# -----------------------------------------------------------------------------------------


def eager_first_use(count: int, repeat: int) -> None:
    """Operations at sizes and in chains that nobody has used before."""
    n = next(fresh)

    def formula(k):
        return F.softmax((data(2, n, k=k).sin() * (k + 1)).cumsum(1), 1).sum(0)[: n // 2] @ data(n // 2, 3, k=k)

    result = together(count, formula)
    for k in range(count):
        same(result[k], formula(k))


def _saved_and_loaded(k: int) -> numod.Tensor:
    file = io.BytesIO()
    numod.save({"x": data(3, k=k)}, file)
    file.seek(0)
    return numod.load(file)["x"]


# each by the number of the thread; what is made when it is first used differs
FIRST_USES: list[Callable[[int], numod.Tensor]] = [
    _saved_and_loaded,
    lambda k: numod.fft.rfft(data(12, k=k)).abs(),
    lambda k: data(31, k=k).sort()[0],
    lambda k: numod.linalg.solve(data(3, 3, k=k) + 4 * numod.eye(3), data(3, k=k)),
    lambda k: numod.linalg.svdvals(data(4, 3, k=k)),
    lambda k: F.conv1d(data(1, 2, 9, k=k), data(3, 2, 3)),
    lambda k: F.conv_transpose2d(data(1, 2, 4, 4, k=k), data(2, 3, 3, 3), stride=2),
    lambda k: F.interpolate(data(1, 1, 4, 4, k=k), scale_factor=2, mode="bilinear"),
    lambda k: numod.special.digamma(data(7, k=k).abs() + 1),
    lambda k: numod.distributions.Normal(data(3, k=k), 1.0).log_prob(numod.ones(3)),
]


def first_use(count: int, repeat: int) -> None:
    """An operation that nobody has used before in this process, by every thread at once."""
    formula = FIRST_USES[(repeat - 1) % len(FIRST_USES)]
    result = together(count, formula)
    for k in range(count):
        same(result[k], formula(k))


def compiled_dynamic_sizes(count: int, repeat: int) -> None:
    """A function that is compiled for any size from its first call on."""
    function = lambda x: (x.sin() * (x.shape[0] + repeat)).sum(0)  # noqa: E731
    compiled = numod.compile(function, dynamic=True)
    calls = lambda k: [data((k + j) % 5 + 2, 3, k=k) for j in range(4)]  # noqa: E731
    result = together(count, lambda k: [compiled(call) for call in calls(k)])
    for k in range(count):
        same(result[k], [function(call) for call in calls(k)])


def compiled_first_use(count: int, repeat: int) -> None:
    """The first calls of a compiled layer."""
    plain, shape = layer(repeat)
    compiled = numod.compile(plain, fullgraph=repeat % 2 == 0)

    def call(k: int) -> list:
        with numod.no_grad():
            return [compiled(data(*shape, k=k)) for _ in range(3)]

    result = together(count, call)
    with numod.no_grad():
        for k in range(count):
            same(result[k], [plain(data(*shape, k=k))] * 3)
    assert compiled.forward.recorded == 1


def new_sizes(count: int, repeat: int) -> None:
    """Sizes and numbers that change from call to call."""
    function = lambda x, n, s: (x * n + s).tanh()[:, : n % 3 + 1].sum(1)  # noqa: E731
    compiled = numod.compile(function)
    calls = lambda k: [(data((k + j) % 6 + 1, 4, k=k), (k * j) % 5 + 1, 0.1 * (k + j)) for j in range(12)]  # noqa: E731
    result = together(count, lambda k: [compiled(*call) for call in calls(k)])
    for k in range(count):
        same(result[k], [function(*call) for call in calls(k)])


def new_dtypes(count: int, repeat: int) -> None:
    """A thread's calls come in another order of dtypes than the others'."""
    function = lambda x: (x * 2 + 1).amax(0)  # noqa: E731
    compiled = numod.compile(function)
    calls = lambda k: [data(3, repeat + 2, k=k).abs().to(DTYPES[(k + j) % len(DTYPES)]) for j in range(len(DTYPES))]  # noqa: E731
    result = together(count, lambda k: [compiled(call) for call in calls(k)])
    for k in range(count):
        same(result[k], [function(call) for call in calls(k)])


def several_functions(count: int, repeat: int) -> None:
    """Each thread compiles a layer of its own, while others do."""

    def work(k: int) -> tuple:
        plain, shape = layer(k + repeat)
        compiled = numod.compile(plain)
        with numod.no_grad():
            return [compiled(data(*shape, k=k)) for _ in range(2)], [plain(data(*shape, k=k))] * 2

    for actual, right in together(count, work):
        same(actual, right)


def kept_state(count: int, repeat: int) -> None:
    """A number and a tensor that a compiled function keeps from call to call: every thread's call counts."""

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps, self.total = 0, numod.zeros(3)

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            self.steps += 1
            self.total = self.total + x
            return x * 2

    module = numod.compile(Counter())
    for _ in range(6):
        module(numod.ones(3))
    together(count, lambda k: [module(numod.ones(3)) for _ in range(5)])
    assert module.steps == 6 + 5 * count and module.total.tolist() == [6.0 + 5 * count] * 3


def numbers_elsewhere(count: int, repeat: int) -> None:
    """A setting that changes between calls stands for itself in a recording; who reads it meanwhile finds a number."""
    module = nn.Module()
    module.scale = 1.5
    compiled = numod.compile(lambda x: x * module.scale)

    def call(k: int) -> None:
        for _ in range(4):
            same(
                compiled(data(4, k=k)) / data(4, k=k).abs().clamp(min=1),
                data(4, k=k) * 1.5 / data(4, k=k).abs().clamp(min=1),
            )

    def read(k: int) -> None:
        for _ in range(60):
            scale = module.scale
            assert scale * 2 == 3.0 and (numod.ones(2) * scale).tolist() == [1.5, 1.5] and isinstance(scale, float)

    for scale in (1.0, 2.0, 3.0):
        module.scale = scale
        compiled(data(4))
    module.scale = 1.5
    together(count, call, read)


# ---- training
# ----------------------------------------------------------------------------------------------------------


def trained(k: int, compiled: bool, optimizer: type = optim.SGD, steps: int = 4) -> list[numod.Tensor]:
    """The losses and the parameters of a small network that one thread trains."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    with numod.no_grad():
        for parameter in model.parameters():
            parameter.copy_(data(*parameter.shape, k=k))
    steps_of = optimizer(model.parameters(), lr=0.05)
    x, y = data(6, 4, k=k), data(6, 1, k=k + 1)

    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        steps_of.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        steps_of.step()
        return loss.detach()

    run = numod.compile(step) if compiled else step
    return [*[run(x, y).clone() for _ in range(steps)], *model.parameters()]


def training(count: int, repeat: int) -> None:
    """Networks with optimizers of their own, eager and compiled."""
    kinds = (
        optim.SGD,
        optim.Adam,
        optim.RMSprop,
        optim.AdamW,
        optim.Adagrad,
        optim.NAdam,
        optim.Adadelta,
        optim.Adamax,
        optim.RAdam,
    )  # fmt: skip
    kind = kinds[repeat % len(kinds)]
    result = together(count, lambda k: trained(k, k % 2 == 0, kind))
    for k in range(count):
        same(result[k], trained(k, False, kind), 1e-4)


def one_compiled_step(count: int, repeat: int) -> None:
    """One compiled function with a backward pass inside, and one whose results are differentiated, for every thread's
    own leaves.
    """

    def loss(w: numod.Tensor, x: numod.Tensor) -> numod.Tensor:
        return (x @ w).tanh().square().sum()

    def step(w: numod.Tensor, x: numod.Tensor) -> numod.Tensor:
        return numod.autograd.grad(loss(w, x), w)[0]

    inside, outside = numod.compile(step), numod.compile(loss)

    def work(k: int) -> list:
        w, x = data(4, 3, k=k).requires_grad_(), data(5, 4, k=k)
        results = []
        for _ in range(3):
            results.append(inside(w, x))
            w.grad = None
            outside(w, x).backward()
            results.append(w.grad)
        return results

    result = together(count, work)
    for k in range(count):
        w = data(4, 3, k=k).requires_grad_()
        same(result[k], [step(w, data(5, 4, k=k))] * 6)


def modes(count: int, repeat: int) -> None:
    """What one thread switches on is off for others: no_grad, autocast, hooks on saved tensors, dual levels, vmap,
    anomaly's own, views while one records.
    """
    x = data(4, 4)
    right = x @ x

    def quiet(k: int) -> None:
        for _ in range(5):
            with numod.no_grad(), numod.amp.autocast("cpu", numod.bfloat16):
                assert (x @ x).dtype is numod.bfloat16
            with numod.inference_mode():
                assert x.sin().is_inference()

    def hooked(k: int) -> None:
        for _ in range(5):
            packed = []
            with numod.autograd.graph.saved_tensors_hooks(
                lambda tensor, packed=packed: packed.append(tensor) or tensor, lambda tensor: tensor
            ):
                w = data(4, k=k).requires_grad_()
                w.square().sum().backward()
            assert len(packed) == 1
            with numod.autograd.forward_ad.dual_level():
                dual = numod.autograd.forward_ad.make_dual(data(3, k=k), numod.ones(3))
                same(numod.autograd.forward_ad.unpack_dual(dual * 3).tangent, numod.full((3,), 3.0))

    def mapped(k: int) -> None:
        for _ in range(3):
            same(
                vmap(lambda row: row * 2 if row.sum() > 0 else row)(x),
                numod.stack([row * 2 if row.sum() > 0 else row for row in x]),
            )

    def plain(k: int) -> None:
        for _ in range(10):
            w = data(4, 4, k=k).requires_grad_()
            (w @ x).sum().backward()
            same(w.grad, numod.ones(4, 4) @ x.T)
            same(x @ x, right)
            c = numod.zeros(3, dtype=numod.complex64)
            c.real.add_(1)
            assert c.tolist() == [1, 1, 1]
            rows = numod.zeros(3, 2)
            rows[numod.tensor(1)].add_(1)
            assert rows.tolist() == [[0, 0], [1, 1], [0, 0]]

    def recording(k: int) -> None:
        for n in range(2):
            same(numod.compile(lambda x, n=n: (x * (n + 2)).sum(0))(x), (x * (n + 2)).sum(0))

    together(max(count, 5), quiet, hooked, mapped, plain, recording)


def shared_module(count: int, repeat: int) -> None:
    """A module is copied, saved and loaded while others call it."""
    plain, shape = layer(repeat)
    compiled, x = numod.compile(plain), data(*shape)
    with numod.no_grad():
        right, weights = plain(x), {name: tensor.clone() for name, tensor in plain.state_dict().items()}

    def call(k: int) -> None:
        with numod.no_grad():
            for _ in range(6):
                same((compiled if k % 4 else plain)(x), right)

    def copied(k: int) -> None:
        for _ in range(2):
            same(copy.deepcopy(plain if k % 4 == 1 else compiled).state_dict(), weights)
            file = io.BytesIO()
            numod.save(plain.state_dict(), file)
            file.seek(0)
            same(numod.load(file), weights)
            assert [name for name, _ in plain.named_parameters()] == [name for name, _ in plain.named_parameters()]

    together(count, call, copied)


# ---- what the process shares
# -------------------------------------------------------------------------------------------


def draws(count: int, repeat: int) -> None:
    """Each number of the default generator is drawn once, and a generator of a thread's own gives its own stream."""
    compiled = numod.compile(lambda: numod.rand(3))
    numod.manual_seed(repeat)
    right = sorted(numod.rand(3).tolist() for _ in range(8 * count))
    numod.manual_seed(repeat)

    def expected_of(k: int) -> list:
        generator = numod.Generator().manual_seed(k)
        return numod.rand(5, generator=generator).tolist()

    actual = together(
        count,
        lambda k: (
            [(compiled if j % 2 else numod.rand)(*(() if j % 2 else (3,))).tolist() for j in range(8)],
            expected_of(k),
        ),
    )
    assert sorted(row for rows, _ in actual for row in rows) == right
    assert [stream for _, stream in actual] == [expected_of(k) for k in range(count)]


def settings(count: int, repeat: int) -> None:
    """The number of threads is set while large kernels run, with a profiler on, and garbage collected."""
    before, n = numod.get_num_threads(), 200_000 + repeat
    right = float(n) * (n - 1) / 2

    def work(k: int) -> None:
        for _ in range(4):
            assert numod.arange(n, dtype=numod.float64).sum().item() == right

    def turn(k: int) -> None:
        for number in (1, 2, 1, before):
            numod.set_num_threads(number)
            gc.collect(0)

    try:
        together(max(count, 3), work, turn)
    finally:
        numod.set_num_threads(before)


def profiled(count: int, repeat: int) -> None:
    """A profiler is turned on and off while others compute, compile and train."""
    x = data(3, 5)

    def watch(k: int) -> None:
        if k == 0:
            for _ in range(3):
                with numod.profiler.profile(record_shapes=True, with_jit=True) as profiled:
                    x.sin().sum()
                assert any(event.name == "numod::sin" for event in profiled.events())
        else:
            same(numod.compile(lambda x: (x * repeat).sin())(x), (x * repeat).sin())

    together(count, watch, lambda k: trained(k, k % 4 == 1))


def collected(count: int, repeat: int) -> None:
    """Compiled functions die while others are made, and the collector runs whenever it can."""
    threshold = gc.get_threshold()

    def work(k: int) -> None:
        for n in range(2):
            cycle = [numod.compile(lambda x, n=n: x * (n + 2) + k)]
            cycle.append(cycle)
            same([cycle[0](data(4, k=k)) for _ in range(2)], [data(4, k=k) * (n + 2) + k] * 2)

    try:
        gc.set_threshold(20, 2, 2)
        together(count, work)
    finally:
        gc.set_threshold(*threshold)


class Squares(numod.utils.data.Dataset):
    """Tensors that are computed where they are asked for."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, k: int) -> numod.Tensor:
        return numod.full((3,), float(k)).square()


def loaded(count: int, repeat: int) -> None:
    """DataLoaders of several threads, in this process."""
    read = lambda k: list(numod.utils.data.DataLoader(Squares(), batch_size=4))  # noqa: E731
    result = together(count, read)
    for values in result:
        same(values, read(0))


HERE = [
    eager_first_use, first_use, compiled_first_use, compiled_dynamic_sizes, new_sizes, new_dtypes, several_functions,
    kept_state, numbers_elsewhere, training, one_compiled_step, modes, shared_module, draws, settings, profiled,
    collected, loaded,
]  # fmt: skip
