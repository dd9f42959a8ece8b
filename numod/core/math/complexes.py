"""Complex tensors: made of parts, taken apart, conjugated. What the ops are is in `ops.complexes`."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import warn_caller
from ...device.layout import layout
from ...device.storage import read_as
from ...ops import complexes as c, table as t
from ..apply import state
from ..listeners import active_listeners, listeners, notify_copied
from ..convert.copies import copy_
from ..linalg.products import dot
from ..shape.joining import stack
from ..shape.shapes import transpose
from ..extensions import extensions
from ..tensor import Tensor, wrap

BOTH = (
    "conj=conj_ conj_physical=conj_ resolve_conj=itself resolve_neg=itself is_conj=is_false is_neg=is_false sgn "
    "isreal vdot adjoint"
)
FUNCTIONS = "real=real_ imag complex=complex_ polar view_as_real view_as_complex"
IN_PLACE = "sgn conj_physical=conj_"
OUT = "complex polar sgn conj_physical vdot"


def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag, of two real tensors of one floating dtype, which broadcast.

    Example:

        >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
        tensor([1.+2.j])
    """
    _expect_parts("complex", real=real, imag=imag)
    return c.join(real, imag)


def _expect_parts(name: str, **parts: Tensor) -> None:
    """Raise TypeError or RuntimeError unless the two parts are tensors of one floating dtype."""
    for argument, part in parts.items():
        if not isinstance(part, Tensor):
            raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(part).__name__}")
    first, second = (part.dtype for part in parts.values())
    if not all(dtype.is_floating_point and dtype.itemsize >= 4 for dtype in (first, second)):
        raise RuntimeError(
            f"Expected both inputs to be Float or Double tensors but got {first.short} and {second.short}"
        )
    if first is not second:
        raise RuntimeError(
            f"Expected object of scalar type {first.short} but got scalar type {second.short} for second argument"
        )


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * (cos(angle) + i sin(angle)).

    Example:

        >>> torch.polar(torch.tensor([1.0]), torch.tensor([0.0]))
        tensor([1.+0.j])
    """
    _expect_parts("polar", abs=abs, angle=angle)
    return complex_(abs * t.cos(angle), abs * t.sin(angle))


def view_as_real(input: Tensor) -> Tensor:
    """The same memory as real numbers, (..., 2): real and imaginary part.

    Example:

        >>> torch.view_as_real(torch.tensor([1.0 + 2.0j]))
        tensor([[1., 2.]])
    """
    if not input.is_complex():
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {input.dtype.short}")
    if _recording():
        return _copied(input, lambda x: stack(c.parts(x), -1), _joined, lambda: _read(c.as_real, input))
    return _read(c.as_real, input)


def view_as_complex(input: Tensor) -> Tensor:
    """The same memory, (..., 2), as complex numbers.

    Raises RuntimeError where the pairs do not lie one after the other.

    Example:

        >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    if not input.is_floating_point() or input.dtype.itemsize < 4:
        raise RuntimeError(
            "view_as_complex is only supported for floating point tensors, but got a tensor of scalar type: "
            f"{input.dtype.short}"
        )
    if _recording():
        c.as_complex.rule(input._layout, input._offset)
        return _copied(input, _joined, lambda copy: stack(c.parts(copy), -1), lambda: _read(c.as_complex, input))
    return _read(c.as_complex, input)


def _joined(pairs: Tensor) -> Tensor:
    return c.join(pairs.select(-1, 0), pairs.select(-1, 1))


def _copied(
    input: Tensor,
    read: Callable[[Tensor], Tensor],
    written: Callable[[Tensor], Tensor],
    view: Callable[[], Tensor],
    gaps: bool = False,
) -> Tensor:
    """A copy that replaces a view while a program is recorded; the view may have gaps.

    `read` computes it from the input, `written` computes the input's new values after a write to the copy.
    """
    copy = read(input)
    return notify_copied(copy, input, lambda: read(input), lambda: copy_(input, written(copy)), view, gaps)


def _recording() -> bool:
    """Whether a program is being recorded: it has no memory of two dtypes, so views are copies there."""
    return bool(listeners) and any(hasattr(active_listener, "view_copied") for active_listener in active_listeners())


