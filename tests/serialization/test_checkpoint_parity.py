"""Checkpoints between numod and the installed PyTorch, in both directions."""

from __future__ import annotations

import argparse
import io
import pickle
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest

import numod
from numod import nn, optim
from numod.serialization import CheckpointError
from objects import described, objects

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
formats = pytest.mark.parametrize("modern", [True, False], ids=["zip", "legacy"])


def from_torch(value, modern=True, **options):
    """`value` saved by PyTorch and loaded by numod."""
    file = io.BytesIO()
    torch.save(
        value,
        file,
        _use_new_zipfile_serialization=modern,
        **({"pickle_protocol": options.pop("protocol")} if "protocol" in options else {}),
    )
    file.seek(0)
    return numod.load(file, **options)


def to_torch(value, **options):
    """`value` saved by numod and loaded by PyTorch, which is to run no code either."""
    file = io.BytesIO()
    file.name = "model.pt"
    numod.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True, **options)


def plain(module):
    """A Module of either library as nested lists."""
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def network(library):
    return library.Sequential(
        library.Linear(3, 4), library.ReLU(), library.Sequential(library.Linear(4, 2, bias=False))
    )


@formats
def test_several_objects_saved_into_one_file_load_one_after_another(modern):
    file = io.BytesIO()
    for number in range(3):
        torch.save(torch.full((2,), number), file, _use_new_zipfile_serialization=modern)
    file.seek(0)
    assert [numod.load(file).tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]


WHOLE = {
    "linear": (lambda of: of.Sequential(of.Linear(4, 3), of.ReLU(), of.LayerNorm(3)), (2, 4)),
    "convolution": (
        lambda of: of.Sequential(
            of.Conv2d(1, 3, 3), of.BatchNorm2d(3), of.GELU(), of.MaxPool2d(2), of.Flatten()
        ).eval(),
        (2, 1, 8, 8),
    ),
    "recurrent": (lambda of: of.GRU(4, 3, num_layers=2, bidirectional=True), (5, 2, 4)),
    "transformer": (
        lambda of: of.TransformerEncoder(of.TransformerEncoderLayer(4, 2, 8), 2, enable_nested_tensor=False).eval(),
        (5, 2, 4),
    ),
    "lazy": (lambda of: of.Sequential(of.Linear(4, 3), of.LazyLinear(2))[:1], (2, 4)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_whole_models_of_pytorch_become_models_of_numod(case):
    make, shape = WHOLE[case]
    model, x = make(torch.nn), np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with pytest.raises(CheckpointError, match="weights_only=False"):
        from_torch(model)
    actual = from_torch(model, weights_only=False)
    expected, result = model(torch.tensor(x)), actual(numod.tensor(x))
    for theirs, ours in zip(*(output if isinstance(output, tuple) else (output,) for output in (expected, result))):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert isinstance(actual, nn.Module) and repr(actual) == repr(model) and plain(actual) == plain(model)


def test_optimizers_and_functions_of_pytorch_and_what_numod_has_not():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight], lr=0.25)
    weight.sum().backward()
    optimizer.step()
    result, function = from_torch([optimizer, torch.nn.functional.relu], weights_only=False)
    assert result.param_groups[0]["lr"] == 0.25 and type(result) is optim.AdamW and function is nn.functional.relu
    assert result.param_groups[0]["params"][0].tolist() == weight.tolist()
    with pytest.raises(AttributeError, match=r"torch\.fx.*which numod does not have"):
        from_torch(torch.fx.symbolic_trace(torch.nn.Linear(2, 1)).graph, weights_only=False)


def test_plain_objects_of_numods_checkpoints_in_pytorch(tmp_path):
    numod.save({"arguments": argparse.Namespace(rate=0.1, weight=numod.ones(2))}, tmp_path / "run.pt")
    result = torch.load(tmp_path / "run.pt", weights_only=False)["arguments"]
    assert result.rate == 0.1 and result.weight.tolist() == [1, 1]


@formats
def test_state_dict_goes_over(modern):
    theirs, ours = network(torch.nn), network(nn)
    state = from_torch(theirs.state_dict(), modern)
    assert str(ours.load_state_dict(state)) == "<All keys matched successfully>" and plain(ours) == plain(theirs)
    assert (
        type(state) is OrderedDict
        and list(state) == list(theirs.state_dict())
        and state._metadata == theirs.state_dict()._metadata
    )
    values = [[0.5, -1.0, 2.0]]
    np.testing.assert_allclose(ours(numod.tensor(values)).tolist(), theirs(torch.tensor(values)).tolist(), rtol=1e-5)


def test_embedding_and_norm_go_over():
    theirs = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.BatchNorm1d(3))
    state = from_torch(theirs.state_dict())
    assert {name: (str(value.dtype)[6:], value.tolist()) for name, value in state.items()} == {
        name: (str(value.dtype)[6:], value.tolist()) for name, value in theirs.state_dict().items()
    }


