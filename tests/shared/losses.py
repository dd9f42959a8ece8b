"""Exact values of losses and distances, by mpmath, at points where formulas lose digits, overflow or underflow on the
way. The reference of `nn/test_loss_digits`.

Vectors and classes are made of two numbers, such as the logits (x, y, 0). Points where a result cancels to nearly
nothing are left out: their digits are lost with any formula of these inputs.
"""

from __future__ import annotations

from itertools import product

import mpmath as mp

import numod
from accuracy import softplus
from cases import Case
from numod.nn import functional as F
from two_inputs import MODERATE, SIGNED, UNDER_200, pairs

LOGITS = (*UNDER_200, 700.0, -700.0)
PROBABILITIES = (1e-30, 1e-13, 1e-5, 0.3, 0.5, 0.9, 0.9999999)
TARGETS = (1e-5, 0.3, 0.5, 0.9999999)


def none(loss, *fixed, **numbers):
    return lambda *args: loss(*args, *fixed, reduction="none", **numbers)


def cross_entropy(target, weights=(1, 1, 1), smoothing=0):
    """Of the logits (x, y, 0)."""

    def exact(x, y):
        total = mp.log(mp.exp(x) + mp.exp(y) + 1)
        logs = [weight * (total - logit) for logit, weight in zip((x, y, mp.mpf(0)), weights)]
        return (1 - mp.mpf(smoothing)) * logs[target] + mp.mpf(smoothing) * sum(logs) / 3

    return exact


def classes(**options):
    def call(x, y):
        logits = numod.stack([x, y, numod.zeros_like(x)], -1)
        weight = options.get("weight")
        chosen = {**options, "weight": numod.tensor(weight, dtype=x.dtype)} if weight else options
        return F.cross_entropy(logits, numod.zeros(len(x), dtype=numod.int64), reduction="none", **chosen)

    return call


def smooth(x, t, beta=1):
    d = abs(x - t)
    return d * d / (2 * beta) if d < beta else d - mp.mpf(beta) / 2


def huber(x, t, delta=2):
    d = abs(x - t)
    return d * d / 2 if d <= delta else delta * (d - mp.mpf(delta) / 2)


def vector(*columns):
    return numod.stack(columns, -1)


def three(x, y):
    """Logits of three classes."""
    return vector(x, y, numod.zeros_like(x))


def constant(x, value, **options):
    """One for each row of x."""
    return numod.full((len(x),), value, **options)


def hinge(gap, margin=1):
    return max(mp.mpf(0), mp.mpf(margin) + gap)


def distance(p):
    """Norm of a difference, with the eps that `pairwise_distance` adds."""

    def exact(*differences):
        return sum(abs(difference + mp.mpf(1e-6)) ** p for difference in differences) ** (mp.mpf(1) / p)

    return exact


def triplet(p, swap=False):
    """The loss of the anchor (3, 1), the positive (x, 0) and the negative (y, -1) with margin 50, and its exact value."""

    def call(x, y):
        anchor, zero = vector(constant(x, 3.0, dtype=x.dtype), numod.ones_like(x)), numod.zeros_like(x)
        return F.triplet_margin_loss(
            anchor, vector(x, zero), vector(y, zero - 1), 50.0, p, 1e-6, swap, reduction="none"
        )

    def exact(x, y):
        far = distance(p)(3 - y, mp.mpf(2))
        far = min(far, distance(p)(x - y, mp.mpf(1))) if swap else far
        return hinge(distance(p)(3 - x, mp.mpf(1)) - far, 50)

    return call, exact


def cosine(x, y, eps=1e-12):
    """Of (x, 1) and (1, y), where eps is added to both squares."""
    return (x + y) / (mp.sqrt(x * x + 1 + mp.mpf(eps)) * mp.sqrt(y * y + 1 + mp.mpf(eps)))


def cosine_embedding(sign, margin=0.0):
    def call(x, y):
        one = numod.ones_like(x)
        return F.cosine_embedding_loss(vector(x, one), vector(one, y), constant(x, sign), margin, reduction="none")

    return call


