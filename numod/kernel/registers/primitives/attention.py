"""Softmax over lines and scores, in plain Python.

The vector forms of `sum_lifted` and `lift_line` multiply each exponential by a power of two, `lifted_exp(0)`, which
keeps small ones from becoming subnormal. Callers divide by it, or by a sum that contains it.
"""

from __future__ import annotations

import math


def greatest_of_line(x, x_at, n):
    """The greatest of n elements, ignoring NaN."""
    return max((x[x_at + k] for k in range(n) if x[x_at + k] == x[x_at + k]), default=-math.inf)


def sum_lifted(x, x_at, n, high):
    """The sum of `exp(x - high)` over n elements."""
    return sum(math.exp(x[x_at + k] - high) for k in range(n))


def lift_line(x, x_at, out, out_at, n, high):
    """out (n) = exp(x - high). Returns the sum."""
    for k in range(n):
        out[out_at + k] = math.exp(x[x_at + k] - high)
    return sum(out[out_at + k] for k in range(n))


def scale_line(x, x_at, out, out_at, n, factor):
    """out (n) = x * factor."""
    for k in range(n):
        out[out_at + k] = x[x_at + k] * factor


def greatest_score(scores, scores_at, n, factor):
    """The greatest of n scores times the factor, ignoring NaN."""
    return max(
        (scores[scores_at + k] * factor for k in range(n) if scores[scores_at + k] == scores[scores_at + k]),
        default=-math.inf,
    )


def exp_scores(scores, scores_at, attention_weights, weights_at, n, factor, shift):
    """attention_weights (n) = exp(scores * factor - shift), at most 1 each. Returns the sum."""
    for k in range(n):
        attention_weights[weights_at + k] = math.exp(scores[scores_at + k] * factor - shift)
    return sum(attention_weights[weights_at + k] for k in range(n))


def log_sums(highs, highs_at, totals, totals_at, out, out_at, n):
    """out (n) = highs + log(totals); inf if a total is 0."""
    for k in range(n):
        total = totals[totals_at + k]
        out[out_at + k] = math.inf if total == 0 else highs[highs_at + k] + math.log(total)
