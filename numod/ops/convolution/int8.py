"""The convolution of int8 or uint8 images with int8 filters, with a requantizing epilogue, for quantised networks.

Images are (N, H, W, C) and filters (O, KH, KW, C / groups), channels innermost: the bytes under a filter's row are
contiguous. Patches become the rows of a product of register tiles (`kernel.registers.byte_tiles`); depthwise
convolutions are sums along the channels. Sums are exact in 32 bits. One-dimensional images have H = 1.
"""

from __future__ import annotations

from ... import dtypes
from ...device import Layout, target
from ...device.layout import layout
from ...kernel import bind
from ...kernel.library.requantize import scaled_by_float, scaled_by_integers
from ...kernel.registers import byte_tiles
from ...kernel.specialize import specialized
from ..op import Op, Packing, Plan, single_device
from ..matmul.int8_linear import tile_shape
from ..packed_weights import with_packed_weight
from .int8_depthwise import depthwise, signature_of
from .int8_packing import pack_byte_filters, packer
from .int8_scalar import plain_convolution, scalar_convolution
from .int8_tiled import tiled
from .int8_winograd import pack_byte_winograd, uses_winograd, winograd


class ByteConvolution(Op):
    """x (N, H, W, C) of int8 or uint8, filters (O, KH, KW, C / groups) of int8 -> (N, OH, OW, O) of x's dtype.

    The result is round((sum + offset) * multiplier) + zero in [low, high], for the sum of products of integers; pixels
    outside are `fill`, the zero point of x. `offset` has the bias and the products with zero points.
    """

    takes = (
        "x[n h w c]:any weight[o k l d]:int8 offset[o]:int32 multiplier[o]:float32; "
        "stride=1..^2 padding=0..^2 dilation=1..^2 groups=1.. fill=int zero=int low=int high=int"
    )
    inputs = "x", "weight", "offset", "multiplier"
    attributes = "stride", "padding", "dilation", "groups", "fill", "zero", "low", "high"
    differentiable, packs_weight = False, True

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        groups = attributes[3]
        if arguments[0].dtype not in (dtypes.int8, dtypes.uint8):
            return f"input 'x' must be of int8 or uint8, got {arguments[0].dtype}"
        if sizes["c"] != sizes["d"] * groups or sizes["o"] % groups:
            return f"filters {arguments[1].shape} in {groups} groups do not fit images {arguments[0].shape}"
        limits = dtypes.iinfo(arguments[0].dtype)
        if any(not limits.min <= number <= limits.max for number in attributes[4:]):
            return f"fill, zero, low and high must be integers of {arguments[0].dtype}, got {attributes[4:]}"
        return None

    def shapes(self, arguments: tuple, attributes: tuple) -> tuple[Layout, tuple[int, ...]]:
        """(the layout of the result, the numbers of the kernels)."""
        x, weight = arguments[:2]
        (stride, padding, dilation, groups, *limits), (n, h, w, c), (o, *taps, d) = attributes, x.shape, weight.shape
        if c != d * groups or o % groups:
            raise RuntimeError(
                f"quantized convolution: filters for {d * groups} channels ({groups} groups) do not "
                f"fit an input with {c} channels"
            )
        for name, row in zip(self.inputs[2:4], arguments[2:4]):
            if row.shape != (o,):
                raise RuntimeError(f"quantized convolution: expected {name} of shape {(o,)}, got {tuple(row.shape)}")
        out_sizes = [
            (size + 2 * pad - gap * (tap - 1) - 1) // step + 1
            for size, pad, gap, tap, step in zip((h, w), padding, dilation, taps, stride)
        ]
        if min(out_sizes) < 1:
            raise RuntimeError(f"quantized convolution: a kernel of {taps} is larger than the padded input {(h, w)}")
        out = layout((n, *out_sizes, o), x.dtype, single_device(self.name, list(arguments)))
        return out, (n, h, w, c, *out_sizes, o, *taps, *stride, *padding, *dilation, groups, *limits)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, weight), groups, (out, sizes) = arguments[:2], attributes[3], self.shapes(arguments, attributes)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        if x.device.type != "cpu" or not target.has_vectors():
            scaled = scaled_by_float if target.has_floats() else scaled_by_integers
            is_plain = x.device.type != "cpu"
            source = specialized(plain_convolution) if is_plain else specialized(scalar_convolution, scaled=scaled)
            signature, work = (
                signature_of(x, numbers=len(sizes)),
                out.size * weight.shape[1] * weight.shape[2] * weight.shape[3] // 4,
            )
            return Plan(out, bind.launcher(x.device, "plain_bytes_2d", source, signature, dtypes.float32, work), sizes)
        if _is_depthwise(x, weight, groups):
            return Plan(out, depthwise(x, out, sizes, weight))
        run, parts = tiled(self.name, x, out, sizes, weight, self.packs_weight)
        form = byte_tiles.group(), tile_shape(weight.shape[0] // groups, self.packs_weight).panel
        pack = packer(weight, groups, form) if self.packs_weight else None
        return Plan(out, with_packed_weight(run, parts, x.device, pack))

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Pack the filters, unless they are depthwise ones."""
        x, weight, groups = *arguments[:2], attributes[3]
        if x.device.type != "cpu" or _is_depthwise(x, weight, groups):
            return None
        form = self.packing_attributes(weight, attributes)
        packing = Packing(1, pack_byte_filters, form, packed_byte_convolution, needs_vectors=True)
        if not uses_winograd(x, weight, attributes):
            return packing
        return Packing(1, pack_byte_winograd, (), winograd_byte_convolution, exported=packing)

    def packing_attributes(self, weight: Layout, attributes: tuple, machine: target.Machine | None = None) -> tuple:
        """See `Op.packing_attributes`."""
        groups = attributes[3]
        return groups, *byte_tiles.packed_format(weight.shape[0] // groups, machine=machine)


class PackedByteConvolution(ByteConvolution):
    """`byte_convolution` with a further input, the filters packed by `pack_byte_filters`, which the kernels read."""

    takes = None  # the packed layout depends on the processor, so it is not saved in files
    inputs = (*ByteConvolution.inputs, "packed")
    portable = packs_weight = False

    def prepack(self, arguments: tuple, attributes: tuple) -> None:
        """The filters are packed already."""


class WinogradByteConvolution(PackedByteConvolution):
    """`packed_byte_convolution` of filters that `pack_byte_winograd` transformed: equal results, for some shapes."""

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, (out, sizes) = arguments[0], self.shapes(arguments, attributes)
        return Plan(out, with_packed_weight(*winograd(self.name, x, out, sizes), x.device, None))


def _is_depthwise(x: Layout, weight: Layout, groups: int) -> bool:
    return groups == x.shape[3] == weight.shape[0] and x.shape[3] > 1


byte_convolution = ByteConvolution("byte_convolution")
packed_byte_convolution = PackedByteConvolution("packed_byte_convolution")
winograd_byte_convolution = WinogradByteConvolution("winograd_byte_convolution")