def ctc(target, steps):
    """The loss of log-probabilities that are those of the logits (x, y, 0) at each step, and its exact value: the sum
    over all paths that collapse to the target."""

    def call(x, y):
        rows, length = len(x), len(target)
        log_probs = three(x, y).log_softmax(-1).unsqueeze(0).expand(steps, rows, 3)
        targets = numod.tensor([target]).expand(rows, length)
        return F.ctc_loss(log_probs, targets, [steps] * rows, [length] * rows, reduction="none")

    def collapsed(path):
        return tuple(label for k, label in enumerate(path) if label and (not k or path[k - 1] != label))

    paths = [path for path in product(range(3), repeat=steps) if collapsed(path) == target]

    def exact(x, y):
        weights = mp.exp(x), mp.exp(y), mp.mpf(1)
        total = sum(mp.fprod(weights[label] for label in path) for path in paths)
        return steps * mp.log(sum(weights)) - mp.log(total)

    return call, exact


# away from kinks, and from where a gradient is 0
APART = [(x, t) for x, t in pairs(MODERATE, (-2.0, 0.125, 0.75, 1e4)) if x != t]
SQUARES = [(x, t) for x, t in pairs((*MODERATE, 1e17, 1e-15), (-2.0, 0.125, 1e4)) if x != t]
ONES = pairs(LOGITS, (1.0, -1.0))
COUNTS = (1.5, 2.0, 7.0, 100.0, 1e5)
MARGINS = [(x, y) for x, y in pairs(MODERATE, (-30.0, 0.25, 1e4)) if x not in (0.5, 1.0)]
SEPARATE = [(x, y) for x, y in pairs(MODERATE, (-30.0, 0.25, 50.0)) if x < 20]
DIFFERENCES = [(x, y) for x, y in pairs(MODERATE, MODERATE) if x != 1.0 and abs(x - 1) > 1e-3]
# sums that do not cancel, and cosines that are not near 1
ANGLES = [
    (x, y)
    for x, y in pairs(SIGNED, (0.3, -2.0, 1e-5, 1e15))
    if abs(x) < 1e17 and abs(x + y) > 1e-3 and cosine(mp.mpf(x), mp.mpf(y)) < 0.8
]
TRIPLETS = pairs((1e-5, 0.3, 20.0, -2.0, -88.0, 1e5), (1e-30, 0.5, -20.0, 40.0))
STEPS = pairs((-20.0, -3.0, -0.5, 1e-5, 0.7, 3.0), (-5.0, 0.25, 1.5))

