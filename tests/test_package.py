"""What is shipped: the version, the metadata, and public names under the paths PyTorch has them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import numod

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

NAMES = {
    "numod": """
        Generator Size Tensor arange argmax as_tensor asarray autograd bool can_cast cat cuda device double dtype
        empty empty_like enable_grad exp eye finfo float float32 float64 from_dlpack from_numpy full full_like
        gather get_default_dtype get_num_threads iinfo inference_mode int int16 int32 int64 int8 is_grad_enabled
        linspace load long manual_seed matmul mean nn no_grad normal ones ones_like optim promote_types rand
        rand_like randint randn randn_like randperm save set_default_dtype set_grad_enabled set_num_threads
        set_printoptions sigmoid softmax stack sum tanh tensor uint8 utils where zeros zeros_like
    """,
    "numod.autograd": "Function backward enable_grad grad gradcheck gradgradcheck inference_mode no_grad set_grad_enabled",
    "numod.cuda": "device_count get_device_name is_available synchronize",
    "numod.nn": """
        Buffer CrossEntropyLoss Dropout Flatten Identity Linear MSELoss Module ModuleDict ModuleList Parameter
        ParameterDict ParameterList ReLU Sequential Sigmoid Softmax Tanh functional init utils
    """,
    "numod.nn.functional": "binary_cross_entropy_with_logits cross_entropy dropout embedding gelu linear log_softmax mse_loss nll_loss relu sigmoid softmax tanh",
    "numod.nn.init": "constant_ kaiming_normal_ kaiming_uniform_ normal_ orthogonal_ uniform_ xavier_normal_ xavier_uniform_ zeros_",
    "numod.nn.utils": "clip_grad_norm_ clip_grad_value_ parameters_to_vector vector_to_parameters",
    "numod.optim": "Adam AdamW Optimizer SGD",
    "numod.utils.data": "BatchSampler ConcatDataset DataLoader Dataset IterableDataset RandomSampler Subset TensorDataset default_collate random_split",
}  # fmt: skip


def python(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8", cwd=ROOT, timeout=300
    )


@pytest.mark.parametrize("path", NAMES)
def test_public_names(path: str) -> None:
    module = importlib.import_module(path)
    assert [name for name in NAMES[path].split() if not hasattr(module, name)] == []


def test_import_numod_is_enough_for_its_namespaces() -> None:
    finished = python("-c", f"import numod; print({', '.join(NAMES)})")
    assert finished.returncode == 0, finished.stderr


def test_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", str(numod.__version__)) and numod.version.torch == "2.13.0"
    assert (
        str(numod.__version__) == f"{numod.__version__}" == numod.version.release and repr(numod.__version__)[0] == "'"
    )
    assert numod.__version__ != numod.version.torch


def test_the_installed_package_has_the_same_version() -> None:
    try:
        installed = metadata.version("numod")
    except metadata.PackageNotFoundError:
        pytest.skip("numod is not installed here")
    assert numod.__version__ == installed


def test_versions_that_are_equal_have_one_hash() -> None:
    assert {str(numod.__version__): 1}[numod.__version__] == 1 and numod.__version__ != numod.version.torch


def test_model_files_that_ask_for_a_version_mean_pytorchs() -> None:
    version = numod.__version__
    assert version >= "1.5.0" and version > (1, 10) and version >= "2.13.0" and version <= "2.13" and version < "3"
    assert version.split("+")[0] == numod.version.torch and version.startswith("2.13")
    assert re.search(r"^(\d+)\.(\d+)", version).groups() == ("2", "13")  # as packaging.version.parse reads it
    assert tuple(int(number) for number in version.split(".")[:2]) == (2, 13)
    assert not (version < "2.4.1+cpu" or version > "2.13" or version <= (1, 13, 1) or version >= "2.14.0a0")


def test_runtime_dependencies_are_exactly_three() -> None:
    names = [re.match(r"[\w.-]+", requirement)[0] for requirement in PROJECT["project"]["dependencies"]]
    assert sorted(names) == ["llvmlite", "numba", "numpy"]


def test_python_3_11_is_enough() -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11"


def test_types_and_data_are_shipped() -> None:
    package = Path(numod.__file__).parent
    shipped = [
        path for pattern in PROJECT["tool"]["setuptools"]["package-data"]["numod"] for path in package.glob(pattern)
    ]
    assert package / "py.typed" in shipped
    assert {path.name for path in shipped} >= {"digits.npz", "ATTRIBUTION.md"}


def test_every_folder_of_the_package_is_shipped() -> None:
    package = Path(numod.__file__).parent
    # setuptools passes over folders without one
    assert [path for path in package.rglob("*.py") if not (path.parent / "__init__.py").is_file()] == []


def test_the_command_tells_the_version() -> None:
    finished = python("-m", "numod", "--version")
    assert finished.returncode == 0 and finished.stdout.split() == ["numod", numod.version.release]


def test_help() -> None:
    finished = python("-m", "numod", "--help")
    assert finished.returncode == 0 and "demo" in finished.stdout


@pytest.mark.parametrize(
    "name, meant", [("soft_max", "softmax"), ("manual_sed", "manual_seed"), ("float23", "float32")]
)
def test_a_misspelled_name_of_the_namespace_is_suggested(name: str, meant: str) -> None:
    """Python compares at most 750 names, and numod has more."""
    with pytest.raises(AttributeError, match=rf"module 'numod' has no attribute '{name}'\. Did you mean: '{meant}'\?$"):
        getattr(numod, name)
    assert not hasattr(numod, "no_such_name_at_all")


def test_errors_of_misspelled_names_carry_what_python_suggests_from() -> None:
    layer = numod.nn.Linear(2, 2)
    for owner, name, meant in (
        (numod.nn, "Conv2D", "Conv2d"),
        (numod.nn.functional, "rleu", "relu"),
        (numod.optim, "Adamm", "Adam"),
        (numod.ones(2), "sofmax", "softmax"),
        (layer, "wieght", "weight"),
    ):
        with pytest.raises(AttributeError) as error:
            getattr(owner, name)
        assert error.value.name == name and error.value.obj is owner and meant in dir(owner) and len(dir(owner)) < 750


def test_a_star_import_takes_names_that_are_imported_at_first_use() -> None:
    names: dict[str, object] = {}
    exec("from numod import *", names)
    assert {"Tensor", "save", "load", "vmap", "quantize_per_tensor", "nn", "autocast"} <= names.keys()
    assert "distributed" not in names or names["distributed"] is numod.distributed
