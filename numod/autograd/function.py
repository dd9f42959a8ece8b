"""`autograd.Function`: operations whose gradient the user writes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import warn_caller
from ..core.apply import state
from ..core.create.creation import zeros
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..device import Layout
from . import tape
from .modes import no_grad
from .tape import Node, edge_to
from .views_and_writes import rebase


class _ThreadState(threading.local):
    """Per thread: whether a backward pass will be differentiated by its weights only, see `vjp_of_weights`."""

    transposing = False


thread_state = _ThreadState()


class Context:
    """What `forward` hands to `backward`: saved tensors and whatever else it sets."""

    def __init__(self) -> None:
        self._saved: tuple = ()
        self._forward: tuple = ()
        self.needs_input_grad: tuple[bool, ...] = ()
        self._dirty: tuple = ()
        self._no_gradient: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`, which finds them in `saved_tensors`."""
        self._forward = tensors

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for backward.

        In-place writes to them in between are detected. Raises TypeError if an argument is neither a tensor nor None.
        """
        for k, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {k} is of type {type(tensor).__name__}; "
                    "set it as an attribute of ctx"
                )
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple:
        """The saved tensors, in backward. Raises RuntimeError if they were freed or have been modified."""
        return self._saved

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare inputs that were modified in place; they must be returned.

        Raises RuntimeError if an argument is not a tensor; `apply` raises it for a tensor that is not returned.
        """
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise RuntimeError(f"mark_dirty can only accept variables, but got {type(tensor).__name__}")
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare results that have no gradient."""
        self._no_gradient = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (default) or None for results without gradient."""
        self._materialize = value