LOSSES: dict[str, Case] = {
    "mse_loss": Case(none(F.mse_loss), lambda x, t: (x - t) ** 2, SQUARES, (3, 3), (2, 2)),
    "l1_loss": Case(none(F.l1_loss), lambda x, t: abs(x - t), SQUARES, (1, 1), (1, 1)),
    "smooth_l1_loss": Case(none(F.smooth_l1_loss), smooth, APART, (4, 4), (2, 2)),
    "huber_loss": Case(none(F.huber_loss, delta=2.0), huber, APART, (4, 4), (2, 2)),
    "binary_cross_entropy": Case(none(F.binary_cross_entropy), lambda x, t: -(t * mp.log(x) + (1 - t) * mp.log1p(-x)),
        [(x, t) for x, t in pairs(PROBABILITIES, TARGETS) if x != t and x > 1e-10], (4, 4), (8, 8), fixed=(1,)),
    "binary_cross_entropy_with_logits": Case(none(F.binary_cross_entropy_with_logits),
        lambda x, t: (1 - t) * softplus(x) + t * softplus(-x), pairs(LOGITS, TARGETS), (4, 4), (4, 4), (1,), 1.0),
    "binary_cross_entropy_with_logits, target 0": Case(
        lambda x: F.binary_cross_entropy_with_logits(x, x.detach() * 0, reduction="none"), softplus,
        [(x,) for x in LOGITS if x > -80], (4, 4), (4, 4)),
    "binary_cross_entropy_with_logits, target 1": Case(
        lambda x: F.binary_cross_entropy_with_logits(x, x.detach() * 0 + 1, reduction="none"), lambda x: softplus(-x),
        [(x,) for x in LOGITS if x < 80], (4, 4), (4, 4)),
    "kl_div": Case(none(F.kl_div), lambda x, t: t * (mp.log(t) - x), pairs(LOGITS, TARGETS), (16, 16), (4, 4), slack=2.0),
    "soft_margin_loss": Case(none(F.soft_margin_loss), lambda x, t: softplus(-t * x),
        [(x, t) for x, t in ONES if t * x < 80], (4, 4), (4, 4), (1,)),
    "hinge_embedding_loss": Case(none(F.hinge_embedding_loss), lambda x, t: x if t > 0 else max(mp.mpf(0), 1 - x),
        [(x, t) for x, t in ONES if x != 1.0], (2, 2), (1, 1), (1,)),
    "poisson_nll_loss": Case(none(F.poisson_nll_loss), lambda x, t: mp.exp(x) - t * x,
        [(x, t) for x, t in pairs(LOGITS, COUNTS) if x < 88 and not 0 < x < 3.5], (4, 4), (4, 4), (1,)),
    "margin_ranking_loss": Case(lambda x, y: F.margin_ranking_loss(x, y, numod.ones_like(x), 0.5, reduction="none"),
        lambda x, y: max(mp.mpf(0), y - x + mp.mpf(0.5)), pairs(MODERATE, (-2.0, 0.125, 1e4)), (2, 2), (1, 1)),
    "gaussian_nll_loss": Case(lambda x, v: F.gaussian_nll_loss(x, x.detach() * 0 + 0.25, v, reduction="none"),
        lambda x, v: (mp.log(v) + (x - mp.mpf(0.25)) ** 2 / v) / 2,
        pairs((1e-5, 1.5, -3.0, 100.0), (1e-4, 0.4, 3.0, 1e6)), (8, 8), (8, 8)),
    "cross_entropy": Case(classes(), cross_entropy(0), [(x, y) for x, y in pairs(UNDER_200, (-30.0, 0.25, 50.0)) if x < 2.5],
        (4, 8), (4, 4), slack=1.0),
    "cross_entropy with weights": Case(classes(weight=[0.3, 2.0, 1.0]), cross_entropy(0, (mp.mpf(0.3), 2, 1)),
        [(x, y) for x, y in pairs(UNDER_200, (-30.0, 0.25)) if x < 2.5], (4, 8), (4, 4), slack=1.0),
    "cross_entropy with smoothing": Case(classes(label_smoothing=0.125), cross_entropy(0, (1, 1, 1), 0.125),
        pairs(UNDER_200, (-30.0, 0.25)), (4, 4), (8, 8), slack=1.0),
    "smooth_l1_loss with beta 0": Case(none(F.smooth_l1_loss, beta=0.0), lambda x, t: abs(x - t), SQUARES, (1, 1), (1, 1)),
    "binary_cross_entropy with weights": Case(
        lambda x, t: F.binary_cross_entropy(x, t, constant(x, 0.3, dtype=x.dtype), reduction="none"),
        lambda x, t: -mp.mpf(0.3) * (t * mp.log(x) + (1 - t) * mp.log1p(-x)),
        [(x, t) for x, t in pairs(PROBABILITIES, TARGETS) if x != t and x > 1e-10], (4, 4), (8, 8), fixed=(1,)),
    "binary_cross_entropy_with_logits, pos_weight": Case(lambda x, t: F.binary_cross_entropy_with_logits(x, t,
        pos_weight=numod.tensor(3.0, dtype=x.dtype), reduction="none"),
        lambda x, t: (1 - t) * softplus(x) + 3 * t * softplus(-x), pairs(LOGITS, TARGETS), (4, 4), (4, 4), (1,), 3.0),
    "kl_div of log_target": Case(none(F.kl_div, log_target=True), lambda x, t: mp.exp(t) * (t - x),
        pairs(LOGITS, (-80.0, -30.0, -1.5, -1e-5)), (4, 4), (8, 8), slack=1.0),
    "nll_loss with weights": Case(lambda x, y: F.nll_loss(three(x, y), constant(x, 0),
        numod.tensor([0.3, 1.0, 1.0], dtype=x.dtype), reduction="none"), lambda x, y: -mp.mpf(0.3) * x,
        pairs(SIGNED, (1.0,)), (2, 2), (1, 1)),
    "poisson_nll_loss with Stirling's term": Case(none(F.poisson_nll_loss, full=True),
        lambda x, t: mp.exp(x) - t * x + t * mp.log(t) - t + mp.log(2 * mp.pi * t) / 2,
        [(x, t) for x, t in pairs(LOGITS, COUNTS) if x < 88 and not 0 < x < 3.5], (4, 4), (4, 4), (1,)),
    "poisson_nll_loss of a rate": Case(none(F.poisson_nll_loss, log_input=False),
        lambda x, t: x - t * mp.log(x + mp.mpf(1e-8)), pairs((1e-5, 0.3, 0.5, 1e19), COUNTS), (4, 4), (4, 4), (1,)),
    "gaussian_nll_loss with its constant": Case(
        lambda x, v: F.gaussian_nll_loss(x, x.detach() * 0 + 0.25, v, full=True, reduction="none"),
        lambda x, v: (mp.log(2 * mp.pi * v) + (x - mp.mpf(0.25)) ** 2 / v) / 2,
        pairs((1e-5, 1.5, -3.0, 100.0), (1e-4, 0.4, 3.0, 1e6)), (8, 8), (8, 8)),
    "cross_entropy of probabilities": Case(lambda x, y: F.cross_entropy(three(x, y),
        numod.tensor([0.25, 0.5, 0.25], dtype=x.dtype).expand(len(x), 3), reduction="none"),
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y) + 1) - x / 4 - y / 2, pairs(UNDER_200, (-30.0, 0.25)), (4, 4), (8, 8),
        slack=1.0),
    "multi_margin_loss": Case(lambda x, y: F.multi_margin_loss(three(x, y), constant(x, 0), reduction="none"),
        lambda x, y: (hinge(y - x) + hinge(-x)) / 3, MARGINS, (3, 3), (2, 2)),
    "multi_margin_loss of squares": Case(
        lambda x, y: F.multi_margin_loss(three(x, y), constant(x, 0), 2, 0.5, reduction="none"),
        lambda x, y: (hinge(y - x, 0.5) ** 2 + hinge(-x, 0.5) ** 2) / 3, MARGINS, (5, 5), (3, 3)),
    "multi_margin_loss with weights": Case(lambda x, y: F.multi_margin_loss(three(x, y), constant(x, 0),
        weight=numod.tensor([0.3, 1.0, 1.0], dtype=x.dtype), reduction="none"),
        lambda x, y: mp.mpf(0.3) * (hinge(y - x) + hinge(-x)) / 3, MARGINS, (3, 3), (2, 2)),
    "multilabel_margin_loss": Case(
        lambda x, y: F.multilabel_margin_loss(three(x, y), numod.tensor([[0, 2, -1]]).expand(len(x), 3),
        reduction="none"),
        lambda x, y: (hinge(y - x) + hinge(y)) / 3, MARGINS, (3, 3), (2, 2)),
    "multilabel_soft_margin_loss": Case(lambda x, y: F.multilabel_soft_margin_loss(vector(x, y),
        numod.tensor([[1.0, 0.0]], dtype=x.dtype).expand(len(x), 2), reduction="none"),
        lambda x, y: (softplus(-x) + softplus(y)) / 2,
        [(x, y) for x, y in pairs(LOGITS, (-30.0, 0.25, 50.0)) if x < 80], (3, 3), (4, 4)),
    "pairwise_distance": Case(lambda x, y: F.pairwise_distance(vector(x, y), vector(numod.ones_like(x), x * 0)),
        lambda x, y: distance(2)(x - 1, y), DIFFERENCES, (3, 3), (8, 8)),
    "pairwise_distance, cubes": Case(lambda x, y: F.pairwise_distance(vector(x, y), vector(numod.ones_like(x), x * 0), 3),
        lambda x, y: distance(3)(x - 1, y), DIFFERENCES, (12, 12), (48, 48)),
    "triplet_margin_loss": Case(*triplet(2), TRIPLETS, (4, 4), (8, 8)),
    "triplet_margin_loss of sums": Case(*triplet(1), TRIPLETS, (4, 4), (8, 8)),
    "triplet_margin_loss of cubes": Case(*triplet(3), TRIPLETS, (8, 8), (48, 48)),
    "triplet_margin_loss with swap": Case(*triplet(2, True), TRIPLETS, (4, 4), (16, 16)),
    "cosine_similarity": Case(lambda x, y: F.cosine_similarity(vector(x, numod.ones_like(x)),
        vector(numod.ones_like(y), y)), lambda x, y: cosine(x, y, 0), ANGLES, (4, 4), (8, 8), slack=1.0),
    "cosine_embedding_loss": Case(cosine_embedding(1), lambda x, y: 1 - cosine(x, y), ANGLES, (8, 8), (8, 8), slack=2.0),
    "cosine_embedding_loss of others": Case(cosine_embedding(-1, -1.0), lambda x, y: 1 + cosine(x, y),
        [(x, y) for x, y in ANGLES if cosine(mp.mpf(x), mp.mpf(y)) > -0.9], (8, 8), (8, 8), slack=2.0),
    "ctc_loss": Case(*ctc((1,), 3), STEPS, (8, 8), (8, 8), slack=8.0),
    "ctc_loss of two labels": Case(*ctc((1, 2), 4), STEPS, (8, 8), (8, 8), slack=16.0),
    "ctc_loss of one label twice": Case(*ctc((1, 1), 3), STEPS, (8, 8), (8, 8), slack=8.0),
}  # fmt: skip
