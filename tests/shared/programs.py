"""Random programs for the graph's tests:

Python text of a few lines over tensors, each line tried eagerly as it is made. Not the tests themselves.

A program is a list of lines over the inputs `x0 ...`, the parameters `p0 ...` and results `t0 ...`. It runs as a
function of its inputs in one of three modes: "forward" (no gradients), "backward" (its results are differentiated
outside), "train" (loss, backward and an optimizer's step inside).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import numod
from numod import graph
from numod.nn import functional as F

UNARY = """tanh({a})|sigmoid({a})|sin({a})|{a}.abs()|-{a}|relu({a})|{a}.square()|{a}.clamp(-1, 1)|{a}.abs().sqrt()|F.gelu({a})|F.silu({a})|
{a}.abs().log1p()|{a}.clamp(max=3).exp()|
{a}.floor()|{a}.sign()|F.leaky_relu({a}, {s})|{a}.nan_to_num()|{a}.isnan()|{a}.logical_not()""".split("|")
SCALAR = (
    "{a} * {s}|{s} - {a}|{a} / {s}|{a} ** 2|{a} + {i}|{a} > {s}|{a} // 2|{a} % 3|{a}.pow({s})|{a} == "
    "{i}|torch.add({a}, 2, alpha=3)"
).split("|")
BINARY = """{a} + {b}|{a} - {b}|{a} * {b}|{a} / ({b}.abs() + 1)|torch.maximum({a}, {b})|torch.minimum({a}, {b})|torch.where({a} > {b}, {a}, {b})|
{a} < {b}|torch.where({m}, {a}, {b})|
torch.lerp({a}, {b}, {s})|torch.addcmul({a}, {b}, {b})|torch.atan2({a}, {b})|F.mse_loss({a}, {b})|{a}.masked_fill({m}, {s})|
torch.where({m}, {a}, {s})""".split("|")
REDUCTION = """{a}.sum()|{a}.sum({d})|{a}.sum({d}, keepdim=True)|{a}.mean()|{a}.mean({d}, keepdim=True)|{a}.amax({d})|{a}.max()|{a}.prod({d})|
{a}.var({d}, unbiased=False)|{a}.logsumexp({d})|
{a}.argmax({d})|{a}.cumsum({d})|{a}.norm()|{a}.any({d})|{a}.all()|{a}.std()|F.softmax({a}, {d})|F.log_softmax({a}, {d})|{a}.cumprod({d})|
{a}.sum((0, -1))""".split("|")
VIEW = """{a}.t()|{a}.transpose(0, -1)|{a}.reshape(-1)|{a}[{i}]|{a}[{i}:]|{a}[::2]|{a}.expand(2, *{a}.shape)|{a}.unsqueeze({d})|{a}.squeeze()|
{a}.diagonal()|{a}.flatten()|{a}[..., {i}]|
{a}.movedim(0, -1)|{a}.narrow({d}, 0, 2)|{a}.select({d}, {i})|{a}[None]|{a}[:, 1:]|{a}.view(-1)|{a}.expand_as({b})|{a}.detach()|{a}.contiguous()|
{a}.clone()|{a}.flip({d})|{a}.tril()""".split("|")
PRODUCT = "{a} @ {b}|{a} @ {b}.t()|F.linear({a}, {b})|F.linear({a}, p0, p1)|torch.matmul({a}.t(), {b})".split("|")
WRITE = """{c}.add_({b})|{c}.mul_({s})|{c}.copy_({b})|{c}.fill_({s})|{c}.zero_()|{c}[{i}] = {b}|{c}[..., {i}] = {s}|{c}[1:] += {b}|{c}.clamp_(-1, 1)|{c}.relu_()|{c}.masked_fill_({m}, {s})|{c}.t().add_({b})|
{c}.sub_({c})|{c}.add_({c}.t())|{c}[1:].copy_({c}[:-1])|{c}.mul_({b}).add_({s})|{c}.diagonal().fill_({s})|{c}[{n}] = {s}|{c}[{m}] = {s}|{c}.index_add_(0, {n}, {b})|{c}.uniform_(0, 1)|{c} += {b}|{c} *= {s}|
{c}.transpose(0, -1)[{i}].tanh_()|{c}.view(-1)[1:3].mul_(2)|{c}.scatter_({d}, {n}, {s})""".split("|")
INDEX = """{a}.index_select(0, {n})|{a}[{n}]|torch.gather({a}, {d}, {n})|torch.cat(({a}, {b}))|torch.cat(({a}, {a}), {d})|
torch.stack(({a}, {b}), {d})|{a}[:, {n}]|F.embedding({n}, {b})|torch.take_along_dim({a}, {n}, {d})|
F.cross_entropy({a}, {n})|F.one_hot({n}, 5)|torch.roll({a}, 1, {d})|{a}.scatter_add({d}, {n}, {a})""".split("|")
DRAW = """F.dropout({a}, 0.4)|torch.rand_like({a})|torch.randn(2, 3)|torch.bernoulli({a}.sigmoid())|F.dropout({a}, 0.5, training=False)|
torch.rand(3)|torch.randint(0, 3, (3,))""".split("|")
KIND = "{a}.double()|{a}.float()|{a}.long()|{a}.bool()|{a}.to({b}.dtype)|{a}.half()|{a}.type_as({b})|{a}.int()".split(
    "|"
)
MADE = """torch.zeros(2, 3)|torch.ones_like({a})|torch.arange(3)|torch.full((3,), {s})|torch.eye(3)|{a}.new_zeros(3)|
torch.zeros_like({a}, dtype=torch.float64)|torch.linspace(0, 1, 3)""".split("|")
SEVERAL = """torch.max({a}, {d})|torch.sort({a}, {d})|{a}.split([1, 2], {d})|torch.var_mean({a}, {d})|{a}.chunk(2, {d})|torch.topk({a}, 2, {d})|
{a}.min({d})""".split("|")
SEVERAL_DIMS = """{a}.sum((0, 1))|{a}.mean((0, -1), keepdim=True)|{a}.amax((0, 1))|{a}.var((0, 1), unbiased=False)|{a}.logsumexp((0, 1))|{a}.sum((-1, 0), dtype=torch.float64)|
{a}.amin((-1,), keepdim=True)|{a}.norm(dim=(0, 1))|{a}.count_nonzero()|{a}.std_mean((0, 1))[1]|{a}.nansum({d})|{a}.any()|{a}.aminmax(dim={d})[0]|{a}.argmin()|{a}.cummax({d})[0]|
{a}.median({d})[0]|{a}.mean(dtype=torch.float64)|{a}.argsort({d})|F.layer_norm({a}, {a}.shape[-1:])|F.normalize({a}, dim={d})""".split(
    "|"
)
INTEGER = r"""{n} + {n}|{n} * 2 - {n}|{n} // 2|{n} % 2|{n} & 1|{n} << 1|{n} | {n}|{n} ^ 3|-{n}|{n}.sum()|{n} / 2|{n} == {n}|{n}.float() * {a}|{n}.clamp(0, 1)|{n}.bitwise_not()|{n}.abs()|{n}.max()|
{m} & {m}|{m} \| {m}|~{m}|{m} ^ {m}|{m}.sum({d})|{m}.float()|{m} * {a}|{m}.logical_and({m})|{m}.long()|{a} * {m} + {n}|{m}.cumsum({d})|{n}.to(torch.int32) + 1|{n}.unique().sum()""".replace(
    "\\|", "\0"
).split("|")
INTEGER = [template.replace("\0", "|") for template in INTEGER]
EDGE = """{a}[:0]|{a}[:, :0]|{a}.narrow({d}, 0, 0)|{a}.narrow({d}, 0, 1)|{a}.reshape(-1)[:1]|torch.empty(0, 3)|torch.zeros(1)|torch.tensor({s})|{a}[:1]|{a}.sum().reshape(1, 1)|{a}[..., :1]|
torch.cat(({a}[:0], {b}))|{a}[:0].sum()|{a}[:0].sum(0)|{a}.reshape(1, -1)|{a}[{n}[:0]]|{a}.repeat(2, 1)|{a}.expand(3, -1)|{a}.unfold({d}, 2, 1)|{a}.real|{a}.squeeze({d})""".split(
    "|"
)
ALIAS = """{c}.t().mul_({s})|{c}[::2].copy_({b})|{c}.narrow({d}, 0, 1).add_({s})|{c}.chunk(2, {d})[0].mul_({s})|{c}.unbind({d})[0].sub_({s})|{c}.select({d}, {i}).fill_({s})|{c}[None].add_({b})|
{c}.view(-1)[::2] += {s}|{c}.expand_as({c}).mul_(1)|{c}.flatten().add_({s})|{c}.unsqueeze({d}).tanh_()|{c}.reshape(-1)[{i}] = {s}|{c}[:, {i}] *= {s}|{c}[1:] = {c}[:-1].clone()|{c}.detach().add_({s})|
{c}.index_put_(({n},), {b})|{c}.index_copy_(0, {n}, {b})|{c}.index_fill_({d}, {n}, {s})|{c}.masked_scatter_({m}, {b})|{c}.lerp_({b}, {s})|{c}.addcmul_({b}, {b})|{c}.where({m}, {b}).mul_({s})|
{c}.squeeze().mul_({s})|{c}.transpose(0, -1)[1:] -= {s}|{c}.copy_({b}.t())|{c}[{m}] += {s}|{c}.put_({n}, {b})|{c}.clamp_(min=0).sqrt_()|{c}.scatter_add_({d}, {n}, {b})|{c}.add_({c}[{i}])|{c}[..., 1:].copy_({c}[..., :-1])|
{c}.diagonal().add_({s})|{c}.movedim(0, -1).mul_({b})|{c}.masked_fill_({m}, {s}).neg_()""".split("|")
JOIN = """torch.stack(({a}, {b}, {a}), {d})|torch.cat(({a}, {b}, {a}), {d})|{a}.split(1, {d})[{i}]|{a}.unbind({d})[{i}]|torch.hstack(({a}, {b}))|torch.vstack(({a}, {b}))|{a}.tile(2)|
torch.where({m}, 0.0, {a})|torch.where({a} > 0, {a}, torch.zeros_like({a}))|{a}.masked_select({m})|{a}.masked_fill(~{m}, {s})|torch.outer({a}, {b})|torch.einsum("ij,kj->ik", {a}, {b})|
{a}.bfloat16()|{a}.to(torch.float64)|{a}.byte()|{a}.short()|{a}.half() * 2|{a}.to(torch.bfloat16).float()|torch.result_type({a}, {b}) and {a}|{a}.unflatten(-1, (1, -1))|F.pad({a}, (1, 1))|{a}.repeat_interleave(2, {d})|
{a}.swapaxes(0, -1)|{a}.triu()|{a}.rot90()|{a}.diff(dim={d})|torch.meshgrid({a}, {b}, indexing="ij")[0]|{a}.block_diag({b})|{a}.index_add(0, {n}, {b})""".split(
    "|"
)
STRUCTURED = """F.conv1d({a}[None], torch.ones(2, 2, 2) * p1[:, None, None])|F.conv2d({a}[None, None], p0[None, None, :, :2])|F.conv_transpose1d({a}[None], p0[:, None, :2])|
F.max_pool1d({a}[None], 2, 1)|F.avg_pool1d({a}[None], 2)|F.adaptive_avg_pool1d({a}[None], 2)|F.max_pool2d({a}[None, None], 2, 1)|F.interpolate({a}[None], size=4)|
F.interpolate({a}[None], size=4, mode="linear")|F.batch_norm({a}, None, None, training=True)|F.group_norm({a}[None], 1)|F.instance_norm({a}[None])|F.rms_norm({a}, {a}.shape[-1:])|
F.scaled_dot_product_attention({a}[None], {b}[None], {b}[None])|F.embedding_bag({n}, {b}, torch.tensor([0, 1]))|F.pad({a}[None], (1, 1), mode="reflect")|torch.fft.rfft({a}).abs()|
torch.fft.fft({a}).real|torch.linalg.det({a} @ {a}.t() + torch.eye(2) * 3)|torch.linalg.solve({a} @ {a}.t() + torch.eye(2) * 3, {a})|torch.searchsorted({a}.sort(-1)[0], {b})|
torch.bincount({n}, minlength=3)|torch.cdist({a}, {b})|F.cosine_similarity({a}, {b})|F.huber_loss({a}, {b})|F.nll_loss({a}, {n})|F.binary_cross_entropy_with_logits({a}, {b}.sigmoid())|
torch.cummin({a}, {d})[0]|torch.logcumsumexp({a}, {d})|torch.complex({a}, {b}).abs()|torch.polar({a}, {b}).angle()|torch.bmm({a}[None], {b}.t()[None])|
torch.addmm({a}, {b}, p2)|torch.linalg.cross({a}, {b})|torch.kron({a}, {b})|torch.tensordot({a}, {b}, 1)|F.softplus({a})|F.elu({a})|F.mish({a})|torch.erf({a})|F.glu({a}.t(), 0)|
torch.linalg.vector_norm({a}, 1, {d})|{a}.float().item() * {b}.float()|{b}.float() / {a}.float().item()|torch.trapezoid({a})|torch.histc({a}, 4)|{a}.kthvalue(2, {d})[0]|F.unfold({a}[None, None], 2)|
torch.special.expit({a})|torch.heaviside({a}, {b})|torch.copysign({a}, {b})|torch.fmod({a}, {s})|torch.hypot({a}, {b})|F.hardswish({a})|F.logsigmoid({a})|F.smooth_l1_loss({a}, {b})|
torch.cartesian_prod({a}.view(-1), {b}.view(-1))|{a}.renorm(2, 0, 1.0)|F.gumbel_softmax({a})|torch.normal({a}, 1.0)|
F.rrelu({a}, training=True)|F.alpha_dropout({a}, 0.3, training=True)|torch.randperm(3)|torch.multinomial({a}.abs() + 1, 2)""".split(
    "|"
)
KINDS = [
    UNARY, SCALAR, BINARY, BINARY, REDUCTION, VIEW, VIEW, PRODUCT, WRITE, WRITE, INDEX, DRAW, KIND, MADE, SEVERAL,
    SEVERAL_DIMS, INTEGER, EDGE, ALIAS, ALIAS, JOIN,
]  # fmt: skip

STRUCTURED_FROM = 10_000  # seeds from here on take every fourth line from these ops, which have kernels of their own


@dataclass
class Program:
    """Lines, what they return, and under which mode they run."""

    seed: int
    mode: str
    lines: list[str]
    results: list[str]
    overlap: bool = False  # whether x1 is a view of x0
    growing: bool = False  # whether x0 and x4 have more rows at every call

    def text(self) -> str:
        """The function as text."""
        return "\n".join(
            [
                "def program(x0, x1, x2, x3, x4):",
                *(f"    {line}" for line in self.lines),
                f"    return ({''.join(f'{result}, ' for result in self.results)})",
            ]
        )

    def function(self, parameters: list[numod.Tensor]) -> Callable:
        """The function, over these parameters."""
        space = _space(parameters)
        exec(compile(self.text(), f"<program {self.seed}>", "exec"), space)  # our own text
        return space["program"]


@dataclass
class World:
    """Everything a program touches, made anew from a seed."""

    program: Program
    wrap: Callable = lambda function: function
    recorded_values: list = field(default_factory=list)

    def __post_init__(self) -> None:
        numod.manual_seed(self.program.seed)
        trained = self.program.mode != "forward"
        self.parameters = [
            numod.nn.Parameter(numod.randn(*shape), requires_grad=trained) for shape in ((2, 3), (2,), (3, 3))
        ]
        function = self.program.function(self.parameters)
        if self.program.mode == "train":
            function = self._step(function)
        self.function = self.wrap(function)

    def _step(self, function: Callable) -> Callable:
        optimizer = numod.optim.SGD(self.parameters, lr=0.01, momentum=0.9)

        def step(*inputs: numod.Tensor) -> tuple:
            optimizer.zero_grad()
            results = function(*inputs)
            loss = _loss(results, [*self.parameters])
            loss.backward()
            optimizer.step()
            return (loss, *[result.detach() for result in results])

        return step

    def inputs(self, turn: int) -> list[numod.Tensor]:
        """Fresh inputs, the same for the same turn."""
        numod.manual_seed(1000 * self.program.seed + turn)
        rows = 2 + turn if self.program.growing else 2
        x = [
            numod.randn(rows, 3),
            numod.randn(3),
            numod.randn(3, 3),
            numod.randint(0, 2, (3,)),
            numod.rand(rows, 3) > 0.5,
        ]
        if self.program.overlap:
            x[1] = x[0][1]
        if self.program.mode == "backward":
            x[2].requires_grad_()
            if not self.program.overlap:
                x[0].requires_grad_()
        return x

    def call(self, turn: int) -> list[np.ndarray | None]:
        """All that one call leaves: results, inputs, gradients, parameters, the random stream's place."""
        x = self.inputs(turn)
        with numod.set_grad_enabled(self.program.mode != "forward"):
            results = self.function(*x)
        if self.program.mode == "backward":
            for tensor in (*x, *self.parameters):
                tensor.grad = None
            _loss(results, self.parameters).backward()
        seen = [*results, *x, *self.parameters, *[tensor.grad for tensor in (*x, *self.parameters)]]
        self.recorded_values += [(result, values(result)) for result in results]
        return [*map(values, seen), np.array(numod.default_generator._offset)]


