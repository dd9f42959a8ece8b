"""DeviceMesh: the ranks in an array, with a process group along each dimension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.create.values import from_numpy
from ..core.tensor import Tensor
from .group import ProcessGroup, get_process_group_ranks, get_rank, get_world_size, group, init_process_group
from .group import is_initialized, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """The ranks in an array of any shape; a line of ranks along a dimension is a process group.

    `mesh` has the ranks, `mesh_dim_names` names the dimensions, and `mesh["name"]` is the part with this rank and
    these dimensions. All ranks create it; the default group is made if there is none. `device_type` is kept for
    scripts, and `backend_override` has no effect: every group's engine is MPI. Raises RuntimeError for more ranks than
    there are, ValueError for repeated ones.

    Example:

        >>> import numod.distributed as dist
        >>> dist.init_process_group("mpi")
        >>> mesh = dist.DeviceMesh("cpu", [[0]], mesh_dim_names=("replicate", "shard"))
        >>> mesh["shard"]
        DeviceMesh((shard=1), 'cpu', stride=(1,))
        >>> mesh.get_group("replicate").size()
        1
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
    ) -> None:
        ranks = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, np.int32)
        if not is_initialized():
            init_process_group()
        size = get_world_size()
        if ranks.size > size:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {size}, but found {ranks.size} ranks!"
            )
        if len(np.unique(ranks)) != ranks.size:
            raise ValueError(f"DeviceMesh: expected each rank once, got {ranks.tolist()}")
        names = tuple(mesh_dim_names) if mesh_dim_names else None
        groups = [
            _group_along(_lines(ranks, [dim]), names[dim] if names else f"dim_{dim}") for dim in range(ranks.ndim)
        ]
        self._fill(device_type, ranks, names, groups, None)

    def _fill(
        self, device_type: str, ranks: np.ndarray, names: tuple[str, ...] | None, groups: list, root: DeviceMesh | None
    ) -> None:
        self._device_type, self._ranks, self._mesh_dim_names = device_type, ranks, names
        self._groups, self._root_mesh = groups, root
        self._flattened: dict[str, DeviceMesh] = {}  # of a root: by name

    @classmethod
    def _of(cls, *fields: Any) -> DeviceMesh:
        mesh = cls.__new__(cls)
        mesh._fill(*fields)
        return mesh

    @property
    def device_type(self) -> str:
        """The name of the kind of device, as it was given."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The ranks, int32."""
        return from_numpy(self._ranks.copy())

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The dimensions' names."""
        return self._mesh_dim_names

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ranks along each dimension."""
        return self._ranks.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks, in all or along a dimension."""
        return self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim]

    def get_rank(self) -> int:
        """This process's rank among all."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this rank is in the mesh; None outside it."""
        positions = np.argwhere(self._ranks == get_rank())
        return tuple(positions[0].tolist()) if len(positions) else None

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this rank's line along a dimension, which a mesh of one dimension need not name.

        Raises RuntimeError without a dimension where there are several, and for a rank outside the mesh; KeyError for
        a name that does not exist.
        """
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions; mesh_dim needs to be specified when "
                "device_mesh.ndim > 1. get_all_groups() returns all groups"
            )
        if isinstance(mesh_dim, str) and mesh_dim in self._get_root_mesh()._flattened:
            return self._get_root_mesh()._flattened[mesh_dim].get_group()
        own_group = self._groups[self._dimension(0 if mesh_dim is None else mesh_dim)]
        if own_group is None:
            raise RuntimeError(f"DeviceMesh: rank {get_rank()} is not in the mesh {self._ranks.tolist()}")
        return own_group

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this rank, one for each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This rank's number in the group of a dimension."""
        return get_rank(self.get_group(mesh_dim))

    def _dimension(self, mesh_dim: int | str) -> int:
        if not isinstance(mesh_dim, str):
            return mesh_dim
        if mesh_dim not in (self._mesh_dim_names or ()):
            raise KeyError(
                f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: {self._mesh_dim_names}"
            )
        return self._mesh_dim_names.index(mesh_dim)

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of these dimensions that this rank is in. It uses the same groups."""
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        root = self._get_root_mesh()
        if len(names) == 1 and names[0] in root._flattened:
            return root._flattened[names[0]]
        if names == self._mesh_dim_names:
            return self
        if not set(names) <= set(self._mesh_dim_names):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {list(self._mesh_dim_names)}."
            )
        dims = [self._dimension(name) for name in names]
        if dims != sorted(dims):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        own_part = _line_of_this_rank(_lines(self._ranks, dims))
        part = self._ranks[:0] if own_part is None else own_part.reshape([self.shape[dim] for dim in dims])
        return self._of(self._device_type, part, names, [self._groups[dim] for dim in dims], root)

    def _get_root_mesh(self) -> DeviceMesh:
        """The mesh that this one is a part of, or itself."""
        return self._root_mesh or self

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """A mesh of one dimension of the ranks of this one. Afterwards the root knows it by its name.

        All ranks of the root call it. Raises RuntimeError for a mesh without names.
        """
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name, root = mesh_dim_name or "_".join(self._mesh_dim_names), self._get_root_mesh()
        if self.ndim == 1 and name in self._mesh_dim_names:
            return self
        if name in root._mesh_dim_names:
            raise ValueError(f"{name} already exists for submesh of the {root}.")
        if name not in root._flattened:
            lines = list(_lines(root._ranks, [root._dimension(part) for part in self._mesh_dim_names]))
            fields = self._device_type, self._ranks.reshape(-1), (name,), [_group_along(lines, name)], root
            root._flattened[name] = self._of(*fields)
        return root._flattened[name]

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """A mesh of groups that exist: of one, or of a list with one for each dimension of `mesh`.

        Raises ValueError where the mesh is missing, or is not that of the groups.
        """
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if mesh is None and len(groups) > 1:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        if mesh is None:
            mesh = get_process_group_ranks(groups[0])
        ranks = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, np.int32)
        if ranks.ndim != len(groups):
            raise ValueError(
                f"Expected mesh with ndim equal to number of ProcessGroups but got mesh {ranks.tolist()} and "
                f"{len(groups)} ProcessGroups"
            )
        for dim, group_of_dim in enumerate(groups):
            line = _line_of_this_rank(_lines(ranks, [dim]))
            if line is None or sorted(line.tolist()) != sorted(get_process_group_ranks(group_of_dim)):
                raise ValueError(
                    f"Invalid mesh {ranks.tolist()} for ProcessGroup with ranks {get_process_group_ranks(group_of_dim)}"
                )
        names = tuple(mesh_dim_names) if mesh_dim_names else None
        return DeviceMesh._of(device_type, ranks, names, groups, None)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        return self._device_type, self._mesh_dim_names, self.shape, self._ranks.tobytes()

    def __repr__(self) -> str:
        strides = tuple(stride // self._ranks.itemsize for stride in self._ranks.strides)
        if not self._mesh_dim_names:
            return f"DeviceMesh({self.shape}, '{self._device_type}', stride={strides})"
        sizes = ", ".join(f"{name}={size}" for name, size in zip(self._mesh_dim_names, self.shape))
        return f"DeviceMesh(({sizes}), '{self._device_type}', stride={strides})"


def _lines(ranks: np.ndarray, dims: list[int]) -> Iterator[np.ndarray]:
    """The parts of the mesh along dimensions, flat: one for each position in the others."""
    count = int(np.prod([ranks.shape[dim] for dim in dims]))
    return iter(np.moveaxis(ranks, dims, range(-len(dims), 0)).reshape(-1, count))


def _line_of_this_rank(lines: Iterator[np.ndarray]) -> np.ndarray | None:
    """The one with this rank."""
    return next((line for line in lines if get_rank() in line), None)


def _group_along(lines: Iterator[np.ndarray] | list[np.ndarray], name: str) -> ProcessGroup | None:
    """The group of the line with this rank, None outside all. All ranks call it, since it makes all groups."""
    own_group = None
    for line in lines:
        ranks = line.tolist()
        made = group.WORLD if len(ranks) == get_world_size() else new_group(ranks, group_desc=f"mesh_{name}")
        own_group = made if get_rank() in ranks else own_group
    return own_group


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """The mesh of the ranks 0, 1, ... in this shape. All ranks call it.

    Raises RuntimeError for repeated names, for another number of names than of dimensions, for more ranks than there
    are, and for a device type with an index.

    Example:

        >>> import numod.distributed as dist
        >>> dist.init_device_mesh("cpu", (1,), mesh_dim_names=("data",)).get_local_rank("data")
        0
        >>> dist.destroy_process_group()
    """
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(
            f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
        )
    if mesh_dim_names is not None and len(mesh_shape) != len(mesh_dim_names):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
            f"{len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
        )
    if not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}; pass device.type")
    ranks = np.arange(int(np.prod(mesh_shape)), dtype=np.int32).reshape(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)