class FunctionNode(Node):
    """The tape's node of a Function call."""

    is_custom_function = True

    @property
    def sees_undefined(self) -> bool:
        """Whether backward gets None for results without gradient."""
        return not self.context._materialize and len(self.outputs) > 1

    def __init__(self, function: type, context: Context, edges: tuple, layouts: tuple, outputs: tuple) -> None:
        super().__init__(None, edges, layouts, outputs)
        self.function, self.context = function, context

    def keep(self, results: tuple) -> None:
        """Save the tensors of the context; results without their node, which would otherwise keep itself alive."""
        ids = {id(result): k for k, result in enumerate(results) if result is not None}
        self.numbers = tuple(ids.get(id(tensor)) for tensor in self.context._saved)
        self.saved = tuple(
            tensor if number is None else tensor.detach() for tensor, number in zip(self.context._saved, self.numbers)
        )
        self.versions = tuple(
            None if tensor is None else (tensor._version_counter or tensor._storage).version for tensor in self.saved
        )
        self.context._saved = ()
        self.context._forward = tuple(
            tensor.detach() if id(tensor) in ids else tensor for tensor in self.context._forward
        )
        if tape.packing is not None:
            tape.packing(self)

    def unpack(self) -> tuple:
        tensors = []
        for tensor, number in zip(super().unpack(), self.numbers):
            if number is not None:
                tensor = tensor._alias()
                tensor._node, tensor._output, tensor._requires_grad = self, number, True
            tensors.append(tensor)
        return tuple(tensors)

    def backward(self, grads: list[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
        if self.context._materialize:
            pairs = zip(grads, self.outputs)
            grads = [
                zeros(out.shape, dtype=out.dtype, device=out.device) if grad is None and out is not None else grad
                for grad, out in pairs
            ]
        results = (
            _Transposed.apply(self, *grads)
            if thread_state.transposing and self.function.jvp is not Function.jvp
            else self._call(self.function._gradients(), self.unpack(), grads)
        )
        results = results if isinstance(results, tuple) else (results,)
        if len(results) > len(self.edges) and all(result is None for result in results[len(self.edges) :]):
            results = results[: len(self.edges)]
        if len(results) != len(self.edges):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {len(self.edges)}, got "
                f"{len(results)})"
            )
        for position, gradient in enumerate(results):
            if gradient is not None and self.edges[position] is not None:
                if isinstance(gradient, Tensor) and not _fits(gradient, self.layouts[position]):
                    raise RuntimeError(
                        f"Function {self.name()} returned an invalid gradient at index {position} "
                        f"- got {list(gradient.shape)} but expected shape compatible with "
                        f"{list(self.layouts[position].shape)}"
                    )
                if not isinstance(gradient, Tensor):
                    raise RuntimeError(
                        f"function {self.name()}: expected Variable or None (got {type(gradient).__name__}) for input "
                        f"{position}"
                    )
                if gradient.is_complex() and not self.layouts[position].dtype.is_complex:
                    raise RuntimeError(
                        f"function {self.name()}: expected a gradient of {self.layouts[position].dtype} for input "
                        f"{position}, but got {gradient.dtype}; "
                        "return its .real"
                    )
                yield position, gradient

    def _call(self, method: Callable, saved: tuple, arguments: Sequence) -> Any:
        """`method` of the Function, with these saved tensors in its context."""
        self.context._saved = saved
        try:
            return method(self.context, *arguments)
        finally:
            self.context._saved = ()  # their history may lead back to this node

    @property
    def next_functions(self) -> tuple:
        """The nodes gradients flow to next; arguments that are no tensors have none."""
        return tuple(
            next_function for next_function, layout in zip(super().next_functions, self.layouts) if layout is not None
        )

    def name(self) -> str:
        """The name of the Function with "Backward" appended."""
        return f"{self.function.__name__}Backward"

    @property
    def saved_tensors(self) -> tuple:
        """What `ctx.save_for_backward` kept."""
        return self.unpack()

    def __getattr__(self, name: str) -> object:
        if name == "context":
            raise AttributeError(name)
        return getattr(self.context, name)  # in PyTorch the node is the context


def _fits(gradient: Tensor, layout: Layout) -> bool:
    """Whether a gradient has an input's shape, or sums to it."""
    padded = (1,) * (gradient.ndim - layout.ndim) + tuple(layout.shape)
    return gradient.ndim >= layout.ndim and all(m in (1, n) for m, n in zip(padded, gradient.shape))


class Function:
    """Base class of operations with a custom gradient: define static `forward(ctx, ...)` and `backward(ctx, *grads)`,
    call `apply`.

    `forward` takes no `ctx` if `setup_context(ctx, inputs, output)` is defined.

    Example:

        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> x = torch.ones(2, requires_grad=True)
        >>> Double.apply(x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __call__(self, *arguments: Any, **kwargs: Any) -> Any:
        """Raises RuntimeError: a Function is not called by instances, as in PyTorch's oldest releases."""
        name = type(self).__name__
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            f"function with static forward method, and call {name}.apply(...) in the place of {name}()(...)."
        )

    @staticmethod
    def forward(*arguments: Any, **kwargs: Any) -> Any:
        """Compute the results. To be overridden."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(*arguments: Any, **kwargs: Any) -> Any:
        """Given `(ctx, *grads)`, return one gradient (or None) per argument of forward. To be overridden."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(*arguments: Any, **kwargs: Any) -> Any:
        """Given `(ctx, *tangents)`, one (or None) per argument of forward, return the results' derivatives along them.

        Without it, forward mode uses `backward`.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *arguments: Any) -> Any:
        """Compute the results for a whole batch of `func.vmap`: (results, their batch dimensions).

        `info` has `batch_size` and `randomness`; `in_dims` has the batch dimension of each argument, or None. Without
        this method, `forward` is batched op by op.
        """
        raise NotImplementedError(
            "You must implement the vmap function for custom autograd.Function to compute all examples of func.vmap "
            "by it."
        )

    vjp = backward  # another name for it: a Function defines one of the two
    setup_context = None
    generate_vmap_rule = False

    @classmethod
    def _gradients(cls) -> Callable:
        defines_vjp = cls.vjp is not Function.vjp
        if defines_vjp and cls.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. Please only implement "
                "one of them."
            )
        return cls.vjp if defines_vjp else cls.backward

    @classmethod
    def apply(cls, *arguments: Any) -> Any:
        """Run `forward` without recording its operations, and record a single node for it."""
        forward, alone = (
            state.vmap_depth
            and cls.vmap is not Function.vmap
            and extensions.batched_function(cls, arguments)
            or (cls.forward, False)
        )
        if alone:
            return forward(*arguments)
        if state.vmap_depth and state.grad_enabled:
            extensions.check_leaves(arguments)  # the tensors of the batch would have no node
        context = Context()
        edges = tuple(map(edge_to, arguments)) if state.grad_enabled else (None,) * len(arguments)
        context.needs_input_grad = tuple(edge is not None for edge in edges)
        leaves = [argument for argument, edge in zip(arguments, edges) if edge is not None and edge[0] is argument]
        with no_grad():
            if cls.setup_context is not None:
                outputs = forward(*arguments)
                cls.setup_context(context, _with_defaults(cls.forward, arguments), outputs)
            else:
                outputs = cls.forward(context, *arguments)
        if any(tensor is leaf for tensor in context._dirty for leaf in leaves):
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation. Write under "
                "numod.no_grad(), or to a clone()."
            )
        single = not isinstance(outputs, tuple)
        results = (outputs,) if single else outputs
        if any(edge is not None for edge in edges):
            results = _recorded(cls, context, arguments, edges, results)
        return results[0] if single else results


def _with_defaults(forward: Callable, arguments: tuple) -> tuple:
    """The arguments of a call including defaults, as `setup_context` gets them."""
    parameter_count = forward.__code__.co_argcount if hasattr(forward, "__code__") else 0
    missing = parameter_count - len(arguments)
    return (*arguments, *forward.__defaults__[-missing:]) if missing > 0 and forward.__defaults__ else arguments


def _recorded(cls: type, context: Context, arguments: tuple, edges: tuple, results: tuple) -> tuple:
    """The results with their node attached. An input that forward returns unchanged is replaced by a new tensor."""
    inputs = {id(argument) for argument in arguments if isinstance(argument, Tensor)}
    dirty = {id(output) for output in context._dirty}
    if not dirty & inputs <= {id(result) for result in results}:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of "
            "the Function."
        )
    if not dirty <= inputs:
        warn_caller(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been modified "
            "need it"
        )
        dirty &= inputs
    fresh = tuple(
        result.view(result.shape) if isinstance(result, Tensor) and id(result) in inputs - dirty else result
        for result in results
    )
    node = FunctionNode(
        cls,
        context,
        edges,
        tuple(argument._layout if isinstance(argument, Tensor) else None for argument in arguments),
        tuple(output._layout if isinstance(output, Tensor) else None for output in fresh),
    )
    node.keep(results)
    for number, (output, original) in enumerate(zip(fresh, results)):
        if id(original) in dirty and output._base is not None:
            if len(results) > 1:
                raise RuntimeError(
                    f"{node.name()}: a view is modified inplace, and a Function that does so must return that one "
                    "Tensor; clone() the view before"
                )
            rebase(node, output)
        elif (
            isinstance(output, Tensor)
            and output._layout.dtype.differentiable
            and not any(original is one for one in context._no_gradient)
        ):
            if output._base is not None and id(original) not in dirty:
                # after a write to the view or its base, gradients would bypass the Function
                output._unrecorded = True
            output._node, output._output, output._requires_grad = node, number, True
    return fresh


class InplaceFunction(Function):
    """A Function with the attribute `inplace`, from which older code derives."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _Transposed(Function):
    """A Function's backward if only its derivative by the gradients is needed.

    That derivative is the Function's `jvp`; values do not matter.
    """

    @staticmethod
    def forward(ctx: Context, node: FunctionNode, *grads: Tensor) -> tuple:
        ctx.node, like = node, next(grad for grad in grads if grad is not None)
        ctx.set_materialize_grads(False)
        return tuple(
            None if edge is None else like.new_zeros(layout.shape, dtype=layout.dtype)
            for edge, layout in zip(node.edges, node.layouts)
        )

    @staticmethod
    def backward(ctx: Context, *tangents: Tensor) -> tuple:
        node = ctx.node
        if node.context._materialize:
            like = next(tangent for tangent in tangents if tangent is not None)
            tangents = tuple(
                like.new_zeros(layout.shape, dtype=layout.dtype) if tangent is None and layout is not None else tangent
                for tangent, layout in zip(tangents, node.layouts)
            )
        results = node._call(node.function.jvp, node.context._forward, tangents)
        return None, *(results if isinstance(results, tuple) else (results,))


class _Refusal(Function):
    """The identity with a backward that raises; marks gradients that must not be differentiated again."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> Tensor:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable) -> Callable:
    """Decorator for a `backward` that is not differentiable.

    It is not recorded, and double backward through it raises RuntimeError.
    """

    @functools.wraps(backward)
    def once(ctx: Context, *gradients: Tensor) -> object:
        with no_grad():
            results = backward(ctx, *gradients)
        if not state.grad_enabled or not any(
            isinstance(gradient, Tensor) and gradient.requires_grad for gradient in gradients
        ):
            return results
        result_tuple = results if isinstance(results, tuple) else (results,)
        guarded = [
            _Refusal.apply(result.detach().requires_grad_()) if isinstance(result, Tensor) else result
            for result in result_tuple
        ]
        return tuple(guarded) if isinstance(results, tuple) else guarded[0]

    return once


FunctionCtx = Context  # PyTorch's name
