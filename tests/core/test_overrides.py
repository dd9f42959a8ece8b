"""`__torch_function__`: subclasses of Tensor keep their class, classes and modes take over functions, and plain tensors
know nothing of it.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

import numod
import numod.nn.functional as F
from numod import nn
from numod.overrides import TorchFunctionMode, handle_torch_function, has_torch_function, resolve_name


class Own(numod.Tensor):
    """A subclass that adds nothing."""


class Narrower(Own):
    """A subclass of that."""


class Other(numod.Tensor):
    """A class that has nothing to do with it."""


def own_tensor(*shape: int) -> Own:
    return numod.arange(float(numod.ones(*shape).numel())).reshape(*shape).as_subclass(Own)


class Length:
    """A class that is no tensor, and takes over what is registered."""

    handled: dict[Callable, Callable] = {}

    @classmethod
    def __torch_function__(cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        return cls.handled[func](*args, **(kwargs or {})) if func in cls.handled else NotImplemented


def test_results_are_of_the_class() -> None:
    x = own_tensor(2, 3)
    for y in (
        x + 1, 1 - x, x @ x.T, numod.add(numod.ones(3), x), F.relu(x), x.view(-1), x[0], x[x > 1], x.T, x.data, x.detach(), x.sum(), numod.cat([numod.ones(2, 3), x]),
        numod.zeros_like(x), x.double(), numod.where(x > 0, x, 0.0), next(iter(x)), x.max(0).values, x.split(1)[0], x.new_zeros(2), nn.Linear(3, 2)(x),
        nn.GRU(3, 2)(x)[0], x.add_(1), F.linear(x, weight=numod.ones(2, 3)), x == x,
        x + numod.ones(3).numpy(), numod.utils.data.default_collate([x, x]),
    ):  # fmt: skip
        assert type(y) is Own
    assert (
        type(numod.tensor(x.tolist())) is numod.Tensor
        and type(x.shape) is numod.Size
        and repr(own_tensor(2)) == "Own([0., 1.])"
    )
    assert type(x + numod.ones(2, 3).as_subclass(Narrower)) is Narrower
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = x + numod.ones(2, 3).as_subclass(Other)
    assert type(Own([1.0])) is Own and type(numod.Tensor._make_subclass(Own, numod.ones(2))) is Own
    with pytest.raises(RuntimeError, match="inherits from Tensor"):
        numod.ones(2).as_subclass(int)


def test_gradients_pass_and_are_plain() -> None:
    weight, x = numod.ones(3, requires_grad=True), own_tensor(3)
    y = weight * x
    y.retain_grad()
    (y * y).sum().backward()
    assert (
        type(weight.grad) is numod.Tensor
        and weight.grad.tolist() == [0.0, 2.0, 8.0]
        and y.grad.tolist() == [0.0, 2.0, 4.0]
    )
    leaf = own_tensor(3).requires_grad_()
    leaf.pow(2).sum().backward()
    assert leaf.is_leaf and type(leaf.grad) is numod.Tensor and leaf.grad.tolist() == [0.0, 2.0, 4.0]
    total = numod.zeros(3)
    # a plain tensor, written to by one of the class: what is returned is another object of the same memory
    again = total.add_(leaf * weight)
    again.mul_(2)
    weight.grad = None
    total.sum().backward()
    assert type(again) is Own and type(total) is numod.Tensor and weight.grad.tolist() == [0.0, 2.0, 4.0]
    seen = weight.as_subclass(Own)
    assert not seen.is_leaf
    weight.grad = None
    (seen * 2).sum().backward()
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]


def test_backward_passes_ask_as_the_forward_pass_did() -> None:
    class Twice(numod.Tensor):
        @classmethod
        def __torch_function__(cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
            result = super().__torch_function__(func, types, args, kwargs)
            return result.as_subclass(numod.Tensor) * 2 if func is numod.Tensor.mul else result

    class TwiceInside(TorchFunctionMode):
        def __torch_function__(self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is numod.Tensor.mul else result

    def gradient(run: Callable, x: numod.Tensor) -> list[float]:
        weight = numod.ones(2, requires_grad=True)
        run(lambda: (weight * x).sin() * (weight * x)).sum().backward()
        return weight.grad.tolist()

    def result_of_disabled(function: Callable) -> numod.Tensor:
        return numod.utils.checkpoint.checkpoint(function, use_reentrant=False)

    def inside(run: Callable) -> Callable:
        def call(function: Callable) -> numod.Tensor:
            with TwiceInside():
                return run(function)

        return call

    x = numod.arange(2.0)
    assert (
        gradient(result_of_disabled, x.as_subclass(Twice))
        == gradient(lambda function: function(), x.as_subclass(Twice))
        != gradient(result_of_disabled, x)
    )
    assert (
        gradient(inside(result_of_disabled), x)
        == gradient(inside(lambda function: function()), x)
        != gradient(result_of_disabled, x)
    )


def test_parameters_are_outside() -> None:
    parameter = nn.Parameter(numod.ones(2))
    assert (
        type(parameter * 2) is numod.Tensor
        and type(nn.Buffer(numod.ones(2)) + 1) is numod.Tensor
        and type(parameter * own_tensor(2)) is Own
    )
    own_parameter = nn.Parameter(own_tensor(2))
    assert (
        type(own_parameter) is Own
        and isinstance(own_parameter, nn.Parameter)
        and own_parameter.requires_grad
        and not isinstance(own_tensor(2), nn.Parameter)
    )
    module = nn.Module()
    module.weight, module.state = own_parameter, nn.Buffer(own_tensor(2))
    assert (
        list(module.state_dict()) == ["weight", "state"]
        and type(module.double().weight) is Own
        and len(list(module.parameters())) == 1
    )
    module.load_state_dict({"weight": numod.ones(2), "state": numod.zeros(2)})
    assert type(module.state) is Own and module.weight.tolist() == [1.0, 1.0]
    assert isinstance(copy.deepcopy(module).weight, nn.Parameter) and isinstance(
        pickle.loads(pickle.dumps(own_parameter)), nn.Parameter
    )


def test_copies_and_files_keep_class_and_attributes() -> None:
    x = own_tensor(2).requires_grad_()
    x._tag = {"unit": ["m"]}
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert type(y) is Own and y._tag == x._tag and y.tolist() == [0.0, 1.0]
    assert copy.deepcopy(x)._tag is not x._tag
    file = io.BytesIO()
    numod.save({"x": x}, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="the file refers to .*Own"):
        numod.load(file)
    with numod.serialization.safe_globals([Own]):
        y = numod.load(io.BytesIO(file.getvalue()))["x"]
    assert type(y) is Own and y._tag == x._tag and y.tolist() == [0.0, 1.0] and y.is_leaf and y.requires_grad


def test_functions_are_seen_as_themselves() -> None:
    seen = []

    class Logged(numod.Tensor):
        @classmethod
        def __torch_function__(cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append((func, types))
            return super().__torch_function__(func, types, args, kwargs)

    x = numod.ones(2).as_subclass(Logged)
    _ = (
        x + 1,
        2 - x,
        numod.ones(2) * x,
        numod.mul(x, x),
        F.softmax(x, dim=0),
        x.shape,
        x.grad,
        x[0],
        numod.stack([numod.ones(2), x]),
    )
    x.requires_grad = False
    method = numod.Tensor
    assert [func for func, _ in seen] == [
        method.add, method.__rsub__, method.mul, numod.mul, F.softmax, method.shape.__get__, method.grad.__get__,
        method.__getitem__, numod.stack, method.requires_grad.__set__,
    ]  # fmt: skip
    assert {types for _, types in seen} == {(Logged,)} and method.mul is not numod.mul
    assert (
        resolve_name(numod.add) == "numod.add"
        and resolve_name(method.shape.__get__) == "numod.Tensor.shape.__get__"
        and resolve_name(print) is None
    )
    seen.clear()
    with numod._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is numod.Tensor and not has_torch_function((x,))
    assert (
        not seen
        and has_torch_function((1, x))
        and not has_torch_function((numod.ones(1), nn.Parameter(numod.ones(1)), 1))
    )


def test_classes_that_are_no_tensors() -> None:
    Length.handled |= {
        numod.mean: lambda input: "mean", numod.cat: lambda tensors, dim=0: ("cat", dim), F.relu: lambda input,
        inplace=False: "relu",
        numod.Tensor.add: lambda self, other: ("add", type(self).__name__),
    }  # fmt: skip
    length = Length()
    assert (
        numod.mean(length) == "mean"
        and numod.cat([numod.ones(1), length], dim=1) == ("cat", 1)
        and F.relu(length) == "relu"
        and F.relu(input=length) == "relu"
    )
    assert numod.ones(2) + length == ("add", "Tensor")
    with pytest.raises(TypeError, match="no implementation found for 'numod.mul'.*Length"):
        numod.mul(numod.ones(2), length)
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = numod.ones(2) - length


def test_the_first_of_all_may_be_no_tensor() -> None:
    code = """if True:
        import numod, numod.nn.functional as F
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__
        add, relu, x = numod.add, F.relu, numod.ones(2)
        import os
        for use in (lambda: numod.sum(Duck(), dim=0), lambda: add(x, Duck()), lambda: x + Duck(), lambda: relu(Duck()),
                    lambda: numod.exp(Duck()), lambda: F.linear(Duck(), Duck()), lambda: numod.zeros_like(Duck()), lambda: numod.stack([Duck()])):
            if os.fork() == 0:
                print(use(), flush=True)
                os._exit(0)
            os.wait()
    """
    completed = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.split() == ["sum", "add", "add", "relu", "exp", "linear", "zeros_like", "stack"]


def test_importing_a_class_of_the_library_does_not_slow_down_tensors() -> None:
    code = """if True:
        import numod, numod.learner, numod.onnx, numod.ao.quantization
        from numod.core import overrides
        print(bool(overrides.overridable))
        quantized = numod.quantize_per_tensor(numod.ones(2), 0.1, 0, numod.qint8)
        print(bool(overrides.overridable), quantized.relu().dtype)
    """
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.split() == ["False", "True", "numod.qint8"]


def test_an_interrupt_and_other_threads_wait_until_all_functions_are_overridable() -> None:
    code = """if True:
        import signal, threading
        import numod
        from numod.core import overrides

        def relu():
            values.append(numod.quantize_per_tensor(numod.tensor([1.0, -2.0]), 0.1, 0, numod.qint8).relu())

        def replace_code(*arguments):
            if len(overrides.overridable) == 10 and not thread.ident:
                thread.start()
                signal.raise_signal(signal.SIGINT)
            original(*arguments)

        values, thread, original = [], threading.Thread(target=relu), overrides._replace_code
        overrides._replace_code = replace_code
        try:
            relu()
        except KeyboardInterrupt:
            print("interrupted")
        relu()
        thread.join()
        print(*[value.dequantize().tolist() for value in values])
    """
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.splitlines() == ["interrupted", "[1.0, 0.0] [1.0, 0.0]"]


def test_functions_have_the_names_they_are_found_by() -> None:
    for name, home in numod._LATER.items():
        if home is not None:  # what is imported when it is asked for
            getattr(numod, name)
    for home in (numod.Tensor, numod):
        for name, function in vars(home).items():
            if isinstance(function, FunctionType) and not (home is numod and name.startswith("_")):
                assert getattr(home, function.__name__) is function and pickle.loads(pickle.dumps(function)) is function
    names = "add_ __getitem__ __rsub__ backward absolute long t mm all".split()
    assert [getattr(numod.Tensor, name).__name__ for name in names] == names
    assert [getattr(numod, name).__name__ for name in ("mm", "prod", "absolute", "norm", "real", "t")] == [
        "mm",
        "prod",
        "absolute",
        "norm",
        "real",
        "t",
    ]


def test_modes() -> None:
    class Log(TorchFunctionMode):
        def __init__(self) -> None:
            self.names: list[str] = []

        def __torch_function__(self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {})) if func is not numod.sub else "taken"

    x = numod.ones(2)
    with Log() as outer:
        y = F.relu(numod.zeros(2) + x)
        with Log() as inner:
            assert y.sum().item() == 2 and numod.sub(x, x) == "taken"
        with numod._C.DisableTorchFunction():
            _ = x * 2
        assert type(own_tensor(2) + x) is Own
        assert has_torch_function(())
    _ = x / 2
    assert (
        inner.names == ["sum", "item", "sub"]
        and outer.names[:3] == ["zeros", "add", "relu"]
        and outer.names[3:5] == ["sum", "item"]
    )
    assert (
        "mul" not in outer.names
        and "div" not in outer.names
        and outer.names[-1] == "add"
        and not has_torch_function(())
    )


def test_functions_of_others() -> None:
    class Names(numod.Tensor):
        @classmethod
        def __torch_function__(cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
            return func.__name__, args, kwargs

    def scale(x: Any, factor: float = 1) -> Any:
        return handle_torch_function(scale, (x,), x, factor=factor) if has_torch_function((x,)) else x * factor

    x = numod.ones(1).as_subclass(Names)
    assert scale(x, 2)[0] == "scale" and scale(numod.ones(1), 2).item() == 2
    with pytest.raises(TypeError, match="none of the arguments"):
        handle_torch_function(scale, (1,), 1)


def test_functions_stay_what_they_are() -> None:
    assert list(inspect.signature(F.relu).parameters) == ["input", "inplace"]
    assert list(inspect.signature(numod.add).parameters) == ["input", "other", "alpha", "out"]
    assert pickle.loads(pickle.dumps(numod.add)) is numod.add and "limited" in numod.clamp.__doc__
    with pytest.raises(TypeError, match=r"add\(\): argument 'other' \(position 2\) must be Tensor or Number, not str"):
        numod.add(own_tensor(2), "2")
    try:
        F.conv2d(own_tensor(2), own_tensor(2))
    except RuntimeError as error:
        traceback, frames = error.__traceback__, []
        while traceback is not None:  # a debugger looks at the variables of every frame
            frames.append(dict(traceback.tb_frame.f_locals))
            traceback = traceback.tb_next
    assert len(frames) > 4


def test_under_autocast_profiler_and_transforms() -> None:
    x = own_tensor(2, 2)
    with numod.autocast("cpu", dtype=numod.bfloat16):
        y = F.linear(x, numod.ones(2, 2))
    assert type(y) is Own and y.dtype is numod.bfloat16 and F.linear(x, numod.ones(2, 2)).dtype is numod.float32
    with numod.profiler.profile() as profile:
        assert x.sum().item() == 6
    assert type(x + 1) is Own and any("sum" in key_average.key for key_average in profile.key_averages())
    assert numod.func.grad(lambda x: (x * x).sum())(own_tensor(3)).tolist() == [0.0, 2.0, 4.0]
    assert numod.vmap(lambda x: x * 2 + x.sum())(own_tensor(2, 2)).tolist() == [[1.0, 3.0], [9.0, 11.0]]


def test_compiled_functions_run_eagerly() -> None:
    class Doubled(TorchFunctionMode):
        def __torch_function__(self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is numod.Tensor.mul else result

    compiled = numod.compile(lambda x: x * 3)
    assert compiled(numod.ones(2)).tolist() == compiled(numod.ones(2)).tolist() == [3.0, 3.0]
    with Doubled(), pytest.warns(UserWarning, match="runs eagerly in modes"):
        assert compiled(numod.ones(2)).tolist() == [6.0, 6.0]
    assert compiled(numod.ones(2)).tolist() == [3.0, 3.0] and type(compiled(own_tensor(2))) is Own
    tensor = own_tensor(2)
    with pytest.warns(UserWarning, match="calls numod.Tensor.mul of a class"):
        assert type(numod.compile(lambda x: x * tensor)(numod.ones(2))) is Own
    with pytest.raises(RuntimeError, match="override functions"):
        numod.compile(lambda x: x * 3, fullgraph=True)(own_tensor(2))


def test_torch_dispatch_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="__torch_dispatch__"):
        numod.Tensor._make_wrapper_subclass(Own, (2,))
    with pytest.warns(UserWarning, match="no __torch_dispatch__"):
        type("Dispatching", (numod.Tensor,), {"__torch_dispatch__": None})


_USES = """x+x x+p p+x x+2 2+x x-p 2-x x*p x/2 2/x x//p x**2 2**x x%2 x@p p@x -x abs(x) +x x<p p<x x==p x!=1 i&1 i|i 1^i i<<1 ~i x[0] x[x>0] x.sum() x.T x.shape
    x.dtype x.grad x.requires_grad x.is_leaf x.data x.size() x.view(-1) x.max(0) x[0,0].item() x.tolist() x.clone() x.detach() x.double() x.numpy() x.add_(1) p.add_(x)
    len(x) bool(x[0,0]) float(x[1,1]) repr(x) torch.add(p,x) torch.stack([p,x]) torch.cat((x,p)) torch.where(x>0,x,p) torch.zeros_like(x) torch.mean(x)
    torch.linalg.svd(x) torch.einsum("ij,jk",x,p) torch.equal(x,p) torch.fft.fft(x) torch.topk(x,1) torch.tensor(x) torch.as_tensor(x) F.relu(x) F.softmax(x,0)
    F.linear(p,x) F.mse_loss(x,p) F.layer_norm(x,(2,)) F.dropout(x) F.pad(x,(1,1)) x.new_ones(2) x.split(1) torch.split(x,1)""".split()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_calls_are_seen_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    messages = []
    for library in (torch, numod):
        functional = importlib.import_module(f"{library.__name__}.nn.functional")
        overrides = importlib.import_module(f"{library.__name__}.overrides")
        names: list[str] = []

        class Logged(library.Tensor):
            @classmethod
            def __torch_function__(
                cls,
                func: Callable,
                types: tuple,
                args: tuple = (),
                kwargs: dict | None = None,
                names: list = names,
                overrides: Any = overrides,
            ) -> Any:
                name = overrides.resolve_name(func)
                names.append(f"{name}".replace("numod.", "torch.").replace("torch.functional.", "torch."))
                return super().__torch_function__(func, types, args, kwargs)

        p = library.arange(1.0, 5.0).reshape(2, 2)
        x, i = p.clone().as_subclass(Logged), p.long().as_subclass(Logged)
        results = []
        for use in _USES:
            names.clear()
            results.append(
                (use, type(eval(use, {"torch": library, "F": functional, "x": x, "p": p, "i": i})).__name__, *names)
            )
        messages.append(results)
    assert messages[0] == messages[1]


def test_functions_that_are_properties_too_take_their_argument_by_name():
    class Log(TorchFunctionMode):
        def __torch_function__(self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen: list[Callable] = []
    z = numod.tensor([1 + 2j])
    with Log():  # installs the trampolines, which stay
        assert z.shape == (1,)
    assert seen[0] == numod.Tensor.shape.__get__
    assert numod.real(input=z).item() == z.real.item() == 1
    assert numod.imag(input=z).item() == z.imag.item() == 2
