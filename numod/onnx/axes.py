"""`dynamic_axes` and texts in `dynamic_shapes`, as `Dim`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import warn_caller
from ..core.tensor import Tensor
from ..export.capture import argument_names
from ..export.dimensions import Dim


def warn_of_axes(axes: Mapping[str, Any], names: Sequence[str], output_names: Sequence[str] | None) -> None:
    """Warn of names in `dynamic_axes` that no input or output has."""
    unknown = [name for name in axes if name not in names and name not in (output_names or ())]
    if unknown and not all(name.startswith("output") for name in unknown):
        warn_caller(f"dynamic_axes: {unknown} are no inputs or outputs; inputs are {names}, outputs {output_names}")


class Naming:
    """Names of dynamic dimensions as `Dim`s. `labels` has the text of those that are no identifiers."""

    def __init__(self, from_example: bool = False) -> None:
        self.labels: dict[str, str] = {}
        self.from_example = from_example  # whether sizes begin at the example's

    def dim(self, label: str, size: int | None = None) -> Dim:
        """The dimension with this name; `size`: the example's."""
        identifier = "".join(letter if letter.isalnum() else "_" for letter in str(label)) or "size"
        identifier = identifier if identifier.isidentifier() else f"size_{identifier}"
        while self.labels.get(identifier, label) != label:
            identifier += "_"
        self.labels[identifier] = str(label)
        return Dim(identifier, min=size if self.from_example else None)

    def shapes(self, shapes: Any) -> Any:
        """`dynamic_shapes` with dimensions instead of texts."""
        if isinstance(shapes, str):
            return self.dim(shapes)
        if isinstance(shapes, Mapping):
            return {key: self.shapes(part) for key, part in shapes.items()}
        return type(shapes)(map(self.shapes, shapes)) if type(shapes) in (tuple, list) else shapes

    def of_axes(
        self, axes: Mapping[str, Any], model: Any, arguments: tuple, keywords: dict[str, Any], names: Sequence[str]
    ) -> Any:
        """`dynamic_axes`, which are by the names of inputs, as `dynamic_shapes`, which are like the arguments."""
        remaining = iter(names)

        def like(argument: Any) -> Any:
            if isinstance(argument, Tensor):
                name = next(remaining)
                return self._of_input(name, axes.get(name), argument)
            if isinstance(argument, (tuple, list)):
                return type(argument)([like(part) for part in argument])
            return {key: like(part) for key, part in argument.items()} if isinstance(argument, dict) else None

        positions = argument_names(model, arguments, keywords)
        return {name: like(part) for name, part in {**dict(zip(positions, arguments)), **keywords}.items()}

    def _of_input(self, name: str, axes: Any, example: Tensor) -> dict[int, Dim] | None:
        if axes is None:
            return None
        if not isinstance(axes, Mapping):
            axes = {axis: f"{name}_dynamic_axes_{k + 1}" for k, axis in enumerate(axes)}
        return {int(axis): self.dim(label, example.shape[int(axis)]) for axis, label in axes.items()}
