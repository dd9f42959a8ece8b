"""Pruning beside the installed PyTorch: the same masks, names, hooks and errors."""

import copy
import pickle

import pytest
from parity import LIBRARIES, plain, same_error

import numod

pytest.importorskip("torch.nn.utils.prune")
pytestmark = pytest.mark.parity


def net(lib):
    module = lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.ReLU(), lib.nn.Linear(3, 5))
    scores = lib.tensor([0.3, -1.5, 0.7, 2.0, -0.1, 0.9, -2.2, 1.1, 0.5, -0.6, 1.7, -0.8, 0.25, 1.3, -1.9])
    with lib.no_grad():
        module[0].weight.copy_(scores[:12].reshape(3, 4))
        module[0].bias.copy_(scores[:3] * 1.01)
        module[2].weight.copy_(scores.reshape(5, 3) * 0.91371)  # no product is a tie of the rounding to four places
        module[2].bias.copy_(scores[5:10])
    return module


def values(tensor):
    return [round(number, 4) for number in tensor.detach().reshape(-1).tolist()]


def view(module, lib):
    parts = [submodule for submodule in module.modules() if hasattr(submodule, "weight")]
    hooks = [[describe(hook) for hook in part._forward_pre_hooks.values()] for part in parts]
    state = {name: values(tensor) for name, tensor in module.state_dict().items()}
    weights = [
        (values(getattr(part, name)), type(getattr(part, name)).__name__)
        for part in parts
        for name in ("weight", "bias")
    ]
    return {
        "hooks": hooks, "state": state, "weights": weights, "pruned": lib.nn.utils.prune.is_pruned(module),
        "output": values(module(lib.ones(2, 4))),
        "parameters": [name for name, _ in module.named_parameters()],
        "buffers": [name for name, _ in module.named_buffers()],
    }  # fmt: skip


def describe(hook):
    inside = [describe(method) for method in hook] if type(hook).__name__ == "PruningContainer" else []
    return type(hook).__name__, hook._tensor_name, getattr(hook, "PRUNING_TYPE", None), inside


def mask(lib, *rows):
    return lib.tensor([[float(value) for value in row] for row in rows])


STEPS = {
    "identity": lambda p, net, lib: p.identity(net[0], "weight"),
    "l1 fraction": lambda p, net, lib: p.l1_unstructured(net[0], "weight", 0.4),
    "l1 number": lambda p, net, lib: p.l1_unstructured(net[0], name="weight", amount=5),
    "l1 bias": lambda p, net, lib: p.l1_unstructured(net[2], "bias", amount=2),
    "l1 all": lambda p, net, lib: p.l1_unstructured(net[0], "weight", 1.0),
    "l1 none": lambda p, net, lib: p.l1_unstructured(net[0], "weight", 0),
    "l1 scores": lambda p, net,
    lib: p.l1_unstructured(net[0], "weight", 3, importance_scores=lib.arange(12.0).reshape(3, 4)),
    "l2 rows": lambda p, net, lib: p.ln_structured(net[0], "weight", amount=1, n=2, dim=0),
    "l1 columns": lambda p, net, lib: p.ln_structured(net[0], "weight", amount=0.5, n=1, dim=-1),
    "inf columns": lambda p, net, lib: p.ln_structured(net[0], "weight", 1, float("inf"), 1),
    "minus inf": lambda p, net, lib: p.ln_structured(net[0], "weight", 1, -float("inf"), dim=1),
    "fro columns": lambda p, net, lib: p.ln_structured(net[0], "weight", 1, "fro", dim=1),
    "ln none": lambda p, net, lib: p.ln_structured(net[0], "weight", amount=0, n=2, dim=0),
    "ln scores": lambda p, net,
    lib: p.ln_structured(net[0], "weight", 1, 2, 0, importance_scores=-lib.arange(12.0).reshape(3, 4)),
    "custom": lambda p, net,
    lib: p.custom_from_mask(net[0], "weight", mask(lib, [1, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 0])),
    "custom booleans": lambda p, net,
    lib: p.custom_from_mask(net[0], "weight", mask(lib, [1, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 0]) > 0),
    "global": lambda p, net,
    lib: p.global_unstructured([(net[0], "weight"), (net[2], "weight")], pruning_method=p.L1Unstructured, amount=0.3),
    "global number": lambda p, net,
    lib: p.global_unstructured(((net[0], "weight"), (net[0], "bias")), pruning_method=p.L1Unstructured, amount=6),
    "global scores": lambda p, net, lib: p.global_unstructured(
        [(net[0], "weight"), (net[2], "weight")], p.L1Unstructured, {(net[0], "weight"): lib.ones(3, 4) * 1.05},
        amount=9
    ),
    "remove": lambda p, net, lib: p.remove(net[0], "weight"),
    "remove bias": lambda p, net, lib: p.remove(net[2], "bias"),
}  # fmt: skip
RECIPES = [[name] for name in STEPS if not name.startswith("remove")] + [
    ["l1 fraction", "l1 fraction"], ["l1 fraction", "l2 rows"], ["l2 rows", "l1 number", "custom"],
    ["l1 columns", "l1 columns"], ["custom", "l1 scores"],
    ["l1 fraction", "remove"], ["l2 rows", "l1 number", "remove", "l1 columns"], ["global", "global"],
    ["l1 bias", "global", "remove bias"], ["identity", "l1 number", "identity"],
    ["l2 rows", "inf columns"], ["remove"], ["l1 bias", "remove"], ["custom", "ln scores"], ["l1 all", "l1 none"],
]  # fmt: skip


def prepared(lib, recipe):
    module = net(lib)
    for step in recipe:
        STEPS[step](lib.nn.utils.prune, module, lib)
    return module


