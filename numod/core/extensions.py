"""Extensions: the functions that other packages add to op calls (`apply`), random numbers and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..dtypes import dtype as DType
    from ..ops.op import Op, Plan
    from .tensor import Tensor


class Extensions:
    """Functions that `core` and `autograd` call and other packages implement.

    A package calls `provide` when it is imported. Without it, the methods below run, which do nothing.
    """

    def __init__(self) -> None:
        # called with the target before each in-place write; `vmap` adds one while it runs
        self.write_watchers: list[Callable[[Tensor], None]] = []

    def provide(self, **functions: Callable) -> None:
        """Implement some of the methods."""
        for name, function in functions.items():
            if name not in vars(Extensions):
                raise ValueError(f"extensions: unknown function {name}")
            setattr(self, name, function)

    # ---- the tape, by autograd

    def record(self, op: Op, inputs: tuple, layouts: Sequence, attributes: tuple, result: object) -> None:
        """Attach a new node of the tape to the result or results of an op."""

    def plan_with_gradients(self, op: Op, inputs: tuple, layouts: tuple, attributes: tuple) -> Plan:
        """The plan of an op that will be recorded; the kernels of its gradients are begun if its own ones are new."""
        return op.plan(layouts, attributes)

    def begin_layers(self) -> None:
        """Begin the kernels of the layers that follow in the module that runs, by nn."""

    def make_node(self, op: Op, inputs: tuple, layouts: Sequence, attributes: tuple, target: Tensor) -> object:
        """The tape's node for an in-place write, created before the write."""

    def attach(self, node: object, target: Tensor) -> None:
        """Attach that node to the target, after the write."""

    def check_write(self, target: Tensor) -> None:
        """Raise RuntimeError if the tape cannot represent a write to the target."""

    # ---- other kinds of tensors, by core.math.complexes and amp

    def as_pairs(self, tensor: Tensor) -> Tensor:
        """A complex tensor's memory as real numbers; another tensor unchanged."""
        return tensor

    def enter_autocast(self, casts: tuple[tuple[str, DType], ...]) -> tuple[tuple[str, DType], ...]:
        """Set this thread's casts, pairs of a device type and a dtype, and return the former ones."""
        return ()

    # ---- batched tensors, by func

    def plan_batched(self, op: Op, layouts: tuple, attributes: tuple) -> Plan:
        """The plan of an op with batched tensors among its inputs."""
        return op.plan(layouts, attributes)

    def plan_batched_into(self, op: Op, layouts: tuple, attributes: tuple) -> Plan:
        """The plan of an op that writes to targets, with batched tensors among inputs and targets."""
        return op.plan(layouts, attributes)

    def batched_function(self, function: type, arguments: tuple) -> tuple[Callable, bool] | None:
        """For an `autograd.Function` with its own `vmap` and batched arguments: the function that computes all
        examples, and whether its operations are recorded instead of the Function.
        """

    def map_rows(self, function: Callable, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """The stacked results of a function for each row of the tensors, or None if the caller has to loop."""

    def check_leaves(self, tensors: Iterable[object]) -> None:
        """Refuse gradients that lead out of a running call of `vmap`."""

    def random_tensor(self, make: Callable[[tuple], Tensor], shape: tuple) -> Tensor:
        """The random tensor that `make` returns for a shape, or a batched one."""
        return make(shape)

    def random_count(self, input: Tensor, in_place: bool) -> int:
        """How many random numbers an op draws for this tensor."""
        return input.numel()

    def before_draw(self, generator: object) -> None:
        """Called before each draw from a generator."""


extensions = Extensions()
