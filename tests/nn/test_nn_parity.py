"""The installed PyTorch beside numod: the same random module trees, walks, texts, keys, hooks and signatures."""

import inspect
import random

import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity
LIBRARIES = [numod, torch]
SEEDS = range(40)


def plain(text):
    """Text without the libraries' names; of a function its name."""
    return text.__name__ if inspect.isfunction(text) else str(text).replace("torch.", "").replace("numod.", "")


def build(library, seed):
    """A random tree, the same for the same seed in either library."""
    nn, choice = library.nn, random.Random(seed)

    class Custom(nn.Module):
        def extra_repr(self):
            return choice_text

        def forward(self, x):
            for child in self.children():
                x = child(x)
            return x

    choice_text = choice.choice(["", "one line", "two\nlines"])
    leaves = [
        lambda: nn.Linear(2, 2, bias=choice.random() < 0.7),
        lambda: nn.ReLU(inplace=choice.random() < 0.5),
        lambda: nn.LeakyReLU(choice.choice([0.01, 0.2])),
        lambda: nn.Dropout(choice.choice([0.1, 0.5])),
        lambda: nn.GELU(),
        lambda: nn.Identity(),
        lambda: nn.ParameterList([library.zeros(size) for size in range(1, choice.randint(2, 4))]),
        lambda: nn.ParameterDict({"b": library.zeros(2, 2), "a": library.zeros(1), "note": 3}),
        lambda: nn.CrossEntropyLoss(library.ones(2) if choice.random() < 0.5 else None),
    ]

    made = []

    def grow(depth):
        if depth == 0 or choice.random() < 0.2:
            module = choice.choice(leaves)()
        elif made and choice.random() < 0.15:
            return choice.choice(made)
        else:
            module = node(depth)
        made.append(module)
        return module

    def node(depth):
        children = [grow(depth - 1) for _ in range(choice.randint(0, 4))]
        kind = choice.randrange(4)
        if kind == 0:
            return nn.Sequential(*children)
        if kind == 1:
            return nn.ModuleList(children)
        if kind == 2:
            return nn.ModuleDict({f"key{index}": child for index, child in enumerate(children)})
        custom = Custom()
        for index, child in enumerate(children):
            if choice.random() < 0.4:
                setattr(custom, f"parameter{index}", nn.Parameter(library.zeros(index + 1)))
            if choice.random() < 0.4:
                custom.register_buffer(
                    f"buffer{index}", choice.choice([None, library.zeros(2)]), persistent=choice.random() < 0.5
                )
            setattr(custom, f"child{index}", child)
        if children and choice.random() < 0.3:
            custom.child0 = None
        if len(children) > 1 and choice.random() < 0.3:
            del custom.child1
        return custom

    return node(3)


def shapes(pairs):
    return [(name, tuple(tensor.shape)) for name, tensor in pairs]


VIEWS = {
    "repr": repr,
    "modules": lambda net: [(name, type(module).__name__) for name, module in net.named_modules(prefix="net")],
    "all modules": lambda net: [name for name, _ in net.named_modules(remove_duplicate=False)],
    "children": lambda net: [name for name, _ in net.named_children()],
    "parameters": lambda net: shapes(net.named_parameters()),
    "all parameters": lambda net: shapes(net.named_parameters(remove_duplicate=False)),
    "own parameters": lambda net: shapes(net.named_parameters(prefix="p", recurse=False)),
    "buffers": lambda net: shapes(net.named_buffers()),
    "all buffers": lambda net: shapes(net.named_buffers(remove_duplicate=False)),
    "state": lambda net: shapes(net.state_dict(prefix="x.").items()),
    "metadata": lambda net: list(net.state_dict()._metadata.items()),
    "counts": lambda net: (len(list(net.parameters())), len(list(net.buffers())), len(list(net.modules()))),
    "dir": lambda net: [name for name in dir(net) if name[:3] in ("chi", "par", "buf", "key")],
    "training": lambda net: [module.training for module in net.eval().modules()],
    "dtypes": lambda net: [plain(value.dtype) for value in net.double().state_dict().values()],
}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_tree(seed):
    ours, theirs = (build(library, seed) for library in LIBRARIES)
    for name, view in VIEWS.items():
        mine, reference = view(ours), view(theirs)
        if isinstance(mine, str):
            mine, reference = plain(mine), plain(reference)
        assert mine == reference, name


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_answer_to_a_wrong_state_dict(seed):
    answers = []
    for library in LIBRARIES:
        net, choice = build(library, seed), random.Random(seed)
        state = net.state_dict()
        for key in list(state):
            if choice.random() < 0.3:
                del state[key]
            elif choice.random() < 0.3:
                state[key] = library.zeros(7, 7)
            elif choice.random() < 0.3:
                state[choice.choice([key + "x", "new." + key, key + ".deep"])] = state[key]
        try:
            answers.append(str(net.load_state_dict(state)))
        except RuntimeError as error:
            answers.append(plain(error).replace("Size([", "[").replace("])", "]"))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("seed", range(12))
