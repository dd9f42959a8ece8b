"""The optimizers beside the installed PyTorch: steps, states that travel, text, signatures."""

import copy
import inspect

import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity
OPTIONS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "betas": (0.5, 0.7), "amsgrad": True, "eps": 1e-3}),
    ("AdamW", {"lr": 0.1, "maximize": True}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.4, "amsgrad": True}),
]


def start(library):
    return library.tensor([[0.5, -1.0, 2.0], [0.1, 0.0, -0.3]], dtype=library.float64, requires_grad=True)


def play(library, optimizer, w, steps):
    for step in steps:
        optimizer.zero_grad()
        ((w * w + w.sin()) * (1 + step / 10)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_steps(name, options):
    results = []
    for library in (numod, torch):
        w = start(library)
        play(library, getattr(library.optim, name)([w], **options), w, range(20))
        results.append([x for row in w.tolist() for x in row])
    assert results[0] == pytest.approx(results[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_numod_continues_from_a_state_of_torch(name, options):
    theirs, mine = start(torch), start(numod)
    first, second = getattr(torch.optim, name)([theirs], **options), getattr(numod.optim, name)([mine], **options)
    play(torch, first, theirs, range(5))
    with numod.no_grad():
        mine.copy_(numod.from_numpy(theirs.detach().numpy()))
    saved = copy.deepcopy(first.state_dict())
    for values in saved["state"].values():
        values.update(
            {key: numod.from_numpy(value.numpy()) for key, value in values.items() if isinstance(value, torch.Tensor)}
        )
    second.load_state_dict(saved)
    play(torch, first, theirs, range(5, 10))
    play(numod, second, mine, range(5, 10))
    assert [x for row in mine.tolist() for x in row] == pytest.approx(
        [x for row in theirs.tolist() for x in row], rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_text_shows_the_options_as_torch_does(name, options):
    mine, theirs = (
        repr(
            getattr(library.optim, name)(
                [{"params": [start(library)]}, {"params": [start(library)], "lr": 5.0}], **options
            )
        )
        for library in (numod, torch)
    )
    shared = {
        "Parameter Group", "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "betas", "eps",
        "amsgrad",
    }  # fmt: skip
    grad_arrays = [
        [
            line
            for line in text.splitlines()
            if line.strip().partition(":")[0].rstrip(" 01") in shared or ":" not in line
        ]
        for text in (mine, theirs)
    ]
    assert grad_arrays[0] == grad_arrays[1]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_signatures_agree_where_there_is_an_option(name):
    mine, theirs = (inspect.signature(getattr(library.optim, name).__init__).parameters for library in (numod, torch))
    for parameter in mine.values():
        assert parameter.default == theirs[parameter.name].default and parameter.kind == theirs[parameter.name].kind


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_names_of_the_state(name):
    states = []
    for library in (numod, torch):
        w = start(library)
        optimizer = getattr(library.optim, name)(
            [w], lr=0.1, **({"momentum": 0.9} if name == "SGD" else {"amsgrad": True})
        )
        play(library, optimizer, w, range(2))
        states.append(list(optimizer.state_dict()["state"][0]))
    assert states[0] == states[1]
