"""BaseSparsifier, and WeightNormSparsifier: zeros in whole blocks of a weight, or in each block (2:4)."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ...autograd import no_grad
from ...core import Tensor, full
from ...nn import Linear
from ...nn.module import Module
from ...nn.utils import parametrize
from ...nn.utils.computed import copy_forward_hooks, copy_pre_hooks


__path__: list[str] = []  # PyTorch has files below this name; `numod.paths` finds them here


class FakeSparsity(Module):
    """A parametrization: the weight times a mask of ones and zeros."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x


def fqn_to_module(model: Module | None, path: str) -> Any:
    """The module or tensor at a path; None where there is none."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def module_to_fqn(model: Module, module: Module, prefix: str = "") -> str | None:
    """The path of a module in a model; None if it is not in it."""
    return next((prefix + path for path, member in model.named_modules() if member is module), None)


def get_arg_info_from_tensor_fqn(model: Module, tensor_fqn: str) -> dict[str, Any]:
    """The module of a tensor, and the names of both."""
    module_fqn, _, tensor_name = tensor_fqn.removeprefix(".").rpartition(".")
    module = fqn_to_module(model, module_fqn)
    return {
        "module_fqn": module_fqn,
        "module": module,
        "tensor_name": tensor_name,
        "tensor_fqn": tensor_fqn.removeprefix("."),
    }


def module_contains_param(module: Module, parametrization: type[Module]) -> bool:
    """Whether a tensor of a module has a parametrization of this class."""
    if not parametrize.is_parametrized(module):
        return False
    return any(isinstance(part, parametrization) for parts in module.parametrizations.values() for part in parts)


def swap_module(mod: Module, mapping: dict[type, type]) -> Module:
    """The layer that `mapping` has for this one, with its hooks; the module itself where it has none."""
    kind = mapping.get(parametrize.type_before_parametrizations(mod))
    if kind is None:
        return mod
    result = kind.from_dense(mod)
    copy_pre_hooks(mod, result)
    copy_forward_hooks(mod, result)
    return result


class BaseSparsifier(ABC):
    """Base: `prepare` adds masks to tensors, `step` updates them by `update_mask`, `squash_mask` writes the zeros."""

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        self.defaults = defaults or {}
        self.state: dict[str, dict[str, Tensor]] = {}
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True

    def prepare(self, model: Module, config: list[dict[str, Any]] | None) -> None:
        """Add masks to a model, in place. `config` has a dict with "tensor_fqn" and settings for each tensor; by
        default the weights of all linear layers.
        """
        self.model = model
        if config is None:
            layers = [path for path, layer in model.named_modules() if type(layer) is Linear]
            config = [{"tensor_fqn": f"{path}.weight" if path else "weight"} for path in layers]
        for settings in config:
            if not isinstance(settings, dict) or "tensor_fqn" not in settings:
                raise AssertionError(
                    "tensor_fqn is a required argument in the sparsity config: [{'tensor_fqn': 'layer.weight'}, ...]"
                )
            group = {**self.defaults, **settings, **get_arg_info_from_tensor_fqn(model, settings["tensor_fqn"])}
            weight = getattr(group["module"], group["tensor_name"], None)
            if weight is None:
                raise AttributeError(f"the model has no tensor {settings['tensor_fqn']!r}")
            self.groups.append(group)
            self._add_mask(group, weight.new_ones(weight.shape))

    def _add_mask(self, group: dict[str, Any], mask: Tensor) -> None:
        self.state[group["tensor_fqn"]] = {"mask": mask}
        parametrize.register_parametrization(group["module"], group["tensor_name"], FakeSparsity(mask))

    def step(self, use_path: bool = True) -> None:
        """Update all masks from the weights as they are now."""
        if self.enable_mask_update:
            with no_grad():
                for group in self.groups:
                    self.update_mask(**group)

    @abstractmethod
    def update_mask(self, module: Module, tensor_name: str, tensor_fqn: str, **settings: Any) -> None:
        """Write the mask of a tensor."""

    def convert(
        self,
        module: Module,
        mapping: dict[type, type] | None = None,
        inplace: bool = False,
        parameterization: type[Module] = FakeSparsity,
    ) -> Module:
        """Replace the layers with masks by the classes of `mapping`, each made by its `from_dense(layer)`."""
        if mapping is None:
            raise NotImplementedError("convert: expected a mapping from classes of layers to sparse ones, got None")
        module = module if inplace else copy.deepcopy(module)
        for name, child in module.named_children():
            if module_contains_param(child, parameterization):
                module._modules[name] = swap_module(child, mapping)
            else:
                module._modules[name] = self.convert(child, mapping, True, parameterization)
        return module

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Write the zeros into the weights and remove the masks. Named settings are kept as `module.sparse_params`."""
        for group in self.groups:
            parametrize.remove_parametrizations(group["module"], group["tensor_name"], leave_parametrized=True)
            names = (*(params_to_keep or ()), *(params_to_keep_per_layer or {}).get(group["module_fqn"], ()))
            if names:
                group["module"].sparse_params = {name: group[name] for name in names}

    def state_dict(self) -> dict[str, Any]:
        """The masks and the settings."""
        groups = [{name: value for name, value in group.items() if name != "module"} for group in self.groups]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take the masks and settings of a `state_dict`, for the prepared model."""
        masks = {group["tensor_fqn"]: group for group in self.groups}
        for path, saved in state_dict["state"].items():
            if path in masks:
                self.state[path]["mask"].copy_(saved["mask"])
            elif strict:
                raise RuntimeError(f"Error loading {path} into the model: prepare() has not added a mask to it")
        for settings in state_dict["groups"]:
            masks.get(settings["tensor_fqn"], {}).update(settings)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.groups):
            lines += [f"\tGroup {number}", f"\t    module: {group['module']}"]
            lines += [f"\t    {name}: {group[name]}" for name in sorted(group) if name != "module"]
        return "\n".join(lines) + ")"


def _block_size(shape: Any) -> int:
    """The number of elements of a block (rows, columns)."""
    if not isinstance(shape, (tuple, list)) or len(shape) != 2 or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"sparse_block_shape must be (rows, columns), such as (1, 4), got {shape!r}")
    return shape[0] * shape[1]


class WeightNormSparsifier(BaseSparsifier):
    """Zeros where a weight's norm is least: in `sparsity_level` of all blocks, `zeros_per_block` of each of these.

    By default whole blocks are zero. 2:4 sparsity is `sparsity_level=1.0, sparse_block_shape=(1, 4),
    zeros_per_block=2`.
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[[Tensor], Tensor] | int | None = None,
    ) -> None:
        size = _block_size(sparse_block_shape)
        zeros_per_block = size if zeros_per_block is None else zeros_per_block
        super().__init__(
            {
                "sparsity_level": sparsity_level,
                "sparse_block_shape": sparse_block_shape,
                "zeros_per_block": zeros_per_block,
            }
        )
        if norm not in (None, 1, 2) and not callable(norm):
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        self.norm_fn = norm if callable(norm) else Tensor.abs if norm == 1 else Tensor.square

    def update_mask(
        self,
        module: Module,
        tensor_name: str,
        tensor_fqn: str,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int = 4,
        **settings: Any,
    ) -> None:
        """Write the mask of a matrix."""
        size = _block_size(sparse_block_shape)
        if zeros_per_block > size:
            raise ValueError(
                "Number of zeros per block cannot be more than the total number of elements in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        weight = getattr(module, tensor_name)
        if weight.ndim != 2:
            raise ValueError(f"{tensor_fqn}: expected a matrix, as of a linear layer, got shape {tuple(weight.shape)}")
        norms = _as_blocks(self.norm_fn(weight.detach()), sparse_block_shape)
        zeros = _least(norms, zeros_per_block) & _sparse_blocks(norms, sparsity_level)[:, None]
        mask = parametrize_mask(module, tensor_name)
        mask.copy_(_as_matrix((~zeros).to(mask.dtype), mask.shape, sparse_block_shape))


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Zeros outside of the `nearliness` diagonals nearest to the main one, an odd number; all zeros for 0."""

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__({"nearliness": nearliness})

    def update_mask(
        self, module: Module, tensor_name: str, tensor_fqn: str, nearliness: int = 1, **settings: Any
    ) -> None:
        """Write the mask of a matrix."""
        mask, distance = parametrize_mask(module, tensor_name), nearliness // 2
        if nearliness > 0 and nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        if nearliness > 0 and distance >= min(mask.shape):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        band = mask.new_ones(mask.shape).tril(distance).triu(-distance)
        mask.copy_(band if nearliness > 0 else band.zero_())


def parametrize_mask(module: Module, tensor_name: str) -> Tensor:
    """The mask that `prepare` has added."""
    return next(part.mask for part in module.parametrizations[tensor_name] if isinstance(part, FakeSparsity))


def _padded_shape(shape: tuple[int, ...], block: tuple[int, int]) -> list[int]:
    return [-(-size // step) * step for size, step in zip(shape, block)]


def _as_blocks(matrix: Tensor, block: tuple[int, int]) -> Tensor:
    """The blocks (count, elements) of a matrix, with NaN beyond its edges."""
    rows, columns = _padded_shape(matrix.shape, block)
    padded = full((rows, columns), float("nan"), dtype=matrix.dtype, device=matrix.device)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    split = padded.reshape(rows // block[0], block[0], columns // block[1], block[1])
    return split.permute(0, 2, 1, 3).reshape(-1, block[0] * block[1])


def _as_matrix(blocks: Tensor, shape: tuple[int, ...], block: tuple[int, int]) -> Tensor:
    """Undo `_as_blocks`."""
    rows, columns = _padded_shape(shape, block)
    split = blocks.reshape(rows // block[0], columns // block[1], *block).permute(0, 2, 1, 3)
    return split.reshape(rows, columns)[: shape[0], : shape[1]]


def _least(norms: Tensor, count: int) -> Tensor:
    """Which `count` elements of each block are least; those beyond the edges count as greatest."""
    places = norms.topk(count, dim=1, largest=False).indices
    return norms.new_zeros(norms.shape).scatter(1, places, 1.0).bool()


def _sparse_blocks(norms: Tensor, level: float) -> Tensor:
    """Which blocks have zeros: those of the least mean."""
    if level >= 1.0 or level <= 0.0:
        return full((len(norms),), level >= 1.0, device=norms.device)
    count = max(0, min(len(norms) - 1, round(level * len(norms))))
    return _least(norms.nanmean(1)[None], count)[0]
