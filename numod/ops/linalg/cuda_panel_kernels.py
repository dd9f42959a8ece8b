"""Cholesky's and LU's factors of large matrices on a GPU: panels of LANES columns, one after the other, and what is
beside and below each by all blocks. `factorization_device` makes launches of these kernels; what else they call is in
`factorization_team`.
"""

from __future__ import annotations

from math import sqrt

from ...kernel.language import cuda, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.scalar import scalar
from .cuda_block_kernels import less_panel, team_pivot


@scalar
def less_column(panel, own, m, i, row, first, end, factor):
    """Subtract from row i of columns `first` to `end`, each m elements of `panel` from `own` on, a multiple of their
    row `row`. Four are read before any is written, as in `rotate_rows`.
    """
    j = first
    while j + 3 < end:
        here, there = own + j * m + i, own + j * m + row
        a = panel[uintp(here)] - factor * panel[uintp(there)]
        b = panel[uintp(here + m)] - factor * panel[uintp(there + m)]
        c = panel[uintp(here + 2 * m)] - factor * panel[uintp(there + 2 * m)]
        d = panel[uintp(here + 3 * m)] - factor * panel[uintp(there + 3 * m)]
        panel[uintp(here)], panel[uintp(here + m)], panel[uintp(here + 2 * m)], panel[uintp(here + 3 * m)] = a, b, c, d
        j += 4
    while j < end:
        panel[uintp(own + j * m + i)] -= factor * panel[uintp(own + j * m + row)]
        j += 1


