"""CUDA kernels of factorisations: one thread block per matrix, which is in global memory.

`cuda` launches these kernels.

Matrices are row-major, so neighbouring threads take neighbouring columns: their loads coalesce, and a value that they
share is one load for a warp. Threads form GROUPS rows of LANES columns. Both are compile-time constants, which saves
divisions. Sums are combined in shared memory in a fixed order, so every run returns the same bits. Golub and Van Loan,
Matrix Computations, 2013: 4.2 (Cholesky), 3.4 (LU), 5.2 (Householder).
"""

from __future__ import annotations

from math import copysign, log, log2, sqrt

from ...kernel.library.cuda_block import joining_threads, block_max, block_sum
from ...kernel.library.arithmetic import exp2, larger
from ...kernel.language import cuda, float64, floor, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.scalar import scalar


@scalar
def block_argmax(value, index, shared, indices, thread, threads):
    """The index of the greatest of the threads' values, or the least such index, returned to all threads.

    shared and indices (threads) are scratch: free before the call and after it.
    """
    count = joining_threads(threads)
    shared[uintp(thread)], indices[uintp(thread)] = value, index
    cuda.syncthreads()
    if thread < count:
        for k in range(1, threads // count):
            other, other_index = shared[uintp(thread + k * count)], indices[uintp(thread + k * count)]
            if (other > value) | ((other == value) & (other_index < index)):
                value, index = other, other_index
        shared[uintp(thread)], indices[uintp(thread)] = value, index
    cuda.syncthreads()
    value, index = shared[0], indices[0]
    for k in range(1, count):
        other, other_index = shared[uintp(k)], indices[uintp(k)]
        if (other > value) | ((other == value) & (other_index < index)):
            value, index = other, other_index
    cuda.syncthreads()
    return index


@scalar
def squared(x):
    """|x|^2 of a real or complex number."""
    return x.real * x.real + x.imag * x.imag


@scalar
def block_scale(x, base, n, shared, thread, threads):
    """A power of two near the greatest real or imaginary part of n numbers, returned to all threads.

    Squares of the numbers divided by it neither overflow nor underflow. 1 if all are 0; NaN if one is not finite.
    """
    greatest = real(0.0)
    for k in range(thread, n, threads):
        value = x[uintp(base + k)]
        greatest = larger(greatest, larger(abs(value.real), abs(value.imag)))
    greatest = block_max(greatest, shared, thread, threads)
    if greatest - greatest != 0.0:
        return greatest - greatest
    return exp2(floor(log2(greatest))) if greatest != 0.0 else real(1.0)


@scalar
def reflect(v, first, step, scale, y, base, columns, begin, rows, sums, thread, lanes, groups):
    """Apply a Householder reflection: subtract scale * v (v^H y) from columns `begin` on of y (rows, columns).

    v is 1 followed by v[first + step * i]. Each group of threads takes every `groups`-th row of `lanes` columns. sums
    (lanes * groups) is scratch.
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
def subtract_panel(x, base, step, i, j, first, end):
    """x[i, j] - x[i, first:end] @ x[first:end, j] of the matrix at `base`, whose rows are `step` apart."""
    total = x[uintp(base + i * step + j)]
    for k in range(first, end):
        total -= x[uintp(base + i * step + k)] * x[uintp(base + k * step + j)]
    return total


def cholesky_kernel(a, out, info, matrices, n, *, GROUPS, LANES, NUMBER, PANEL, THREADS):
    """Compute out (matrices, n, n) = L of the lower triangles of a.

    info (matrices) is the order of the first leading minor that is not positive, or 0. Panels of PANEL columns are
    factored one column at a time, then the columns to the right are updated at once. Meanwhile the upper triangle holds
    the conjugate of L, so that neighbouring threads read a column from neighbouring addresses.
    """
    thread = int64(cuda.threadIdx.x)
    lane, group = thread % LANES, thread // LANES
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, failed_at = matrix * n * n, int64(0)
        for i in range(group, n, GROUPS):
            for j in range(lane, n, LANES):
                out[uintp(base + i * n + j)] = a[uintp(base + i * n + j)] if j <= i else NUMBER(0)
        cuda.syncthreads()
        for first in range(0, n, PANEL):
            end = min(int64(first) + PANEL, n)
            for k in range(first, end):
                row = base + k * n
                pivot = out[uintp(row + k)].real
                if (failed_at == 0) & (not pivot > 0.0):
                    failed_at = int64(k) + 1
                root = sqrt(pivot)
                cuda.syncthreads()
                if thread == 0:
                    out[uintp(row + k)] = root
                for i in range(k + 1 + thread, n, THREADS):
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
                    out[uintp(base + i * n + j)] = subtract_panel(out, base, n, i, j, first, end)
            cuda.syncthreads()
        for i in range(group, n, GROUPS):
            for j in range(i + 1 + lane, n, LANES):
                out[uintp(base + i * n + j)] = NUMBER(0)
        if thread == 0:
            info[uintp(matrix)] = failed_at


def lu_kernel(a, x, pivots, info, order, matrices, m, n, pivoted, *, GROUPS, LANES, PANEL, THREADS, ratio):
    """As `lu_cpu.lu_kernel`, from a (matrices, m, n) to x.

    The pivot search reads a column, one element per cache line; all else reads rows. To the right of a panel its own
    rows are updated first, one column per thread, then the remaining rows at once.
    """
    shared = shared_array(THREADS, real, SHARED)
    indices = shared_array(THREADS, int64, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group = thread % LANES, thread // LANES
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, zero_at, diagonal_size = matrix * m * n, int64(0), min(m, n)
        for k in range(thread, m * n, THREADS):
            x[uintp(base + k)] = a[uintp(base + k)]
        for k in range(thread, m, THREADS):
            order[uintp(matrix * m + k)] = k
        cuda.syncthreads()
        for first in range(0, diagonal_size, PANEL):
            end = min(int64(first) + PANEL, diagonal_size)
            for k in range(first, end):
                row, pivot_row = base + k * n, int64(k)
                if pivoted != 0:
                    largest = real(-1.0)
                    for i in range(k + thread, m, THREADS):
                        value = abs(x[uintp(base + i * n + k)].real) + abs(x[uintp(base + i * n + k)].imag)
                        if value > largest:
                            largest, pivot_row = value, int64(i)
                    pivot_row = block_argmax(largest, pivot_row, shared, indices, thread, THREADS)
                if pivot_row != k:
                    pivot_base = base + pivot_row * n
                    for j in range(thread, n, THREADS):
                        swapped = x[uintp(row + j)]
                        x[uintp(row + j)] = x[uintp(pivot_base + j)]
                        x[uintp(pivot_base + j)] = swapped
                if thread == 0:
                    pivots[uintp(matrix * diagonal_size + k)] = pivot_row + 1
                    row_index = order[uintp(matrix * m + k)]
                    order[uintp(matrix * m + k)] = order[uintp(matrix * m + pivot_row)]
                    order[uintp(matrix * m + pivot_row)] = row_index
                cuda.syncthreads()
                pivot = x[uintp(row + k)]
                if pivot == 0:
                    zero_at = zero_at if zero_at != 0 else int64(k) + 1
                else:
                    for i in range(k + 1 + thread, m, THREADS):
                        value = x[uintp(base + i * n + k)]
                        x[uintp(base + i * n + k)] = ratio(value, pivot)
                    cuda.syncthreads()
                    for i in range(k + 1 + group, m, GROUPS):
                        for j in range(k + 1 + lane, end, LANES):
                            x[uintp(base + i * n + j)] -= x[uintp(base + i * n + k)] * x[uintp(row + j)]
                cuda.syncthreads()
            for j in range(end + thread, n, THREADS):
                for i in range(first + 1, end):
                    x[uintp(base + i * n + j)] = subtract_panel(x, base, n, i, j, first, i)
            cuda.syncthreads()
            for i in range(end + group, m, GROUPS):
                for j in range(end + lane, n, LANES):
                    x[uintp(base + i * n + j)] = subtract_panel(x, base, n, i, j, first, end)
            cuda.syncthreads()
        if thread == 0:
            info[uintp(matrix)] = zero_at


def reordered_kernel(order, b, out, total, n, columns, unit):
    """out (matrices, n, columns) = the rows of b, or of `unit` matrices, in the order (matrices, n)."""
    for task in parallel_range(total):
        index = int64(task)
        row, j = index // columns, index % columns
        source = order[uintp(row)]
        if unit != 0:
            out[uintp(index)] = 1 if source == j else 0
        else:
            out[uintp(index)] = b[uintp((row // n * n + source) * columns + j)]


def det_kernel(x, pivots, sign, logabsdet, matrices, n, logarithm, *, NUMBER):
    """Compute determinants from LU factors in sign (matrices); with `logarithm` their signs, and log |det| in
    logabsdet.
    """
    for task in parallel_range(matrices):
        matrix = int64(task)
        product, total = NUMBER(1), real(0.0)
        for k in range(n):
            value = x[uintp((matrix * n + k) * n + k)]
            if logarithm != 0:
                magnitude = abs(value)
                total += log(magnitude)
                if magnitude != 0.0:
                    value = value * (1.0 / magnitude)
            if pivots[uintp(matrix * n + k)] != k + 1:
                value = -value
            product = product * value
        sign[uintp(matrix)] = product
        if logarithm != 0:
            logabsdet[uintp(matrix)] = total


def order_kernel(pivots, out, matrices, count, rows):
    """Compute out (matrices, rows), the permutation that the row exchanges pivots (matrices, count; from 1) make.

    Its first element is -1 if a pivot is out of range.
    """
    for task in parallel_range(matrices):
        first, is_invalid = int64(task) * rows, int64(0)
        for k in range(rows):
            out[uintp(first + k)] = k
        for k in range(count):
            p = int64(pivots[uintp(int64(task) * count + k)]) - 1
            if p < 0 or p >= rows:
                is_invalid = 1
            else:
                swapped = out[uintp(first + k)]
                out[uintp(first + k)] = out[uintp(first + p)]
                out[uintp(first + p)] = swapped
        if is_invalid != 0:
            out[uintp(first)] = -1


def qr_kernel(a, x, tau, matrices, m, n, threshold, *, GROUPS, LANES, NUMBER, THREADS, ratio):
    """Compute R of a in x (matrices, m, n), and below it the Householder vectors without the leading 1.

    tau (matrices, min(m, n)) is their scales, as in LAPACK's geqrf: the adjoints of 1 - tau v v^H reduce a to R.
    Columns whose norm, relative to the greatest element, is below `threshold` count as 0: they have too few significant
    digits.
    """
    maxima = shared_array(THREADS, real, SHARED)
    shared = shared_array(THREADS, float64, SHARED)
    sums = shared_array(THREADS, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, count = matrix * m * n, min(m, n)
        size = block_scale(a, base, m * n, maxima, thread, THREADS)
        for k in range(thread, m * n, THREADS):
            x[uintp(base + k)] = a[uintp(base + k)] * (1.0 / size)
        cuda.syncthreads()
        for k in range(count):
            top, tail_norm = base + k * n + k, float64(0)
            for i in range(1 + thread, m - k, THREADS):
                value = x[uintp(top + i * n)]
                tail_norm += float64(value.real) * float64(value.real) + float64(value.imag) * float64(value.imag)
            tail_norm = block_sum(tail_norm, shared, thread, THREADS)
            head = x[uintp(top)]
            scale = NUMBER(0)
            length = sqrt(float64(head.real) * float64(head.real) + float64(head.imag) * float64(head.imag) + tail_norm)
            if ((tail_norm != 0) | (head.imag != 0.0)) & (not length < threshold):
                corner = real(-copysign(length, float64(head.real)))
                difference = head - corner
                scale = difference * (-1.0 / corner)
                value, pivot = NUMBER(1), difference
                inverse = ratio(value, pivot)
                cuda.syncthreads()
                for i in range(1 + thread, m - k, THREADS):
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


def q_kernel(x, tau, q, matrices, m, n, count, columns, positive, *, GROUPS, LANES, NUMBER, THREADS):
    """Compute q (matrices, m, columns), the first columns of the product of `count` reflections in x (matrices, m, n).

    `positive`: negate columns for which the diagonal of R is negative. Each reflection reads only the columns that it
    changes, as in LAPACK's org2r.
    """
    sums = shared_array(THREADS, NUMBER, SHARED)
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
        for steps_back in range(count):
            k = count - 1 - steps_back
            scale = tau[uintp(matrix * count + k)]
            reflect(
                x, base + k * n + k, n, scale, q, target + k * columns, columns, k, m - k, sums, thread, LANES, GROUPS
            )


def upper_kernel(x, out, total, m, n, rows, *, NUMBER):
    """out (matrices, rows, n) = the upper triangles of x (matrices, m, n)."""
    for task in parallel_range(total):
        index = int64(task)
        matrix, i, j = index // (rows * n), index // n % rows, index % n
        out[uintp(index)] = x[uintp((matrix * m + i) * n + j)] if j >= i else NUMBER(0)


def adjoint_kernel(x, out, total, rows, columns):
    """out (matrices, columns, rows) = the conjugate transposes of x (matrices, rows, columns)."""
    for task in parallel_range(total):
        index = int64(task)
        matrix, i, j = index // (rows * columns), index // rows % columns, index % rows
        out[uintp(index)] = x[uintp((matrix * rows + j) * columns + i)].conjugate()


def pinv_kernel(u, s, vh, out, rank, total, m, n, count, atol, rtol, *, NUMBER):
    """Compute out (matrices, n, m) = V 1/S U^H of u (matrices, m, count), s (matrices, count), vh (matrices, count, n).

    Singular values up to max(atol, rtol * the greatest) are left out; rank (matrices) counts the others.
    """
    for task in parallel_range(total):
        index = int64(task)
        matrix, i, j = index // (m * n), index // m % n, index % m
        limit, element, rank_count = max(atol, rtol * s[uintp(matrix * count)]), NUMBER(0), int64(0)
        for k in range(count):
            singular_value = s[uintp(matrix * count + k)]
            if singular_value > limit:
                rank_count += 1
                element += (
                    vh[uintp((matrix * count + k) * n + i)] * u[uintp((matrix * m + j) * count + k)]
                ).conjugate() * (1.0 / singular_value)
        out[uintp(index)] = element
        if (i == 0) & (j == 0):
            rank[uintp(matrix)] = rank_count


def ldl_solve_kernel(x, pivots, b, out, tasks, n, columns):
    """Solve A out = b for out (matrices, n, columns), from x and pivots of `lu_cpu.ldl_kernel`, a column per task."""
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
            value = out[uintp(first + last * columns)]
            out[uintp(first + last * columns)] = out[uintp(first + row * columns)]
            out[uintp(first + row * columns)] = value
            for j in range(k, last + 1):
                value = out[uintp(first + j * columns)]
                for i in range(last + 1, n):
                    out[uintp(first + i * columns)] -= x[uintp(base + i * n + j)] * value
            head, value = x[uintp(base + k * n + k)], out[uintp(first + k * columns)]
            if last == k:
                out[uintp(first + k * columns)] = value / head
            else:
                off_diagonal = x[uintp(base + last * n + k)]
                head, tail = head / off_diagonal, x[uintp(base + last * n + last)] / off_diagonal
                first_value, second_value = value / off_diagonal, out[uintp(first + last * columns)] / off_diagonal
                out[uintp(first + k * columns)] = (tail * first_value - second_value) / (head * tail - 1.0)
                out[uintp(first + last * columns)] = (head * second_value - first_value) / (head * tail - 1.0)
            k = last + 1
        while k > 0:
            p = int64(pivots[uintp(matrix * n + k - 1)])
            last, row = k - 1, abs(p) - 1
            k = last if p > 0 else last - 1
            for j in range(k, last + 1):
                value = out[uintp(first + j * columns)]
                for i in range(last + 1, n):
                    value -= x[uintp(base + i * n + j)] * out[uintp(first + i * columns)]
                out[uintp(first + j * columns)] = value
            value = out[uintp(first + last * columns)]
            out[uintp(first + last * columns)] = out[uintp(first + row * columns)]
            out[uintp(first + row * columns)] = value