def _read(op: c.ViewAsDtype, input: Tensor) -> Tensor:
    shape, strides, dtype, offset = op.rule(input._layout, input._offset)
    result = wrap(
        read_as(input._storage, dtype.storage), layout(tuple(shape), dtype, input.device, tuple(strides)), offset
    )
    result._base, result._version_counter = input if input._base is None else input._base, input._version_counter
    result._seen = (input._version_counter or input._storage).version
    result._unrecorded = not state.grad_enabled
    if state.grad_enabled and input.requires_grad:
        extensions.record(op, (input,), [input._layout], (), result)
    for listener in active_listeners() if listeners else ():
        listener(op, (input,), (), (result,), False)
    return result


def real_(input: Tensor) -> Tensor:
    """The real parts, as a view; a real tensor itself.

    Example:

        >>> torch.real(torch.tensor([1.0 + 2.0j]))
        tensor([1.])
    """
    return _part(input, 0) if input.is_complex() else input


def imag(input: Tensor) -> Tensor:
    """The imaginary parts, as a view.

    Example:

        >>> torch.imag(torch.tensor([1.0 + 2.0j]))
        tensor([2.])
    """
    if not input.is_complex():
        raise RuntimeError(f"imag is not implemented for tensors with non-complex dtypes, but got {input.dtype}")
    return _part(input, 1)


def _part(input: Tensor, index: int) -> Tensor:
    if _recording():
        replaced = lambda part: c.join(c.real(input), part) if index else c.join(part, c.imag(input))  # noqa: E731
        return _copied(
            input, (c.real, c.imag)[index], replaced, lambda: _read(c.as_real, input).select(-1, index), gaps=True
        )
    return view_as_real(input).select(-1, index)


def conj_(input: Tensor) -> Tensor:
    """The complex conjugate, computed; a real tensor itself.

    Example:

        >>> torch.conj(torch.tensor([1.0 + 2.0j]))
        tensor([1.-2.j])
    """
    return c.conj(input) if input.is_complex() else input


def itself(input: Tensor) -> Tensor:
    """The tensor: conjugates and negatives are computed at once here, never put off.

    Example:

        >>> torch.resolve_conj(torch.tensor([1 + 2j]).conj())
        tensor([1.-2.j])
    """
    return input


def is_false(input: Tensor) -> bool:
    """False: conjugates and negatives are computed at once here, never put off.

    Example:

        >>> torch.is_conj(torch.tensor([1j]).conj())
        False
    """
    return False


def sgn(input: Tensor) -> Tensor:
    """The direction: x / |x| of a complex number, the sign of a real one, 0 of 0.

    Example:

        >>> torch.sgn(torch.tensor([-2.0, 0.0]))
        tensor([-1.,  0.])
    """
    return c.direction(input) if input.is_complex() else t.sign(input)


def isreal(input: Tensor) -> Tensor:
    """Whether each element's imaginary part is 0.

    Example:

        >>> torch.isreal(torch.tensor([1.0 + 0.0j, 1.0 + 1.0j]))
        tensor([ True, False])
    """
    return imag(input) == 0 if input.is_complex() else t.eq(input, input) | t.ne(input, input)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The product of two vectors, the first conjugated.

    Example:

        >>> torch.vdot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor(11.)
    """
    return dot(conj_(input), other)


def adjoint(input: Tensor) -> Tensor:
    """The conjugate, transposed in its last two dimensions.

    Example:

        >>> torch.adjoint(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[1., 3.],
                [2., 4.]])
    """
    return _adjoint("tensor.adjoint()", input)


def _adjoint(name: str, input: Tensor) -> Tensor:
    if input.ndim == 1:
        raise RuntimeError(f"{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not input.ndim:
        warn_caller(f"{name} is deprecated on 0-D tensors. Consider using x.conj().")
    return conj_(transpose(input, -2, -1) if input.ndim else input)


def _matrix_adjoint(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix, `x.H`."""
    if self.ndim not in (0, 2):
        more = " For batches of matrices, consider using tensor.mH" if self.ndim > 2 else ""
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.{more}")
    return _adjoint("tensor.H", self)


def as_pairs(x: Tensor) -> Tensor:
    """A complex tensor's memory as real numbers, for computing by parts; a real tensor itself."""
    return _read(c.as_real, x.detach()) if x.is_complex() else x


def _property(get: Callable) -> property:
    def put(self: Tensor, value: Tensor | float) -> None:
        copy_(get(self), value if isinstance(value, Tensor) else self.new_tensor(value, dtype=self.dtype.real))

    return property(get, put, doc=get.__doc__)


extensions.provide(as_pairs=as_pairs)
Tensor._pairs, Tensor.real, Tensor.imag = view_as_real, _property(real_), _property(imag)
Tensor.H = property(_matrix_adjoint)
Tensor.mH = property(lambda self: _adjoint("tensor.mH", self))
