"""Filters of bytes, packed into panels of words for the register tiles of `int8_tiled`."""

from __future__ import annotations

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int32, int64, parallel_range, uintp
from ...kernel.library.panels import pack_words
from ...kernel.registers import byte_tiles
from ...kernel.specialize import specialized
from ..op import Op, Plan


def pack_filters(weight, packed, filters, taps_y, line, groups, *, GROUP, MASK, PANEL):
    """Pack filters (O, KH, line) of each group into panels (groups, panels, words, PANEL), followed by their sums."""
    line_words, filters_each = (line + GROUP - 1) // GROUP, filters // groups
    words, padded = taps_y * line_words, (filters_each + PANEL - 1) // PANEL * PANEL
    for task in parallel_range(groups * padded):
        group, j, total = int64(task) // padded, int64(task) % padded, int32(0)
        base, lane = (group * padded + j // PANEL * PANEL) * words, j % PANEL
        if j < filters_each:
            for ky in range(taps_y):
                start = ((group * filters_each + j) * taps_y + ky) * line
                pack_words(weight, start, 1, line, packed, base + ky * line_words * PANEL + lane, PANEL, GROUP, MASK, 0)
                for k in range(line):
                    total += int32(weight[uintp(start + k)])
        else:
            for k in range(words):
                packed[uintp(base + k * PANEL + lane)] = 0
        packed[uintp(groups * padded * words + int64(task))] = total


class PackByteFilters(Op):
    """Pack filters (O, KH, KW, C / groups) of int8 in panels, in a `byte_tiles.packed_format`. CPU only."""

    inputs, attributes = ("weight",), ("groups", "group", "panel")
    differentiable = portable = False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (weight,), (groups, *form) = arguments, attributes
        run, sizes, count = packer(weight, groups, form)
        return Plan(layout((count,), dtypes.int32, weight.device), run, sizes)


def padded_filters(weight: Layout, groups: int, panel: int) -> int:
    return -(-weight.shape[0] // groups // panel) * panel * groups


def packer(weight: Layout, groups: int, form: tuple[int, int]) -> tuple:
    """The launcher of `pack_filters`, its numbers, and the words that it fills, in a `packed_format`."""
    (group, panel), (filters, taps_y, taps_x, depth) = form, weight.shape
    constants = {"GROUP": group, "MASK": byte_tiles.number_mask(group), "PANEL": panel}
    signature = bind.signature("int8", "int32", numbers=4)
    source = specialized(pack_filters, **constants)
    run = bind.launcher(weight.device, "pack_byte_filters", source, signature, dtypes.float32, weight.size // 4)
    count = padded_filters(weight, groups, panel) * (taps_y * -(-taps_x * depth // group) + 1)
    return run, (filters, taps_y, taps_x * depth, groups), count


pack_byte_filters = PackByteFilters("pack_byte_filters")
