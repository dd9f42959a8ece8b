"""Convolution over one to three spatial dimensions, and its two gradients.

All three are linear in both inputs and each other's gradients. Shapes: x (N, C, *spatial), weight (O, C / groups,
*kernel), g (N, O, *out). This module chooses the kernel; the kernels are in `direct`, `implicit_gemm`, `col2im`,
`depthwise`, `pointwise_1x1`, `winograd` and, for GPUs, `cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import emit, writer
from ...kernel.any_size import for_all_sizes
from ...kernel.registers import tiles
from ..matmul.epilogue import Epilogue
from ..op import Op, Packing, Plan, on_tensor_cores, single_device
from ..pointwise import broadcast_strides
from . import col2im
from .cuda import block_launcher, fits_block_kernel
from .depthwise import planes_launcher, prefers_planes
from .direct import forward_direct, geometry, input_direct, launcher, weight_direct
from .implicit_gemm import grid_launcher, flipped_launcher
from .pointwise_1x1 import product_launcher
from .winograd import fits_winograd, transformed_size, weight_transformer, winograd_launcher

_MANY_IMAGES = 64  # for which the method is chosen in a plan for all sizes
_LANES = (4, 8, 16)  # elements of float32 in the vector registers of processors
_FEW_WEIGHTS = 1 << 15  # size of a weight of single taps up to which it is transposed for the input's gradient


class Convolution(Op):
    """Base: two dense inputs.

    Attributes (stride, padding, dilation, groups, shape): tuples; `shape` is the result's if inputs do not determine
    it.
    """

    attributes = ("stride", "padding", "dilation", "groups", "shape")

    def __init__(self, name: str, inputs: tuple[str, ...], direct: Callable) -> None:
        super().__init__(name)
        self.inputs, self.direct = inputs, direct

    def supports_half(self, arguments: tuple, attributes: tuple) -> bool:
        """See `Op.supports_half`."""
        x, _, result = self.shapes(*arguments[:2], attributes)
        return on_tensor_cores(arguments) and fits_block_kernel(x, result)

    def shapes(self, first: Layout, second: Layout, attributes: tuple) -> tuple[tuple, tuple, tuple]:
        """Shapes of x, weight and the result of the convolution; one of them is the shape of this op's result."""
        stride, padding, dilation, groups, shape = attributes
        shapes = {self.inputs[0]: tuple(first.shape), self.inputs[1]: tuple(second.shape)}
        x, weight = shapes.get("x", shape), shapes.get("weight", shape)
        # `shape` may be smaller than computed: output padding can add a whole stride
        result = shape if len(shapes.keys() & {"x", "weight"}) == 2 else shapes.get("d_out")
        return x, weight, result or (x[0], weight[0], *output_sizes(x[2:], weight[2:], stride, padding, dilation))

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        tensors = {"x": "x[n c *s]", "weight": "weight[o i *k]", "d_out": "d_out[m p *t]"}
        first, second = self.inputs[:2]
        return (
            f"{tensors[first]} {tensors[second]}{' taps[r]' if len(self.inputs) > 2 else ''}; "
            f"stride=1..^{tensors[first][-2]} padding=0..^* dilation=1..^* groups=1.. shape=0..^*?"
        )

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        stride, padding, dilation, groups, shape = attributes
        rank = arguments[0].ndim
        if (
            not 3 <= rank <= 5
            or any(len(entries) != rank - 2 for entries in (padding, dilation))
            or any(argument.ndim != rank for argument in arguments[:2])
        ):
            return (
                f"inputs must have 3 to 5 dimensions and attributes one entry for each spatial one, got {rank}, "
                f"padding {padding} and dilation {dilation}"
            )
        if (shape is None and self.inputs[0] != "x") or (shape is not None and len(shape) != rank):
            return f"attribute 'shape' must have {rank} sizes, got {shape}"
        x, weight, result = self.shapes(*arguments[:2], attributes)
        counts_fit = x[0] == result[0] and weight[0] == result[1] and weight[1] * groups == x[1]
        if (
            not counts_fit
            or weight[0] % groups
            or any(
                not 0 <= n <= m for n, m in zip(result[2:], output_sizes(x[2:], weight[2:], stride, padding, dilation))
            )
        ):
            return f"x {x}, weight {weight} and result {result} must fit each other with attribute 'groups' {groups}"
        return None

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        first, second, *transformed = arguments
        if first.dtype is not second.dtype:
            raise RuntimeError(
                f"Input type ({first.dtype}) and weight type ({second.dtype}) should be the same; convert one with "
                ".to()"
            )
        if first.dtype is dtypes.bool_:
            raise NotImplementedError(
                f"\"{self.name}\" not implemented for 'Bool'; convert first, for example with .to(numod.float32)"
            )
        x, weight, result = self.shapes(first, second, attributes)
        shape = {"convolution_input": x, "convolution_weight": weight}.get(self.name, result)
        out = layout(shape, first.dtype, single_device(self.name, [first, second]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        if out.device.type == "cpu" and out.dtype.is_floating_point and 0 not in (*x, *weight, *result):
            return Plan(out, *self._cpu_launcher(out, x, weight, result, attributes, None, bool(transformed)))
        numbers = geometry(x, weight, result, *attributes[:4])
        if out.device.backend.is_gpu and fits_block_kernel(x, result):
            return Plan(out, *block_launcher(self.name, out, numbers))
        return Plan(out, launcher(self.name, self.direct, out, (out.storage.name,) * 3, _work(result, weight)), numbers)

    def _cpu_launcher(
        self,
        out: Layout,
        x: tuple,
        weight: tuple,
        result: tuple,
        attributes: tuple,
        epilogue: Epilogue | None,
        is_transformed: bool,
    ) -> tuple[Callable, tuple]:
        """Launcher and constants of the kernel for floats on a CPU."""
        numbers, work = geometry(x, weight, result, *attributes[:4]), _work(result, weight)
        if prefers_planes(self.name, x, weight, out.storage.itemsize):
            return planes_launcher(self.name, out, x, weight, result, attributes[:4], work, epilogue), ()
        if is_transformed or self._prefers_winograd(out, x, weight, result, attributes[:4]):
            return winograd_launcher(
                self.name, out, x, weight, result, attributes[:4], work, epilogue, is_transformed
            ), ()
        product = (
            None
            if self is convolution_weight
            else product_launcher(self.name, out, x, weight, result, attributes[:4], epilogue)
        )
        if product is not None:
            return product, ()
        if self is convolution_input and col2im.is_faster(
            x, weight, result, attributes[0], attributes[3], tiles.host().rows
        ):
            return col2im.fold_launcher(out, numbers, weight, attributes[2]), ()
        if (
            self is convolution_input
            and prod(attributes[0]) == 1
            and (prod(weight[2:]) > 1 or prod(weight) <= _FEW_WEIGHTS)
        ):
            return flipped_launcher(out, x, weight, result, attributes[:4], work), ()
        return grid_launcher(self.name, out, numbers, weight, attributes[:4], work, epilogue), ()

    def _prefers_winograd(
        self, out: Layout, x: tuple, weight: tuple, result: tuple, attributes: tuple, lanes: int | None = None
    ) -> bool:
        """Whether Winograd's method is expected to take at least 10 % less time than direct products.

        `lanes`: elements of a vector register; None: this processor's.

        The unit is a vector of products of one channel and feature: 16 per tile of four outputs instead of 36. Measured
        transforms: 9 for a weight, 60 for a vector of tiles. For the weight's gradient it always pays.
        """
        if not fits_winograd(x, weight, out, attributes):
            return False
        if self is convolution_weight:
            return prod(result[2:]) > 1
        images, _, height, width = out.shape
        lanes = tiles.host().lanes(out.storage.itemsize) if lanes is None else lanes
        images = max(images, _MANY_IMAGES) if for_all_sizes.get() else images
        rows, columns = images * -(-height // 2), -(-width // 2)
        transforms = 9 + rows * -(-columns // lanes) * (60 / weight[0] + 60 / weight[1])
        return 16 * -(-rows * columns // lanes) + transforms < 0.9 * 9 * -(-images * height * width // lanes)

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Weights that Winograd's method would transform in every call."""
        first, second = arguments
        x, weight, result = self.shapes(first, second, attributes)
        supported = self is convolution and first.device.type == "cpu" and 0 not in (*x, *weight, *result)
        problem = layout(result, first.dtype, first.device), x, weight, result, attributes[:4]
        if not supported or not self._prefers_winograd(*problem):
            return None
        portable = all(self._prefers_winograd(*problem, lanes) for lanes in _LANES)
        return Packing(1, winograd_weight, (), winograd_convolution, portable)

    def with_epilogue(
        self,
        name: str,
        arguments: tuple,
        attributes: tuple,
        loop: writer.Loop,
        product: str,
        shape: tuple,
        tensors: list[Layout],
    ) -> Callable | None:
        """See `Op.with_epilogue`.

        For the forward convolution of floats on a CPU, and loops over the whole result with tensors that have one
        stride along a plane.
        """
        first, second, *transformed = arguments
        x, weight, result = self.shapes(first, second, attributes)
        steps = [broadcast_strides(tensor, shape) for tensor in tensors]
        sizes, ends = emit.collapse(shape[2:], [step[2:] for step in steps])
        if (
            first.device.type != "cpu"
            or not first.dtype.is_floating_point
            or 0 in (*x, *weight, *result)
            or tuple(shape) != tuple(result)
            or len(sizes) > 1
        ):
            return None
        epilogue = Epilogue(loop, product, tuple([(*step[:2], end[-1]) for step, end in zip(steps, ends)]))
        run, constants = self._cpu_launcher(
            layout(result, first.dtype, first.device), x, weight, result, attributes, epilogue, bool(transformed)
        )
        return lambda inputs, out, arrays, numbers: run(*inputs, out, *constants, *arrays, *epilogue.sizes(), *numbers)


class WinogradWeight(Op):
    """A weight transformed for Winograd's method, ahead of the convolutions."""

    inputs = ("weight",)
    differentiable = portable = False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (weight,) = arguments
        run, constants, size = weight_transformer(weight)
        return Plan(layout((size,), weight.dtype, weight.device), run, constants)


class WinogradConvolution(Convolution):
    """`convolution` with a third input, the weight transformed by `winograd_weight`.

    Programs that are compiled ahead of time have it.
    """

    differentiable = False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        error = super().check(arguments, attributes, sizes)
        if error is not None:
            return error
        first, second, taps = arguments
        x, weight, result = self.shapes(first, second, attributes)
        out = layout(result, first.dtype, first.device)
        valid = first.device.type == "cpu" and 0 not in (*x, *weight, *result)
        if not valid or not fits_winograd(x, weight, out, attributes[:4]):
            return f"x {x}, weight {weight} and result {result} must fit Winograd's method for float32 on a CPU"
        if taps.size != transformed_size(*weight[:2]):
            return f"taps must have {transformed_size(*weight[:2])} elements, got {taps.size}"
        return None

    def prepack(self, arguments: tuple, attributes: tuple) -> None:
        """None: the weight is packed already."""


def _work(result: tuple, weight: tuple) -> int:
    return prod(result) * prod(weight[1:]) // 8


def output_sizes(sizes: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple[int, ...]:
    """Spatial sizes of a convolution's result."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation)
    )


convolution = Convolution("convolution", ("x", "weight"), forward_direct)
convolution_input = Convolution("convolution_input", ("d_out", "weight"), input_direct)
convolution_weight = Convolution("convolution_weight", ("d_out", "x"), weight_direct)
winograd_weight = WinogradWeight("winograd_weight")
winograd_convolution = WinogradConvolution("winograd_convolution", ("x", "weight", "taps"), forward_direct)


def _gradient(op: Convolution, *order: str) -> Callable:
    """The gradient function of a bilinear op: `op` applied to the values named in `order`; its result has the shape of
    the input.
    """
    count = len(order)

    def gradient(*values: object) -> object:
        tensors, (*attributes, layout) = values[:count], values[count:]
        return op.apply(tuple(tensor.contiguous() for tensor in tensors), (*attributes, tuple(layout.shape)))

    gradient.argument_names = (*order, *Convolution.attributes[:4], "layout")
    return gradient


convolution.gradients = {
    "x": _gradient(convolution_input, "g", "weight"),
    "weight": _gradient(convolution_weight, "g", "x"),
}
convolution_input.gradients = {
    "d_out": _gradient(convolution, "g", "weight"),
    "weight": _gradient(convolution_weight, "d_out", "g"),
}
convolution_weight.gradients = {
    "d_out": _gradient(convolution, "x", "g"),
    "x": _gradient(convolution_input, "d_out", "g"),
}
