"""The PTX that a GPU would be given, run by `ptx_machine` behind the driver's interface, against the CPU: launches of
the sizes a GPU gets, with tails.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import numod
from numod import nn
from numod.nn import functional as F
from numod.ops import pointwise
from rows import NAMES, arguments

from machine_checks import HALVES, PTX, check, made, same
from ptx_machine import Machine

pytestmark = PTX


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    row = pointwise.rows[name]
    values = arguments(row, 31, 9)
    moved = [value.cuda() if isinstance(value, numod.Tensor) else value for value in values]
    same(row(*moved), row(*values))


@pytest.mark.parametrize(
    "dtype",
    [numod.float16, numod.bfloat16, numod.float64, numod.uint8, numod.int8, numod.bool, numod.complex64],
    ids=str,
)
def test_dtypes(dtype: numod.dtype) -> None:
    x, y = made(3, 700).to(dtype), made(700).to(dtype)
    check(lambda x, y: x + y, x, y, gradients=False)
    if not dtype.is_complex:
        check(lambda x: (x.sum(), x.amax(1)), x, gradients=False, tolerance=1e-2 if dtype in HALVES else 1e-6)
    if dtype is numod.int8:
        check(lambda x, y: (x // y.clamp(min=1), x % y.clamp(max=-1), x >> 1, x << 3), x, y, gradients=False)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_number_of_sixteen_bits(dtype: numod.dtype) -> None:
    x = numod.arange(1 << 16).to(numod.int32).to(numod.int16).view(dtype)
    check(lambda x: (x.float(), x.float().to(dtype)), x, gradients=False)
    near = numod.from_numpy(
        np.random.default_rng(0).integers(0, 1 << 32, 20000, dtype=np.uint32).view(np.float32).copy()
    )
    check(lambda near: near.to(dtype), near, gradients=False)


def test_layouts() -> None:
    x = made(5, 37, 41)
    for view in (
        lambda x: x.permute(2, 0, 1),
        lambda x: x[1:4, ::3, 5:],
        lambda x: x.transpose(0, 1),
        lambda x: x[:, :1].expand(5, 9, 41),
        lambda x: x.permute(2, 1, 0)[::2],
    ):
        check(lambda x, view=view: (view(x) * 2.0, view(x).contiguous(), view(x).sum(-1), view(x).sum(0)), x)
    # in tiles
    for shape, order in (
        ((37, 41), (1, 0)),
        ((5, 37, 41), (2, 1, 0)),
        ((3, 9, 10, 11), (0, 2, 3, 1)),
        ((8, 300), (1, 0)),
    ):
        check(
            lambda x, order=order: x.permute(order) + numod.ones(x.permute(order).shape, device=x.device), made(*shape)
        )
    check(lambda x: x.reshape(-1)[3:4000] + x.reshape(-1)[5:4002], x)
    check(lambda x: (x + 1)[0, 0, 0], x)

    def write(x: numod.Tensor) -> numod.Tensor:
        out = numod.zeros(41, 37, device=x.device)
        out.t().copy_(x[0])
        out[3:9, ::2] += 1
        out[5] = 7
        return out

    check(write, x, gradients=False)


def test_memory_read_as_another_dtype() -> None:
    check(
        lambda z: (z.real * 2, z.imag.sum(0), numod.view_as_real(z), z.conj().resolve_conj()),
        made(3, 5, dtype=numod.complex64),
        gradients=False,
    )
    check(lambda x: numod.view_as_complex(x.reshape(3, 5, 2)).abs(), made(3, 10))
    check(
        lambda x: (x.view(numod.int32), x.view(numod.uint8)[1:], x[1:].view(numod.int64)), made(4, 6), gradients=False
    )

    def shift(x: numod.Tensor) -> numod.Tensor:
        x, unshared = x.clone(), x.clone()
        # of memory that two storages hold: read whole before it is written
        x[1:] = x.view(numod.int32)[:-1].view(numod.float32)
        return x, unshared.resize_(2000)[:1000]

    check(shift, made(1000), gradients=False)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "norm", "var", "logsumexp", "max"]
)
def test_reductions(name: str) -> None:
    x = made(6, 5, 300)
    x[2, 3, 17] = x[1, 1, 250] = 9.0
    smooth = name not in ("any", "all", "argmax", "argmin", "prod")
    for dim in (0, 1, 2):
        check(lambda x, dim=dim: getattr(x, name)(dim=dim), x, gradients=smooth and dim == 1)
    check(
        lambda x: getattr(x, name)() if name != "logsumexp" else x.logsumexp((0, 1, 2)),
        x * 0.1 if name == "prod" else x,
        gradients=smooth,
        tolerance=1e-4,
    )


def test_long_reductions_in_two_stages() -> None:
    x = made(70001)
    check(lambda x: (x.sum(), x.mean(), x.max(), x.argmin(), x.norm(), x.std()), x, tolerance=1e-4)
    columns = made(9000, 3)
    check(lambda x: (x.sum(0), x.amax(0), x.mean((0, 1))), columns, tolerance=1e-4)
    # few results of rows that lie apart: blocks take rows, and the next kernel what they found
    images = made(40, 3, 23, 10)
    check(
        lambda x: (x.sum((0, 2, 3)), x.mean((0, 3)), x.amax((0, 2))[:, :2], x[..., ::2].sum((0, 2, 3)), x.sum((0, 2))),
        images,
        tolerance=1e-4,
    )
    check(
        lambda x: (x.sum((0, 2)), x.mean((0, 2)), (x > 5).any((0, 2))),
        made(2, 2, 9001),
        tolerance=1e-4,
        gradients=False,
    )
    check(lambda x: (x.sum((0, 2)), x.any((0, 2))), made(9001, 2, 2), tolerance=1e-4, gradients=False)
    nan = made(70001)
    nan[51234] = float("nan")
    check(lambda x: (x.amax(), x.sum()), nan, gradients=False)


def test_running_totals() -> None:
    x = made(2, 3000)
    check(lambda x: (x.cumsum(1), x.logcumsumexp(1), x.cumsum(0)), x, tolerance=1e-3)
    check(lambda x: ((1 + x * 0.001).cumprod(1), *x.cummin(1)), x, tolerance=1e-3, gradients=False)
    x = made(70003).round()  # in parts
    x[50000] = float("nan")
    check(
        lambda x: (
            *x.cummax(0),
            *x[1:].cummin(0),
            x[:49999].cumsum(0),
            x[2:20001].long().cumsum(0),
            x[1:20001].logcumsumexp(0),
        ),
        x,
        gradients=False,
    )


def test_random_numbers_are_those_of_the_cpu() -> None:
    for make, exact in (
        (numod.rand, True),
        (numod.randn, False),
        (lambda *n, **where: numod.randint(0, 1000, n, **where), True),
        (lambda n, **where: numod.zeros(n, **where).bernoulli_(0.3), True),
        (lambda n, **where: F.dropout(numod.ones(n, **where), 0.4), True),
    ):
        results = []
        for device in ("cuda", "cpu"):
            numod.manual_seed(7)
            results.append(make(1033, device=device))
        same(*results, 0 if exact else 1e-6)
    for make, rates in (
        (numod._standard_gamma, [0.3, 2.0, 40.0]), (numod.poisson, [0.3, 4.0, 40.0]), (lambda p: numod.binomial(numod.full_like(p, 50.0), p), [0.1, 0.7, 0.4]),
    ):  # fmt: skip
        results = []
        for rate in (numod.tensor(rates).cuda(), numod.tensor(rates)):
            numod.manual_seed(3)
            results.append(make(rate))
        same(*results)


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"]
)
def test_optimizers(name: str, machine: Machine) -> None:
    numod.manual_seed(0)
    x, y = made(37, 5), numod.arange(37) % 3
    model = nn.Sequential(nn.Linear(5, 14), nn.Tanh(), nn.Linear(14, 3))
    twin = copy.deepcopy(model).to("cuda")
    for network, inputs, target in ((model, x, y), (twin, x.cuda(), y.cuda())):
        optimizer = getattr(numod.optim, name)(
            network.parameters(), lr=0.01, **({"momentum": 0.9, "nesterov": True} if name == "SGD" else {})
        )
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(network(inputs), target).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            launches = machine.calls["cuLaunchKernelEx"]
            optimizer.step()
        # one for all parameters, once their state is there
        assert machine.calls["cuLaunchKernelEx"] - launches == (network is twin)
    for actual, expected in zip(twin.parameters(), model.parameters()):
        same(actual, expected, 1e-4)


def test_new_tensors_are_on_the_device() -> None:
    sequences = made(3, 2, 4)
    lstm = nn.LSTM(4, 3, bias=False)
    packed = nn.utils.rnn.pack_padded_sequence(sequences, [3, 2])
    assert numod.tensor(1.0).cuda().nonzero().is_cuda and sequences.cuda().share_memory_().is_shared()
    with numod.device("cuda"):
        assert numod.get_rng_state().device.type == "cpu"
        assert numod.func.vmap(lambda x: x * 2)(numod.ones(3)).tolist() == [2, 2, 2]
        ends = nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_sequence([numod.ones(3, 2), numod.ones(2, 2)]))
        assert ends[0].is_cuda and not ends[1].is_cuda
        here = lstm(packed)[0].data  # a network of the CPU's
    same(copy.deepcopy(lstm).cuda()(packed.to("cuda"))[0].data, here)


def test_a_compiled_step() -> None:
    numod.manual_seed(0)
    x, y = made(7, 1, 8, 9), numod.arange(7) % 3
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, bias=False),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 3),
    )
    twin = copy.deepcopy(model).to("cuda")
    losses = []
    for network, inputs, target in ((model, x, y), (twin, x.cuda(), y.cuda())):
        optimizer = numod.optim.AdamW(network.parameters(), lr=0.01)

        @numod.compile
        def step(
            inputs: numod.Tensor, target: numod.Tensor, network: nn.Module = network, optimizer: object = optimizer
        ) -> numod.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(network(inputs), target)
            loss.backward()
            optimizer.step()
            return loss

        losses.append([step(inputs, target) for _ in range(3)])
    for expected, actual in zip(*losses):
        same(actual, expected, 1e-4)
    for result, expected in zip(twin.state_dict().values(), model.state_dict().values()):
        same(result, expected, 1e-3)


def test_an_index_out_of_bounds_is_reported() -> None:
    x = made(5, 3).cuda()
    with pytest.raises(IndexError, match="CUDA_LAUNCH_BLOCKING"):
        x[numod.tensor([7]).cuda()].cpu()
    same(x + 0, x.cpu())


def test_checks_of_values_are_told_in_compiled_functions_too(machine: Machine) -> None:
    x, attention_weights = numod.arange(6).cuda(), numod.full((3,), 0.5, device="cuda")
    for function, right, wrong, message in (
        (lambda n: x // n, x + 1, x, "ZeroDivisionError"),
        (
            lambda p: F.binary_cross_entropy(p, attention_weights),
            attention_weights,
            attention_weights * 3,
            "between 0 and 1",
        ),
    ):
        for use in (function, numod.compile(function)):
            expected = use(right)
            copies = machine.calls["cuMemcpyDtoH_v2"]
            same(use(right), expected.cpu())
            assert machine.calls["cuMemcpyDtoH_v2"] == copies + 2  # what `same` reads: nothing waits for the check
            with pytest.raises(RuntimeError, match=message):
                use(wrong).cpu()
