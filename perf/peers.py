"""Who takes part, and how each library runs an expression, a network or a training step.

Every contender of a row gets the same numbers.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import shutil
import tempfile
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np

from .row import Timed

PEERS = {
    "PyTorch": ("torch",),
    "torch.compile": ("torch",),
    "NumPy": ("numpy",),
    "JAX": ("jax",),
    "ONNX Runtime": ("onnxruntime", "onnx", "torch"),
}
SGD = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-4}
Make = Callable[[object], tuple]  # a function of `networks`


def installed() -> list[str]:
    """Names of the peers that can run here. torch.compile needs a C++ compiler; ONNX Runtime is given what PyTorch
    exports.
    """
    results = [name for name, modules in PEERS.items() if all(map(importlib.util.find_spec, modules))]
    return [name for name in results if name != "torch.compile" or shutil.which("g++") or shutil.which("clang++")]


def versions(peers: Collection[str]) -> dict[str, str]:
    """The versions of numod and of these peers."""
    modules = {
        "numod": "numod",
        **{name: PEERS[name][0] for name in PEERS if name in peers and name != "torch.compile"},
    }
    return {name: importlib.import_module(module).__version__ for name, module in modules.items()}


def set_threads(threads: int, peers: Collection[str]) -> None:
    """Tell the libraries that can be told within a process; the others were told by the environment."""
    for name in ("numod", "torch"):
        if name == "numod" or "PyTorch" in peers or "torch.compile" in peers:
            importlib.import_module(name).set_num_threads(threads)


# ---- an expression of tensors


def expression(
    text: str, arrays: Mapping[str, object], jax: str = "", numpy: str = "", onnx: bool = True, compiled: bool = False
) -> dict[str, Callable[[], Timed]]:
    """`text` in the names of `arrays`, torch and F; `jax` says it in jnp, jax and lax; `numpy` in np.

    Arrays may be a function that gives them.

    numod and PyTorch run it eagerly; numod compiles it if `compiled`, and torch.compile takes part.
    """

    def example_arrays() -> dict[str, np.ndarray]:
        return {name: array() if callable(array) else array for name, array in arrays.items()}

    def eager(library: str) -> Timed:
        torch = importlib.import_module(library)
        names = {
            "torch": torch,
            "F": torch.nn.functional,
            **{name: torch.tensor(array) for name, array in example_arrays().items()},
        }
        return Timed(
            text, names, lambda: _arrays(eval(text, names)), (lambda: eval(text, names)) if library == "numod" else None
        )

    def jitted(library: str) -> Timed:
        torch, plain = importlib.import_module(library), eager(library)
        function = torch.compile(eval(f"lambda {', '.join(arrays)}: {text}", dict(plain.names)))
        names = {**plain.names, "function": function}
        statement = f"function({', '.join(arrays)})"
        return Timed(statement, names, lambda: _arrays(eval(statement, names)), plain.counted)

    def in_numpy() -> Timed:
        names = {"np": np, **example_arrays()}
        return Timed(numpy, names, lambda: _arrays(eval(numpy, names)))

    def in_jax() -> Timed:
        import jax as library

        names = {"jax": library, "jnp": library.numpy, "lax": library.lax}
        function = library.jit(eval(f"lambda {', '.join(arrays)}: {jax}", names))
        names = {
            "function": function,
            **{name: library.numpy.asarray(array) for name, array in example_arrays().items()},
        }
        statement = f"function({', '.join(arrays)}).block_until_ready()"
        return Timed(statement, names, lambda: _arrays(eval(statement, names)))

    def in_onnx() -> Timed:
        import torch

        class Expression(torch.nn.Module):
            forward = eval(f"lambda self, {', '.join(arrays)}: {text}", {"torch": torch, "F": torch.nn.functional})

        return session(Expression(), tuple(example_arrays().values()))

    results = {"numod": lambda: (jitted if compiled else eager)("numod"), "PyTorch": lambda: eager("torch")}
    results |= {"torch.compile": lambda: jitted("torch")} if compiled else {}
    return (
        results
        | ({"NumPy": in_numpy} if numpy else {})
        | ({"JAX": in_jax} if jax else {})
        | ({"ONNX Runtime": in_onnx} if onnx else {})
    )


# ---- a network


def inference(make: Make, frozen: bool = False) -> dict[str, Callable[[], Timed]]:
    """A network's results for its inputs, compiled by all who compile.

    No gradients are wanted, so no weight asks for any.

    If `frozen`, numod packs weights once, as ONNX Runtime does, and torch.compile may; else each call follows what is
    written to them.
    """

    def of(library: str, compiled: bool) -> Timed:
        torch = importlib.import_module(library)
        plain, inputs = network(make, library)
        plain.eval().requires_grad_(False)
        arguments = {f"x{number}": torch.tensor(input) for number, input in enumerate(inputs)}
        names = {
            "model": torch.compile(plain, options={"freezing": True} if frozen else None) if compiled else plain,
            **arguments,
        }
        counted = (lambda: plain(*arguments.values())) if library == "numod" else None
        return Timed(
            f"model({', '.join(arguments)})", names, lambda: _arrays(names["model"](*arguments.values())), counted
        )

    def in_jax() -> Timed:
        import jax

        from .in_jax import forward, weights

        module, inputs = network(make, "numod")
        p = weights(module)  # constants of the compiled function, as they are in ONNX
        function = jax.jit(lambda *inputs: forward(module, p, *inputs))
        arguments = {f"x{number}": jax.numpy.asarray(input) for number, input in enumerate(inputs)}
        names = {"function": function, "wait": jax.block_until_ready, **arguments}
        return Timed(f"wait(function({', '.join(arguments)}))", names, lambda: _arrays(function(*arguments.values())))

    def in_onnx() -> Timed:
        module, inputs = network(make, "torch")
        return session(module.eval().requires_grad_(False), inputs)

    return {
        "numod": lambda: of("numod", True), "PyTorch": lambda: of("torch", False),
        "torch.compile": lambda: of("torch", True), "JAX": in_jax,
        "ONNX Runtime": in_onnx,
    }  # fmt: skip


def training(
    make: Make, target: np.ndarray, loss: str, compiled: bool = False, jax: bool = False, loss_alone: bool = False
) -> dict[str, Callable[[], Timed]]:
    """A step of SGD with momentum and weight decay:

    `loss` is the name of one in nn.functional, between the network's results and `target`.

    Eager numod beside eager PyTorch; if `compiled`, numod's step as one function, torch.compile of model and loss and
    of the optimizer, and JAX's jit if `jax`. With `loss_alone` numod too compiles model and loss, and calls backward
    and the optimizer outside.
    """

    def of(library: str, compiled: bool) -> Timed:
        torch = importlib.import_module(library)
        loss_of, module = _objective(torch, make, target, loss, compiled and (library == "torch" or loss_alone))
        optimizer = torch.optim.SGD(module.parameters(), **SGD)
        update = torch.compile(optimizer.step) if compiled and library == "torch" else optimizer.step

        def step() -> object:
            optimizer.zero_grad()
            value = loss_of()
            value.backward()
            update()
            return value

        timed = torch.compile(step) if compiled and library == "numod" and not loss_alone else step
        return Timed(
            "step()",
            {"step": timed},
            lambda: _arrays([timed().detach() for _ in range(3)]),
            step if library == "numod" else None,
        )

    def in_jax() -> Timed:
        step = jax_step(make, target, loss)
        return Timed("step()", {"step": step}, lambda: _arrays([step() for _ in range(3)]))

    results = {"numod": lambda: of("numod", compiled), "PyTorch": lambda: of("torch", False)}
    return (
        results | ({"torch.compile": lambda: of("torch", True)} if compiled else {}) | ({"JAX": in_jax} if jax else {})
    )


def _objective(torch: object, make: Make, target: np.ndarray, loss: str, compiled: bool) -> tuple:
    """(loss of nothing, module) of a network in training."""
    module, inputs = network(make, torch.__name__)
    inputs = [torch.tensor(input) for input in inputs]
    target = torch.tensor(target)
    measure = getattr(torch.nn.functional, loss)

    def between(target: object, *inputs: object) -> object:
        results = module(*inputs)
        return measure(results.reshape(-1, results.shape[-1]), target)

    between = torch.compile(between) if compiled else between
    return lambda: between(target, *inputs), module


def jax_step(make: Make, target: np.ndarray, loss: str) -> Callable[[], object]:
    """A training step in JAX: forward, backward and update jitted as one, weights and momentum donated."""
    import jax
    from jax import numpy as jnp

    from .in_jax import forward, weights

    module, inputs = network(make, "numod")
    inputs, target = [jnp.asarray(input) for input in inputs], jnp.asarray(target)
    measures = {
        "mse_loss": lambda out: ((out - target) ** 2).mean(),
        "cross_entropy": lambda out: -jnp.take_along_axis(jax.nn.log_softmax(out), target[:, None], 1).mean(),
    }

    def advance(p: dict, momentum: dict, inputs: list) -> tuple:
        value, gradients = jax.value_and_grad(lambda p: measures[loss](forward(module, p, *inputs)))(p)
        momentum = jax.tree.map(
            lambda m, g, w: SGD["momentum"] * m + g + SGD["weight_decay"] * w, momentum, gradients, p
        )
        return jax.tree.map(lambda w, m: w - SGD["lr"] * m, p, momentum), momentum, value

    advance, p = jax.jit(advance, donate_argnums=(0, 1)), weights(module)
    state = [p, jax.tree.map(jnp.zeros_like, p)]

    def step() -> object:
        *state[:], value = advance(*state, inputs)
        return value.block_until_ready()

    return step


def network(make: Make, library: str) -> tuple:
    """(module, inputs) in `library`, with the weights numod draws from seed 0."""
    import numod

    numod.manual_seed(0)
    module, inputs = make(numod)
    if library == "numod":
        return module, inputs
    torch = importlib.import_module(library)
    other, inputs = make(torch)
    other.load_state_dict({name: torch.tensor(tensor.detach().numpy()) for name, tensor in module.state_dict().items()})
    return other, inputs


def session(module: object, inputs: tuple) -> Timed:
    """A PyTorch module for ONNX Runtime, by way of PyTorch's exporter."""
    return _session_of(_in_onnx(module, inputs), inputs)


