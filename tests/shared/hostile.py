"""Files to damage and what damages them, for the tests of `serialization`; not the tests themselves.

`PROGRAMS` is a table of small functions whose recorded programs hold most of numod's ops. `changed_program` changes the
JSON of a program where it stands: values of other types, out of range, with text that would write a file if it ran,
parts left out, doubled, exchanged; `changed_bytes` changes anything.
"""

from __future__ import annotations

import io
import functools
import json
import os
import pickle
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numod
import numod as torch
from numod.ao import quantization
from numod.device import Layout
from numod.device.layout import layout
from numod.export import export
from numod.export.zeros import without_zeros
from numod.graph import trace
from numod.graph.ir.program import EMPTY, Program, Step, Value
from numod.nn import functional as F
from numod.serialization import load_file, save_program
from numod.serialization.torch_save import _Pickler

MARK = "RAN"  # the name of the file that payloads write


def r(*shape: int) -> numod.Tensor:
    """Random numbers, the same at each call of a program's table."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 1))


def i(*shape: int, below: int = 3) -> numod.Tensor:
    """Random indices."""
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(sum(shape) + 2))


def slope(function: Callable) -> Callable:
    """The gradients of a function's sum with respect to its floating inputs."""

    @torch.enable_grad()
    def gradients(*inputs: numod.Tensor) -> tuple:
        leaves = [input.detach().requires_grad_() if input.is_floating_point() else input for input in inputs]
        result = function(*leaves)
        total = sum(
            tensor.sum()
            for tensor in (result if isinstance(result, tuple) else (result,))
            if tensor.is_floating_point()
        )
        return torch.autograd.grad(total, [leaf for leaf in leaves if leaf.requires_grad], allow_unused=True)

    return gradients


def _both(function: Callable, *inputs: numod.Tensor) -> Callable:
    """The program of a function and of its gradient, in one."""
    return lambda: (lambda *args: (function(*args), slope(function)(*args)), inputs)


def _module(make: Callable, *inputs: numod.Tensor) -> Callable:
    def built() -> tuple:
        torch.manual_seed(0)
        return make().eval(), inputs

    return built


def _static() -> numod.nn.Module:
    """int8 convolutions, also transposed and depthwise, and linear layers, between floats."""
    nn = torch.nn
    layers = (
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, groups=4),
        nn.ConvTranspose2d(4, 2, 2, stride=2),
    )
    model = quantization.QuantWrapper(nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 3))).eval()
    model.qconfig = quantization.get_default_qconfig("qnnpack")
    prepared = quantization.prepare(model)
    prepared(torch.rand(4, 1, 6, 6))
    return quantization.convert(prepared)


def _dynamic() -> numod.nn.Module:
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru, self.out = torch.nn.LSTM(3, 4), torch.nn.GRU(4, 4), torch.nn.Linear(4, 3)

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.out(self.gru(self.lstm(x)[0])[0])

    return quantization.quantize_dynamic(Tagger(), {torch.nn.LSTM, torch.nn.GRU, torch.nn.Linear})