def _loss(results: tuple, parameters: list[numod.Tensor]) -> numod.Tensor:
    floating = [result.float() for result in results if result.dtype.is_floating_point and result.requires_grad]
    return sum(((tensor.tanh() * 0.5).sum() for tensor in floating), (parameters[0].sum() * 0.1))


def values(tensor: numod.Tensor | None) -> np.ndarray | None:
    """A copy of a tensor's values."""
    return None if tensor is None else tensor.detach().to(tensor.dtype.compute).numpy().copy()


def _space(parameters: list[numod.Tensor]) -> dict:
    space = {"torch": numod, "F": F, "tanh": numod.tanh, "sigmoid": numod.sigmoid, "sin": numod.sin, "relu": numod.relu}
    return space | {f"p{k}": parameter for k, parameter in enumerate(parameters)}


def generate(seed: int, mode: str, length: int = 10, growing: bool = False) -> Program:
    """A program whose every line runs, and which as a whole runs eagerly. Another is tried until one does."""
    source = random.Random(f"{mode} {seed}{' growing' if growing else ''}")
    while True:
        program = _attempt(source, seed, mode, source.randint(1, length), growing)
        if program is not None and _runs(program):
            return program


def _runs(program: Program) -> bool:
    try:
        world = World(program)
        for turn in range(3):
            world.call(turn)
    except Exception:  # whatever PyTorch's rules forbid is no program
        return False
    return True


