"""Names in kernel sources: formulas, loops, values and random numbers use disjoint names."""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import re
from collections import Counter

import pytest

import numod
from numod import dtypes
from numod.device import cuda_tensor_cores, cuda_vectors
from numod.kernel import block, block_products, build, emit, folds, scalar, tensor_cores, writer
from numod.kernel.expression import Symbol, as_expression
from numod.ops.matmul import tiled
from numod.ops import table
from numod.ops.convolution import depthwise, implicit_gemm_forward, winograd
from numod.ops.pointwise import rows
from numod.ops.update import rows as updates

# the class of the first tensor, and the rank
LOOPS = [("1", 1), ("s", 1), *((inner, rank) for rank in (2, 3, 4, 5) for inner in "1st")]
TAKEN = (
    "start end drawn first index inner k low max min n place rows row run share step strip t0 x_0 x_n x_base range "
    "float32 sqrt"
).split()


def loop_of(names: list[str], drawing: bool) -> writer.Loop:
    """A loop with inputs of these names that adds them up, and a random number."""
    inputs = [writer.Input(writer.argument_name(name), dtypes.float32) for name in names]
    numbers = [
        writer.Input(writer.argument_name(name), dtypes.int64, False, integer=True) for name in ("seed", "offset")
    ]
    total = table.add(*(Symbol(input.name) for input in inputs[:2]))
    for input in inputs[2:]:
        total = table.add(total, Symbol(input.name))
    total = table.mul(total, rows["random_uniform"](*(Symbol(number.name) for number in numbers))) if drawing else total
    return writer.Loop((*inputs, *numbers), (writer.Output(as_expression(total), dtypes.float32),), dtypes.float32)


def stores(text: str) -> Counter[str]:
    """How often a text assigns each name."""
    return Counter(
        node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def parameters(text: str) -> list[str]:
    return [
        arg.arg for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) for arg in node.args.args
    ]


def declared(name: str) -> bool:
    """Whether a name is a formula's input, or a result."""
    return name.startswith("in_") or re.fullmatch(r"out\d+", name) is not None


@pytest.mark.parametrize("flat", [False, True], ids=["processor", "gpu"])
@pytest.mark.parametrize(("inner", "rank"), LOOPS)
def test_loops(inner: str, rank: int, flat: bool) -> None:
    for names in (TAKEN[:7], TAKEN[7:14], TAKEN[14:]):
        texts = [
            emit.pointwise(loop_of(names, drawing), inner + "1" * len(names), rank, flat)[0]
            for drawing in (False, True)
        ]
        plain, drawing = stored_names = [stores(text) for text in texts]
        for text, stored in zip(texts, stored_names):
            parameter_names = parameters(text)
            assert len(set(parameter_names)) == len(parameter_names) and all(
                parameter.startswith("_stride") for parameter in {*parameter_names} & {*stored}
            )
            assert all(name.startswith("_") or declared(name) for name in parameter_names) and all(
                name.startswith("_") for name in stored
            )
        drawn = {name for name in drawing if name.startswith("_draw_")}
        ahead = (inner, rank) == ("1", 1) if flat else inner != "t"
        assert bool(drawn) is ahead and not any(name.startswith("_draw_") for name in plain)
        # what the two bodies compute, the position, and strides that are told not to be 1
        values = re.compile(r"_t\d+(_\d)?|_index(_\d)?|_stride_.*")
        assert {name: k for name, k in drawing.items() if name not in drawn and not values.fullmatch(name)} == {
            name: k for name, k in plain.items() if not values.fullmatch(name)
        }


def test_several_loops() -> None:
    loop = loop_of(TAKEN[:7], False)
    loop = writer.Loop(loop.inputs, (loop.outputs[0]._replace(over=loop.inputs[0].name),), loop.dtype)
    for flat in (False, True):
        parameter_names = parameters("def " + emit.dense_loops("update", loop, 2, flat)[0].rpartition("\ndef ")[2])
        assert len(set(parameter_names)) == len(parameter_names) == 2 * 7 + 2 + 2 and all(
            name.startswith("_of") or declared(name) for name in parameter_names
        )


