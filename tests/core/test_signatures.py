"""The table of signatures: what `inspect.signature` shows of every public function, and that each function takes the
arguments which the table names.
"""

from __future__ import annotations

import inspect
from inspect import Parameter

import pytest

import numod as torch
from numod.core import signatures

HOMES = {
    "": torch, "Tensor.": torch.Tensor, "nn.functional.": torch.nn.functional, "special.": torch.special,
    "linalg.": torch.linalg, "fft.": torch.fft, "nn.init.": torch.nn.init, "nn.utils.rnn.": torch.nn.utils.rnn,
    "autograd.": torch.autograd,
}  # fmt: skip
X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])


def public_functions():
    for section, home in HOMES.items():
        for name, function in sorted(vars(home).items()):
            if inspect.isfunction(function) and function.__module__.startswith("numod") and not name.startswith("_"):
                yield section + name, function


def reached(path: str):
    section, name = path[: path.rfind(".") + 1], path.rpartition(".")[2]
    return inspect.getattr_static(torch.Tensor, name) if section == "Tensor." else getattr(HOMES[section], name)


@pytest.mark.parametrize(
    "path, shown",
    {
        "exp": "(input, *, out=None)", "add": "(input, other, *, alpha=1, out=None)", "addcmul": "(input, tensor1, "
                                                                                                 "tensor2, *, "
                                                                                                 "value=1, out=None)",
        "where": "(condition, input=None, other=None, *, out=None)", "sum": "(input, dim=None, keepdim=False, *, "
                                                                            "dtype=None, out=None)",
        "Tensor.add_": "(self, other, *, alpha=1)", "Tensor.exp": "(self)", "Tensor.permute": "(self, *dims)", "einsum": "(equation, *operands)",
        "nn.functional.leaky_relu": "(input, negative_slope=0.01, inplace=False)", "special.entr": "(input, *, "
                                                                                                   "out=None)",
        "nn.functional.l1_loss": "(input, target, size_average=None, reduce=None, reduction='mean', weight=None)",
        "linalg.norm": "(input, ord=None, dim=None, keepdim=False, *, dtype=None, out=None)", "fft.rfft": "(input, "
                                                                                                          "n=None, "
                                                                                                          "dim=-1, "
                                                                                                          "norm=None, "
                                                                                                          "*, out=None)",
    }.items(),
)  # fmt: skip
def test_shown_as_pytorch_documents(path, shown):
    assert str(inspect.signature(reached(path))) == shown


def test_no_public_signature_is_opaque():
    kinds = {
        path: [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        for path, function in public_functions()
    }
    assert (
        len(kinds) > 1200
        and [path for path, parameter_kinds in kinds.items() if Parameter.VAR_KEYWORD in parameter_kinds] == []
    )


def test_every_name_in_the_table_exists():
    assert [path for path in signatures.names() if not callable(reached(path))] == []


def taken(path: str, overload: inspect.Signature) -> bool:
    """Whether the function takes all arguments of an overload by name: by its own parameters, or once the table has
    given them places.
    """
    function = reached(path)
    if isinstance(function, (classmethod, staticmethod)):
        return True
    names = [
        parameter.name
        for parameter in overload.parameters.values()
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    places = (None,) if path.startswith("Tensor.") else ()
    kwargs = dict.fromkeys(names[len(places) :])
    inside = signatures.defined(function)
    try:
        inside.bind(*places, **kwargs)
    except TypeError:
        return not kwargs or signatures.rearranged(function, None, places, kwargs) is not None
    return True


def test_every_function_takes_the_keywords_of_its_overloads():
    refused = [
        f"{path}{overload}"
        for path in signatures.names()
        for overload in signatures.overloads(path)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in overload.parameters.values())
        and not taken(path, overload)
    ]
    assert refused == []


@pytest.mark.parametrize(
    "by_keyword, by_place",
    [
        (lambda: torch.where(condition=X > 0, input=X, other=-X), lambda: torch.where(X > 0, X, -X)),
        (lambda: torch.add(input=X, other=X, alpha=2), lambda: X * 3),
        (lambda: torch.mul(X, other=X), lambda: X * X),
        (lambda: torch.mul(x1=X, x2=X), lambda: X * X),
        (lambda: torch.exp(input=X, out=torch.empty(2, 2)), lambda: X.exp()),
        (lambda: torch.addcmul(input=X, tensor1=X, tensor2=X, value=2), lambda: X + 2 * X * X),
        (lambda: X.clone().addcmul_(tensor1=X, tensor2=X, value=2), lambda: X + 2 * X * X),
        (lambda: torch.lerp(input=X, end=-X, weight=0.5), lambda: X * 0),
        (lambda: X.clone().eq_(other=X), lambda: torch.ones(2, 2)),
        (lambda: torch.nan_to_num_(input=X.clone()), lambda: X),
        (lambda: torch.ldexp_(input=X.clone(), other=torch.tensor(1)), lambda: X * 2),
        (lambda: X.clone().swapaxes_(axis0=0, axis1=1), lambda: X.T),
        (lambda: torch.clamp(input=X, min=X, out=torch.empty(2, 2, dtype=torch.float64)), lambda: X.double()),
        (lambda: torch.addmv_(input=torch.ones(2), mat=X, vec=torch.ones(2)), lambda: torch.tensor([0.0, 8.0])),
        (lambda: torch.conj_physical_(input=X * 1j), lambda: X * -1j),
        (lambda: X.to(other=X.double()), lambda: X.double()),
        (lambda: torch.clone(input=X, memory_format=None), lambda: X),
        (lambda: torch.linalg.eigvalsh(input=X @ X.T), lambda: torch.linalg.eigvalsh(A=X @ X.T)),
        (lambda: torch.special.zeta(input=X.abs() + 1, other=X.abs()), lambda: torch.special.zeta(X.abs() + 1, X.abs())),
        (lambda: torch.nn.functional.leaky_relu(input=X, negative_slope=0.5, inplace=False), lambda: torch.nn.functional.leaky_relu(X, 0.5)),
        (lambda: torch.nn.functional.selu_(input=X.clone()), lambda: X.selu() if hasattr(X, "selu") else torch.selu(X)),
        (lambda: torch.rand_like(input=X, generator=torch.Generator().manual_seed(1)), lambda: torch.rand(2, 2, generator=torch.Generator().manual_seed(1))),
        (lambda: torch.hinge_embedding_loss(input=X, target=X.sign(), margin=1.0, reduction=2), lambda: torch.tensor(11.0)),
        (lambda: X.clone().uniform_(**{"from": 1.0, "to": 1.0}), lambda: torch.ones(2, 2)),
        (lambda: torch.nn.functional.linear(X, X, bias=X), lambda: X @ X.T + X),
    ],
)  # fmt: skip
def test_by_keyword_as_by_place(by_keyword, by_place):
    assert torch.equal(by_keyword(), by_place())


def test_wrong_keyword_is_named():
    with pytest.raises(TypeError, match="scale"):
        torch.mul(X, X, scale=2)
    with pytest.raises(TypeError, match="scale"):
        torch.nn.functional.silu(X, scale=2)
    with pytest.raises(TypeError, match="scale"):
        torch.softmax(X, dim=0, scale=2)
    with pytest.raises(TypeError, match="value"):
        torch.addcmul(X, X)


def test_source_is_found_behind_the_signature():
    add = torch.Tensor.add  # wraps nothing
    assert "def add(" in inspect.getsource(add) and inspect.unwrap(add).__code__.co_name == "add"
    assert inspect.getsource(torch.exp).lstrip().startswith("def function(")
