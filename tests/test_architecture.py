"""The design, held: who imports whom, where njit may stand, that every module says what it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import numod

PACKAGE = Path(numod.__file__).parent
# each may import those before it
FOLDERS = [
    "device",
    "kernel",
    "ops",
    "core",
    "autograd",
    "graph",
    "distributed",
    "nn",
    "distributions",
    "func",
    "optim",
    "utils",
    "profiler",
    "testing",
    "serialization",
    "ao",
    "export",
    "onnx",
    "datasets",
    "learner",
]  # fmt: skip
# top-level namespaces above all folders
FREE = {
    "amp",
    "__init__",
    "__main__",
    "completion",
    "demo",
    "docs",
    "examples",
    "prebuilt",
    "inventory",
    "model_commands",
    "tools",
    "linalg",
    "fft",
    "cuda",
    "backends",
    "special",
    "random",
    "paths",
    "__future__",
    "_pyinstaller",
    "array_api",
}  # fmt: skip
GROUND = {
    "errors",
    "config",
    "dtypes",
    "formats",
    "futures",
    "notebook",
    "tracebacks",
    "version",
    "weak_values",
}  # top-level files below all folders
MODULES = sorted(PACKAGE.rglob("*.py"))
# names that the field does not use: where (everywhere for ""), and the term to write instead; underscores around a name
# do not count
RETIRED = {
    "": {
        "Average": "AvgPool",
        "Begins": "RunStarts",
        "Bounded": "CheckedIndex",
        "Closing": "a fused map-reduce",
        "Disagreement": "DataDependentError",
        "Examples": "BatchedTensor",
        "FLAT": "is_gpu",
        "Finish": "Epilogue",
        "Finished": "WithEpilogue",
        "Greatest": "MaxPoolValues",
        "Later": "LazyScalar",
        "Look": "StateVisitor",
        "Picture": "Snapshot",
        "Read": "Gather",
        "Recipe": "BackwardPlan",
        "Stretch": "RepeatedRun",
        "Walk": "GuardBuilder",
        "Witness": "Capture",
        "acted": "schedule_stepped",
        "asks": "reading_update_numbers",
        "asks_for": "argument names",
        "behind": "originals",
        "bring": "load_tile",
        "bring_turned": "load_tile_transposed",
        "chances": "attention weights, probabilities",
        "door": "trampoline",
        "elsewhere": "common_device",
        "for_examples": "a batching rule",
        "gifts": "a tile of d_out",
        "give_tile": "store_tile",
        "look": "branched",
        "loose": "dynamic_places",
        "near_query": "q_tile",
        "notice": "created_on_other_thread",
        "pass_on": "accumulate",
        "patient": "has_fallback",
        "planned_for_examples": "a batching rule",
        "quick": "build_guards",
        "reads_anew": "rereads_scalars",
        "reads_halves": "supports_half",
        "recode": "replace_code",
        "spots": "number_places",
        "stand_in": "mark_exported",
        "stands": "is_symbolic",
        "steering": "specialised_on",
        "telling": "write_partials",
        "turn_in": "load_transposed",
        "turner": "a transpose copy",
        "waist": "dispatch",
        "weigh_line": "filter_row",
        "weighing": "depthwise_fma",
        "widens": "upcasts_half",
    },
    "autograd": {"foreign": "is_custom_function", "hidden": "what they index", "uses": "what they index"},
    "core": {"Reading": "ViewAsDtype"},
    "graph": {
        "Reading": "ScalarExpression",
        "door": "trampoline",
        "free": "dynamic_variant",
        "reach": "build_guards",
        "told": "a partial result",
        "which": "dynamic_paths",
        "within": "is_inner",
    },
    "kernel": {
        "board": "a tile buffer",
        "leave": "store_transposed",
        "slopes": "d_scores",
        "team": "a thread block",
        "told": "a partial result",
        "turning": "a transpose copy",
    },
    "ops": {
        "Part": "ComplexPart",
        "Reading": "ViewAsDtype",
        "Write": "Scatter",
        "leave": "store_transposed",
        "levels": "delta",
        "near": "shared memory",
        "parameters": "attributes",
        "slopes": "d_scores",
        "team": "a thread block",
        "told": "a partial result",
        "turned": "transposed",
        "turning": "a transpose copy",
    },
}
# names that do not say what a variable holds, and the folders where they are terms: a program's held tensors
VAGUE = {
    "each": "",
    "found": "",
    "given": "",
    "held": "export graph onnx serialization shared",
    "kept": "",
    "legacy": "",
    "named": "",
    "older": "",
    "own": "",
    "place": "",
}

# words that do not say, alone, what a constant of a module is the size or number of
QUANTITIES = set(
    """AHEAD ANY BROAD DEEP FAR FEW FEWEST FULL HUGE LARGE LARGEST LEAST LONG LONGEST MANY MARGIN MOST NEAR SHORT SMALL
    SPARE TINY WHOLE WIDE WIDEST""".split()
)


ROOT = PACKAGE.parent
OTHER_FILES = sorted(path for folder in ("tests", "perf") for path in (ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))


@cache
def _nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree, the module first."""
    return list(ast.walk(ast.parse(path.read_text())))


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """The trees are a million objects, which later tests' collections of garbage would go through."""
    yield
    _nodes.cache_clear()


