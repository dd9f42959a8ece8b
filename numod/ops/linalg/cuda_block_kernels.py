"""Factorisations on a GPU: a block of threads for each matrix, which lies in global memory.

`factorization_device` makes launches of these kernels.

Matrices are row-major, so threads that are neighbours take neighbouring columns: their loads coalesce, and what they
share of a row is one load for a warp. Threads stand in GROUPS rows of LANES columns, both constants of the text, which
saves divisions. Sums are joined in shared memory in a fixed order: every run gives the same bits. Golub and Van Loan,
Matrix Computations, 2013: 4.2 (Cholesky), 3.4 (LU), 5.2 (Householder).
"""

from __future__ import annotations

from math import copysign, log, log2, sqrt

from ...kernel.library.teams import joining, team_greatest, team_sum
from ...kernel.library.arithmetic import exp2, larger
from ...kernel.language import cuda, float64, floor, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.scalar import scalar


@scalar
def team_pivot(value, place, shared, places, thread, threads):
    """The place of the greatest of the threads' values, the first of equal ones, told to all. shared, places (threads)
    are free before and behind.
    """
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
    """A power of two near the greatest part of n numbers, told to all: divided by it their squares neither overflow nor
    vanish. 1 of zeros, else NaN.
    """
    high = real(0.0)
    for k in range(thread, n, threads):
        value = x[uintp(base + k)]
        high = larger(high, larger(abs(value.real), abs(value.imag)))
    high = team_greatest(high, shared, thread, threads)
    if high - high != 0.0:
        return high - high
    return exp2(floor(log2(high))) if high != 0.0 else real(1.0)


@scalar
def reflect(v, first, step, scale, y, base, columns, begin, rows, sums, thread, lanes, groups):
    """Subtract scale * v (v^H y) from columns `begin` to `columns` of y (rows, columns), where v is 1 and then v[first
    + step * i]: a Householder reflection.

    Each group of threads takes every so-many-th row of `lanes` columns; sums (lanes * groups).
    """
    lane, group = thread % lanes, thread // lanes
    for low in range(begin, columns, lanes):
        j = base + low + lane
        total = scale - scale
        if low + lane < columns:
            if group == 0:
                total += y[uintp(j)]
            for i in range(1 + group, rows, groups):
                total += v[uintp(first + step * i)].conjugate() * y[uintp(j + columns * i)]
        sums[uintp(thread)] = total
        cuda.syncthreads()
        total = scale - scale
        for k in range(groups):
            total += sums[uintp(k * lanes + lane)]
        total = total * scale
        if low + lane < columns:
            if group == 0:
                y[uintp(j)] -= total
            for i in range(1 + group, rows, groups):
                y[uintp(j + columns * i)] -= total * v[uintp(first + step * i)]
        cuda.syncthreads()


@scalar
def less_panel(x, base, step, i, j, first, end):
    """Element (i, j) of the matrix at `base`, whose rows are `step` apart, less the products of what stands left of it
    and above it in a panel.
    """
    total = x[uintp(base + i * step + j)]
    for k in range(first, end):
        total -= x[uintp(base + i * step + k)] * x[uintp(base + k * step + j)]
    return total


def cholesky_team(a, out, info, matrices, n, *, GROUPS, LANES, NUMBER, PANEL, TEAM):
    """out (matrices, n, n) = L of the lower triangles of a; info (matrices): the order of the first leading minor that
    is not positive, or 0.

    Panels of PANEL columns are factored one column at a time; what is right of them follows at once. Above the diagonal
    stands meanwhile the conjugate of L, where neighbouring threads find what they need of a column side by side.
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
                    out[uintp(base + i * n + j)] = less_panel(out, base, n, i, j, first, end)
            cuda.syncthreads()
        for i in range(group, n, GROUPS):
            for j in range(i + 1 + lane, n, LANES):
                out[uintp(base + i * n + j)] = NUMBER(0)
        if thread == 0:
            info[uintp(matrix)] = failed


def lu_team(a, x, pivots, info, order, matrices, m, n, pivoted, *, GROUPS, LANES, PANEL, TEAM, ratio):
    """What `elimination.lu_kernel` makes of a (matrices, m, n), in x.

    The search for a pivot reads a column, one element in a line of memory; all else reads rows. Of what is right of a
    panel first its rows, a column for each thread, then the rest at once.
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
                        x[uintp(base + i * n + k)] = ratio(value, pivot)
                    cuda.syncthreads()
                    for i in range(k + 1 + group, m, GROUPS):
                        for j in range(k + 1 + lane, end, LANES):
                            x[uintp(base + i * n + j)] -= x[uintp(base + i * n + k)] * x[uintp(row + j)]
                cuda.syncthreads()
            for j in range(end + thread, n, TEAM):
                for i in range(first + 1, end):
                    x[uintp(base + i * n + j)] = less_panel(x, base, n, i, j, first, i)
            cuda.syncthreads()
            for i in range(end + group, m, GROUPS):
                for j in range(end + lane, n, LANES):
                    x[uintp(base + i * n + j)] = less_panel(x, base, n, i, j, first, end)
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


