"""Memory traffic of PTX (see `test_ptx_machine`): what threads read and write at once."""

from __future__ import annotations


import numod
from numod.nn import functional as F

from machine_checks import PTX, check, counted, made, same
from ptx_machine import Machine

pytestmark = PTX


def test_neighbouring_threads_share_sectors(machine: Machine) -> None:
    x = made(256, 128).cuda()
    least = x.numel() * 4 // 32
    copied = counted(machine, x.clone)
    assert copied["global loads sectors"] == copied["global stores sectors"] == least
    for view in (x.t(), x.reshape(16, 16, 128).permute(0, 2, 1), x.reshape(16, 16, 128).permute(2, 0, 1)):
        transpose_copies = counted(machine, view.contiguous)
        assert (
            transpose_copies["global loads sectors"] == 2 * least and transpose_copies["global stores sectors"] == least
        )
    places, images = numod.arange(256, device="cuda").flip(0), made(4, 3, 32, 32).cuda()
    # the indices are written, too, when they were checked
    assert counted(machine, lambda: x.index_select(0, places))["global stores sectors"] == least + 256 * 8 // 32
    # the four elements of a window in turn, which the L1 cache holds
    assert counted(machine, lambda: F.max_pool2d(images, 2))["global loads sectors"] <= 5 * images.numel() * 4 // 32
    assert (
        counted(machine, lambda: F.adaptive_avg_pool2d(images, 1))["global loads sectors"] == images.numel() * 4 // 32
    )
    pooled = F.max_pool2d(images.requires_grad_(), 3, 2, 1)
    back = counted(machine, lambda: numod.autograd.grad(pooled, images, pooled.detach(), retain_graph=True))
    # of two lines three windows, and both arrays
    assert (
        back["global stores sectors"] == images.numel() * 4 // 32
        and back["global loads"] <= 2 * 3 * 2 * images.numel() // 128
    )
    summed = counted(machine, lambda: x.sum(1))
    assert summed["global loads sectors"] == least and summed["shared loads passes"] == summed["shared loads"]


def test_four_elements_at_once(machine: Machine) -> None:
    x, y = made(4099).cuda(), made(4099, dtype=numod.float16).cuda()
    for n in (4096, 3):
        actual = counted(machine, lambda n=n: x[:n] * 2)
        assert (actual["global loads"], actual["global stores"]) == ((n // 128,) * 2 if n > 3 else (1, 1))
    for first in range(1, 5):  # places that are no multiples of 16 bytes, unless that is 4
        same(
            x[first:4091] * y[8 - first : 4099 - 2 * first], x.cpu()[first:4091] * y.cpu()[8 - first : 4099 - 2 * first]
        )
    z = x.clone()
    z[1:4098] *= y[2:]
    z[3:10] = 7
    expected = x.cpu().clone()
    expected[1:4098] *= y.cpu()[2:]
    expected[3:10] = 7
    same(z, expected)


def test_running_totals_read_and_write_four_elements_at_once(machine: Machine) -> None:
    x = made(8, 1024).cuda()
    # places take twice as many bytes, and accesses
    for function, results in ((lambda: x.cumsum(1), 1), (lambda: x.cummax(1), 3)):
        result = counted(machine, function)
        # the second time from the L1 cache
        assert (result["global loads"], result["global stores"]) == (2 * x.numel() // 128, results * x.numel() // 128)
        # of eight bytes a thread: no bank is waited for
        assert results > 1 or result["shared loads passes"] <= 2 * result["shared loads"]
    y = made(3, 1029).cuda()
    check(
        lambda y: (y[:, 1:].cumsum(1), *y[:, 2:].cummax(1), y[:, 1:1026].long().cumsum(1)),
        y.cpu(),
        tolerance=1e-4,
        gradients=False,
    )


def test_sums_read_four_elements_at_once(machine: Machine) -> None:
    x = made(70003).cuda()
    for n in (1 << 16, 70001):
        # of the last elements of sixteen blocks, one each
        assert counted(machine, x[:n].sum)["global loads"] <= n // 128 + 8 * 16 * 32
        for start in (0, 1, 2):
            check(lambda x: (x.sum(), x.amax(), (x * x).sum(), (x > 1).any()), x[start:n].cpu(), gradients=False)
    check(
        lambda x: (x.sum(1), x[:, 1:].prod(1), x[:, 2:2000].mean(1), x.sum((0, 1))),
        made(5, 2049) * 0.01 + 1,
        gradients=False,
    )