def test_state_dict_comes_back():
    theirs, ours = network(torch.nn), network(nn)
    state = to_torch(ours.state_dict())
    assert str(theirs.load_state_dict(state)) == "<All keys matched successfully>" and plain(ours) == plain(theirs)
    assert type(state) is OrderedDict and state._metadata == ours.state_dict()._metadata


@formats
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, modern):
    values = torch.tensor([0.0, 1.0, 1.5]).to(getattr(torch, dtype))
    ours = from_torch(values, modern)
    assert ours.dtype.name == dtype and ours.tolist() == values.tolist()
    back = to_torch(ours)
    assert back.dtype is values.dtype and back.tolist() == values.tolist()


@formats
def test_ties_views_and_strides(modern):
    base = torch.arange(12.0).reshape(3, 4)
    ours = from_torch([base, base.t(), base[1:, ::2], base[0, 0], base[:0], torch.ones(1).expand(2, 3), base], modern)
    assert [tuple(tensor.stride()) for tensor in ours] == [(4, 1), (1, 4), (4, 2), (), (4, 1), (0, 0), (4, 1)]
    assert [tensor.storage_offset() for tensor in ours[:4]] == [0, 0, 4, 0]
    ours[0][1, 0] = 99
    assert ours[1][0, 1] == ours[2][0, 0] == ours[6][1, 0] == 99
    theirs = to_torch(ours)
    theirs[1][0, 1] = -1
    assert theirs[0][1, 0] == theirs[2][0, 0] == -1 and [tensor.stride() for tensor in theirs] == [
        tuple(tensor.stride()) for tensor in ours
    ]


@formats
def test_parameters(modern):
    weight = torch.nn.Parameter(torch.ones(2))
    noted = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    noted.note = tensor_note = "kept"
    tensor = torch.ones(2, requires_grad=True)
    tensor.mark = 3
    ours = from_torch({"a": weight, "b": weight, "noted": noted, "tensor": tensor, "computed": weight * 2}, modern)
    assert [type(value) for value in ours.values()] == [nn.Parameter] * 3 + [numod.Tensor] * 2
    assert [value.requires_grad for value in ours.values()] == [True, True, False, True, True]
    assert ours["noted"].note == tensor_note and ours["tensor"].mark == 3 and ours["a"] is ours["b"]
    theirs = to_torch(ours)
    assert theirs["noted"].note == "kept"
    assert [type(value) for value in theirs.values()] == [torch.nn.Parameter] * 3 + [torch.Tensor] * 2 and theirs[
        "a"
    ] is theirs["b"]
    assert [value.requires_grad for value in theirs.values()] == [True, True, False, True, True]


def plain_values(library):
    return {
        "none": None, "flag": True, "numbers": [0, 255, 256, 65536, -1, 1 << 40, 1 << 100, 0.1, float("inf")],
        "complex": 1 - 2j, "text": "ü" * 300, "bytes": b"\0\xff",
        "bytearray": bytearray(b"ab"), "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "set": {1, 2},
        "ordered": OrderedDict(b=1, a=2), "counter": Counter("aab"),
        "keys": {1: "a", "1": "b", None: 0, 2.5: 1, (1, "x"): 2}, "size": library.Size([2, 3]),
        "dtype": library.float32, "device": library.device("cpu"), "gpu": library.device("cuda", 1),
    }  # fmt: skip


@formats
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values(modern, protocol):
    assert from_torch(plain_values(torch), modern, protocol=protocol) == plain_values(numod)


def test_plain_values_come_back():
    assert to_torch(plain_values(numod)) == plain_values(torch)


@formats
def test_numpy_values(modern):
    values = {
        "number": np.float64(0.1),
        "flag": np.bool_(True),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "fortran": np.ones((2, 3)).T,
    }
    ours = from_torch(values, modern)
    for name, value in values.items():
        assert type(ours[name]) is type(value) and ours[name].dtype == value.dtype and np.array_equal(ours[name], value)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_optimizer_states_go_both_ways(kind):
    options = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.01}}[kind]

    def step(library, model, optimizer):
        optimizer.zero_grad()
        loss = model(library.ones(2, 3)).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    theirs, ours = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    their_optimizer = getattr(torch.optim, kind)(theirs.parameters(), **options)
    our_optimizer = getattr(optim, kind)(ours.parameters(), **options)
    step(torch, theirs, their_optimizer)
    checkpoint = from_torch({"model": theirs.state_dict(), "optimizer": their_optimizer.state_dict(), "epoch": 3})
    ours.load_state_dict(checkpoint["model"])
    our_optimizer.load_state_dict(checkpoint["optimizer"])
    for _ in range(3):
        assert step(numod, ours, our_optimizer) == pytest.approx(step(torch, theirs, their_optimizer), rel=1e-4)
    checkpoint = to_torch({"model": ours.state_dict(), "optimizer": our_optimizer.state_dict(), "epoch": 3})
    theirs.load_state_dict(checkpoint["model"])
    their_optimizer.load_state_dict(checkpoint["optimizer"])
    for _ in range(3):
        assert step(numod, ours, our_optimizer) == pytest.approx(step(torch, theirs, their_optimizer), rel=1e-4)