def test_the_same_order_of_hooks(seed):
    logs = []
    for library in LIBRARIES:
        nn, choice, log = library.nn, random.Random(seed), []
        net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh(), nn.Linear(2, 2)), nn.Sigmoid())
        handles = []
        for name, module in net.named_modules():
            for number in range(4):
                kind = choice.choice(
                    ["forward_pre_hook", "forward_hook", "full_backward_hook", "full_backward_pre_hook"]
                )
                note = f"{kind} {number} of {name}"
                prepend = choice.random() < 0.4
                handles.append(getattr(module, f"register_{kind}")(noting(log, note), prepend=prepend))
        for handle in choice.sample(handles, 4):
            handle.remove()
        x = library.ones(3, 2, requires_grad=choice.random() < 0.9)
        x.requires_grad_()
        net(x).sum().backward()
        logs.append(log)
    assert logs[0] == logs[1]


def noting(log, note):
    return lambda module, *args: log.append((note, len(args), describe(args)))


def describe(hook_arguments):
    """The structure of what a hook was given."""
    if isinstance(hook_arguments, (tuple, list)):
        return [describe(argument) for argument in hook_arguments]
    return None if hook_arguments is None else list(hook_arguments.shape)


@pytest.mark.parametrize("inputs", ["both", "first", "neither"])
def test_the_same_gradients_shown_to_hooks(inputs):
    logs = []
    for library in LIBRARIES:

        class Two(library.nn.Module):
            def forward(self, a, factor, b):
                return a * factor, b * 2 + a

        net, log = Two(), []
        net.register_full_backward_hook(
            lambda module, grad_input, grad_output, log=log: log.extend([grad_input, grad_output])
        )
        a, b = library.ones(2), library.ones(2)
        a.requires_grad_(inputs != "neither")
        b.requires_grad_(inputs == "both")
        first, second = net(a, 3, b)
        if inputs != "neither":
            (first * 5).sum().backward()
        logs.append([[None if gradient is None else gradient.tolist() for gradient in gradients] for gradients in log])
    assert logs[0] == logs[1]


METHODS = [
    "add_module", "apply", "bfloat16", "buffers", "children", "cpu", "cuda", "double", "eval", "extra_repr", "float",
    "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "load_state_dict", "modules",
    "named_buffers", "named_children", "named_modules", "named_parameters", "parameters", "register_backward_hook",
    "register_buffer", "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_module", "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook",
    "requires_grad_", "set_extra_state", "set_submodule", "to_empty", "train", "type", "zero_grad",
]  # fmt: skip


def parameters_of(function):
    """Names, kinds and defaults; a foreign default is compared by its text."""
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, plain(parameter.default)) for parameter in parameters]


@pytest.mark.parametrize("name", METHODS)
def test_the_same_signature_of_methods(name):
    assert parameters_of(getattr(numod.nn.Module, name)) == parameters_of(getattr(torch.nn.Module, name))


CLASSES = {
    name: member for name, member in vars(numod.nn).items() if inspect.isclass(member) and hasattr(torch.nn, name)
}
LAYERS = [name for name, class_ in CLASSES.items() if issubclass(class_, numod.nn.Module)]


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_signature_of_layers(name):
    ours, theirs = parameters_of(getattr(numod.nn, name).__init__), parameters_of(getattr(torch.nn, name).__init__)
    if [parameter[0] for parameter in theirs] == ["self", "args", "kwargs"]:  # Module's own: a layer without settings
        explicit = issubclass(getattr(numod.nn, name), numod.nn.RNNBase)  # whose settings we name
        assert (
            ours[1:] == theirs[1:]
            or [parameter[0] for parameter in ours] in (["self"], ["self", "settings"])
            or explicit
        )
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", [name for name in numod.nn.init.__all__ if hasattr(torch.nn.init, name)])
def test_the_same_signature_of_initializers(name):
    assert parameters_of(getattr(numod.nn.init, name)) == parameters_of(getattr(torch.nn.init, name))


def test_nothing_of_init_is_missing():
    assert not set(torch.nn.init.__all__) - set(dir(numod.nn.init))


UTILS = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]


@pytest.mark.parametrize("name", UTILS)
def test_the_same_signature_of_utils(name):
    assert parameters_of(getattr(numod.nn.utils, name)) == parameters_of(getattr(torch.nn.utils, name))


def attempt(action, library):
    """The type of the error, or what came out."""
    try:
        return action(library.nn, library)
    except Exception as error:
        return type(error).__name__


def replaced(nn, first, second):
    """Where an attribute is kept after `second` was assigned over `first`."""
    module = nn.Module()
    module.a = first
    module.a = second
    return [
        list(registry)
        for registry in (module._parameters, module._buffers, module._modules, module._non_persistent_buffers_set)
    ]


