"""Arithmetic between activations as modules, so that its results have observers and scales."""

from __future__ import annotations

from typing import Any

from ....core import Tensor, cat
from ....core.quantized import QuantizedTensor, Quantizer, per_tensor_affine
from ....core.quantized.tensor import wrap_integers
from ....nn.linear import Identity
from ....nn.module import Module
from .base import QuantizedOutput, observed


class FXFloatFunctional(Module):
    """Arithmetic of floats."""

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def _seen(self, result: Tensor) -> Tensor:
        return result

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        return self._seen(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y for a number."""
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y."""
        return self._seen(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y for a number."""
        return x * y

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """The tensors one after the other."""
        return self._seen(cat(x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)."""
        return self._seen((x + y).relu())

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return self._seen(x @ y)


class FloatFunctional(FXFloatFunctional):
    """Arithmetic of floats, whose results an observer sees: write `self.add = FloatFunctional()` and
    `self.add.add(x, y)` in a model.
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def _seen(self, result: Tensor) -> Tensor:
        return self.activation_post_process(result)


def _expect_pair(name: str, x: Any, y: Any) -> None:
    """Raise an error unless both are quantized, with the same dtype."""
    if isinstance(x, QuantizedTensor) and isinstance(y, QuantizedTensor):
        if x.dtype is not y.dtype:
            raise RuntimeError(f"{name.title()} operands should have same data type, got {x.dtype} and {y.dtype}.")
        return
    plain = y if isinstance(x, QuantizedTensor) else x
    raise NotImplementedError(
        f"Could not run 'quantized::{name}' with arguments from the 'CPU' backend: both must be quantized, got "
        f"{getattr(plain, 'dtype', type(plain).__name__)}; put a QuantStub before it, or use add_scalar and mul_scalar"
    )


def _expect_same_dtype(message: str, *tensors: Any) -> None:
    """Raise RuntimeError with PyTorch's message unless all are quantized, with the same dtype."""
    kinds = [getattr(tensor, "dtype", type(tensor).__name__) for tensor in tensors]
    if not all(isinstance(tensor, QuantizedTensor) and tensor.dtype is kinds[0] for tensor in tensors):
        got = ", ".join(map(str, kinds))
        raise RuntimeError(f"{message} All must be quantized, got {got}; put a QuantStub before the others")


class QFunctional(QuantizedOutput):
    """Arithmetic of quantized tensors: what `convert` makes of FloatFunctional."""

    def __init__(self) -> None:
        super().__init__()
        self.set_output(1.0, 0)
        self.activation_post_process = Identity()

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def _quantized(self, values: Tensor, like: Tensor) -> QuantizedTensor:
        return self.activation_post_process(self.quantized(values, like))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        _expect_pair("add", x, y)
        return self._quantized(x.dequantize() + y.dequantize(), x)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)."""
        _expect_pair("add", x, y)
        return self._quantized((x.dequantize() + y.dequantize()).relu(), x)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y."""
        _expect_pair("mul", x, y)
        return self._quantized(x.dequantize() * y.dequantize(), x)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        _expect_same_dtype("MatMul operands should have same data type.", x, y)
        return self.quantized(x.dequantize() @ y.dequantize(), x)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """The tensors one after the other, with this module's scale."""
        _expect_same_dtype("All dtypes must be the same.", *x)
        return self._quantized(cat([tensor.dequantize() for tensor in x], dim), x[0])

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y for a number: the zero point moves, and the integers where it cannot."""
        scale, zero_point, (low, high) = x.q_scale(), x.q_zero_point(), x._quantizer.limits
        moved = zero_point - round(y / scale)
        if low <= moved <= high:
            return wrap_integers(x._integers, Quantizer(x.dtype, per_tensor_affine, scale, moved))
        bound = high if moved > high else low
        steps = bound - low if moved > high else bound - high
        wide = scale * (1 + abs(moved - bound) / abs(steps or 1))
        return Quantizer(x.dtype, per_tensor_affine, wide, bound).quantize(x.dequantize() + y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y for a number: the scale changes, and for a negative number the integers are mirrored."""
        scale, zero_point, (low, high) = x.q_scale(), x.q_zero_point(), x._quantizer.limits
        if y > 0:
            return wrap_integers(x._integers, Quantizer(x.dtype, per_tensor_affine, scale * y, zero_point))
        if y == 0:
            return Quantizer(x.dtype, per_tensor_affine, 1.0, 0).quantize(x.dequantize() * 0.0)
        quantizer = Quantizer(x.dtype, per_tensor_affine, scale * -y, low + high - zero_point)
        return wrap_integers((low + high - x._integers.int()).to(x._integers.dtype), quantizer)

    @classmethod
    def from_float(cls, mod: FloatFunctional, use_precomputed_fake_quant: bool = False) -> Any:
        """The module with the scale of an observed FloatFunctional."""
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                f"QFunctional.from_float expects an instance of FloatFunctional, got {type(mod).__name__}"
            )
        result = QFunctional()
        result.set_output(*observed(mod))
        return result
