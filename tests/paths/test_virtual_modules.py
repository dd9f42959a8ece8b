"""Names of parts that numod does not have: they import, and say so when they are used."""

from __future__ import annotations

import importlib

import pytest

import numod
from numod import paths


def test_a_name_is_no_submodule_of_that_name() -> None:
    importlib.import_module("numod._higher_order_ops.associative_scan")
    assert isinstance(numod._higher_order_ops.associative_scan, type)


@pytest.mark.parametrize("path", sorted(paths.virtual_modules.MODULES))
def test_names_of_absent_parts_import_and_say_so(path: str) -> None:
    module = importlib.import_module(f"numod.{path}")
    for name in module.__all__:
        attribute = getattr(module, name)
        assert not isinstance(numod.ones(1), attribute) and (attribute | None)
        for use in (attribute, attribute.anything, type("Derived", (attribute,), {})):
            with pytest.raises(NotImplementedError, match=rf"numod has no {path}\.{name}.*: \w+"):
                use(1)


def test_names_in_modules_that_are_there() -> None:
    assert (
        numod.distributed.device_mesh.DeviceMesh is importlib.import_module("numod.distributed.device_mesh").DeviceMesh
    )
    mesh_names = importlib.import_module("numod.distributed.tensor")
    assert mesh_names.DeviceMesh is numod.distributed.DeviceMesh
    assert mesh_names.init_device_mesh is numod.distributed.init_device_mesh
    assert numod.ops.aten.add.Tensor is numod.ops.aten.add.Tensor and numod.torch is numod
    for use in (numod.distributed.shrink_group, numod.cuda.CUDAGraph, numod.fx.Tracer, numod.ops.aten.add.Tensor):
        with pytest.raises(NotImplementedError, match="numod has no "):
            use()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = numod.distributed.nothing
    assert isinstance(numod.ones(2).untyped_storage(), numod.UntypedStorage) and "numba" in numod.__config__.show()
    assert numod.ScriptModule is numod.jit.ScriptModule and numod._dynamo.mark_static_address(numod.ones(1)) is None
    assert (
        numod.functional.einsum is numod.einsum
        and numod.functional.F is numod.nn.functional
        and issubclass(numod._C.Value, object)
    )
    assert numod._C._nn._parse_to("cpu", numod.float64) == (numod.device("cpu"), numod.float64, False, None)
    numod._assert_async(numod.tensor(True))
    with pytest.raises(RuntimeError, match="too large"):
        numod._assert_async(numod.tensor(False), "too large")
    assert (
        not isinstance(3, numod.SymInt)
        and not isinstance(numod.ones(1), numod.TensorType)
        and numod.serialization.DEFAULT_PROTOCOL == 2
    )
    assert importlib.import_module("numod.utils.data._utils.collate").np_str_obj_array_pattern.search("U")
    with numod._C.DisableTorchFunctionSubclass():
        assert not numod._C._are_functorch_transforms_active()
    assert numod.sparse_coo != numod.strided == numod.ones(1).layout
    with pytest.raises(TypeError, match="must be numod.strided, not numod.sparse_coo"):
        numod.zeros(2, layout=numod.sparse_coo)