def _weight_only(config: object) -> numod.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(32, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    quantization.quantize_(model[:1], config)
    return model.requires_grad_(False)


def _compressed() -> tuple:
    """A convolution and a linear layer whose weights' zeros are left out, single ones and blocks."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(64, 8))
    with torch.no_grad():
        model[0].weight[:, 0] = 0
        model[2].weight.view(8, 16, 4)[:, 1:] = 0
    x = r(2, 2, 4, 4)
    program = without_zeros(export(model, (x,)).frozen(), measured=False).program
    return lambda x: program(x), (x,)


@cache
@functools.cache
def _layer(kind: Callable, **options: object) -> numod.nn.Module:
    torch.manual_seed(0)
    return kind(3, 4, **options)


def packed(layer: numod.nn.Module, x: numod.Tensor, lengths: numod.Tensor) -> numod.Tensor:
    """A layer over sequences of any lengths up to x's."""
    sequence = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    return torch.nn.utils.rnn.pad_packed_sequence(layer(sequence)[0], total_length=len(x))[0]


def _written(x: numod.Tensor) -> tuple:
    x = x.clone()
    x[1:].mul_(2)
    x.t().add_(1)
    x[:, 0] = 5
    return x, x.view(-1)[::2], x.diagonal()


PROGRAMS: dict[str, Callable] = {
    "mlp": _module(lambda: torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU(), torch.nn.Linear(3, 2),
        torch.nn.LogSoftmax(1)), r(5, 4)),
    "cnn": _module(lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.BatchNorm2d(2),
        torch.nn.ReLU(), torch.nn.MaxPool2d(2)), r(2, 1, 6, 6)),
    "lstm": _module(lambda: torch.nn.LSTM(3, 4), r(5, 2, 3)),
    "gru": _module(lambda: torch.nn.GRU(3, 4), r(5, 2, 3)),
    "embedding": _module(lambda: torch.nn.Embedding(7, 3), i(2, 2, below=7)),
    "views": lambda: (lambda x: (x.t(), x[1], x[:, ::2], x.view(-1), x.unsqueeze(1).expand(3, 2, 4), x.diagonal(),
        x.as_strided((2, 2), (1, 1))), (r(3, 4),)),
    "writes": lambda: (_written, (r(4, 4),)),
    "pointwise": _both(lambda x, y: (x * y + 1).tanh() / (x.abs() + 2) - torch.where(x > 0, x, y).exp(), r(3, 4), r(4)),
    "reductions": _both(lambda x: (x.sum(1), x.mean(), x.amax(0, keepdim=True), x.norm(), x.prod(1)), r(3, 4)),
    "orders": _both(lambda x: (*x.sort(1), *x.topk(2, 1), *x.max(1), x.argmax(), *x.cummax(0), *x.median(1),
        *x.mode(1)), r(3, 4)),
    "scans": _both(lambda x: (x.cumsum(1), x.cumprod(0), x.logcumsumexp(1)), r(3, 4)),
    "gather": _both(lambda x, n: (x.gather(1, n), x.index_select(0, n[0]), x[n[:, 0]]), r(3, 4), i(3, 2)),
    "scatter": lambda: (
        lambda x, n,
        s: (x.scatter(1, n, s), x.scatter_add(1, n, s), x.scatter_reduce(1, n, s, "amax"), x.index_add(0, n[0], s),
            x.index_copy(0, n[0], s)), (r(3, 3), i(3, 3), r(3, 3)),
    ),
    "grid": _both(lambda x, g: F.grid_sample(x, g, align_corners=False), r(1, 2, 4, 4), r(1, 3, 3, 2)),
    "pools": _both(lambda x: (F.max_pool2d(x, 2, return_indices=True)[0], F.avg_pool2d(x, 3, 2, 1),
        F.adaptive_avg_pool2d(x, 3), F.adaptive_max_pool2d(x, 2)), r(1, 2, 6, 6)),
    "convolutions": _both(lambda x, w: (F.conv2d(x, w, padding=1, dilation=2), F.conv_transpose2d(x, w, stride=2)),
        r(1, 2, 5, 5), r(2, 2, 3, 3)),
    "grouped": _both(lambda x, w: F.conv1d(x, w, groups=2, stride=2), r(2, 4, 8), r(4, 2, 3)),
    "norms": _both(lambda x,
        w: (F.layer_norm(x, (4,), w, w), F.group_norm(x, 1), F.rms_norm(x, (4,), w),
            F.batch_norm(x, None, None, training=True)), r(3, 4), r(4)),
    "losses": _both(lambda x,
        n: (F.cross_entropy(x, n), F.nll_loss(x, n, reduction="none"),
            F.cross_entropy(x, n, reduction="none", ignore_index=1)), r(5, 4), i(5)),
    "attention": _both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), r(1, 2, 6, 4),
        r(1, 2, 6, 4), r(1, 2, 6, 4)),
    "pads": _both(lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 1, 1, 1), "reflect"), F.pad(x, (2, 0), "replicate"),
        F.pad(x, (1, -1))), r(2, 4, 4)),
    "resize": _both(lambda x: F.interpolate(x, size=(5, 3), mode="bilinear"), r(1, 2, 4, 4)),
    "unfold": _both(lambda x: (F.unfold(x, 2, padding=1), F.fold(F.unfold(x, 2), (4, 4), 2)), r(1, 2, 4, 4)),
    "join": _both(lambda x, y: (torch.cat((x, y)), torch.stack((x, x), 1)), r(2, 3), r(4, 3)),
    "flips": _both(lambda x: (x.flip(0), x.roll(1, 1), x.tril(), x.triu(1)), r(3, 4)),
    "matrices": _both(lambda a: (torch.linalg.inv(a), torch.linalg.cholesky(a), torch.linalg.slogdet(a)[1],
        torch.linalg.solve(a, a[:, :1])), r(3, 3) @ r(3, 3).mT + 3 * torch.eye(3)),
    "factors": lambda: (lambda a: (*torch.linalg.svd(a), *torch.linalg.qr(a), torch.linalg.pinv(a),
        *torch.linalg.lu_factor(a), *torch.linalg.eigh(a @ a.mT)), (r(3, 4),)),
    "products": _both(lambda a, b: (a @ b, a @ b[0, :, 0], torch.cdist(a, b.mT), torch.linalg.cross(a, a.flip(0))),
        r(2, 3, 3), r(2, 3, 3)),
    "fourier": lambda: (lambda x: (torch.fft.rfft(x), torch.fft.fft(x), torch.fft.irfft(torch.fft.rfft(x), 6)),
        (r(2, 6),)),
    "search": lambda: (lambda x, e: (torch.searchsorted(e, x), x.unique(return_inverse=True)[1], x.nonzero()),
        (r(2, 3), torch.tensor([-1.0, 0.0, 1.0]))),
    "bag": _both(lambda x, n, o: F.embedding_bag(n, x, o), r(5, 3), i(6, below=5), torch.tensor([0, 2, 4])),
    "draws": lambda: (lambda x: (F.dropout(x, 0.5), torch.rand(3), torch.randperm(5), torch.poisson(x.abs()),
        torch.distributions.Gamma(x.abs() + 1, 1.0).sample()), (r(3, 4),)),
    "ctc": _both(lambda x, n: F.ctc_loss(x.log_softmax(2), n + 1, (5, 4), (2, 1)), r(5, 2, 4), i(2, 2)),
    "integers": lambda: (lambda n: (n * 2 - 1, n // 2, n.sum(), n == 1, n.to(torch.int32), torch.tril_indices(3, 4)),
        (i(3, 4),)),
    "complex": _both(lambda x: (torch.complex(x, x).abs(), (torch.complex(x, x) * torch.complex(x, -x)).real,
        torch.complex(x, x).conj().angle(), torch.complex(x, x + 1).sgn().imag), r(3, 4)),
    "recurrent": _both(lambda x,
        h: torch.nn.utils.rnn.pad_packed_sequence(_layer(torch.nn.LSTM)(torch.nn.utils.rnn.pack_padded_sequence(x,
            [3, 2]))[0])[0] + _layer(torch.nn.GRU)(x)[0], r(3, 2, 3), r(2, 4)),
    "packed": _both(lambda x, n: packed(_layer(torch.nn.GRU), x, n + 1), r(3, 2, 3), i(2)),
    "plain recurrent": _both(lambda x,
        h: (_layer(torch.nn.RNN)(x)[0], _layer(torch.nn.RNN, nonlinearity="relu")(x)[0],
            _layer(torch.nn.LSTMCell)(x[0])[0], _layer(torch.nn.GRUCell)(x[0], h)), r(3, 2, 3), r(2, 4)),
    "more factors": lambda: (lambda a: (torch.det(a), *torch.geqrf(a), torch.linalg.svdvals(a),
        torch.linalg.eigvalsh(a + a.mT), torch.linalg.eigvals(a).abs(), torch.linalg.lstsq(a, a)[0],
        torch.linalg.ldl_factor(a + a.mT)[0], torch.linalg.lu(a)[0]), (r(3, 3) + 2 * torch.eye(3),)),
    "more orders": lambda: (lambda x, a,
        b: (*x.min(1), x.argmin(0), *x.cummin(1), x.nansum(0), x.norm(1), F.pdist(x), torch._int_mm(a, b)),
        (r(3, 4), i(4, 8).to(torch.int8), i(8, 3).to(torch.int8))),
    "static": _module(_static, r(2, 1, 6, 6)),
    "dynamic": _module(_dynamic, r(5, 2, 3)),
    "eight bits": _module(lambda: _weight_only(quantization.Int8WeightOnlyConfig()), r(2, 32)),
    "four bits": _module(lambda: _weight_only(quantization.Int4WeightOnlyConfig(group_size=32)), r(2, 32)),
    "rows of eight bits": _module(
        lambda: _weight_only(quantization.Int8DynamicActivationInt8WeightConfig()), r(2, 32)),
    "compressed": _compressed,
    "doubles": _both(lambda x: (x.double().var(1), F.softmax(x, 1), F.smooth_l1_loss(x, x + 2)), r(3, 4)),
}  # fmt: skip