def _attempt(source: random.Random, seed: int, mode: str, length: int, growing: bool) -> Program | None:
    program = Program(seed, mode, [], [], source.random() < 0.15, growing)
    world = World(program)
    space = _space(world.parameters) | {f"x{k}": input for k, input in enumerate(world.inputs(0))}
    tries = 0
    with numod.set_grad_enabled(mode != "forward"):
        while len(program.lines) < length and tries < 20 * length:
            tries += 1
            _extend(source, program, space)
    names = [name for name in space if re.fullmatch(r"[xpt]\d+", name)]
    made = [name for name in names if name[0] == "t"]
    if not made:
        return None
    program.results = list(dict.fromkeys([made[-1], *source.sample(names, min(len(names), source.randint(0, 3)))]))
    return program


def _extend(source: random.Random, program: Program, space: dict) -> None:
    kind = STRUCTURED if program.seed >= STRUCTURED_FROM and source.random() < 0.25 else source.choice(KINDS)
    line = _filled(source, source.choice(kind).strip(), space)
    if line is None:
        return
    number = sum(name[0] == "t" and name[1:].isdigit() for name in space)
    if kind is SEVERAL:
        line = f"t{number}, t{number + 1} = {line}"
    elif kind is not WRITE and kind is not ALIAS:
        line = f"t{number} = {line}"
    before = dict(space)
    try:
        with np.errstate(all="ignore"):
            exec(line, space)  # our own text
        if any(isinstance(value, numod.Tensor) and value.numel() > 200 for value in space.values()):
            raise ValueError
    except Exception:  # not for these shapes
        space.clear()
        space.update(before)
        return
    program.lines.append(line)


