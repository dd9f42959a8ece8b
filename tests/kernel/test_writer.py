"""A loop's description is the key of its cached source."""

from numod import float32
from numod.kernel.expression import Symbol
from numod.kernel.folds import Fold
from numod.kernel.writer import Output


def test_results_and_folds_of_the_same_formulas_are_equal() -> None:
    x = Symbol("x")
    assert Output(x, float32) == Output(x, float32) and Output(x, float32) != Output(x, float32, "x")
    assert Fold(x, x, x, 0, *[float32] * 4) == Fold(x, x, x, 0, *[float32] * 4)
