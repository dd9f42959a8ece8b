"""Cases of a test with several parameters: the default suite runs a selection, a marker's suite the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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


def every(step: int, cases: Iterable, others: pytest.MarkDecorator) -> list:
    """Every `step`-th case, and the others marked so."""
    return [case if k % step == 0 else _marked(case, others) for k, case in enumerate(cases)]


def second_orders(step: int, cases: Iterable, others: pytest.MarkDecorator) -> list:
    """(case, whether its second gradients are checked too), which every `step`-th case's are. So are the other cases'
    with the mark.
    """
    cases = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [(*case, k % step == 0) for k, case in enumerate(cases)] + [
        _marked((*case, True), others) for k, case in enumerate(cases) if k % step
    ]


def _marked(case: object, mark: pytest.MarkDecorator) -> object:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)


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
