"""Cases of a test with several parameters: the default suite runs a selection, a marker's suite the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

import pytest


def pairwise(*parameters: Sequence, others: pytest.MarkDecorator) -> list:
    """The product of the parameters' values. Those cases are marked as `others` without which each value of a parameter
    meets each value of every other parameter.
    """
    return [pytest.param(*case, marks=() if chosen else others) for case, chosen in chosen_of(*parameters).items()]


def diagonals(first: Sequence, second: Sequence, step: int, others: pytest.MarkDecorator) -> list:
    """The product of two lists. A value of the first meets every `step`-th of the second, the next one those beside."""
    return [
        pytest.param(x, y, marks=others if (j + k) % step else ())
        for j, x in enumerate(first)
        for k, y in enumerate(second)
    ]


def chosen_of(*parameters: Sequence) -> dict[tuple, bool]:
    """Whether the selection has each case: those with the most new pairs come first, of these the one with the fewest
    pairs that were chosen often.
    """
    cases = {case: _pairs(case) for case in product(*map(range, map(len, parameters)))}
    chosen, uses = set(), Counter()
    while missing := set().union(*cases.values()).difference(uses):
        best = max(cases, key=lambda case: (len(cases[case] & missing), -sum(uses[pair] for pair in cases[case])))
        chosen.add(best)
        uses.update(cases[best])
    return {tuple(values[k] for values, k in zip(parameters, case)): case in chosen for case in cases}


def _pairs(case: tuple[int, ...]) -> set[tuple]:
    return set(combinations(enumerate(case), 2))
