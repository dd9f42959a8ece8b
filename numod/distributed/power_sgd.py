"""PowerSGD (Vogels et al., 2019): communication hooks that send each matrix of gradients as two thin factors.

At PyTorch's path `distributed.algorithms.ddp_comm_hooks.powerSGD_hook`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from ..core.create.creation import empty, zeros
from ..core.create.random import Generator, randn
from ..core.linalg.decompositions import qr
from ..core.linalg.products import bmm
from ..core.shape.joining import cat, stack
from ..core.tensor import Tensor
from ..dtypes import float32, float64
from ..futures import Future
from .collectives import all_reduce
from .comm_hooks import GradBucket, allreduce_hook
from .group import ProcessGroup, default_group

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
_logger = logging.getLogger(__name__)


class PowerSGDState:
    """The settings of `powerSGD_hook`, and what it keeps between steps.

    A matrix (n, m) is sent as (n, r) and (m, r), where r is `matrix_approximation_rank`, after `start_powerSGD_iter`
    steps that send all of it, if that saves more than a factor of `min_compression_rate`. `use_error_feedback` adds to
    the gradients what the step before left out. `warm_start` starts from the factors of the step before, otherwise
    random ones are drawn, the same on all ranks. `batch_tensors_with_same_shape` multiplies matrices of one shape
    together. Columns are made orthogonal by QR, which needs no `orthogonalization_epsilon`. Raises ValueError for
    error feedback or a warm start before the second step.

    Example:

        >>> from numod.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
        >>> state = PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=10)
        >>> state.iter  # ddp_model.register_comm_hook(state, powerSGD_hook)
        0
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank, self.start_powerSGD_iter = matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate, self.orthogonalization_epsilon = min_compression_rate, orthogonalization_epsilon
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.rng = Generator().manual_seed(random_seed)
        # by the bucket's number: what was left out, and the factors of its matrices, one after another
        self.error_dict: dict[int, Tensor] = {}
        self.p_memory_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, Tensor] = {}
        self.iter = self.next_stats_report = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "process_group": None}  # the default group, where it is loaded

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count the step, at its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """(compression rate, numbers before compression, numbers sent), of all steps that compressed."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after else 0, before, after

    def _count(self, bucket: GradBucket, before: int, after: int) -> None:
        self.total_numel_before_compression += before
        self.total_numel_after_compression += after
        if bucket.is_last() and self.iter >= self.next_stats_report:
            _logger.info("PowerSGD: rate %s, %s numbers before compression, %s after", *self.compression_stats())
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency

    def _factors(self, number: int, matrices: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(P, Q) for each batch of matrices (b, n, m): (b, n, r) and (b, m, r). The columns of Q are orthogonal."""
        ranks = [min(*batch.shape[1:], self.matrix_approximation_rank) for batch in matrices]
        shapes = [
            [(batch.shape[0], batch.shape[axis], rank) for batch, rank in zip(matrices, ranks)] for axis in (1, 2)
        ]
        is_new = not self.warm_start or number not in self.q_memory_dict
        if is_new:
            for memory, wanted in zip((self.p_memory_dict, self.q_memory_dict), shapes):
                memory[number] = empty(sum(map(math.prod, wanted)), dtype=matrices[0].dtype, device=matrices[0].device)
        ps, qs = (
            _parts(memory[number], wanted) for memory, wanted in zip((self.p_memory_dict, self.q_memory_dict), shapes)
        )
        for q in qs:
            q.copy_(_orthogonal(randn(*q.shape, generator=self.rng, dtype=q.dtype, device=q.device) if is_new else q))
        return ps, qs


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """The average of the gradients, with matrices approximated by products of two thin ones (PowerSGD).

    Parameters with more than two dimensions are matrices of their first one and all others. What is not worth
    compressing is sent as it is. The first `start_powerSGD_iter` steps send all gradients.
    """
    if _is_exact(state, bucket):
        return allreduce_hook(state.process_group, bucket)
    gradients = bucket.buffer()
    exact = _with_error(state, bucket.index(), gradients)
    compressed, others, sent = _divided(state, bucket.gradients())
    state._count(bucket, gradients.numel(), sent)
    rest = cat([part.reshape(-1) for part in others]) if others else None
    work = None if rest is None else all_reduce(rest, group=state.process_group, async_op=True)
    batches = [stack(parts) if len(parts) > 1 else parts[0].unsqueeze(0) for parts in compressed]

    def finish(_: Future) -> Tensor:
        for parts, batch in zip(compressed, batches):
            for part, average in zip(parts, batch) if len(parts) > 1 else ():
                part.copy_(average)
        if work is not None:
            work.wait()
            rest.div_(default_group(state.process_group).size())
            for part, average in zip(others, rest.split([part.numel() for part in others])):
                part.copy_(average.view(part.shape))
        return _remember(state, bucket.index(), exact, gradients)

    future = _average_of_factors(state, bucket.index(), batches) if batches else work.get_future()
    return future.then(finish)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """The average of the gradients, with a bucket approximated as one square matrix.

    It needs less time than `powerSGD_hook`, but is less accurate where `matrix_approximation_rank` is more than 1.
    """
    if _is_exact(state, bucket):
        return allreduce_hook(state.process_group, bucket)
    gradients = bucket.buffer()
    count = gradients.numel()
    side = math.ceil(math.sqrt(count))
    state._count(bucket, count, 2 * side * state.matrix_approximation_rank)
    square = zeros(side * side, dtype=gradients.dtype, device=gradients.device)
    square[:count] = gradients
    exact = _with_error(state, bucket.index(), square)

    def finish(_: Future) -> Tensor:
        return gradients.copy_(_remember(state, bucket.index(), exact, square)[:count])

    return _average_of_factors(state, bucket.index(), [square.view(1, side, side)]).then(finish)