@cache
def program_file(name: str) -> tuple[bytes, tuple[numod.Tensor, ...]]:
    """A program's file and inputs to run it with."""
    function, inputs = PROGRAMS[name]()
    function(*[input.clone() for input in inputs])  # makes its layers, whose random numbers are no part of the program
    return file_of(trace(function, *inputs)), inputs


def parts_of(content: bytes) -> tuple[dict, dict, bytes]:
    """(header, program, tensors) of a program's file."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["numod.program"]), content[8 + length :]


def assembled(header: dict, program: Any, data: bytes) -> bytes:
    """The file of a program."""
    header = {
        **header,
        "__metadata__": {
            **header["__metadata__"],
            "numod.program": program if isinstance(program, str) else json.dumps(program),
        },
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def payloads(mark: str) -> list[str]:
    """Texts that write the file `mark` where they run: as an expression, on lines of their own, from within a string or
    a comment.
    """
    write = f"open({mark!r}, 'w').write('x')"
    return [
        write, f"0)\n\nimport os\n{write}\nif 0:\n    if 1:\n        if 1:\n            0 #",
        f"__import__('builtins').{write}", f"\n{write}\n", f"'''\n{write}\n'''", f"\"+str({write})+\"",
        f"x\n    {write}", f"1 if {write} else 1", f"{{{write}}}", f"os.system('touch {mark}')", f"0; {write}",
        f"#\n{write}",
    ]  # fmt: skip


WRONG: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, -(1 << 31), 1 << 62, 1 << 63, 1 << 64, -(1 << 63), 10**30, 0.5,
    1e300, -0.0, "", "x", "1", [], [0], [[]], {}, {"a": 1}, {"value": 0}, {"value": -1}, {"value": 1 << 70},
    {"float": "nan"}, {"float": "inf"}, {"float": "x"}, {"tuple": []}, {"tuple": [0]}, {"tuple": [-1, 1 << 40]},
    {"list": [0]}, {"Size": [1]}, {"dtype": "int64"}, {"dtype": "os"}, {"device": "cuda"}, {"device": "meta"},
    {"slice": [0, 1, 2]}, {"dict": [["a", 1]]}, {"draw": 0, "count": 1}, {"draw": 0, "count": -1},
    {"draw": [], "count": 1 << 70}, {"call": "os.system"}, "float64", "bool", "cpu", "\ud800", "\0", "sum", "constant",
    "none",
]  # fmt: skip


def _places(node: Any, places: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """(container, key) of everything in a JSON document."""
    for key, inner in list(node.items()) if isinstance(node, dict) else list(enumerate(node)):
        places.append((node, key))
        if isinstance(inner, (dict, list)):
            _places(inner, places)
    return places


def changed_program(content: bytes, draw: random.Random, mark: str) -> bytes:
    """A program's file with one to three changes of its JSON."""
    header, program, data = parts_of(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        program = _changed(program, draw, mark)
    return assembled(header, program, data)


def _changed(program: dict, draw: random.Random, mark: str) -> dict:
    # attributes and inputs more often than layouts, of which there are more
    if draw.random() < 0.7 and isinstance(program.get("steps"), list) and program["steps"]:
        step = draw.choice(program["steps"])
        places = _places(step, []) if isinstance(step, dict) else [(program, "steps")]
    else:
        places = _places(program, [])
    container, key = draw.choice(places)
    value = container[key]
    others = _places(program, [])
    match draw.randrange(9):
        case 0:
            container[key] = draw.choice(WRONG)
        case 1:
            container[key] = draw.choice(payloads(mark))
        case 2 if type(value) in (int, float):
            container[key] = value + draw.choice((-1, 1, 2, 1000, 1 << 40, -(1 << 40)))
        case 3 if type(value) is int:
            container[key] = draw.choice((-value, value * 2, value // 2, True, float(value), str(value)))
        case 4:
            other, position = draw.choice(others)
            container[key] = json.loads(json.dumps(other[position]))
        case 5 if isinstance(container, list):
            del container[key]
        case 6 if isinstance(container, list):
            container.insert(key, json.loads(json.dumps(value)))
        case 7 if isinstance(container, list) and len(container) > 1:
            a, b = draw.randrange(len(container)), draw.randrange(len(container))
            container[a], container[b] = container[b], container[a]
        case 8 if isinstance(container, dict):
            del container[key]
        case _:
            step = draw.choice(program["steps"] or [{}]) if isinstance(program.get("steps"), list) else {}
            if isinstance(step, dict):
                step["op"] = draw.choice(op_names())
    return program


def replanned(content: bytes, draw: random.Random) -> bytes | None:
    """A program's file with one change of an attribute, an input or a layout, and all later layouts as their ops then
    plan them: nothing but the ops' contracts can refuse it. None where an op itself refuses to plan it.
    """
    from numod.graph.ir.verify import arguments_of
    from numod.kernel import bind
    from numod.serialization import program as files

    header, text, data = parts_of(content)
    tensors = numod_tensors(content)
    recorded = files._program(text, tensors)
    steps = [k for k, step in enumerate(recorded.steps) if isinstance(step, Step)]
    at = draw.choice(steps)
    step = recorded.steps[at]
    match draw.randrange(4):
        case 0 | 1 if step.attributes:
            attributes = list(step.attributes)
            k = draw.randrange(len(attributes))
            attributes[k] = _nudged(attributes[k], draw)
            recorded.steps[at] = replace(step, attributes=tuple(attributes))
        case 2 if step.inputs:
            known = [
                *recorded.inputs,
                *recorded.held,
                *(result for one in recorded.steps[:at] if isinstance(one, Step) for result in one.results),
            ]
            inputs = list(step.inputs)
            k = draw.randrange(len(inputs))
            inputs[k] = draw.choice(known) if isinstance(inputs[k], Value) and known else _nudged(inputs[k], draw)
            recorded.steps[at] = replace(step, inputs=tuple(inputs))
        case _ if recorded.inputs:
            value = draw.choice(recorded.inputs)
            form = recorded.layouts[value]
            shape = tuple(_nudged(n, draw) if draw.random() < 0.5 else n for n in form.shape)
            strides = None if draw.random() < 0.7 else tuple(draw.choice((0, 1, 2, n)) for n in form.strides)
            if any(type(n) is not int or not 0 <= n < 50 for n in shape):
                return None
            recorded.layouts[value] = layout(
                shape,
                form.dtype if draw.random() < 0.8 else draw.choice(list(numod.dtypes.ALL.values())),
                form.device,
                strides,
            )
        case _:
            return None
    with bind.unbuilt():
        for recorded_step in recorded.steps:
            if isinstance(recorded_step, Step) and not recorded_step.in_place and recorded_step.op is not EMPTY:
                planned = recorded_step.op.prepare(
                    tuple(
                        e if isinstance(e, Layout) else type(e) for e in arguments_of(recorded_step, recorded.layouts)
                    ),
                    recorded_step.attributes,
                ).layout
                recorded.layouts.update(
                    zip(recorded_step.results, planned if isinstance(planned, tuple) else (planned,))
                )
    return file_of(recorded)


def numod_tensors(content: bytes) -> dict[str, numod.Tensor]:
    """The tensors of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.safetensors")
        with open(path, "wb") as file:
            file.write(content)
        return load_file(path)


def file_of(program: Program) -> bytes:
    """The file that `save_program` makes of a program."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.safetensors")
        save_program(program, path)
        with open(path, "rb") as file:
            return file.read()


def inputs_for(program: Program) -> list[numod.Tensor]:
    """Tensors as a program wants them, integers from -2 to 8."""
    results = []
    for value in program.inputs:
        form = program.layouts[value]
        kind = numod.int64 if form.dtype.kind in "iub" else numod.float32
        elements = (i(form.extent, below=9) - 2) if kind is numod.int64 else r(form.extent)
        results.append(elements.to(form.dtype).as_strided(form.shape, form.strides))
    return results


def _nudged(value: Any, draw: random.Random) -> Any:
    """A value near this one, of its type."""
    if type(value) is bool:
        return not value
    if type(value) is int:
        return draw.choice((value - 1, value + 1, value + 2, 0, -value, 2 * value, 1, 40))
    if type(value) is float:
        return draw.choice((0.0, -value, value * 2, float("inf"), float("nan"), 1.0))
    if isinstance(value, tuple):
        if not value or draw.random() < 0.2:
            return draw.choice((value[:-1], (*value, 1), value[::-1], value * 2))
        k = draw.randrange(len(value))
        return (*value[:k], _nudged(value[k], draw), *value[k + 1 :])
    if type(value) is str:
        return draw.choice(
            (
                "none",
                "mean",
                "sum",
                "zeros",
                "border",
                "reflection",
                "nearest",
                "bilinear",
                "bicubic",
                "constant",
                "reflect",
                "replicate",
                "circular",
                "amax",
                "prod",
                "forward",
                "r",
                "complete",
            )
        )
    if isinstance(value, numod.dtype):
        return draw.choice(list(numod.dtypes.ALL.values()))
    return value


@cache
def op_names() -> list[Any]:
    """Names of ops as files have them, and of what is none."""
    from numod.serialization.program import _ops_by_name

    return [
        *_ops_by_name(),
        "empty",
        "Update.sgd",
        "Fused.x",
        ["total", "mse"],
        ["grad", "tanh", 0],
        ["grad", "mul", 1],
        ["total_grad", "huber", 0],
        ["grad", "tanh", 9],
        ["total", "os"],
        ["eval", "1", 0],
        ["grad"],
        3,
    ]


# Checkpoints

SNIPPETS = [
    b"cos\nsystem\n(X\x04\x00\x00\x00truetR",
    b"cposix\nsystem\n",
    b"c__builtin__\neval\n(X\x01\x00\x00\x001tR",
    b"(ios\nsystem\n",
    b"(cos\nsystem\nX\x01\x00\x00\x00ao",
    b"ctorch\nTensor\n)\x81",
    b"\x82\x01",
    b"\x84\xff\xff\xff\x7f",
    b"r\xff\xff\xff\xff",
    b"j\xff\xff\xff\xff",
    b"h\x00",
    b"\x8b\xff\xff\xff\x7f",
    b"X\xff\xff\xff\xff",
    b"B\xff\xff\xff\xff",
    b"\x8d" + b"\xff" * 8,
    b"\x96" + b"\xff" * 7 + b"\x7f",
    b"((((",
    b"\x85" * 40,
    b"h\x00h\x00\x86q\x00" * 20,
    b")R",
    b"}b",
    b"Q",
    b"t",
    b"u",
    b"s",
    b"a",
    b"0",
    b"1",
    b"J\xff\xff\xff\xff",
    b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
    b"\x8a\xff" + b"\x7f" * 255,
    b"ctorch\nSize\n",
    b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R",
    b".",
    b"\x93",
    b"cnumod.nn.hooks\nHooks\n)R",
    b"cnumod.nn.hooks\nHooks\n)\x81",
    b"cnumod.nn.hooks\nRemovableHandle\n)\x81",
    b"c__builtin__\nxrange\nJ\xff\xff\xff\x7f\x85R",
    b"ctorch.serialization\n_get_layout\n",
]
NUMBERS = [
    b"\xff" * 8,
    b"\0" * 8,
    struct.pack("<Q", 2**63),
    struct.pack("<I", 2**31),
    b"\x80",
    b"\x7f",
    b"-1",
    b"9999999999999",
    b"1e999",
    b"[",
    b"{",
    b'"',
    b"\\ud800",
    b"null",
]


def changed_bytes(content: bytes, draw: random.Random, mark: str = MARK) -> bytes:
    """The content with one to four changes of its bytes."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4))):
        here = draw.randrange(len(data) or 1)
        match draw.randrange(8):
            case 0:
                data[here : here + 1] = bytes([(data[here : here + 1] or b"\0")[0] ^ 1 << draw.randrange(8)])
            case 1:
                del data[here : here + draw.choice((1, 8, len(data)))]
            case 2:  # splice
                start = draw.randrange(len(content))
                data[here:here] = content[start : start + draw.randrange(1, 64)]
            case 3:
                data[here : here + 8] = draw.choice(NUMBERS)
            case 4:
                data[here:here] = draw.choice(SNIPPETS)
            case 5:
                other = draw.randrange(len(data) or 1)
                size = draw.randrange(1, 64)
                data[here : here + size], data[other : other + size] = (
                    data[other : other + size],
                    data[here : here + size],
                )
            case 6:
                data[here:here] = b"cos\nsystem\n" + _unicode(f"touch {mark}") + b"\x85R"
            case _:
                digits = [position for position, byte in enumerate(data) if 48 <= byte < 58] or [0]
                digit = draw.choice(digits)
                data[digit : digit + 1] = draw.choice((b"9", b"-1", b"00", b"99999999999999999999", b"1.5", b"true"))
    return bytes(data)


def _unicode(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def saved(value: object, kind: str) -> bytes:
    """The file that `save` makes of a value, in the format of the kind."""
    file = io.BytesIO()
    file.name = kind if kind.endswith(".pt") else f"{kind}.safetensors"
    numod.save(value, file)
    return file.getvalue()


def legacy_file(value: object) -> bytes:
    """A file as PyTorch wrote it before version 1.6."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    head = b"".join(
        pickle.dumps(header_part, 2) for header_part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    )
    keys = pickle.dumps([key for key, _, _ in pickler.storages.values()], 2)
    data = b"".join(
        struct.pack("<q", len(storage.data)) + storage.data.tobytes() for _, storage, _ in pickler.storages.values()
    )
    return head + file.getvalue() + keys + data


def members(content: bytes) -> dict[str, bytes]:
    """The members of a zip archive."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    return {name: archive.read(name) for name in archive.namelist()}


def zipped(records: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return file.getvalue()
