"""Factorisations on a GPU: a block of threads for each matrix, which lies in global memory. `factorization_device` makes launches of these kernels.

Matrices are row-major, so threads that are neighbours take neighbouring columns: their loads coalesce, and what they share of a row is one load for a warp.
Threads stand in GROUPS rows of LANES columns, both constants of the text, which saves divisions. Sums are joined in shared memory in a fixed order: every run
gives the same bits. Golub and Van Loan, Matrix Computations, 2013: 4.2 (Cholesky), 3.4 (LU), 5.2 (Householder), 8.5 and 8.6 (Jacobi).
"""

from __future__ import annotations

from ..kernel.scalar import scalar


@scalar
def team_pivot(value, place, shared, places, thread, threads):
    """The place of the greatest of the threads' values, the first of equal ones, told to all. shared, places (threads) are free before and behind."""
    count = joining(threads)
    shared[uintp(thread)], places[uintp(thread)] = value, place
    cuda.syncthreads()
    if thread < count:
        for k in range(1, threads // count):
            other, there = shared[uintp(thread + k * count)], places[uintp(thread + k * count)]
            if (other > value) | ((other == value) & (there < place)):
                value, place = other, there
        shared[uintp(thread)], places[uintp(thread)] = value, place
    cuda.syncthreads()
    value, place = shared[0], places[0]
    for k in range(1, count):
        other, there = shared[uintp(k)], places[uintp(k)]
        if (other > value) | ((other == value) & (there < place)):
            value, place = other, there
    cuda.syncthreads()
    return place


@scalar
def squared(x):
    """|x|^2 of a real or complex number."""
    return x.real * x.real + x.imag * x.imag


@scalar
def team_scale(x, base, n, shared, thread, threads):
    """A power of two near the greatest part of n numbers, told to all: divided by it their squares neither overflow nor vanish. 1 of zeros, else NaN."""
    high = real(0.0)
    for k in range(thread, n, threads):
        value = x[uintp(base + k)]
        high = larger(high, larger(abs(value.real), abs(value.imag)))
    high = team_greatest(high, shared, thread, threads)
    if high - high != 0.0:
        return high - high
    return exp2(floor(log2(high))) if high != 0.0 else real(1.0)


@scalar
def rotation(here, there, between):
    """(cosine, complex or real sine) of the rotation that makes a Hermitian matrix of 2 diagonal: its diagonal, and what is above it, which is not 0."""
    length = sqrt(squared(between))
    slope = (there - here) / (2.0 * length)
    tangent = copysign(1.0 / (fabs(slope) + sqrt(slope * slope + 1.0)), slope)
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    return cosine, between * (tangent * cosine / length)


@scalar
def opponents(turn, pair, players):
    """(first, second) of a pair of players in a turn of a tournament, in which each meets each once. Neighbouring pairs have neighbouring players."""
    rest = players - 1
    one = (turn + pair) % rest
    other = (turn + rest - pair) % rest if pair != 0 else rest
    return min(one, other), max(one, other)


def cholesky_team(a, out, info, matrices, n):
    """out (matrices, n, n) = L of the lower triangles of a; info (matrices): the order of the first leading minor that is not positive, or 0.

    Panels of PANEL columns are factored one column at a time; what is right of them follows at once. Above the diagonal stands meanwhile the conjugate of L,
    where neighbouring threads find what they need of a column side by side.
    """
    thread = int64(cuda.threadIdx.x)
    lane, group = thread % LANES, thread // LANES
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, failed = matrix * n * n, int64(0)
        for i in range(group, n, GROUPS):
            for j in range(lane, n, LANES):
                out[uintp(base + i * n + j)] = a[uintp(base + i * n + j)] if j <= i else NUMBER(0)
        cuda.syncthreads()
        for first in range(0, n, PANEL):
            end = min(int64(first) + PANEL, n)
            for k in range(first, end):
                row = base + k * n
                pivot = out[uintp(row + k)].real
                if (failed == 0) & (not pivot > 0.0):
                    failed = int64(k) + 1
                root = sqrt(pivot)
                cuda.syncthreads()
                if thread == 0:
                    out[uintp(row + k)] = root
                for i in range(k + 1 + thread, n, TEAM):
                    value = out[uintp(base + i * n + k)] * (1.0 / root)
                    out[uintp(base + i * n + k)] = value
                    out[uintp(row + i)] = value.conjugate()
                cuda.syncthreads()
                for i in range(k + 1 + group, n, GROUPS):
                    for j in range(k + 1 + lane, min(end, i + 1), LANES):
                        out[uintp(base + i * n + j)] -= out[uintp(base + i * n + k)] * out[uintp(row + j)]
                cuda.syncthreads()
            for i in range(end + group, n, GROUPS):
                for j in range(end + lane, i + 1, LANES):
                    total = out[uintp(base + i * n + j)]
                    for k in range(first, end):
                        total -= out[uintp(base + i * n + k)] * out[uintp(base + k * n + j)]
                    out[uintp(base + i * n + j)] = total
            cuda.syncthreads()
        for i in range(group, n, GROUPS):
            for j in range(i + 1 + lane, n, LANES):
                out[uintp(base + i * n + j)] = NUMBER(0)
        if thread == 0:
            info[uintp(matrix)] = failed


def lu_team(a, x, pivots, info, order, matrices, m, n, pivoted):
    """What `elimination.lu_kernel` makes of a (matrices, m, n), in x.

    The search for a pivot reads a column, one element in a line of memory; all else reads rows. Of what is right of a panel first its rows, a column for each
    thread, then the rest at once.
    """
    shared = shared_array(TEAM, real, SHARED)
    places = shared_array(TEAM, int64, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group = thread % LANES, thread // LANES
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, zero, least = matrix * m * n, int64(0), min(m, n)
        for k in range(thread, m * n, TEAM):
            x[uintp(base + k)] = a[uintp(base + k)]
        for k in range(thread, m, TEAM):
            order[uintp(matrix * m + k)] = k
        cuda.syncthreads()
        for first in range(0, least, PANEL):
            end = min(int64(first) + PANEL, least)
            for k in range(first, end):
                row, p = base + k * n, int64(k)
                if pivoted != 0:
                    largest = real(-1.0)
                    for i in range(k + thread, m, TEAM):
                        value = abs(x[uintp(base + i * n + k)].real) + abs(x[uintp(base + i * n + k)].imag)
                        if value > largest:
                            largest, p = value, int64(i)
                    p = team_pivot(largest, p, shared, places, thread, TEAM)
                if p != k:
                    other = base + p * n
                    for j in range(thread, n, TEAM):
                        held = x[uintp(row + j)]
                        x[uintp(row + j)] = x[uintp(other + j)]
                        x[uintp(other + j)] = held
                if thread == 0:
                    pivots[uintp(matrix * least + k)] = p + 1
                    came = order[uintp(matrix * m + k)]
                    order[uintp(matrix * m + k)] = order[uintp(matrix * m + p)]
                    order[uintp(matrix * m + p)] = came
                cuda.syncthreads()
                pivot = x[uintp(row + k)]
                if pivot == 0:
                    zero = zero if zero != 0 else int64(k) + 1
                else:
                    for i in range(k + 1 + thread, m, TEAM):
                        value = x[uintp(base + i * n + k)]
                        x[uintp(base + i * n + k)] = value / pivot
                    cuda.syncthreads()
                    for i in range(k + 1 + group, m, GROUPS):
                        for j in range(k + 1 + lane, end, LANES):
                            x[uintp(base + i * n + j)] -= x[uintp(base + i * n + k)] * x[uintp(row + j)]
                cuda.syncthreads()
            for j in range(end + thread, n, TEAM):
                for i in range(first + 1, end):
                    total = x[uintp(base + i * n + j)]
                    for k in range(first, i):
                        total -= x[uintp(base + i * n + k)] * x[uintp(base + k * n + j)]
                    x[uintp(base + i * n + j)] = total
            cuda.syncthreads()
            for i in range(end + group, m, GROUPS):
                for j in range(end + lane, n, LANES):
                    total = x[uintp(base + i * n + j)]
                    for k in range(first, end):
                        total -= x[uintp(base + i * n + k)] * x[uintp(base + k * n + j)]
                    x[uintp(base + i * n + j)] = total
            cuda.syncthreads()
        if thread == 0:
            info[uintp(matrix)] = zero


def reordered_kernel(order, b, out, total, n, columns, unit):
    """out (matrices, n, columns) = the rows of b, or of `unit` matrices, in the order (matrices, n)."""
    for task in parallel_range(total):
        place = int64(task)
        row, j = place // columns, place % columns
        source = order[uintp(row)]
        if unit != 0:
            out[uintp(place)] = 1 if source == j else 0
        else:
            out[uintp(place)] = b[uintp((row // n * n + source) * columns + j)]


def det_kernel(x, pivots, sign, size, matrices, n, logarithm):
    """sign (matrices) = the determinants, from LU factors; or, with `logarithm`, their signs, and in size the logarithms of their absolute values."""
    for task in parallel_range(matrices):
        matrix = int64(task)
        product, total = NUMBER(1), real(0.0)
        for k in range(n):
            value = x[uintp((matrix * n + k) * n + k)]
            if logarithm != 0:
                length = abs(value)
                total += log(length)
                if length != 0.0:
                    value = value * (1.0 / length)
            if pivots[uintp(matrix * n + k)] != k + 1:
                value = -value
            product = product * value
        sign[uintp(matrix)] = product
        if logarithm != 0:
            size[uintp(matrix)] = total


def order_kernel(pivots, out, matrices, count, rows):
    """out (matrices, rows): the permutation that the exchanges pivots (matrices, count), counted from 1, make; -1 in its first place if one is of no row."""
    for task in parallel_range(matrices):
        first, wrong = int64(task) * rows, int64(0)
        for k in range(rows):
            out[uintp(first + k)] = k
        for k in range(count):
            p = int64(pivots[uintp(int64(task) * count + k)]) - 1
            if p < 0 or p >= rows:
                wrong = 1
            else:
                held = out[uintp(first + k)]
                out[uintp(first + k)] = out[uintp(first + p)]
                out[uintp(first + p)] = held
        if wrong != 0:
            out[uintp(first)] = -1