def _is_exact(state: PowerSGDState, bucket: GradBucket) -> bool:
    """Whether this step sends all gradients. Counts the step."""
    is_exact = state.iter < state.start_powerSGD_iter
    state.maybe_increase_iter(bucket)
    return is_exact


def _with_error(state: PowerSGDState, number: int, gradients: Tensor) -> Tensor | None:
    """Add to the gradients what the step before left out. Returns a copy of the sum, with error feedback."""
    if not state.use_error_feedback:
        return None
    if number in state.error_dict:
        gradients.add_(state.error_dict[number])
    return gradients.clone()


def _remember(state: PowerSGDState, number: int, exact: Tensor | None, result: Tensor) -> Tensor:
    """Keep what the result leaves out of this rank's gradients; returns the result."""
    if exact is not None:
        state.error_dict[number] = exact - result
    return result


def _divided(state: PowerSGDState, gradients: Sequence[Tensor]) -> tuple[list[list[Tensor]], list[Tensor], int]:
    """(matrices to compress in lists of one shape, other gradients, how many numbers are sent)."""
    compressed: dict[Any, list[Tensor]] = {}
    others, sent = [], 0
    for index, gradient in enumerate(gradients):
        rows = len(gradient) if gradient.dim() > 1 and gradient.numel() else 1
        shape = rows, gradient.numel() // rows
        size = sum(shape) * min(*shape, state.matrix_approximation_rank)
        if rows > 1 and size * state.min_compression_rate < gradient.numel():
            key = shape, 0 if state.batch_tensors_with_same_shape else index
            compressed.setdefault(key, []).append(gradient.view(shape))
            sent += size
        else:
            others.append(gradient)
            sent += gradient.numel()
    return list(compressed.values()), others, sent


def _average_of_factors(state: PowerSGDState, number: int, matrices: list[Tensor]) -> Future:
    """A Future, after which the matrices are P Q^T, where P is orthogonal and Q the average of the ranks' M^T P.

    Only its last step is left to the Future, which begins no collective: all ranks begin them in one order.
    """
    ps, qs = state._factors(number, matrices)
    for matrix, p, q in zip(matrices, ps, qs):
        p.copy_(bmm(matrix, q))
    all_reduce(state.p_memory_dict[number], group=state.process_group)
    for matrix, p, q in zip(matrices, ps, qs):
        q.copy_(bmm(matrix.transpose(1, 2), p.copy_(_orthogonal(p))))
    sums = state.q_memory_dict[number]
    size = default_group(state.process_group).size()

    def multiply(_: Future) -> None:
        sums.div_(size)
        for matrix, p, q in zip(matrices, ps, qs):
            matrix.copy_(bmm(p, q.transpose(1, 2)))

    return all_reduce(sums, group=state.process_group, async_op=True).get_future().then(multiply)


def _orthogonal(matrices: Tensor) -> Tensor:
    """The matrices (b, n, r) with orthogonal columns that span the same space."""
    dtype = matrices.dtype if matrices.dtype in (float32, float64) else float32
    return qr(matrices.to(dtype))[0].to(matrices.dtype)


def _parts(memory: Tensor, shapes: list[tuple[int, int, int]]) -> list[Tensor]:
    """Parts of a flat tensor as views in shapes."""
    return [part.view(shape) for part, shape in zip(memory.split([math.prod(shape) for shape in shapes]), shapes)]
