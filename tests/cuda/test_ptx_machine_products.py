"""Products of matrices as PTX (see `test_ptx_machine`), and tensor cores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import numod
from numod.kernel import block
from numod.nn import functional as F

from machine_checks import HALVES, PTX, check, counted, made
from ptx_machine import Machine

pytestmark = PTX


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64, numod.bfloat16, numod.int64, numod.complex64], ids=str)
@pytest.mark.parametrize(
    "shapes",
    [
        ((130, 70), (70, 65)),
        ((3, 7, 19), (3, 19, 5)),
        ((1, 33), (33, 1)),
        ((2, 1, 65, 9), (3, 9, 66)),
        ((70,), (70, 65)),
        ((9, 3), (3,)),
    ],
    ids=str,
)
def test_products(shapes: tuple, dtype: numod.dtype) -> None:
    a, b = (made(*shape, dtype=dtype) for shape in shapes)
    tolerance = {numod.float32: 1e-4, numod.float64: 1e-10, numod.bfloat16: 3e-1}.get(dtype, 1e-4)
    check(lambda a, b: a @ b, a, b, tolerance=tolerance, gradients=dtype in (numod.float32, numod.float64))


def test_products_of_transposed_and_sliced_matrices() -> None:
    a, b = made(70, 130), made(65, 70)
    check(lambda a, b: a.t() @ b.t(), a, b, tolerance=1e-4)
    check(lambda a, b: a[3:, 1:].t() @ b[:, :67].t(), a, b, tolerance=1e-4)
    check(lambda a, w, c: F.linear(a, w, c), made(130, 33), made(66, 33), made(66), tolerance=1e-4)
    check(lambda a, b: numod.addmm(a, a, b, beta=0.5, alpha=2.0), made(17, 17), made(17, 17), tolerance=1e-4)


def test_batches_with_two_steps_are_one_launch(machine: Machine) -> None:
    x = made(3, 9, 2, 7)  # heads as layers split them
    attend = lambda x: x.transpose(1, 2) @ x.transpose(1, 2).mT  # noqa: E731
    check(attend, x)
    moved, before = x.cuda(), machine.calls["cuLaunchKernelEx"]
    attend(moved)
    assert machine.calls["cuLaunchKernelEx"] == before + 1


def test_products_in_parts(machine: Machine) -> None:
    """Of few results and many terms, which blocks share."""
    check(lambda a, w, c: F.linear(a, w, c), made(9, 1040), made(67, 1040), made(67), tolerance=1e-3)
    check(lambda a, b: (a.t() @ b, a[:515].t() @ b[1:516]), made(1030, 5), made(1030, 3), tolerance=1e-3)
    check(lambda a, b: a @ b, made(3, 513).to(numod.int64), made(513, 4).to(numod.int64))
    a, b, c = (numod.randint(-1, 2, shape).half() for shape in ((5, 512), (7, 512), (7,)))  # sums that float16 has
    before = machine.launches
    check(lambda a, b, c: F.linear(a, b, c), a, b, c, gradients=False, tolerance=0)
    assert machine.launches - before == 2 and "add_parts" in machine.kernels[-1].name


# whether the left and the right matrix are transposed ones
ORDERS = [(False, False), (False, True), (True, False), (True, True)]


def on_tensor_cores(
    machine: Machine, function: Callable, *tensors: numod.Tensor, tolerance: float = 0, gradients: bool = False
) -> None:
    """As `check`, and the kernels that were built for it multiply by tensor cores."""
    before = len(machine.kernels)
    check(function, *tensors, tolerance=tolerance, gradients=gradients)
    assert all(
        "mma" in {instruction.parts[0] for instruction in kernel.program.code}
        for kernel in machine.kernels[before:]
        if "_blocks_" in kernel.name
    )


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_tensor_cores(dtype: numod.dtype, machine: Machine) -> None:
    """Of small whole numbers, whose sums are exact in any order, so that an element in a wrong place is found."""
    a, b, c = (numod.randint(-3, 4, shape).to(dtype) for shape in ((65, 75), (75, 70), (70,)))
    on_tensor_cores(machine, lambda a, b: (a @ b, a[:, 3:40] @ b[3:40], a[1:3, :9] @ b[:9, 5:6]), a, b)
    on_tensor_cores(machine, lambda a, b: (b.t() @ a.t(), numod.stack((a, a))[:, :, :16] @ b[:16]), a, b)
    if dtype is numod.float16:
        on_tensor_cores(machine, lambda a, b, c: F.linear(a, b.t().contiguous(), c), a, b, c)
        large = made(3, 20, dtype=dtype) * 200
        on_tensor_cores(machine, lambda x: (x @ x.t(), (x * float("nan")) @ x.t()), large)  # beyond float16
    else:
        on_tensor_cores(machine, lambda a, b: numod.compile(lambda a, b: (a @ b).relu() * 2)(a, b), a, b)


@pytest.mark.parametrize(("left", "right"), ORDERS, ids=str)
@pytest.mark.parametrize("sizes", [(67, 70, 69), (9, 3, 66)], ids=str)
def test_tensor_cores_take_matrices_as_they_lie(sizes: tuple, left: bool, right: bool, machine: Machine) -> None:
    """With tails along every dimension, at places that are whole runs of 16 bytes or not, in batches; and so the
    gradients, of which one factor is transposed.
    """
    rows, inner, columns = sizes
    a, b = (
        numod.randint(-2, 3, (2, *(shape[::-1] if is_transposed else shape))).half()
        for shape, is_transposed in (((rows, inner), left), ((inner, columns), right))
    )
    a, b = (tensor.mT if is_transposed else tensor for tensor, is_transposed in ((a, left), (b, right)))
    on_tensor_cores(
        machine, lambda a, b: (a @ b, a[1] @ b[0], a[1, :, 1:] @ b[0, 1:], a[0, 1:, :8] @ b[1, :8, 2:]), a, b
    )
    on_tensor_cores(machine, lambda a, b: (a @ b).float(), a[0], b[1], tolerance=1e-2, gradients=True)


def test_products_of_less_precision(machine: Machine) -> None:
    a, b, c = (numod.randint(-3, 4, shape).float() for shape in ((65, 75), (75, 70), (70,)))
    product = numod.compile(lambda a, b: a @ b + 1)
    third = (numod.full((16, 16), 1 / 3).cuda(), numod.eye(16).cuda())
    before = product(*third).cpu()[0, 0].item(), (third[0] @ third[1]).cpu()[0, 0].item()
    try:
        numod.backends.cuda.matmul.allow_tf32 = True
        on_tensor_cores(
            machine, lambda a, b, c: (a @ b, F.linear(b.t(), a[1:], c[:64]), b.t() @ a.t(), a[:, 1:] @ b[1:]), a, b, c
        )
        rounded = round(2**12 / 3) / 2**12
        assert (
            product(*third).cpu()[0, 0].item() == 1 + rounded
            and (third[0] @ third[1]).cpu()[0, 0].item() == rounded != before[1]
        )
    finally:
        numod.set_float32_matmul_precision("highest")
    assert (product(*third).cpu()[0, 0].item(), (third[0] @ third[1]).cpu()[0, 0].item()) == before


def test_gradients_on_tensor_cores(machine: Machine) -> None:
    # positions enough to be cut into parts, for the weight's
    x, weight = made(3, 2, 41, 37, dtype=numod.float16), made(6, 2, 3, 3, dtype=numod.float16)
    on_tensor_cores(
        machine, lambda x, w: F.conv2d(x, w, padding=1, stride=2), x, weight, tolerance=3e-2, gradients=True
    )


@pytest.mark.parametrize(("left", "right"), ORDERS, ids=str)
def test_great_tile_of_tensor_cores(left: bool, right: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of products too large for this machine.

    No thread waits for another's bank: 4 passes are what 512 bytes take.
    """
    monkeypatch.setattr(block, "suits", lambda *_: True)
    a, b = (
        numod.randint(-3, 4, shape[::-1] if is_transposed else shape).half()
        for shape, is_transposed in (((129, 72), left), ((72, 136), right))
    )
    on_tensor_cores(machine, lambda a, b: (a.t() if left else a) @ (b.t() if right else b), a, b)
    moved = a.cuda().t() if left else a.cuda(), b.cuda().t() if right else b.cuda()
    actual = counted(machine, lambda: moved[0] @ moved[1])
    # some write alone
    assert (
        actual["shared loads passes"] == 4 * actual["shared loads"]
        and actual["shared stores passes"] <= 4 * actual["shared stores"]
    )