def quantized_session(module: object, inputs: tuple) -> Timed:
    """A PyTorch module for ONNX Runtime, quantized to bytes by its quantizer, with the range of activations here."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Inputs(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [dict(zip(_names(inputs), inputs))]

        def get_next(self) -> dict | None:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        prepared, quantized = f"{folder}/prepared.onnx", f"{folder}/quantized.onnx"
        quant_pre_process(onnx.load_from_string(_in_onnx(module, inputs)), prepared, skip_symbolic_shape=True)
        types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "quant_format": QuantFormat.QDQ}
        quantize_static(prepared, quantized, Inputs(), per_channel=True, **types)
        return _session_of(Path(quantized).read_bytes(), inputs)


def _names(inputs: tuple) -> list[str]:
    return [f"x{number}" for number in range(len(inputs))]


def _in_onnx(module: object, inputs: tuple) -> bytes:
    """The bytes of the file that PyTorch's exporter makes of its module."""
    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(map(torch.tensor, inputs)), file, input_names=_names(inputs), dynamo=False)
    return file.getvalue()


def _session_of(file: bytes, inputs: tuple) -> Timed:
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    run = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]).run
    fed = dict(zip(_names(inputs), inputs))
    return Timed("run(None, fed)", {"run": run, "fed": fed}, lambda: run(None, fed))


def _arrays(values: object) -> list[np.ndarray]:
    """Results as NumPy arrays, of whichever library."""
    values = values if isinstance(values, (tuple, list)) else [values]
    return [np.asarray(value.numpy() if hasattr(value, "numpy") else value) for value in values]