FOLD = folds.Fold(
    Symbol("x"),
    table.add(Symbol("a"), Symbol("b")),
    Symbol("a"),
    0,
    dtypes.float32,
    dtypes.float32,
    dtypes.float64,
    dtypes.float32,
)
FOLDS = {
    **{f"rows {inner} {rank} {case}": folds.rows(FOLD, inner, rank, rank, **case)[0] for inner, rank,
        case in itertools.product("1s", (0, 1, 3), ({}, {"joined": True}, {"short": True}))},
    "across": folds.rows(FOLD, "s", 2, 2, across=True)[0], "block": folds.block_rows(FOLD, 2, 2, 64)[0],
    **{f"columns {inner} {few}": folds.columns(FOLD, 2, inner, few)[0] for inner,
        few in itertools.product("1s", (0, 3))},
    **{f"flat {threads}": folds.flat(FOLD._replace(map=Symbol("in_start")),
        (writer.Input("in_start", dtypes.float32), writer.Input("in_n", dtypes.float32, False)),
        threads)[0] for threads in (0, 64)},
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDS)
def test_reductions(name: str) -> None:
    assert all(store.startswith("_") for store in stores(FOLDS[name]))
    parameter_names = parameters(FOLDS[name])
    assert all(
        parameter.startswith(("_", "in_")) or parameter in ("x", "out", "partial", "scratch")
        for parameter in parameter_names
    ) and not set(parameter_names) & set(stores(FOLDS[name])) - {"_stride_x"}


def test_formulas_and_functions_have_no_such_names() -> None:
    inputs = {name for row in (*rows.values(), *updates.values()) for name in row.inputs}
    assert len(inputs) > 50 and not any(name.startswith("_") for name in inputs)
    assert not any(
        name.startswith("in_") or re.fullmatch(r"out\d+|_[a-z]\d+", name)
        for name in (*scalar.functions, *dir(builtins))
    )


@pytest.mark.parametrize(
    "tile",
    [block.SMALL_TILE, block.SIMULATOR_TILE, tensor_cores.WarpTile(2, 2, 32, 32, 32, "float16")],
    ids=["small", "tiny", "tensor cores"],
)
def test_products_of_blocks(tile: block.Tile) -> None:
    """A product's own lines assign nothing that its tile does."""
    sizes = {f"{kind}_{c}": 3 for kind in ("kernel", "pad", "stride", "step", "out") for c in "dhw"} | dict.fromkeys(
        ("groups", "images", "channels", "features", "depth", "height", "width"), 3
    )
    # what a product's texts name by agreement (`block.Operand`, `block.Product`)
    shared = {"o", "k", "i", "k_shift", "value", "batch"}
    for product in (
        block_products.matrices("inner", "outer", "int32", tile),
        *(
            make(sizes)
            for make in (
                block_products.convolution,
                block_products.convolution_input,
                block_products.convolution_weight,
            )
        ),
    ):
        counts = Counter()
        for lines in (product.batch, product.lines, block.assignments(product.column)):
            counts += stores("\n".join(lines))
        for side in (product.left, product.right):
            counts += stores("\n".join(block.assignments({**side.outer, **side.inner})))
        bare = block.Product(
            product.arguments,
            block.Operand("inner", "x", "0", jumps=("1", "1")),
            block.Operand("outer", "x", "0", jumps=("1", "1")),
            "out[0]",
            {},
        )
        assert (
            counts
            and not set(counts)
            & set(stores(block.source(bare, tile, "float32").replace("RESIDENT", "_RESIDENT"))) - shared
        )
        assert not set(product.arguments) & set(stores(block.source(product, tile, "float32")))


@pytest.mark.parametrize(
    "module", [tiled, implicit_gemm_forward, depthwise, winograd], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_kernels_that_get_an_end(module: object) -> None:
    kernels = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.FunctionDef)
        and "EPILOGUE" in {node.id for node in ast.walk(node) if isinstance(node, ast.Name)}
    ]
    assert kernels
    for kernel in kernels:
        names = {*parameters(ast.unparse(kernel)), *stores(ast.unparse(kernel))}
        assert not any(name.startswith("_") and name != "_" or declared(name) for name in names)


def test_a_name_has_one_meaning_in_kernels(monkeypatch) -> None:
    provided = {*build._provided(numod.device("cpu").backend), *cuda_vectors.intrinsics()}
    provided |= cuda_tensor_cores.intrinsics().keys()
    assert not provided & scalar.functions.keys()
    monkeypatch.setitem(scalar.functions, "divide", len)
    with pytest.raises(NameError, match="provides divide to kernels already"):
        build._provided(numod.device("cpu").backend)