def cholesky_panel_team(x, out, info, tasks, parts, n, first, end, *, GROUPS, LANES, NUMBER):
    """Columns `first` to `end` of out (matrices, n, n) = L of the lower triangles of x, of which what the columns
    before contribute was subtracted; below the corner they are in x too, and their conjugates above its diagonal. info:
    as of `cholesky_team`.

    Every one of the `parts` blocks of a matrix factors the corner for itself, in shared memory, and has GROUPS of the
    rows below it at a time, each a group of threads. A column waits for one barrier: columns of the corner are divided
    by their roots behind the last.
    """
    corner = shared_array(LANES * LANES + LANES, NUMBER, SHARED)  # rows of LANES + 1 words: columns are read, too
    held = shared_array(2 * GROUPS, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, width, line = thread % LANES, thread // LANES, end - first, int64(LANES + 1)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        matrix, part, failed = int64(task) // parts, int64(task) % parts, int64(0)
        base = matrix * n * n
        for i in range(group, width if lane < width else 0, GROUPS):
            corner[uintp(i * line + lane)] = x[uintp(base + (first + i) * n + first + lane)] if lane <= i else NUMBER(0)
        cuda.syncthreads()
        for k in range(width):
            pivot = corner[uintp(k * line + k)].real
            if (failed == 0) & (not pivot > 0.0):
                failed = first + k + 1
            for i in range(k + 1 + group, width, GROUPS):
                if (lane > k) & (lane <= i):
                    corner[uintp(i * line + lane)] -= corner[uintp(i * line + k)] * (
                        corner[uintp(lane * line + k)].conjugate() * (1.0 / pivot)
                    )
            cuda.syncthreads()
        own = corner[uintp(lane * line + lane)].real if lane < width else real(1.0)
        cuda.syncthreads()
        for i in range(group, width, GROUPS):
            if lane <= i:
                value = NUMBER(sqrt(own)) if i == lane else corner[uintp(i * line + lane)] * (1.0 / sqrt(own))
                corner[uintp(i * line + lane)] = value
                if part == 0:
                    out[uintp(base + (first + i) * n + first + lane)] = value
        if (thread == 0) & (part == 0):
            before = int64(0) if first == 0 else int64(info[uintp(matrix)])
            info[uintp(matrix)] = failed if before == 0 else before
        cuda.syncthreads()
        for low in range(end + part * GROUPS, n, parts * GROUPS):
            i, value = int64(low) + group, NUMBER(0)
            inside = (i < n) & (lane < width)
            if inside:
                value = x[uintp(base + i * n + first + lane)]
            for k in range(width):
                if lane == k:
                    value = value * (1.0 / sqrt(own))
                    held[uintp(k % 2 * GROUPS + group)] = value
                cuda.syncthreads()
                if (lane > k) & (lane < width):
                    value -= held[uintp(k % 2 * GROUPS + group)] * corner[uintp(lane * line + k)].conjugate()
            if inside:
                out[uintp(base + i * n + first + lane)] = value
                x[uintp(base + i * n + first + lane)] = value
                x[uintp(base + (first + lane) * n + i)] = value.conjugate()
        cuda.syncthreads()


def lu_panel_team(
    x, panel, pivots, info, order, sources, matrices, m, n, pivoted, first, end, *, GROUPS, LANES, TEAM, ratio
):
    """Columns `first` to `end` of x (matrices, m, n) from row `first` on = their LU factors; pivots, info and order as
    of `elimination.lu_kernel`.

    One block for each matrix, since every pivot is sought among all rows. panel (matrices, LANES, m) is scratch for the
    columns, each in one piece: threads have rows. sources (matrices, m): where each row was before the panel's
    exchanges.
    """
    shared = shared_array(TEAM, real, SHARED)
    places = shared_array(TEAM, int64, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, width = thread % LANES, thread // LANES, end - first
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, own, rows = matrix * m * n, matrix * LANES * m, matrix * m
        zero = int64(0) if first == 0 else int64(info[uintp(matrix)])
        for i in range(first + group, m if lane < width else 0, GROUPS):
            panel[uintp(own + lane * m + i)] = x[uintp(base + i * n + first + lane)]
        for i in range(first + thread, m, TEAM):
            sources[uintp(rows + i)] = i
            if first == 0:
                order[uintp(rows + i)] = i
        cuda.syncthreads()
        for k in range(width):
            column, row = own + k * m, first + k
            p = row
            if pivoted != 0:
                largest = real(-1.0)
                for i in range(row + thread, m, TEAM):
                    value = abs(panel[uintp(column + i)].real) + abs(panel[uintp(column + i)].imag)
                    if value > largest:
                        largest, p = value, int64(i)
                p = team_pivot(largest, p, shared, places, thread, TEAM)
            if thread < width:
                held = panel[uintp(own + thread * m + row)]
                panel[uintp(own + thread * m + row)] = panel[uintp(own + thread * m + p)]
                panel[uintp(own + thread * m + p)] = held
            elif thread == width:
                came = order[uintp(rows + row)]
                order[uintp(rows + row)] = order[uintp(rows + p)]
                order[uintp(rows + p)] = came
            elif thread == width + 1:
                source = sources[uintp(rows + row)]
                sources[uintp(rows + row)] = sources[uintp(rows + p)]
                sources[uintp(rows + p)] = source
                pivots[uintp(matrix * min(m, n) + row)] = p + 1
            cuda.syncthreads()
            pivot = panel[uintp(column + row)]
            if pivot == 0:
                zero = zero if zero != 0 else row + 1
            else:
                for i in range(row + 1 + thread, m, TEAM):
                    value = panel[uintp(column + i)]
                    value = ratio(value, pivot)
                    panel[uintp(column + i)] = value
                    less_column(panel, own, m, i, row, k + 1, width, value)
            cuda.syncthreads()
        for i in range(first + group, m if lane < width else 0, GROUPS):
            x[uintp(base + i * n + first + lane)] = panel[uintp(own + lane * m + i)]
        if thread == 0:
            info[uintp(matrix)] = zero
        cuda.syncthreads()


def lu_beside_team(x, pivots, sources, tasks, parts, m, n, first, end, *, GROUPS, LANES, NUMBER):
    """The columns beside those from `first` to `end` that `lu_panel_team` has factored: its exchanges of rows, and
    right of them the rows of U. A block has LANES columns, and of them in shared memory the panel's rows, as they were
    and as they become.

    Of the rows below, one that was exchanged has become one of the panel's: the last that was exchanged with it.
    """
    corner = shared_array(LANES * LANES, NUMBER, SHARED)
    old = shared_array(LANES * LANES, NUMBER, SHARED)
    new = shared_array(LANES * LANES, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, width = thread % LANES, thread // LANES, end - first
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        matrix, low = int64(task) // parts, int64(task) % parts * LANES
        base, rows, exchanges, j = matrix * m * n, matrix * m, matrix * min(m, n), low + lane
        inside, right = (j < n) & ((j < first) | (j >= end)), (j < n) & (j >= end)
        for k in range(group, width, GROUPS):
            if inside:
                old[uintp(k * LANES + lane)] = x[uintp(base + (first + k) * n + j)]
                new[uintp(k * LANES + lane)] = x[uintp(base + sources[uintp(rows + first + k)] * n + j)]
            if lane < k:
                corner[uintp(k * LANES + lane)] = x[uintp(base + (first + k) * n + first + lane)]
        cuda.syncthreads()
        for k in range(group, width, GROUPS):
            p, last = int64(pivots[uintp(exchanges + first + k)]) - 1, True
            for later in range(first + k + 1, end):
                last = last & (pivots[uintp(exchanges + later)] != p + 1)
            if inside & last & (p >= end):
                x[uintp(base + p * n + j)] = old[uintp((sources[uintp(rows + p)] - first) * LANES + lane)]
        for k in range(width - 1 if low + LANES > end else 0):
            for i in range(k + 1 + group, width, GROUPS):
                if right:
                    new[uintp(i * LANES + lane)] -= corner[uintp(i * LANES + k)] * new[uintp(k * LANES + lane)]
            cuda.syncthreads()
        for k in range(group, width, GROUPS):
            if inside:
                x[uintp(base + (first + k) * n + j)] = new[uintp(k * LANES + lane)]
        cuda.syncthreads()


def rest_kernel(x, total, m, n, first, end, lower):
    """What is right of and below a panel from `first` to `end` of x (matrices, m, n), less the products of its parts;
    or of that what is on and below the diagonal.
    """
    for task in parallel_range(total):
        columns = n - end
        i, j = end + int64(task) // columns % (m - end), end + int64(task) % columns
        if (lower == 0) | (j <= i):
            base = int64(task) // (columns * (m - end)) * m * n
            x[uintp(base + i * n + j)] = less_panel(x, base, n, i, j, first, end)
