"""L-BFGS: quasi-Newton steps from the last gradients, with a line search by the strong Wolfe conditions.

Nocedal and Wright, 2006, chapters 3 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..autograd import enable_grad, no_grad
from ..core import functions as f
from ..core.listeners import with_gradients
from ..core.tensor import Tensor
from .optimizer import Optimizer
from .steps import non_negative


class LBFGS(Optimizer):
    """L-BFGS over one group of parameters.

    `step(closure)` calls the closure, which computes the loss and its gradients, up to `max_eval` times.
    `line_search_fn` is None (steps of `lr`) or "strong_wolfe". Raises ValueError for several groups.

    Example:

        >>> x = nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = optim.LBFGS([x])
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (x ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> bool(x.abs() < 1e-4)
        True
    """

    rereads_scalars = False

    def __init__(
        self,
        params: Iterable,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        non_negative(lr=lr)
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
        }
        super().__init__(params, {**defaults, "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        """All gradients as a vector of real numbers."""
        with_gradients(self._params)
        return f.cat(
            [f.reshape(_reals(p.new_zeros(p.shape) if p._grad is None else p._grad), (-1,)) for p in self._params], 0
        )

    def _move(self, step: float, direction: Tensor) -> None:
        offset = 0
        for p in map(_reals, self._params):
            p.add_(f.reshape(direction[offset : offset + p.numel()], p.shape), alpha=step)
            offset += p.numel()

    def _evaluate(self, closure: Callable, start: list[Tensor], step: float, direction: Tensor) -> tuple[float, Tensor]:
        """Loss and gradient at `start` + step * direction. The parameters are reset to `start`."""
        self._move(step, direction)
        loss, gradient = float(closure()), self._gradient()
        for p, value in zip(self._params, start):
            p.copy_(value)
        return loss, gradient

    @no_grad()
    def step(self, closure: Callable[[], Tensor]) -> Tensor:
        """Run up to `max_iter` iterations and return the first loss."""
        closure = enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, evaluations = float(first), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if float(gradient.abs().max()) > group["tolerance_grad"]:
            self._iterate(closure, group, state, loss, gradient, evaluations)
        return first

    def _iterate(
        self,
        closure: Callable,
        group: dict[str, Any],
        state: dict[str, Any],
        loss: float,
        gradient: Tensor,
        evaluations: int,
    ) -> None:
        """Run the iterations of one step, and store the direction, step size and history in `state`."""
        direction, step = state.get("d"), state.get("t")
        old_gradient, scale = state.get("prev_flat_grad"), state.get("H_diag", 1)
        pairs = list(zip(state.get("old_dirs", []), state.get("old_stps", []), state.get("ro", [])))
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction, pairs, scale = -gradient, [], 1
            else:
                change, moved = gradient - old_gradient, direction * step
                curvature = float(change @ moved)
                if curvature > 1e-10:
                    pairs = [*pairs, (change, moved, 1.0 / curvature)][-group["history_size"] :]
                    scale = curvature / float(change @ change)
                shares = state.setdefault("al", [None] * group["history_size"])
                direction = _two_loops(gradient, pairs, scale, shares)
            old_gradient, old_loss = gradient.clone(), loss
            step = (
                min(1.0, 1.0 / (float(gradient.abs().sum()) or 1.0)) * float(group["lr"])
                if state["n_iter"] == 1
                else float(group["lr"])
            )
            slope = float(gradient @ direction)
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [p.clone() for p in self._params]
                along = lambda t: self._evaluate(closure, start, t, direction)  # noqa: B023, E731
                loss, gradient, step, calls = strong_wolfe(along, step, direction, loss, gradient, slope)
                self._move(step, direction)
            else:
                self._move(step, direction)
                if iterations != group["max_iter"]:
                    loss, gradient, calls = float(closure()), self._gradient(), 1
            evaluations += calls
            state["func_evals"] += calls
            small = (
                float((direction * step).abs().max()) <= group["tolerance_change"]
                or abs(loss - old_loss) < group["tolerance_change"]
            )
            if evaluations >= group["max_eval"] or float(gradient.abs().max()) <= group["tolerance_grad"] or small:
                break
        changes, moves, inverses = (list(column) for column in zip(*pairs)) if pairs else ([], [], [])
        state.update(
            d=direction,
            t=step,
            old_dirs=changes,
            old_stps=moves,
            ro=inverses,
            H_diag=scale,
            prev_flat_grad=old_gradient,
            prev_loss=old_loss,
        )


def _reals(tensor: Tensor) -> Tensor:
    """The tensor, or a complex tensor viewed as pairs of real numbers."""
    return f.view_as_real(tensor) if tensor.is_complex() else tensor


def _two_loops(
    gradient: Tensor, pairs: list[tuple[Tensor, Tensor, float]], scale: float, shares: list[float | None]
) -> Tensor:
    """The search direction by the two-loop recursion: minus the approximate inverse Hessian times the gradient.

    `shares` receives the contribution of each pair.
    """
    q = -gradient
    for k, (change, moved, inverse) in reversed(list(enumerate(pairs))):
        shares[k] = float(moved @ q) * inverse
        q = q - change * shares[k]
    r = q * scale
    for (change, moved, inverse), share in zip(pairs, shares):
        r = r + moved * (share - float(change @ r) * inverse)
    return r


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    step: float,
    direction: Tensor,
    loss: float,
    gradient: Tensor,
    slope: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance: float = 1e-9,
    most: int = 25,
) -> tuple[float, Tensor, float, int]:
    """(loss, gradient, step, evaluations) of a step that meets the strong Wolfe conditions, or of the best step."""
    size = float(direction.abs().max())
    start = (0.0, loss, gradient, slope)
    previous, calls, bracket = start, 0, None
    while calls < most:
        new_loss, new_gradient = evaluate(step)
        calls += 1
        point = (step, new_loss, new_gradient, float(new_gradient @ direction))
        if new_loss > loss + c1 * step * slope or (calls > 1 and new_loss >= previous[1]):
            bracket = [previous, point]
        elif abs(point[3]) <= -c2 * slope:
            return new_loss, new_gradient, step, calls
        elif point[3] >= 0:
            bracket = [previous, point]
        if bracket is not None:
            break
        next_step = _cubic(
            previous[0],
            previous[1],
            previous[3],
            step,
            point[1],
            point[3],
            step + 0.01 * (step - previous[0]),
            step * 10,
        )
        previous, step = point, next_step
    if bracket is None:
        bracket = [start, previous]
    return _zoom(evaluate, bracket, direction, loss, slope, size, c1, c2, tolerance, calls, most)


def _zoom(
    evaluate: Callable,
    bracket: list[tuple],
    direction: Tensor,
    loss: float,
    slope: float,
    size: float,
    c1: float,
    c2: float,
    tolerance: float,
    calls: int,
    most: int,
) -> tuple[float, Tensor, float, int]:
    """Narrow a bracket of points (step, loss, gradient, slope) until one meets the conditions."""
    stuck = False
    low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
    while calls < most:
        (a, *_), (b, *_) = bracket
        if abs(b - a) * size < tolerance:
            break
        step = _cubic(bracket[0][0], bracket[0][1], bracket[0][3], bracket[1][0], bracket[1][1], bracket[1][3])
        least, greatest = min(a, b), max(a, b)
        margin = 0.1 * (greatest - least)
        if min(greatest - step, step - least) < margin:
            # a second time near an end of the bracket: move away from it
            if stuck or step >= greatest or step <= least:
                step, stuck = (greatest - margin if abs(step - greatest) < abs(step - least) else least + margin), False
            else:
                stuck = True
        else:
            stuck = False
        new_loss, new_gradient = evaluate(step)
        calls += 1
        point = (step, new_loss, new_gradient, float(new_gradient @ direction))
        if new_loss > loss + c1 * step * slope or new_loss >= bracket[low][1]:
            bracket[high] = point
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
            continue
        done = abs(point[3]) <= -c2 * slope
        if not done and point[3] * (bracket[high][0] - bracket[low][0]) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
        if done:
            break
    step, best, gradient, _ = bracket[low]
    return best, gradient, step, calls


def _cubic(
    x1: float,
    f1: float,
    g1: float,
    x2: float,
    f2: float,
    g2: float,
    low: float | None = None,
    high: float | None = None,
) -> float:
    """The minimum of the cubic through two points with slopes, within bounds (by default the points themselves)."""
    if low is None:
        low, high = min(x1, x2), max(x1, x2)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    minimum = (
        x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
        if x1 <= x2
        else x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    )
    return min(max(minimum, low), high)