def det_kernel(x, pivots, sign, size, matrices, n, logarithm, *, NUMBER):
    """sign (matrices) = the determinants, from LU factors; or, with `logarithm`, their signs, and in size the
    logarithms of their absolute values.
    """
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
    """out (matrices, rows): the permutation that the exchanges pivots (matrices, count), counted from 1, make; -1 in
    its first place if one is of no row.
    """
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


def qr_team(a, x, tau, matrices, m, n, least, *, GROUPS, LANES, NUMBER, TEAM, ratio):
    """x (matrices, m, n) = R of a, and below it Householder vectors whose first element, 1, is left out; tau (matrices,
    min(m, n)): their scales.

    As LAPACK's geqrf: 1 - tau v v^H, whose adjoints make R in turn. Columns that are shorter than `least`, beside the
    greatest element, are 0: of such numbers too few digits are left.
    """
    parts = shared_array(TEAM, real, SHARED)
    shared = shared_array(TEAM, float64, SHARED)
    sums = shared_array(TEAM, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, count = matrix * m * n, min(m, n)
        size = team_scale(a, base, m * n, parts, thread, TEAM)
        for k in range(thread, m * n, TEAM):
            x[uintp(base + k)] = a[uintp(base + k)] * (1.0 / size)
        cuda.syncthreads()
        for k in range(count):
            top, rest = base + k * n + k, float64(0)
            for i in range(1 + thread, m - k, TEAM):
                value = x[uintp(top + i * n)]
                rest += float64(value.real) * float64(value.real) + float64(value.imag) * float64(value.imag)
            rest = team_sum(rest, shared, thread, TEAM)
            head = x[uintp(top)]
            scale = NUMBER(0)
            length = sqrt(float64(head.real) * float64(head.real) + float64(head.imag) * float64(head.imag) + rest)
            if ((rest != 0) | (head.imag != 0.0)) & (not length < least):
                corner = real(-copysign(length, float64(head.real)))
                gap = head - corner
                scale = gap * (-1.0 / corner)
                value, pivot = NUMBER(1), gap
                inverse = ratio(value, pivot)
                cuda.syncthreads()
                for i in range(1 + thread, m - k, TEAM):
                    x[uintp(top + i * n)] = x[uintp(top + i * n)] * inverse
                if thread == 0:
                    x[uintp(top)] = corner
                cuda.syncthreads()
                reflect(x, top, n, scale.conjugate(), x, base + k * n, n, k + 1, m - k, sums, thread, LANES, GROUPS)
            if thread == 0:
                tau[uintp(matrix * count + k)] = scale
            cuda.syncthreads()
        for i in range(thread // LANES, count, GROUPS):
            for j in range(i + thread % LANES, n, LANES):
                x[uintp(base + i * n + j)] = x[uintp(base + i * n + j)] * size


def q_team(x, tau, q, matrices, m, n, count, columns, positive, *, GROUPS, LANES, NUMBER, TEAM):
    """q (matrices, m, columns) = the first columns of the product of the reflections in x (matrices, m, n), count of
    them for each matrix; of columns over negative elements of R's diagonal the negative, if `positive`. Only columns
    that a reflection changes are read, as in LAPACK's org2r.
    """
    sums = shared_array(TEAM, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, target = matrix * m * n, matrix * m * columns
        for i in range(thread // LANES, m, GROUPS):
            for j in range(thread % LANES, columns, LANES):
                value = NUMBER(1) if i == j else NUMBER(0)
                if (positive != 0) & (i == j) & (j < count):
                    if x[uintp(base + i * n + i)].real < 0.0:
                        value = -value
                q[uintp(target + i * columns + j)] = value
        cuda.syncthreads()
        for back in range(count):
            k = count - 1 - back
            scale = tau[uintp(matrix * count + k)]
            reflect(
                x, base + k * n + k, n, scale, q, target + k * columns, columns, k, m - k, sums, thread, LANES, GROUPS
            )


def upper_kernel(x, out, total, m, n, rows, *, NUMBER):
    """out (matrices, rows, n) = the upper triangles of x (matrices, m, n)."""
    for task in parallel_range(total):
        place = int64(task)
        matrix, i, j = place // (rows * n), place // n % rows, place % n
        out[uintp(place)] = x[uintp((matrix * m + i) * n + j)] if j >= i else NUMBER(0)


def adjoint_kernel(x, out, total, rows, columns):
    """out (matrices, columns, rows) = the conjugate transposes of x (matrices, rows, columns)."""
    for task in parallel_range(total):
        place = int64(task)
        matrix, i, j = place // (rows * columns), place // rows % columns, place % rows
        out[uintp(place)] = x[uintp((matrix * rows + j) * columns + i)].conjugate()


def pinv_kernel(u, s, vh, out, rank, total, m, n, count, atol, rtol, *, NUMBER):
    """out (matrices, n, m) = V 1/S U^H of u (matrices, m, count), s (matrices, count), vh (matrices, count, n), without
    the singular values up to the greater of atol and rtol times the greatest; rank (matrices): how many are left.
    """
    for task in parallel_range(total):
        place = int64(task)
        matrix, i, j = place // (m * n), place // m % n, place % m
        limit, found, kept = max(atol, rtol * s[uintp(matrix * count)]), NUMBER(0), int64(0)
        for k in range(count):
            size = s[uintp(matrix * count + k)]
            if size > limit:
                kept += 1
                found += (
                    vh[uintp((matrix * count + k) * n + i)] * u[uintp((matrix * m + j) * count + k)]
                ).conjugate() * (1.0 / size)
        out[uintp(place)] = found
        if (i == 0) & (j == 0):
            rank[uintp(matrix)] = kept


def ldl_solve_kernel(x, pivots, b, out, tasks, n, columns):
    """out (matrices, n, columns) with A out = b, from what `elimination.ldl_kernel` makes of A in x and pivots; a
    column is a task.
    """
    for task in parallel_range(tasks):
        matrix, base, first, k = (
            int64(task) // columns,
            int64(task) // columns * n * n,
            int64(task) // columns * n * columns + int64(task) % columns,
            int64(0),
        )
        for i in range(n):
            out[uintp(first + i * columns)] = b[uintp(first + i * columns)]
        while k < n:
            p = int64(pivots[uintp(matrix * n + k)])
            last, row = k if p > 0 else k + 1, abs(p) - 1
            held = out[uintp(first + last * columns)]
            out[uintp(first + last * columns)] = out[uintp(first + row * columns)]
            out[uintp(first + row * columns)] = held
            for j in range(k, last + 1):
                held = out[uintp(first + j * columns)]
                for i in range(last + 1, n):
                    out[uintp(first + i * columns)] -= x[uintp(base + i * n + j)] * held
            head, held = x[uintp(base + k * n + k)], out[uintp(first + k * columns)]
            if last == k:
                out[uintp(first + k * columns)] = held / head
            else:
                between = x[uintp(base + last * n + k)]
                head, tail = head / between, x[uintp(base + last * n + last)] / between
                one, other = held / between, out[uintp(first + last * columns)] / between
                out[uintp(first + k * columns)] = (tail * one - other) / (head * tail - 1.0)
                out[uintp(first + last * columns)] = (head * other - one) / (head * tail - 1.0)
            k = last + 1
        while k > 0:
            p = int64(pivots[uintp(matrix * n + k - 1)])
            last, row = k - 1, abs(p) - 1
            k = last if p > 0 else last - 1
            for j in range(k, last + 1):
                held = out[uintp(first + j * columns)]
                for i in range(last + 1, n):
                    held -= x[uintp(base + i * n + j)] * out[uintp(first + i * columns)]
                out[uintp(first + j * columns)] = held
            held = out[uintp(first + last * columns)]
            out[uintp(first + last * columns)] = out[uintp(first + row * columns)]
            out[uintp(first + row * columns)] = held