def test_a_step_that_is_a_number():
    """Optimizer states of before PyTorch 1.12 count in Python numbers."""
    theirs = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    state = {
        "state": {0: {"step": 7, "exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2)}},
        "param_groups": theirs.state_dict()["param_groups"],
    }
    optimizer = optim.Adam([nn.Parameter(numod.ones(2))])
    optimizer.load_state_dict(from_torch(state))
    assert int(optimizer.state_dict()["state"][0]["step"]) == 7


def test_mapped_and_without_checksums(tmp_path):
    torch.save({"a": torch.arange(5.0)}, tmp_path / "a.pt")
    loaded = numod.load(tmp_path / "a.pt", mmap=True)
    loaded["a"][0] = 7
    assert torch.load(tmp_path / "a.pt")["a"].tolist() == [0, 1, 2, 3, 4]
    torch.serialization.set_crc32_options(False)
    try:
        assert from_torch(torch.ones(2)).tolist() == [1, 1]
    finally:
        torch.serialization.set_crc32_options(True)


def test_torch_can_mmap_files_of_numod(tmp_path):
    numod.save({"a": numod.arange(5), "b": numod.ones(3)}, tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt", mmap=True)["a"].tolist() == [0, 1, 2, 3, 4]
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        assert archive.testzip() is None


@formats
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: {"layer": {"weight": torch.ones(2, dtype=torch.complex32)}},
            "'layer.weight'.*complex32|'layer.weight'.*ComplexHalf",
        ),
        (lambda: {"weight": torch.ones(2).to(torch.float8_e5m2)}, "'weight'.*float8_e5m2|'weight'.*Float8"),
        (lambda: torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear.*state_dict"),
        (lambda: {"weight": torch.eye(2).to_sparse()}, "sparse"),
        (lambda: {"weight": torch.eye(2).to_sparse_csr()}, "sparse tensor.*to_dense"),
        (lambda: {"weight": torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])}, "nested tensor"),
        (lambda: {"path": __import__("pathlib").PurePosixPath("x")}, "pathlib"),
    ],
    ids=["complex", "float8", "module", "sparse", "sparse rows", "nested", "class"],
)
@pytest.mark.filterwarnings("ignore")
def test_unsupported_classes_are_reported(make, message, modern):
    with pytest.raises(CheckpointError, match=message):
        from_torch(make(), modern)


@pytest.mark.filterwarnings("ignore")
def test_a_torchscript_archive_is_named():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="TorchScript"):
        numod.load(file)


def test_errors_are_of_the_kinds_that_torch_raises():
    class Hostile:
        def __reduce__(self):
            return print, ("run",)

    file = io.BytesIO()
    torch.save({"a": Hostile()}, file)
    for library in (torch, numod):
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError):
            library.load(file)
        with pytest.raises(RuntimeError):
            library.load(io.BytesIO(file.getvalue()[:-20]))


OBJECTS = {name: (objects(torch)[name], objects(numod)[name][1]) for name in objects(numod)}


@pytest.mark.parametrize("case", OBJECTS)
def test_objects_of_public_scripts(case):
    (value, theirs), ours = OBJECTS[case]
    with numod.serialization.safe_globals(ours):
        assert described(from_torch(value)) == described(value)
    assert described(from_torch(value, weights_only=False)) == described(value)
    with pytest.raises(CheckpointError):
        from_torch(value)


@formats
def test_lazily_conjugated_and_negated_tensors(modern):
    x = torch.tensor([1 + 2j, 3 - 1j])
    for lazy in (x.conj(), x.conj().imag, x.conj()[1:], -x.conj().imag, torch.nn.Parameter(x).conj().detach()):
        result = from_torch(lazy, modern)
        assert result.tolist() == lazy.tolist() and result.is_leaf


@formats
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages(modern):
    x = torch.arange(4.0)
    result = from_torch(
        {"typed": x.storage(), "tensor": x, "pair": (x.storage(),), "bytes": torch.arange(3).untyped_storage()}, modern
    )
    assert (
        result["typed"].tolist() == result["pair"][0].tolist() == [0, 1, 2, 3]
        and result["typed"].dtype is numod.float32
    )
    result["typed"][0] = 9.0
    assert (
        result["tensor"].tolist() == [9, 1, 2, 3]
        and result["bytes"].tolist() == torch.arange(3).untyped_storage().tolist()
    )
    assert from_torch(x.untyped_storage()[4:8], modern).tolist() == x.untyped_storage()[4:8].tolist()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_come_back():
    x = numod.arange(4.0)
    result = to_torch(
        {
            "typed": x.storage(),
            "tensor": x,
            "bytes": numod.arange(3).untyped_storage(),
            "part": numod.arange(2.0).untyped_storage()[4:8],
            "form": numod.strided,
        }
    )
    assert (
        result["typed"].dtype is torch.float32
        and result["typed"].data_ptr() == result["tensor"].untyped_storage().data_ptr()
    )
    assert result["part"].tolist() == [0, 0, 128, 63] and len(result["bytes"]) == 24 and result["form"] is torch.strided
