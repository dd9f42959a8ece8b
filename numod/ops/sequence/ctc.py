"""Connectionist temporal classification: the negative log-likelihood of target sequences over all alignments, and its
gradient.

log_probs (T, N, C) dense, targets (N, S) padded, lengths (N). A target of length s has the extended sequence blank t1
blank ... ts blank. Graves et al., Connectionist temporal classification, 2006.
"""

from __future__ import annotations

from math import exp

from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, real, uintp
from ...kernel.library.arithmetic import log_add
from ...kernel.specialize import specialized
from ..op import Op, Plan, no_derivative


def ctc_kernel(x, targets, input_lengths, target_lengths, out, alpha, steps, batch, classes, longest, blank):
    """Compute out (batch), the loss, and alpha (batch, steps, 2 * longest + 1).

    alpha is the log-probability of each prefix of the extended sequence at each step.
    """
    for task in parallel_range(batch):
        n = int64(task)
        width = 2 * longest + 1
        base = n * steps * width
        length = input_lengths[uintp(n)]
        states = 2 * target_lengths[uintp(n)] + 1
        for k in range(steps * width):
            alpha[uintp(base + k)] = -1e400
        for step in range(length):
            for s in range(states):
                label = blank if s % 2 == 0 else targets[uintp(n * longest + s // 2)]
                emitted = x[uintp((step * batch + n) * classes + label)]
                if step == 0:
                    if s < 2:
                        alpha[uintp(base + s)] = emitted
                else:
                    previous = base + (step - 1) * width
                    total = alpha[uintp(previous + s)]
                    if s > 0:
                        total = log_add(total, alpha[uintp(previous + s - 1)])
                    if s > 1 and s % 2 == 1:
                        if label != targets[uintp(n * longest + s // 2 - 1)]:
                            total = log_add(total, alpha[uintp(previous + s - 2)])
                    alpha[uintp(base + step * width + s)] = total + emitted
        if length == 0:
            out[uintp(n)] = real(0.0) if states == 1 else 1e400
        else:
            last = base + (length - 1) * width + states - 1
            total = alpha[uintp(last)]
            if states > 1:
                total = log_add(total, alpha[uintp(last - 1)])
            out[uintp(n)] = -total


def ctc_gradient_kernel(
    g, x, targets, input_lengths, target_lengths, loss, alpha, out, beta, steps, batch, classes, longest, blank,
    forgiving,
):  # fmt: skip
    """out (T, N, C) = g * (exp(x) - the probability that an alignment has the class at the step), for normalised x.

    beta is scratch. If `forgiving`, the gradient of a sample with an infinite loss is 0.
    """
    for task in parallel_range(batch):
        n = int64(task)
        width = 2 * longest + 1
        length = input_lengths[uintp(n)]
        states = 2 * target_lengths[uintp(n)] + 1
        sample_loss = loss[uintp(n)]
        weight = g[uintp(n)]
        is_ignored = forgiving != 0 and sample_loss == 1e400
        for step in range(steps):
            for c in range(classes):
                out[uintp((step * batch + n) * classes + c)] = real(0.0)
        for k in range(2 * width):
            beta[uintp(n * 2 * width + k)] = -1e400
        for steps_back in range(length):
            step = length - 1 - steps_back
            current = n * 2 * width + (steps_back % 2) * width
            following = n * 2 * width + ((steps_back + 1) % 2) * width
            row = (step * batch + n) * classes
            for s in range(states):
                label = blank if s % 2 == 0 else targets[uintp(n * longest + s // 2)]
                emitted = x[uintp(row + label)]
                if steps_back == 0:
                    total = real(0.0) if s >= states - 2 else -1e400
                else:
                    total = beta[uintp(following + s)]
                    if s + 1 < states:
                        total = log_add(total, beta[uintp(following + s + 1)])
                    if s + 2 < states and s % 2 == 1:
                        if label != targets[uintp(n * longest + s // 2 + 1)]:
                            total = log_add(total, beta[uintp(following + s + 2)])
                beta[uintp(current + s)] = total + emitted
                through_state = alpha[uintp((n * steps + step) * width + s)] + total
                if not is_ignored:
                    out[uintp(row + label)] -= weight * exp(through_state + sample_loss)
            if not is_ignored:
                for c in range(classes):
                    out[uintp(row + c)] += weight * exp(x[uintp(row + c)])


class Ctc(Op):
    """(loss (N), alpha) of log_probs. Only log_probs have a gradient. `forgiving` is PyTorch's zero_infinity."""

    takes = "x[t n c]:f targets[n s]:int64<c input_lengths[n]:int64 target_lengths[n]:int64; blank=0.. forgiving=flag"
    inputs = ("x", "targets", "input_lengths", "target_lengths")
    attributes = ("blank", "forgiving")
    outputs = ("loss", "alpha")
    results_with_gradient = 1
    gradients = {
        "x": lambda grads, x, targets, input_lengths, target_lengths, loss, alpha, blank, forgiving: ctc_gradient.apply(
            (grads[0].contiguous(), x, targets, input_lengths, target_lengths, loss, alpha), (blank, forgiving)
        )
    }

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return (
            None if attributes[0] < sizes["c"] else f"attribute 'blank' must be below {sizes['c']}, got {attributes[0]}"
        )

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`."""
        return {2: sizes["t"] + 1, 3: sizes["s"] + 1}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, targets, *_ = arguments
        (steps, batch, classes), longest = x.shape, targets.shape[1]
        results = layout((batch,), x.dtype, x.device), layout((batch, steps, 2 * longest + 1), x.dtype, x.device)
        signature = bind.signature(x, *["int64"] * 3, x, x, numbers=5)
        launch = bind.launcher(
            x.device, self.name, specialized(ctc_kernel), signature, x.dtype, 32 * batch * steps * longest
        )
        return Plan(results, launch, (steps, batch, classes, longest, attributes[0]))


class CtcGradient(Op):
    """The gradient of the loss with respect to log_probs.

    It is linear in the gradient of the loss. Its derivative by log_probs is not implemented, as in PyTorch.
    """

    takes = (
        "grad_out[n]:f x[t n c] targets[n s]:int64<c input_lengths[n]:int64 target_lengths[n]:int64 loss[n] alpha[n "
        "t w]; blank=0.. forgiving=flag"
    )
    inputs = ("grad_out", "x", "targets", "input_lengths", "target_lengths", "loss", "alpha")
    attributes = ("blank", "forgiving")
    gradients = {
        "grad_out": lambda g, grad_out, x, targets, input_lengths, target_lengths, loss, alpha, blank, forgiving: (
            g
            * ctc_gradient.apply(
                (grad_out.new_ones(grad_out.shape), x, targets, input_lengths, target_lengths, loss, alpha),
                (blank, forgiving),
            )
        ).sum((0, 2)),
        "x": lambda g: no_derivative("ctc_loss"),
    }

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        if sizes["w"] != 2 * sizes["s"] + 1:
            return f"alpha must have {2 * sizes['s'] + 1} columns, got {sizes['w']}"
        return (
            None if attributes[0] < sizes["c"] else f"attribute 'blank' must be below {sizes['c']}, got {attributes[0]}"
        )

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`."""
        return {3: sizes["t"] + 1, 4: sizes["s"] + 1}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        _, x, targets, *_ = arguments
        (steps, batch, classes), longest = x.shape, targets.shape[1]
        out, (blank, forgiving) = layout(x.shape, x.dtype, x.device), attributes
        signature = bind.signature(x, x, *["int64"] * 3, *[x] * 4, numbers=6)
        run = bind.launcher(
            x.device, self.name, specialized(ctc_gradient_kernel), signature, x.dtype, 32 * batch * steps * longest
        )
        empty, size, storage = x.device.empty, 2 * batch * (2 * longest + 1), x.storage

        def launch(*buffers: object) -> None:
            run(*buffers, empty(size, storage), steps, batch, classes, longest, blank, int(forgiving))

        return Plan(out, launch)


ctc, ctc_gradient = Ctc("ctc"), CtcGradient("ctc_gradient")