def _imported(path: Path) -> set[str]:
    """Top-level parts of numod that a module imports, wherever in it."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    imported = set()
    for_types = {
        id(node)
        for block in _nodes(path)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
    }
    for node in _nodes(path):
        if id(node) in for_types:  # imports of type checkers do not run
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            base = list(parts[:-1])[: len(parts) - node.level]
            target = base + (node.module.split(".") if node.module else [])
            imported |= {target[0]} if target else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "numod":
            imported.add((node.module.split(".") + ["__init__"])[1])
    return imported


def test_a_folder_imports_only_from_folders_above() -> None:
    further = {_name(path): _imported(path) - {"__version__"} - _importable(path) for path in MODULES}
    assert {name: imported for name, imported in further.items() if imported} == {}


def _importable(path: Path) -> set[str]:
    """The top-level parts of numod that a module may import."""
    home = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if home in FREE:
        return _imported(path)
    allowed = GROUND if home in GROUND else GROUND | set(FOLDERS[: FOLDERS.index(home) + 1])
    if home == "learner":
        allowed |= {"amp"}  # MixedPrecision
    if home == "ao":
        allowed |= {"paths"}  # PyTorch's paths below its namespaces
    if home == "onnx":
        allowed |= {"__init__"}  # ONNX's operators are written with the public functions
    return allowed


def test_the_repository_has_three_folders() -> None:
    command = ["git", "-C", str(PACKAGE.parent), "ls-files"]
    try:
        files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout")
    folders = {path.partition("/")[0] for path in files if "/" in path}
    assert folders <= {".ci", "numod", "perf", "tests"}


def test_every_module_says_what_it_is() -> None:
    assert [_name(path) for path in MODULES if len(ast.get_docstring(_nodes(path)[0]) or "") <= 20] == []


NAME_FIELDS = {"id", "attr", "arg", "name", "asname"}


def _identifiers(path: Path) -> dict[str, int]:
    """All names of a module, without the underscores around them, with a line where each occurs."""
    names = {}
    for node in _nodes(path):
        occurring = [getattr(node, field) for field in node._fields if field in NAME_FIELDS]
        occurring += getattr(node, "names", []) if isinstance(node, (ast.Global, ast.Nonlocal)) else []
        for name in occurring:
            if isinstance(name, str):
                names |= {part.strip("_"): node.lineno for part in name.split(".")}
    return names


def test_names_are_terms_of_the_field() -> None:
    assert [line for path in MODULES for line in _other_terms(path)] == []


def _other_terms(path: Path) -> list[str]:
    folder = path.relative_to(PACKAGE).parts[0]
    terms = RETIRED[""] | RETIRED.get(folder, {})
    terms |= {name: "what the variable holds" for name, folders in VAGUE.items() if folder not in folders.split()}
    lines = _identifiers(path)
    return [
        f"{_name(path)}, line {lines[name]}: {name}, write {terms[name]}"
        for name in sorted(lines.keys() & terms.keys())
    ]


def test_constants_say_what_they_limit() -> None:
    vague = {_name(path): _constants(path) & QUANTITIES for path in MODULES}
    assert {name: constants for name, constants in vague.items() if constants} == {}


def _constants(path: Path) -> set[str]:
    """The names that a module assigns at its top level."""
    assigned = [target for node in _nodes(path)[0].body if isinstance(node, ast.Assign) for target in node.targets]
    return {name.id.strip("_") for target in assigned for name in ast.walk(target) if isinstance(name, ast.Name)}


# names of other libraries: `hypothesis.given`, an argument of `compileall.compile_dir`
FOREIGN = {("tests/serialization/test_checkpoint.py", "given"), ("tests/test_frozen.py", "legacy")}


def test_names_in_tests_say_what_they_hold() -> None:
    vague = []
    for path in OTHER_FILES:
        folders = set(path.relative_to(ROOT).parts)
        refused = {name for name, allowed in VAGUE.items() if not folders & set(allowed.split())} | {"told", "turned"}
        vague += [
            f"{_name(path)}:{line}: {name}"
            for name, line in _identifiers(path).items()
            if name in refused and (_name(path), name) not in FOREIGN
        ]
    assert vague == []


# folders of tests without a folder of their name in numod/
SUITES = {
    "cuda": "the device `cuda` in the simulator, as PTX and on a GPU",
    "guide": "the pages of `numod/guide`",
    "perf": "the tables of `perf/`",
    "zoo": "networks as people write them, over all of numod",
}
# tests without a module of their name
SEVERAL_MODULES = {
    "ao": {
        "backend_config": "`numod.ao.quantization.backend_config`",
        "correct_bias": "`numod.ao.quantization._correct_bias`",
        "dynamic_convolution": "`numod.ao.nn.quantized.dynamic.convolution`",
        "equalize": "`numod.ao.quantization._equalize`",
        "graph_equalize": "`prepare_fx(_equalization_config=)` and what conversion makes of it",
        "graph_mode": "from `prepare_fx` to the converted model",
        "graph_values": "which observer each value of a graph has",
        "layers": "of all kinds in `numod.ao.nn`",
        "mistakes": "of users, in all of `numod.ao`",
        "model_report": "`numod.ao.quantization.fx._model_report`",
        "names": "of PyTorch's quantization",
        "numeric_suite": "`numod.ao.ns._numeric_suite`",
        "primitives": "`numod.ao.quantization.primitives`",
        "quantizable": "`numod.ao.nn.quantizable`",
        "quantize_api": "`quantize_`, for all configurations",
        "recipe": "from `prepare` to the converted model",
        "report": "`numod.ao.quantization.report`",
        "scheduler": "`numod.ao.pruning.scheduler`",
        "sparsifier": "`numod.ao.pruning.sparsifier`",
    },
    "core": {"wide_unsigned": "the dtypes uint16, uint32 and uint64"},
    "distributed": {
        "ddp": "layers and optimizers over several processes",
        "guide": "the programs of a page of the guide",
        "launching": "`run`, `spawn`, and failures of ranks",
    },
    "export": {
        "dynamic": "programs for many sizes, and their native code",
        "entries": "several entry points in one library",
        "guide": "the examples of a page of the guide",
        "jit": "`numod.jit`",
        "python": "exported networks called from Python",
        "training": "exported training steps",
    },
    "onnx": {
        "backend": "the cases of the package `onnx`",
        "guide": "the examples of a page of the guide",
        "hostile": "damaged files",
        "round": "networks that are exported and loaded again",
        "runtime": "operators of ONNX Runtime",
    },
    "paths": {"private_names": "names with an underscore"},
    "ops/convolution": {"byte": "`int8`, by its public function"},
    "": {
        "architecture": "rules for all files",
        "calls": "the arguments of all calls",
        "frozen": "applications without .py files",
        "package": "the distribution",
        "readme": "the README",
        "stubs": "the stubs",
        "threads": "threads and forks, over all of numod",
        "types": "what type checkers accept",
    },
}


def _subject(path: Path) -> str | None:
    """The module or folder of numod that a test file is named after: `test_NAME.py` or `test_NAME_aspect.py`."""
    folder = path.parent.relative_to(ROOT / "tests")
    words = path.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    home, known = PACKAGE / folder, SEVERAL_MODULES.get(folder.as_posix().removeprefix("."), {})
    for name in names:
        if (home / f"{name}.py").exists() or (home / name / "__init__.py").exists():
            return f"{folder}/{name}"
        if name in known or (name == folder.name and home.is_dir()):
            return str(folder)
    return None


TESTS = [path for path in OTHER_FILES if path.is_relative_to(ROOT / "tests") and path.name.startswith("test_")]


def test_tests_mirror_the_package() -> None:
    """A test file has the folder and the name of its module, of a folder of modules, or of the folder that it is in."""
    tests = [path for path in TESTS if path.parent.relative_to(ROOT / "tests").parts[:1] not in {(s,) for s in SUITES}]
    assert [_name(path) for path in tests if _subject(path) is None] == []


def test_exceptions_from_the_mirror_exist() -> None:
    stems = {path.relative_to(ROOT / "tests").with_suffix("").as_posix() for path in TESTS}
    for folder, names in SEVERAL_MODULES.items():
        for name in names:
            start = f"{folder}/test_{name}" if folder else f"test_{name}"
            assert any(stem == start or stem.startswith(f"{start}_") for stem in stems), start
            assert not (PACKAGE / folder / f"{name}.py").exists(), start
    assert all((ROOT / "tests" / suite).is_dir() for suite in SUITES)


def test_suites_of_ci_see_every_test_of_their_marker() -> None:
    """`.ci/run` passes them the files in which their marker occurs, so no module that others import may define it."""
    markers = set(re.findall(r"\$\(marked '?([\w|]+)", (ROOT / ".ci" / "run").read_text()))
    assert len(markers) == 4
    for path in (ROOT / "tests" / "shared").rglob("*.py"):
        assert not re.search(rf"mark\.({'|'.join(markers)})\b", path.read_text()), path


COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "cfunc"}


def test_compilers_stand_in_device_only() -> None:
    others = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] != "device"]
    assert [_name(path) for path in others if _compilers(path)] == []


def _compilers(path: Path) -> set[str]:
    """The compilers of Numba that a module names."""
    nodes = _nodes(path)
    names = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in nodes
        if isinstance(node, (ast.Attribute, ast.Name))
    }
    arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}  # one of PyTorch's is called `vectorize`
    return (names - arguments) & COMPILERS


def test_lapack_is_called_in_one_place() -> None:
    # there `device.blas` limits its threads
    assert [_name(path) for path in MODULES if "np.linalg" in path.read_text()] == ["ops/linalg/factorization.py"]


# packages of optional extras, by the part of numod that imports them where they are needed
EXTRAS = {"docs.py": {"sphinx"}, "onnx": {"onnx", "onnxruntime"}}


def _imported_packages(nodes: Iterable[ast.AST]) -> set[str]:
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [
        name
        for node in imports
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if not node.level
            else []
        )
    ]
    return {name.split(".")[0] for name in names}


def test_dependencies_are_numba_numpy_llvmlite() -> None:
    optional = {"mpi4py", "PIL", "pyarrow"}  # imported where it is first needed
    allowed = set(sys.stdlib_module_names) | {"numba", "numpy", "llvmlite", "numod"} | optional
    for path in MODULES:
        if _name(path).startswith("_pyinstaller/hook-"):  # PyInstaller runs it
            continue
        nodes = _nodes(path)
        if path.parent.name == "_pyinstaller":  # only PyInstaller imports its hooks
            continue
        extras = EXTRAS.get(_name(path), EXTRAS.get(_name(path).split("/")[0], set()))
        assert _imported_packages(nodes) <= allowed | extras, path
        assert not _imported_packages(nodes[0].body) & extras, f"{path} imports an optional package before it is needed"


def test_import_loads_neither_numba_nor_a_framework() -> None:
    code = "import sys, numod; print(sorted(m for m in ('numba', 'llvmlite', 'torch', 'inspect') if m in sys.modules))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numba" not in completed.stdout and "llvmlite" not in completed.stdout and "torch" not in completed.stdout


def test_import_leaves_slow_modules_to_those_who_need_them() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import numod; print(sorted({'numpy.random', 'hashlib', "
        "'secrets'} & (set(sys.modules) - before)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_random_numbers_are_drawn_before_the_transforms_are_imported() -> None:
    code = (
        "import sys, numod; numod.rand(2); numod.nn.functional.dropout(numod.ones(2)); print('numod.func' in "
        "sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_row_has_a_reference_in_the_tests() -> None:
    from accuracy import UNARY
    from divergences import CASES
    from references import HELPERS
    from two_inputs import BINARY
    from numod.ops import pointwise
    from numod.ops.reduce import reduction

    assert set(HELPERS.values()) <= UNARY.keys() | BINARY.keys() | CASES.keys()
    tests = Path(__file__).parent
    text = "".join(path.read_text() for path in (*(tests / "ops").rglob("*.py"), tests / "shared" / "references.py"))
    # norm1 and norm2 are reached through norm
    names = [*(pointwise.rows.keys() - HELPERS), *(name.rstrip("12") for name in reduction.rows)]
    missing = [name for name in names if f'"{name}"' not in text and f"{name}=" not in text and f".{name}(" not in text]
    assert not missing


def test_the_table_is_as_large_as_promised() -> None:
    from numod.ops import pointwise

    assert len(pointwise.rows) >= 70


# `pointwise` edits the letters of strides, which are no kernel.
TEXT_IS_EDITED = {"ops/pointwise.py"}


def test_no_op_edits_the_source_of_a_kernel() -> None:
    editing = [_name(path) for path in MODULES if "ops" in path.parts and _edits_text(path)]
    assert set(editing) <= TEXT_IS_EDITED, "specialise the kernel (kernel.specialize)"


def _edits_text(path: Path) -> bool:
    """Whether a module calls `re.sub` or a method `replace`."""
    nodes = [node.func for node in _nodes(path) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    edits = {(getattr(node.value, "id", ""), node.attr) for node in nodes} & {("re", "sub"), ("re", "subn")}
    replaced = [node for node in nodes if node.attr == "replace" and getattr(node.value, "id", "") != "dataclasses"]
    return bool(edits or replaced)


def test_every_kernel_of_the_registry_resolves() -> None:
    from numod.kernel import scalar, specialize

    for function in scalar.functions.values():
        specialize.specialized(function)


def test_no_module_of_graph_imports_itself_through_others() -> None:
    def imports(path: Path) -> set[Path]:
        nodes = _nodes(path)
        annotations = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node)]
        ignored = {id(node) for part in annotations for node in ast.walk(part)}
        imported = set()
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.level and id(node) not in ignored:
                base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                imported |= {base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)}
        return imported & set(modules)

    modules = sorted((PACKAGE / "graph").rglob("*.py"))
    remaining = {path: imports(path) for path in modules}
    while leaves := [path for path, needed in remaining.items() if not needed & remaining.keys()]:
        for path in leaves:
            del remaining[path]
    assert not remaining


def test_no_class_of_graph_has_many_fields() -> None:
    """A class with more fields does several things, and becomes several classes."""

    def fields(kind: ast.ClassDef) -> set[str]:
        return {
            node.attr
            for node in ast.walk(kind)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
        }

    counts = {
        node.name: len(fields(node))
        for path in (PACKAGE / "graph").rglob("*.py")
        for node in _nodes(path)
        if isinstance(node, ast.ClassDef)
    }
    assert counts["Compiled"] <= 10 and not {name: count for name, count in counts.items() if count > 25}