def _filled(source: random.Random, template: str, space: dict) -> str | None:
    names = [name for name in space if re.fullmatch(r"[xpt]\d+", name)]
    of = {
        "a": names,
        "b": names,
        "c": [name for name in names if name[0] != "p"],
        "m": [name for name in names if space[name].dtype is numod.bool],
        "n": [name for name in names if space[name].dtype is numod.int64],
    }

    def recent(pool: list[str]) -> str:
        return source.choice(pool[-4:] if source.random() < 0.6 else pool)

    filled = {key: recent(pool) for key, pool in of.items() if pool}
    filled |= {"s": source.choice([0.5, -1.5, 2.0, 3]), "i": source.choice([0, 1, -1]), "d": source.choice([0, -1, 1])}
    try:
        return template.format(**filled)
    except KeyError:
        return None


def difference(program: Program, wrap: Callable, turns: int = 3, exact: bool = False) -> str | None:
    """How the program wrapped differs from the program as it is over several calls, or None."""
    eager, other = World(program), World(program, wrap)
    for turn in range(turns):
        expected = eager.call(turn)
        try:
            actual = other.call(turn)
        except Exception as error:  # to be told with the program
            if str(error).startswith("compile: "):
                return None  # refused, clearly
            return f"call {turn}: {type(error).__name__}: {error}"
        names = [
            *(f"result {name}" for name in (["loss"] if program.mode == "train" else []) + program.results),
            *(f"x{k}" for k in range(5)),
            *(f"p{k}" for k in range(3)),
        ]
        names += [f"gradient of {name}" for name in names[-8:]] + ["random stream"]
        for name, a, b in zip(names, expected, actual, strict=True):
            if not _same(a, b, exact):
                return f"call {turn}: {name} is {b}, expected {a}"
    for number, (tensor, before) in enumerate(other.recorded_values):
        mine = eager.recorded_values[number]
        if not _same(values(mine[0]), values(tensor), exact):
            return f"result {number} of an earlier call changed from {before} to {values(tensor)}"
    return None


