"""Results that are written to an argument `out`, as PyTorch's functions do."""

from __future__ import annotations

from functools import lru_cache

from ...errors import warn_caller
from ... import dtypes
from ...device import Layout
from ...dtypes import dtype as DType
from ...ops.op import Op
from ...ops.pointwise import Pointwise, broadcast_shapes
from ..apply import apply, apply_into, state
from ..convert.copies import copy_
from ..create.creation import zeros
from ..tensor import Tensor


def write_out(op: object, inputs: tuple, out: Tensor | None) -> Tensor:
    """The result of a pointwise op; written to `out` where given, which is resized if empty."""
    inputs = op.complete(inputs)
    if out is None:
        return apply(op, inputs) if isinstance(inputs[0], Tensor) else op(*inputs)
    _expect_tensor(op.name, out)
    tensors = [input for input in inputs if isinstance(input, Tensor)]
    recorded = (out, *tensors) if op.differentiable else (out,)
    if state.grad_enabled and True in [tensor.requires_grad for tensor in recorded]:
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    _expect_no_partial_overlap(out, tensors)
    shape = _written_shape(op, tuple([tensor._layout for tensor in tensors]), out.dtype)
    # bounds that are tensors are other functions in PyTorch
    exact = op.name in EXACT and not (len(tensors) > 1 and op.name.startswith("clamp"))
    if shape is None or (exact and (op.result == "bool" or any([tensor.dtype is not out.dtype for tensor in tensors]))):
        result = op(*inputs)
        _expect_no_input(out, result.shape, tensors)
        return write_result(op.name, result, out, exact and not any([tensor.dtype.is_complex for tensor in tensors]))
    if out._layout.shape != shape:
        _expect_no_input(out, shape, tensors)
        _fit(out, shape)
    apply_into(op, inputs, (out,))
    return out


# functions whose `out` must have the dtype of the result, as in PyTorch; others convert to a dtype of the same or a
# higher kind
EXACT = frozenset(
    """
    abs absolute neg negative round frac ceil floor trunc fix sign sgn clamp clip clamp_min clamp_max bitwise_not
    conj_ nan_to_num isposinf isneginf signbit where heaviside amax amin argmax argmin norm vector_norm
    matrix_norm nuclear_norm old_norm mm_ matmul addmm bmm mv addmv baddbmm addbmm dot vdot inner tensordot vecdot
    multi_dot matrix_power chain_matmul gather index_select take take_along_dim masked_select nonzero tril triu
    diag narrow_copy inv inverse cholesky det solve svdvals eigvals eigvalsh cross any all any_ all_ quantile
    nanquantile bucketize searchsorted isin histc renorm scatter scatter_add scatter_reduce index_add index_copy
    index_reduce softmax log_softmax msort logcumsumexp multinomial float_power polar complex fft rfft hash_tensor
    nonzero_static ormqr slice_scatter solve_triangular argsort
""".split()
)


_JOINING = frozenset("cat concat concatenate stack hstack vstack dstack column_stack row_stack".split())


@lru_cache(maxsize=4096)
def _written_shape(op: Pointwise, layouts: tuple[Layout, ...], dtype: DType) -> tuple[int, ...] | None:
    """The shape of the result if the kernel can write it to a tensor of this dtype, else None."""
    kinds = {layout.dtype for layout in layouts} | {dtype}
    # complex numbers become real ones
    computed_by_parts = any(kind.is_complex for kind in kinds) and (
        op.result == "bool" or not isinstance(op.complex_form, Op)
    )
    if (
        not layouts
        or computed_by_parts
        or ((op.defaults or any(layout.dtype.compute is not layout.dtype for layout in layouts)) and len(kinds) > 1)
    ):
        return None
    return broadcast_shapes(op.name, [layout.shape for layout in layouts])


def write_result(
    name: str, result: Tensor | tuple[Tensor, ...], out: Tensor | tuple[Tensor, ...], exact: bool | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Write the result of an op to `out`.

    `out` is a tensor, or a tuple with one for each result; a tuple is returned as the type of `result`. `exact`:
    whether `out` must have the result's dtype; by default as in PyTorch's function of this name.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(
                f"{name}(): argument 'out' must be a tuple of {len(result)} Tensors, not {type(out).__name__}"
            )
        for one_result, one_out in zip(result, out):
            if isinstance(one_out, Tensor) and one_out.dtype is not one_result.dtype:
                raise RuntimeError(
                    f"{name}(): Expected out tensor to have dtype {one_result.dtype.short}, "
                    f"but got {one_out.dtype.short} "
                    "instead"
                )
        filled = [write_result(name, one_result, one_out) for one_result, one_out in zip(result, out, strict=True)]
        return type(result)(filled)
    _expect_tensor(name, out)
    if state.grad_enabled and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    is_truth = name in ("all", "any") and out.dtype is dtypes.uint8  # as PyTorch's before it had bool
    if out.dtype is not result.dtype and not is_truth and (name in EXACT if exact is None else exact):
        raise RuntimeError(
            f"{name}(): Expected out tensor to have dtype {result.dtype.short}, but got {out.dtype.short} instead"
        )
    expect_cast(result.dtype, out.dtype, TypeError if name in _JOINING else RuntimeError)
    if out.is_meta and not result.is_meta:
        raise RuntimeError(f"{name}(): out is on the meta device, which keeps no values; expected {result.device}")
    _fit(out, result.shape)
    return copy_(out, result)


def _expect_tensor(name: str, out: object) -> None:
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")


def expect_cast(source: DType, target: DType, error: type[Exception] = RuntimeError) -> None:
    """Raise an error where results of a dtype must not be written into another."""
    if not dtypes.can_cast(source, target):
        raise error(f"result type {source.short} can't be cast to the desired output type {target.short}")


def _expect_no_partial_overlap(out: Tensor, inputs: list[Tensor]) -> None:
    """Raise RuntimeError where `out` shares a part of an input's memory, unless it is the input itself.

    Sharing is decided by the first and last element; tensors with gaps, such as every second column, are not compared.
    """
    target = out._layout
    for input in inputs:
        source = input._layout
        if (
            input._storage is out._storage
            and input._offset < out._offset + target.extent
            and out._offset < input._offset + source.extent
            and source.packed
            and target.packed
            and (input._offset != out._offset or source.strides != target.strides)
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def _expect_no_input(out: Tensor, shape: tuple[int, ...], inputs: list[Tensor]) -> None:
    """Raise RuntimeError where `out` would be resized, but is an input."""
    if out.shape != shape and any([input is out for input in inputs]):
        raise RuntimeError(
            f"output with shape {list(out.shape)} doesn't match the broadcast shape {list(shape)}: an input cannot be "
            "resized to hold the result"
        )


def _fit(out: Tensor, shape: tuple[int, ...]) -> None:
    """Resize `out` to this shape. Warns if `out` is not empty and has another shape."""
    if out.shape == shape:
        return
    if out._layout.overlapping:
        raise RuntimeError(
            "Trying to resize storage that is not resizable: elements of `out` share memory. Please clone() the "
            "tensor first."
        )
    if out.numel():
        warn_caller(
            "An output with one or more elements was resized since it had shape "
            f"{list(out.shape)}, which does not match the required output shape {list(shape)}."
        )
    out.data = zeros(shape, dtype=out.dtype, device=out.device)