ATTEMPTS = {
    "tensor over parameter": lambda nn, lib: setattr(nn.Linear(1, 1), "weight", lib.ones(1, 1)),
    "module over parameter": lambda nn, lib: setattr(nn.Linear(1, 1), "weight", nn.ReLU()),
    "int over module": lambda nn, lib: setattr(nn.Sequential(nn.ReLU()), "0", 3),
    "parameter over plain": lambda nn, lib: replaced(nn, 1, nn.Parameter(lib.ones(1))),
    "parameter over none": lambda nn, lib: replaced(nn, None, nn.Parameter(lib.ones(1))),
    "parameter over module": lambda nn, lib: replaced(nn, nn.ReLU(), nn.Parameter(lib.ones(1))),
    "parameter over buffer": lambda nn, lib: replaced(nn, nn.Buffer(lib.ones(1)), nn.Parameter(lib.ones(1))),
    "buffer over plain": lambda nn, lib: replaced(nn, 1, nn.Buffer(lib.ones(1))),
    "buffer over module": lambda nn, lib: replaced(nn, nn.ReLU(), nn.Buffer(lib.ones(1))),
    "buffer over parameter": lambda nn, lib: replaced(nn, nn.Parameter(lib.ones(1)), nn.Buffer(lib.ones(1))),
    "module over plain": lambda nn, lib: replaced(nn, 1, nn.ReLU()),
    "module over buffer": lambda nn, lib: replaced(nn, nn.Buffer(lib.ones(1)), nn.ReLU()),
    "tensor over buffer": lambda nn, lib: replaced(nn, nn.Buffer(lib.ones(1), persistent=False), lib.ones(1)),
    "tensor over module": lambda nn, lib: replaced(nn, nn.ReLU(), lib.ones(1)),
    "tensor over plain": lambda nn, lib: replaced(nn, 1, lib.ones(1)),
    "none over tensors": lambda nn,
    lib: [replaced(nn, value, None) for value in (nn.Parameter(lib.ones(1)), nn.Buffer(lib.ones(1)))],
    "none over others": lambda nn, lib: [replaced(nn, value, None) for value in (nn.ReLU(), 1)],
    "register taken": lambda nn, lib: nn.Linear(1, 1).register_buffer("weight", None),
    "register number": lambda nn, lib: nn.Linear(1, 1).register_parameter(3, None),
    "register dot": lambda nn, lib: nn.Linear(1, 1).add_module("a.b", None),
    "register empty": lambda nn, lib: nn.Linear(1, 1).register_buffer("", None),
    "register tensor": lambda nn, lib: nn.Linear(1, 1).register_parameter("a", lib.ones(1)),
    "register int": lambda nn, lib: nn.Linear(1, 1).add_module("a", 1),
    "delete missing": lambda nn, lib: delattr(nn.Linear(1, 1), "a"),
    "get missing": lambda nn, lib: nn.Linear(1, 1).get_parameter("a.b"),
    "train 1": lambda nn, lib: nn.Linear(1, 1).train(1),
    "load list": lambda nn, lib: nn.Linear(1, 1).load_state_dict([]),
    "to int": lambda nn, lib: nn.Linear(1, 1).to(lib.int32),
    "to dict": lambda nn, lib: nn.Linear(1, 1).to({}),
    "to nowhere": lambda nn, lib: nn.Linear(1, 1).to("nowhere"),
    "integer parameter": lambda nn, lib: nn.Parameter(lib.ones(1).to(lib.int64)),
    "no forward": lambda nn, lib: nn.Module()(1),
    "init argument": lambda nn, lib: nn.Module(1),
    "set root": lambda nn, lib: nn.Module().set_submodule("", nn.Module()),
    "sequential index": lambda nn, lib: nn.Sequential(nn.ReLU())[1],
    "sequential string": lambda nn, lib: nn.Sequential(nn.ReLU())["0"],
    "sequential sum": lambda nn, lib: nn.Sequential() + [nn.ReLU()],
    "sequential times": lambda nn, lib: nn.Sequential() * 0,
    "sequential insert": lambda nn, lib: nn.Sequential().insert(0, 3),
    "call list": lambda nn, lib: nn.ModuleList()(1),
    "call parameters": lambda nn, lib: nn.ParameterList()(1),
    "dict pop": lambda nn, lib: nn.ModuleDict().pop("a"),
    "dict key": lambda nn, lib: nn.ModuleDict({"keys": nn.ReLU()}),
    "parameters key": lambda nn, lib: nn.ParameterDict().__setitem__(1, lib.ones(1)),
    "dropout": lambda nn, lib: nn.Dropout(2),
    "huber": lambda nn, lib: nn.HuberLoss(delta="a"),
    "fan": lambda nn, lib: nn.init.xavier_normal_(lib.ones(2)),
    "gain": lambda nn, lib: nn.init.calculate_gain("a"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_same_kind_of_error(name):
    assert attempt(ATTEMPTS[name], numod) == attempt(ATTEMPTS[name], torch)