def _same(a: np.ndarray | None, b: np.ndarray | None, exact: bool) -> bool:
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if exact or a.dtype.kind != "f":
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def shrink(program: Program, wrap: Callable, exact: bool = False) -> Program:
    """A smaller program that still differs: lines are left out, with what needs them."""
    changed = True
    while changed:
        changed = False
        for number in range(len(program.lines)):
            smaller = _without(program, number)
            if smaller is not None and _runs(smaller) and difference(smaller, wrap, exact=exact) is not None:
                program, changed = smaller, True
                break
    return program


def _without(program: Program, number: int) -> Program | None:
    gone = (
        set(re.findall(r"\bt\d+\b", program.lines[number].split(" = ")[0]))
        if re.match(r"t\d+(, t\d+)* = ", program.lines[number])
        else set()
    )
    lines = program.lines[:number]
    for line in program.lines[number + 1 :]:
        if gone & set(re.findall(r"\bt\d+\b", line)):
            made = re.match(r"(t\d+(?:, t\d+)*) = ", line)
            gone |= set(made[1].split(", ")) if made else set()
        else:
            lines.append(line)
    results = [result for result in program.results if result not in gone] or ["x0"]
    return Program(program.seed, program.mode, lines, results, program.overlap, program.growing)


# ---- eager beside compiled

MODES = ("forward", "backward", "train")


def in_turn(function: object) -> object:
    """Compiled as a list of kernels."""
    return graph.compile(function, options={"linked": False})


def for_all_sizes(function: object) -> object:
    """Compiled for inputs that have more rows at every call."""
    return graph.compile(function, dynamic=True, options={"linked": False})


def check(seed: int, mode: str, wrap: object) -> None:
    """Compare, and tell the smallest program found that differs.

    Kernels in turn are those of eager ops, so their results are the same to the bit.
    """
    program, exact = generate(seed, mode, growing=wrap is for_all_sizes), wrap is in_turn and mode == "forward"
    if difference(program, wrap, exact=exact) is not None:
        program = shrink(program, wrap, exact)
        pytest.fail(
            f"seed {seed}, "
            f"{mode}{', x1 a view of x0' if program.overlap else ''}:\n{program.text()}\n{difference(program, wrap, exact=exact)}"
        )