def outcome(action, lib):
    try:
        return action(lib)
    except Exception as error:
        return type(error).__name__, plain(error)


@pytest.mark.parametrize("recipe", RECIPES, ids=" then ".join)
def test_pruning(recipe):
    ours, theirs = (outcome(lambda lib: view(prepared(lib, recipe), lib), lib) for lib in LIBRARIES)
    assert ours == theirs
    assert isinstance(ours, dict) or recipe[-1] == "remove"


def test_training_leaves_the_masked_entries():
    answers = []
    for lib in LIBRARIES:
        module = prepared(lib, ["l2 rows", "l1 number"])
        optimizer = lib.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            module(lib.ones(2, 4)).square().sum().backward()
            optimizer.step()
        answers.append({name: [round(x, 3) for x in values(tensor)] for name, tensor in module.state_dict().items()})
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", ["random_unstructured", "random_structured"])
@pytest.mark.parametrize("amount", [0, 2, 0.5, 1.0])
def test_random_methods_prune_as_many(name, amount):
    counts = []
    for lib in LIBRARIES:
        module = lib.nn.Linear(6, 4)
        with lib.no_grad():
            module.weight.fill_(1.0)
        settings = {"dim": 1} if name == "random_structured" else {}
        for _ in range(2):
            getattr(lib.nn.utils.prune, name)(module, "weight", amount=amount, **settings)
        columns = sorted(module.weight_mask.sum(0).tolist()) if settings else None
        counts.append((module.weight.sum().item(), columns))
    assert counts[0] == counts[1]


def errors(lib):
    prune, module = lib.nn.utils.prune, net(lib)
    first = module[0]

    class Odd(prune.BasePruningMethod):
        PRUNING_TYPE = "odd"

        def compute_mask(self, t, default_mask):
            return default_mask

    class Channels(Odd):
        PRUNING_TYPE = "structured"

    class NoMask(prune.BasePruningMethod):
        pass

    def stacked(kind):
        prune.l1_unstructured(first, "weight", 2)
        kind.apply(first, "weight")

    def twice():
        prune.l1_unstructured(first, "weight", 2)
        first.register_forward_pre_hook(next(iter(first._forward_pre_hooks.values())))
        prune.l1_unstructured(first, "weight", 2)

    def container(*names):
        methods = [prune.L1Unstructured(1) for _ in names]
        for method, name in zip(methods, names):
            method._tensor_name = name
        result = prune.PruningContainer(methods[0])
        for method in methods[1:]:
            result.add_pruning_method(method)

    return {
        "amount type": lambda: prune.l1_unstructured(first, "weight", "a"),
        "amount none": lambda: prune.RandomUnstructured(None),
        "amount negative": lambda: prune.l1_unstructured(first, "weight", -1),
        "amount negative float": lambda: prune.random_structured(first, "weight", -0.1, 0),
        "amount over one": lambda: prune.ln_structured(first, "weight", 1.1, 2, 0),
        "amount too many": lambda: prune.l1_unstructured(first, "weight", 13),
        "amount too many channels": lambda: prune.ln_structured(first, "weight", 4, 2, 0),
        "vector": lambda: prune.ln_structured(first, "bias", 1, 2, 0),
        "vector random": lambda: prune.random_structured(first, "bias", 1, 0),
        "dim": lambda: prune.ln_structured(first, "weight", 1, 2, 2),
        "scores": lambda: prune.l1_unstructured(first, "weight", 1, importance_scores=lib.ones(2)),
        "scores alone": lambda: prune.L1Unstructured(1).prune(lib.ones(3), importance_scores=lib.ones(2)),
        "mask": lambda: prune.custom_from_mask(first, "weight", lib.ones(2)),
        "no such tensor": lambda: prune.remove(first, "weight"),
        "unknown type": lambda: stacked(Odd),
        "no dim": lambda: stacked(Channels),
        "two hooks": twice,
        "container of strings": lambda: (container("a"), prune.PruningContainer().add_pruning_method("a")),
        "global number": lambda: prune.global_unstructured(3, prune.L1Unstructured, amount=1),
        "global scores": lambda: prune.global_unstructured(
            [(first, "weight")], prune.L1Unstructured, importance_scores=[], amount=1
        ),
        "global structured": lambda: prune.global_unstructured([(first, "weight")], prune.LnStructured, amount=1, n=2),
        "abstract": lambda: NoMask(),
    }


@pytest.mark.parametrize("name", list(errors(numod)))
def test_errors(name):
    same_error(lambda lib: errors(lib)[name](), text=name not in ("abstract", "global structured", "two hooks"))


def test_deep_copy_pickle_and_state():
    answers = []
    for lib in LIBRARIES:
        module, other = prepared(lib, ["l2 rows", "l1 number"]), prepared(lib, ["identity"])
        with lib.no_grad():
            module(lib.ones(1, 4))
        answer = str(other.load_state_dict(module.state_dict()))
        other(lib.ones(1, 4))
        if lib is numod:  # PyTorch copies no module that keeps a computed tensor
            twin = pickle.loads(pickle.dumps(copy.deepcopy(other)))
            assert view(twin, lib) == view(other, lib)
        answers.append((answer, view(other, lib)))
    assert answers[0] == answers[1]


def test_prune_without_a_module():
    answers = []
    for lib in LIBRARIES:
        prune = lib.nn.utils.prune
        tensor = lib.tensor([[1.0, -3.0], [2.0, -0.5]])
        answers.append([
            prune.L1Unstructured(2).prune(tensor).tolist(),
            prune.LnStructured(1, 2, dim=1).prune(tensor, default_mask=mask(lib, [0, 1], [1, 1])).tolist(),
            prune.L1Unstructured(1).prune(tensor, importance_scores=tensor.exp()).tolist(),
        ])  # fmt: skip
    assert answers[0] == answers[1]
