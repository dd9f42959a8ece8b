"""Optimised programs for a range of sizes, beside those that are optimised for each size alone."""

from __future__ import annotations

from functools import partial

import pytest

import numod as torch
from numod import nn
from numod.export import Dim, ExportError, aot_compile, export, load, save
from numod.export import between
from numod.export.program import ExportedProgram
from numod.graph.backend.lower import Call, Span, lower
from numod.graph.passes.pipeline import optimise

MOST = 90


class Attention(nn.Module):
    """Embedding, attention and norm over a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(9, 16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0])


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 5), nn.ReLU(), nn.Flatten(),
        nn.Linear(128, 60), nn.Tanh(), nn.Linear(60, 4), nn.LogSoftmax(-1),
    )  # fmt: skip


NETWORKS = {
    "convolutional": lambda: (convolutional(), torch.randn(3, 1, 16, 16), 0),
    "attention": lambda: (Attention(), torch.randint(0, 9, (2, 7)), 1),
}


def exported(name: str) -> ExportedProgram:
    torch.manual_seed(0)
    net, x, dimension = NETWORKS[name]()
    return export(net.eval(), (x,), dynamic_shapes=({dimension: Dim("size", min=2, max=MOST)},))


def calls(program: object) -> list:
    """The kernels of a program, and their numbers."""
    return [
        (call.kernel.source, [(a.size, a.offset) if isinstance(a, Span) else a for a in call.arguments])
        for call in lower(program).calls
        if isinstance(call, Call)
    ]


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_are_those_of_each_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic, sizes = exported(name).dynamic, []
    monkeypatch.setattr(between, "optimise", lambda program: sizes.append(1) or optimise(program))
    programs = [*between.optimised(dynamic.program, dynamic.points())]
    assert len(sizes) < MOST // 2
    for point, program in zip(dynamic.points(), programs, strict=True):
        assert calls(program) == calls(optimise(dynamic.program(point))[0]), point


class Pairs(nn.Module):
    """Sums and products of all pairs of rows, with constants as long as some sizes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple:
        return x[:, None] * y[None] + 1, (x @ y.T).softmax(-1), (x + torch.ones(6)).sum(0), y.T.contiguous()


def test_two_dimensions_of_which_one_begins_late() -> None:
    rows, columns = Dim("rows", max=8), Dim("columns", min=3, max=40)
    inputs = torch.randn(3, 6), torch.randn(4, 6)
    dynamic = export(Pairs(), inputs, dynamic_shapes=({0: rows}, {0: columns})).dynamic
    programs = between.optimised(dynamic.program, dynamic.points())
    for point, program in zip(dynamic.points(), programs, strict=True):
        assert calls(program) == calls(optimise(dynamic.program(point))[0]), point


@pytest.mark.parametrize(
    "parts",
    [
        [1, 2, 4, 8, 16],
        [1, 1.0],
        [(1,), (1, 2)],
        ["a", "b"],
        [{"a": 1}, {"b": 1}],
        [0.5, 0.25],
        [partial(pow, 2), partial(pow, 3)],
        [[1].count, [2].count],
        [exported.__get__(1), exported.__get__(2)],
    ],
)
def test_parts_that_do_not_follow_the_size_differ(parts: list) -> None:
    with pytest.raises(between.Different):
        between.common(parts, [(size,) for size in range(len(parts))])


def test_integers_follow_the_size() -> None:
    part = between.common([[n * n, ("a", 3 * n + 1)] for n in (2, 3, 5, 7)], [(2,), (3,), (5,), (7,)])
    assert between.filled(part, (11,)) == [121, ("a", 34)]


def test_a_file_that_is_damaged_at_one_size_is_refused(tmp_path: object) -> None:
    save(exported("attention"), tmp_path / "program")
    program = load(tmp_path / "program")
    checked = program.dynamic.program

    def program_at(sizes: tuple[int, ...]) -> object:
        if sizes == (77,):
            raise ValueError("a step does not fit")
        return checked(sizes)

    program.dynamic.program = program_at
    with pytest.raises(ExportError, match="size = 77, the program in the file is damaged: a step does not fit"):
        aot_compile(program, tmp_path / "out")
