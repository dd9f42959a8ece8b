"""Changed program files: each raises an error that names the op and attribute, or runs within its tensors' memory and
executes no other code.

The sample takes about ten seconds, mostly to record the programs; the marker `fuzz` about a minute for each kind of
change.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import hostile
import numod
import numod as torch
from numod.device.layout import layout
from numod.graph import Executable
from numod.graph import trace
from numod.graph.passes.freezing import with_transformed_weights
from numod.nn import functional as F
from numod.ops import contract
from numod.ops.op import Op
from numod.ops.reduce import scan
from numod.ops.update import Update
from numod.serialization import CheckpointError, load_program, save_program
from numod.serialization.program import _ops_by_name

RUN_ERRORS = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, MemoryError, OverflowError)
MOST = 1_000_000  # elements of a program that is run
SAMPLE = ("mlp", "embedding", "views", "writes", "gather", "flips", "integers", "join")


def check(content: bytes, folder: Path) -> bool:
    """Whether the program loads; it is run as well."""
    path = folder / "program.safetensors"
    path.write_bytes(content)
    try:
        program = load_program(path)
    except (ValueError, CheckpointError):
        return False
    if sum(value_layout.size for value_layout in program.layouts.values()) <= MOST:
        try:
            program(*hostile.inputs_for(program))
        except RUN_ERRORS as error:
            assert "a kernel failed" not in str(error)
    return True


def check_many(names: tuple[str, ...], change: Callable, count: int, folder: Path, first: int = 0) -> tuple[int, int]:
    """How many of so many changed programs, of these numbers on, loaded, and how many were refused."""
    results = [0, 0]
    for number in range(first, first + count):
        content, _ = hostile.program_file(names[number % len(names)])
        changed = change(content, random.Random(f"{change.__name__} {number}"))
        try:
            if changed is not None:
                results[not check(changed, folder)] += 1
        except BaseException as error:
            error.add_note(f"the change {change.__name__} {number} of {names[number % len(names)]!r}")
            raise
        assert not (folder / hostile.MARK).exists()
    return results[0], results[1]


def text_changed(folder: Path) -> Callable:
    def changed(content: bytes, draw: random.Random) -> bytes:
        return hostile.changed_program(content, draw, str(folder / hostile.MARK))

    return changed


def replanned(content: bytes, draw: random.Random) -> bytes | None:
    try:
        return hostile.replanned(content, draw)
    except Exception:  # the op itself refuses to plan it
        return None


def test_some_changed_programs(tmp_path: Path) -> None:
    loaded, refused = check_many(SAMPLE, text_changed(tmp_path), 200, tmp_path)
    assert loaded > 3 and refused > 100


def test_some_programs_with_other_attributes_and_all_layouts_that_follow(tmp_path: Path) -> None:
    loaded, refused = check_many(SAMPLE, replanned, 80, tmp_path)
    assert loaded > 10 and refused > 5


@pytest.mark.fuzz
def test_many_changed_programs(tmp_path: Path) -> None:
    loaded, refused = check_many(tuple(hostile.PROGRAMS), text_changed(tmp_path), 2000, tmp_path)
    assert loaded > 20 and refused > 1000


@pytest.mark.fuzz
def test_many_programs_with_other_attributes(tmp_path: Path) -> None:
    loaded, refused = check_many(tuple(hostile.PROGRAMS), replanned, 800, tmp_path)
    assert loaded > 100 and refused > 100


@pytest.mark.parametrize(
    "name",
    [
        *SAMPLE,
        *[pytest.param(program, marks=pytest.mark.fuzz) for program in hostile.PROGRAMS if program not in SAMPLE],
    ],
)
def test_saved_programs_load_and_compute_the_same(name: str, tmp_path: Path) -> None:
    content, inputs = hostile.program_file(name)
    (tmp_path / "p").write_bytes(content)
    function, _ = hostile.PROGRAMS[name]()
    numod.manual_seed(0)
    expected = function(*[input.clone() for input in inputs])
    numod.manual_seed(0)
    assert _flat(load_program(tmp_path / "p")(*inputs)) == pytest.approx(_flat(expected), nan_ok=True)


def _flat(results: object) -> list:
    if isinstance(results, numod.Tensor):
        results = results.detach()
        return (
            numod.view_as_real(results).reshape(-1).tolist()
            if results.is_complex()
            else results.reshape(-1).to(numod.float64).tolist()
        )
    return [] if results is None else [leaf for part in results for leaf in _flat(part)]


# ---- contracts


def test_every_op_that_a_file_can_name_has_a_contract() -> None:
    for key, op in _ops_by_name().items():
        parsed = contract.parse(op.takes)
        assert parsed.any_count or tuple(input.name for input in parsed.inputs) == tuple(op.inputs), key
        assert isinstance(op, numod.ops.pointwise.Pointwise) or tuple(
            attribute.name for attribute in parsed.attributes
        ) == tuple(op.attributes), key
        for attribute in parsed.attributes:
            words = attribute.kind.split("|")
            assert (
                attribute.kind in (*contract._KINDS, "axis")
                or contract._RANGE.fullmatch(attribute.kind)
                or len(words) > 1
            ), (
                key,
                attribute,
            )


def test_the_names_of_ops_in_files_stay() -> None:
    """Files of earlier versions have these names. Add the names of new ops; remove none, and rename no op's class.

    In a new process, since some modules of ops are imported on first use.
    """
    code = "from numod.serialization.program import _ops_by_name; print(*sorted(_ops_by_name()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == (Path(__file__).parent / "data" / "op_names.txt").read_text().split()


def test_an_op_may_move_to_another_module(monkeypatch, tmp_path) -> None:
    with numod.no_grad():
        save_program(trace(lambda x: x.cumsum(0), X), tmp_path / "p")
    moved = ModuleType("numod.ops.moved")
    for name, value in list(vars(scan).items()):
        if isinstance(value, Op):
            setattr(moved, name, value)
            monkeypatch.delattr(scan, name)
    monkeypatch.setitem(sys.modules, moved.__name__, moved)
    _ops_by_name.cache_clear()
    try:
        program = load_program(tmp_path / "p")
    finally:
        monkeypatch.undo()
        _ops_by_name.cache_clear()
    assert program(X).equal(X.cumsum(0))


def test_every_portable_op_can_be_named() -> None:
    """Ops are found in their modules, rows in their table; one kept elsewhere could be recorded, but not saved."""
    from numod.core.convert.transfer import Move
    from numod.ops.op import every_op
    from numod.ops.pointwise import OverComplex, Pointwise
    from numod.ops.reduce.reduction import FusedMapReduce

    known = {id(value) for value in _ops_by_name().values()}
    home = [
        op
        for op in every_op()
        if op.portable
        and type(op).__module__.startswith("numod.ops")
        and not isinstance(op, (Move, OverComplex, Pointwise, FusedMapReduce, Update))
    ]
    assert [step.name for step in home if id(step) not in known] == [] and len(home) > 100


def test_no_optimizers_step_is_named() -> None:
    assert not any(isinstance(value, Update) for value in _ops_by_name().values())


def changed(function: Callable, inputs: tuple, change: Callable, folder: Path) -> Callable:
    """The program of a function, its JSON changed, as what loads it."""
    with numod.no_grad():
        save_program(trace(function, *inputs), folder / "p")
    header, program, data = hostile.parts_of((folder / "p").read_bytes())
    change(program)
    (folder / "p").write_bytes(hostile.assembled(header, program, data))
    return lambda: load_program(folder / "p")


def of(op: str, change: Callable) -> Callable:
    """A change of the step of an op."""
    return lambda program: change(next(step for step in program["steps"] if str(step.get("op", "")).endswith(op)))


def attribute(op: str, position: int, value: object) -> Callable:
    return of(op, lambda step: step["parameters"].__setitem__(position, value))


X, N = hostile.r(2, 4, 4), hostile.i(2, 3)
IMAGE, GRID = hostile.r(1, 1, 4, 4), hostile.r(1, 3, 3, 2)
GRU = numod.nn.GRU(3, 4)
PACKED = lambda x, n: hostile.packed(GRU, x, n + 1)  # noqa: E731
CODE = "0) or __import__('os') #"
REFUSED = {
    "text for a number": (lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGE, GRID),
        attribute(".grid_sample", 3, {"tuple": [0, CODE]}),
        "grid_sample: attribute 'orders' must be a tuple of 2, each an int from 0 to 3"),
    "text for a word": (lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGE, GRID),
        attribute(".grid_sample", 0, CODE),
        "grid_sample: attribute 'mode' must be one of 'nearest', 'bilinear', 'bicubic'"),
    "a number for a flag": (lambda x: x.sum(1), (X,), attribute(".sum", 1, 1),
        "sum: attribute 'keepdim' must be True or False, got 1"),
    "a flag for a number": (lambda x: x.cumsum(1), (X,), attribute(".cumsum", 0, True),
        "cumsum: attribute 'dim' must be a dimension, got True"),
    "an axis that is not there": (lambda x: F.softmax(x, 1), (X,), attribute(".softmax", 0, 3),
        "softmax: attribute 'dim' must be a dimension, got 3"),
    "a list for a tuple": (lambda x: x.flip(0), (X,), attribute(".flip", 0, {"list": [0]}),
        r"flip: attribute 'dims' must be a tuple of any length, each a dimension, got \[0\]"),
    "too few attributes": (lambda x: x.sum(1), (X,), of(".sum", lambda step: step["parameters"].pop()),
        r"sum: has 3 attributes \(dims, keepdim, dtype\), got 2"),
    "a huge number": (lambda x: x.select(0, 1), (X,), attribute(".select", 1, 1 << 63),
        "select: attribute 'index' must be an int from 0 to any"),
    "a slice beyond its tensor": (lambda x: x[1:, :2], (X,), attribute(".slice", 2, 5),
        "slice: attribute 'length' must end within"),
    "a view beyond its memory": (lambda x: x.as_strided((2, 2), (1, 1)), (X,), attribute(".as_strided", 2, 30),
        r"step 0 \(as_strided\) makes a view of elements 30 to 33 of 32"),
    "windows beyond an image": (lambda x: F.avg_pool2d(x, 2), (X,), attribute(".average_pool", 4, {"tuple": [9, 9]}),
        "average_pool: attribute 'sizes' must fit windows"),
    "another op": (lambda x: x.sum(1), (X,), of(".sum", lambda step: step.__setitem__("op", "Softmax.softmax")),
        "softmax: has 1 attributes"),
    "no op": (lambda x: x.sum(1), (X,), of(".sum", lambda step: step.__setitem__("op", "os.system")),
        "there is no op 'os.system'"),
    "an optimizer's step": (lambda x: x.sum(1), (X,), of(".sum", lambda step: step.__setitem__("op", "Update.sgd")),
        "there is no op 'Update.sgd'"),
    "text for an input": (lambda x: x * 2, (X,), of(".mul", lambda step: step["inputs"].__setitem__(1, CODE)),
        r"step 0 \(mul\): an input must be a value, a number or null"),
    "text for what a check finds": (lambda x, n: F.embedding(n, x[0]), (X, N),
        lambda program: next(step for step in program["steps"] if "check" in step).__setitem__("found", CODE),
        "a check must expect a number"),
    "a sum of another kind": (lambda x: x.sum(1), (X,), attribute(".sum", 2, {"dtype": "os"}),
        "there is no dtype 'os'"),
    "a part of what is not complex": (lambda x: x.exp(), (X,),
        of(".exp", lambda step: step.__setitem__("op", "ComplexPart.sgn")),
        "sgn: it must compute with a complex dtype"),
    "complex numbers as integers": (lambda x: torch.where(x > 0, x, 1), (X,),
        of(".where",
            lambda step: (step["inputs"].__setitem__(1, {"complex": ["1.0", "2.0"]}),
                step.__setitem__("parameters", [{"dtype": "int64"}]))), "where: attribute 'compute' must be complex"),
    "an index of floats": (lambda x, n: x[0].gather(1, n), (X, N),
        of(".gather", lambda step: step["inputs"].__setitem__(1, {"value": 0})),
        "gather: input 'index' must be a tensor of int64"),
    "sizes that do not fit": (lambda x: x @ x, (X,),
        lambda program: program["layouts"].__setitem__(0, [0, "float32", [2, 4, 5], [20, 5, 1]]), "matmul|size"),
    "a step without a line": (lambda x: x * 2, (X,), of(".mul", lambda step: step.pop("where")),
        "step 0 lacks 'where'"),
    "deep results": (lambda x: x * 2, (X,), lambda program: program.__setitem__("outputs", _deep(60)),
        "nested too deeply"),
    "very deep results": (lambda x: x * 2, (X,), lambda program: program.__setitem__("outputs", _deep(400)), "damaged"),
    "not a number of JSON": (lambda x: x * 2, (X,),
        of(".mul", lambda step: step["inputs"].__setitem__(1, float("nan"))), "NaN is not JSON"),
    "room for fewer rows than sequences": (PACKED, (hostile.r(5, 2, 3), N[0, :2]),
        attribute(".gru_layer", 0, {"tuple": [-1] * 5}),
        "gru_layer: attribute 'counted' must be the rows of each step, 10 in all"),
    "room at some steps": (PACKED, (hostile.r(5, 2, 3), N[0, :2]),
        attribute(".gru_layer", 0, {"tuple": [2, -2, -2, -2, -2]}),
        "gru_layer: attribute 'counted' must be the rows of each step, 10 in all"),
    "the same input twice": (lambda x: x * 2, (X,), lambda program: program["inputs"].append(0), "twice"),
    "a layout of a huge size": (lambda x: x * 2, (X,),
        lambda program: program["layouts"][0].__setitem__(2, [1 << 40, 1 << 40, 1]), "a layout of shape"),
}  # fmt: skip


def _deep(depth: int) -> dict:
    results: dict = {"value": 0}
    for _ in range(depth):
        results = {"tuple": [results]}
    return results


@pytest.mark.parametrize("case", REFUSED)
def test_errors_name_the_invalid_part(case: str, tmp_path: Path) -> None:
    function, inputs, change, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        changed(function, inputs, change, tmp_path)()


@pytest.mark.parametrize("case", ["fewer taps", "a stride"])
def test_transformed_weights_fit_their_convolution(case: str, tmp_path: Path) -> None:
    weight, x = numod.randn(32, 32, 3, 3), numod.randn(1, 32, 16, 16)
    with numod.no_grad():
        program = with_transformed_weights(trace(lambda x: F.conv2d(x, weight, padding=1), x))
    (step,) = program.steps
    save_program(program, tmp_path / "p")
    assert load_program(tmp_path / "p")(x).equal(F.conv2d(x, weight, padding=1))
    if case == "a stride":
        step.attributes = ((2, 2), *step.attributes[1:])
        program.layouts[step.results[0]] = layout((1, 32, 8, 8), numod.float32, x.device)
    else:
        program.held[step.inputs[2]] = numod.randn(16)
        program.layouts[step.inputs[2]] = layout((16,), numod.float32, x.device)
    save_program(program, tmp_path / "p")
    message = "must fit Winograd's method" if case == "a stride" else "taps must have 16896 elements, got 16"
    with pytest.raises(ValueError, match=message):
        load_program(tmp_path / "p")


def test_a_lines_name_is_only_shown(tmp_path: Path) -> None:
    line = f"'''\n\nopen({str(tmp_path / hostile.MARK)!r}, 'w')\n#" + "x" * 5000
    program = changed(
        lambda x: (x * 2 + 1).sum(), (X,), of(".mul", lambda step: step.__setitem__("where", line)), tmp_path
    )()
    assert "\n" not in program.steps[0].location and len(program.steps[0].location) <= 200
    Executable(program)(X)
    assert not (tmp_path / hostile.MARK).exists()


INDEXED = {
    "embedding": (lambda x, n: F.embedding(n, x[0]), (X, N)),
    "gather": (lambda x, n: x[0].gather(1, n), (X, N)),
    "scatter": (lambda x, n: x[0].clone().scatter_add_(1, n, x[0]), (X, N)),
    "a loss's gradient": (
        hostile.slope(lambda x, n: F.nll_loss(x[0], n[0, :1].expand(4).contiguous(), reduction="none")),
        (X, N),
    ),
}


@pytest.mark.parametrize("case", INDEXED)
@pytest.mark.parametrize("way", ["op by op", "compiled"])
def test_indices_are_checked_though_the_file_has_no_checks(case: str, way: str, tmp_path: Path) -> None:
    def without(program: dict) -> None:
        program["steps"] = [step for step in program["steps"] if "check" not in step]

    program = changed(*INDEXED[case], without, tmp_path)()
    run = program if way == "op by op" else Executable(program)
    run(X, N)
    for wrong in (1 << 40, -5):
        with pytest.raises(RuntimeError, match="check"):
            run(X, numod.full((2, 3), wrong))


def test_the_rows_of_recurrent_steps_are_what_the_attribute_says(tmp_path: Path) -> None:
    layer, x = numod.nn.LSTM(3, 4), hostile.r(5, 2, 3)
    change = of(
        "fill",
        lambda step: step["inputs"].__setitem__(0, 1000) if step["parameters"][0] == {"dtype": "int64"} else None,
    )

    def every(program: dict) -> None:
        for step in program["steps"]:
            change({"steps": [step]}) if str(step.get("op")).endswith("fill") else None

    expected = layer(x)[0].tolist()
    assert changed(layer, (x,), every, tmp_path)()(x)[0].tolist() == expected


@pytest.mark.parametrize("way", ["op by op", "compiled"])
def test_counts_of_sequences_that_there_is_no_room_for_are_refused(way: str, tmp_path: Path) -> None:
    x, lengths, counts = hostile.r(5, 2, 3), numod.tensor([4, 1]), numod.tensor([2, 2, 1, 1, 1])
    damaged = of(".gru_layer", lambda step: step["inputs"].__setitem__(4, {"value": 2}))
    program = changed(lambda x, n, counts: (PACKED(x, n), counts + 1), (x, lengths, counts), damaged, tmp_path)()
    run = program if way == "op by op" else Executable(program)
    assert run(x, lengths, counts)[0].equal(PACKED(x, lengths))
    for wrong in ([3, 2, 1, 1, 1], [-1, 2, 1, 1, 1], [1 << 40] * 5):
        with pytest.raises(RuntimeError, match="check"):
            run(x, lengths, numod.tensor(wrong))


def test_inputs_of_a_call_are_those_of_the_program(tmp_path: Path) -> None:
    program = changed(lambda x: x * 2, (X,), lambda program: None, tmp_path)()
    for wrong in (X[0], X.double(), X.mT):
        for run in (program, Executable(program)):
            with pytest.raises(RuntimeError, match="recorded as|was recorded"):
                run(wrong)
