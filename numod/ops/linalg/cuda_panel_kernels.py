"""CUDA kernels of Cholesky and LU for large matrices: panels of LANES columns, one after the other, and updates of the
rest of the matrix by all thread blocks. `cuda` launches these kernels.
"""

from __future__ import annotations

from math import sqrt

from ...kernel.language import cuda, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.scalar import scalar
from .cuda_block_kernels import subtract_panel, block_argmax


@scalar
def subtract_column(panel, panel_at, m, i, row, first, end, factor):
    """Subtract factor * row `row` from row i, in columns `first` to `end` of the panel at `panel_at`.

    Columns are m elements apart. Four elements are read before any is written, so that the loads overlap.
    """
    j = first
    while j + 3 < end:
        target_at, source_at = panel_at + j * m + i, panel_at + j * m + row
        a = panel[uintp(target_at)] - factor * panel[uintp(source_at)]
        b = panel[uintp(target_at + m)] - factor * panel[uintp(source_at + m)]
        c = panel[uintp(target_at + 2 * m)] - factor * panel[uintp(source_at + 2 * m)]
        d = panel[uintp(target_at + 3 * m)] - factor * panel[uintp(source_at + 3 * m)]
        (
            panel[uintp(target_at)],
            panel[uintp(target_at + m)],
            panel[uintp(target_at + 2 * m)],
            panel[uintp(target_at + 3 * m)],
        ) = a, b, c, d
        j += 4
    while j < end:
        panel[uintp(panel_at + j * m + i)] -= factor * panel[uintp(panel_at + j * m + row)]
        j += 1


def cholesky_panel_kernel(x, out, info, tasks, parts, n, first, end, *, GROUPS, LANES, NUMBER):
    """Compute columns `first` to `end` of L in out (matrices, n, n) from the lower triangles of x.

    The contributions of earlier columns are subtracted from x already. Below the corner, L is stored in x too, and its
    conjugate above the diagonal of x. info: as in `cuda_block_kernels.cholesky_kernel`. Each of the `parts` blocks of a
    matrix factors the corner by itself in shared memory, then takes GROUPS of the rows below at a time, one per group
    of threads. There is one barrier per column: the divisions by the roots of the pivots follow the last column.
    """
    # rows of LANES + 1 words avoid bank conflicts when columns are read
    corner = shared_array(LANES * LANES + LANES, NUMBER, SHARED)
    column = shared_array(2 * GROUPS, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, width, line = thread % LANES, thread // LANES, end - first, int64(LANES + 1)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        matrix, part, failed_at = int64(task) // parts, int64(task) % parts, int64(0)
        base = matrix * n * n
        for i in range(group, width if lane < width else 0, GROUPS):
            corner[uintp(i * line + lane)] = x[uintp(base + (first + i) * n + first + lane)] if lane <= i else NUMBER(0)
        cuda.syncthreads()
        for k in range(width):
            pivot = corner[uintp(k * line + k)].real
            if (failed_at == 0) & (not pivot > 0.0):
                failed_at = first + k + 1
            for i in range(k + 1 + group, width, GROUPS):
                if (lane > k) & (lane <= i):
                    corner[uintp(i * line + lane)] -= corner[uintp(i * line + k)] * (
                        corner[uintp(lane * line + k)].conjugate() * (1.0 / pivot)
                    )
            cuda.syncthreads()
        pivot_value = corner[uintp(lane * line + lane)].real if lane < width else real(1.0)
        cuda.syncthreads()
        for i in range(group, width, GROUPS):
            if lane <= i:
                value = (
                    NUMBER(sqrt(pivot_value))
                    if i == lane
                    else corner[uintp(i * line + lane)] * (1.0 / sqrt(pivot_value))
                )
                corner[uintp(i * line + lane)] = value
                if part == 0:
                    out[uintp(base + (first + i) * n + first + lane)] = value
        if (thread == 0) & (part == 0):
            previous = int64(0) if first == 0 else int64(info[uintp(matrix)])
            info[uintp(matrix)] = failed_at if previous == 0 else previous
        cuda.syncthreads()
        for low in range(end + part * GROUPS, n, parts * GROUPS):
            i, value = int64(low) + group, NUMBER(0)
            is_inside = (i < n) & (lane < width)
            if is_inside:
                value = x[uintp(base + i * n + first + lane)]
            for k in range(width):
                if lane == k:
                    value = value * (1.0 / sqrt(pivot_value))
                    column[uintp(k % 2 * GROUPS + group)] = value
                cuda.syncthreads()
                if (lane > k) & (lane < width):
                    value -= column[uintp(k % 2 * GROUPS + group)] * corner[uintp(lane * line + k)].conjugate()
            if is_inside:
                out[uintp(base + i * n + first + lane)] = value
                x[uintp(base + i * n + first + lane)] = value
                x[uintp(base + (first + lane) * n + i)] = value.conjugate()
        cuda.syncthreads()


def lu_panel_kernel(
    x, panel, pivots, info, order, sources, matrices, m, n, pivoted, first, end, *, GROUPS, LANES, THREADS, ratio
):
    """Compute the LU factors of columns `first` to `end` of x (matrices, m, n), from row `first` on, in place.

    pivots, info and order: as in `lu_cpu.lu_kernel`. There is one block per matrix, since a pivot is searched in all
    rows. panel (matrices, LANES, m) is scratch for the columns, stored contiguously because a thread has a row. sources
    (matrices, m) is the index of each row before the exchanges of this panel.
    """
    shared = shared_array(THREADS, real, SHARED)
    indices = shared_array(THREADS, int64, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, width = thread % LANES, thread // LANES, end - first
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, panel_at, rows = matrix * m * n, matrix * LANES * m, matrix * m
        zero_at = int64(0) if first == 0 else int64(info[uintp(matrix)])
        for i in range(first + group, m if lane < width else 0, GROUPS):
            panel[uintp(panel_at + lane * m + i)] = x[uintp(base + i * n + first + lane)]
        for i in range(first + thread, m, THREADS):
            sources[uintp(rows + i)] = i
            if first == 0:
                order[uintp(rows + i)] = i
        cuda.syncthreads()
        for k in range(width):
            column, row = panel_at + k * m, first + k
            p = row
            if pivoted != 0:
                largest = real(-1.0)
                for i in range(row + thread, m, THREADS):
                    value = abs(panel[uintp(column + i)].real) + abs(panel[uintp(column + i)].imag)
                    if value > largest:
                        largest, p = value, int64(i)
                p = block_argmax(largest, p, shared, indices, thread, THREADS)
            if thread < width:
                swapped = panel[uintp(panel_at + thread * m + row)]
                panel[uintp(panel_at + thread * m + row)] = panel[uintp(panel_at + thread * m + p)]
                panel[uintp(panel_at + thread * m + p)] = swapped
            elif thread == width:
                row_index = order[uintp(rows + row)]
                order[uintp(rows + row)] = order[uintp(rows + p)]
                order[uintp(rows + p)] = row_index
            elif thread == width + 1:
                source = sources[uintp(rows + row)]
                sources[uintp(rows + row)] = sources[uintp(rows + p)]
                sources[uintp(rows + p)] = source
                pivots[uintp(matrix * min(m, n) + row)] = p + 1
            cuda.syncthreads()
            pivot = panel[uintp(column + row)]
            if pivot == 0:
                zero_at = zero_at if zero_at != 0 else row + 1
            else:
                for i in range(row + 1 + thread, m, THREADS):
                    value = panel[uintp(column + i)]
                    value = ratio(value, pivot)
                    panel[uintp(column + i)] = value
                    subtract_column(panel, panel_at, m, i, row, k + 1, width, value)
            cuda.syncthreads()
        for i in range(first + group, m if lane < width else 0, GROUPS):
            x[uintp(base + i * n + first + lane)] = panel[uintp(panel_at + lane * m + i)]
        if thread == 0:
            info[uintp(matrix)] = zero_at
        cuda.syncthreads()


def lu_update_kernel(x, pivots, sources, tasks, parts, m, n, first, end, *, GROUPS, LANES, NUMBER):
    """Update the columns outside the panel `first` to `end` that `lu_panel_kernel` has factored.

    Applies the row exchanges to all of them and computes rows of U to the right. A block has LANES columns, and keeps
    the panel's rows of these in shared memory, before and after the update. A row below the panel that was exchanged
    receives the panel row of its last exchange.
    """
    corner = shared_array(LANES * LANES, NUMBER, SHARED)
    old_rows = shared_array(LANES * LANES, NUMBER, SHARED)
    new_rows = shared_array(LANES * LANES, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, width = thread % LANES, thread // LANES, end - first
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        matrix, low = int64(task) // parts, int64(task) % parts * LANES
        base, rows, exchanges, j = matrix * m * n, matrix * m, matrix * min(m, n), low + lane
        is_beside, is_right = (j < n) & ((j < first) | (j >= end)), (j < n) & (j >= end)
        for k in range(group, width, GROUPS):
            if is_beside:
                old_rows[uintp(k * LANES + lane)] = x[uintp(base + (first + k) * n + j)]
                new_rows[uintp(k * LANES + lane)] = x[uintp(base + sources[uintp(rows + first + k)] * n + j)]
            if lane < k:
                corner[uintp(k * LANES + lane)] = x[uintp(base + (first + k) * n + first + lane)]
        cuda.syncthreads()
        for k in range(group, width, GROUPS):
            p, is_last = int64(pivots[uintp(exchanges + first + k)]) - 1, True
            for later in range(first + k + 1, end):
                is_last = is_last & (pivots[uintp(exchanges + later)] != p + 1)
            if is_beside & is_last & (p >= end):
                x[uintp(base + p * n + j)] = old_rows[uintp((sources[uintp(rows + p)] - first) * LANES + lane)]
        for k in range(width - 1 if low + LANES > end else 0):
            for i in range(k + 1 + group, width, GROUPS):
                if is_right:
                    new_rows[uintp(i * LANES + lane)] -= (
                        corner[uintp(i * LANES + k)] * new_rows[uintp(k * LANES + lane)]
                    )
            cuda.syncthreads()
        for k in range(group, width, GROUPS):
            if is_beside:
                x[uintp(base + (first + k) * n + j)] = new_rows[uintp(k * LANES + lane)]
        cuda.syncthreads()


def trailing_update_kernel(x, total, m, n, first, end, lower):
    """Subtract the product of the panels `first` to `end` from the trailing part of x (matrices, m, n).

    If `lower`, only on and below the diagonal.
    """
    for task in parallel_range(total):
        columns = n - end
        i, j = end + int64(task) // columns % (m - end), end + int64(task) % columns
        if (lower == 0) | (j <= i):
            base = int64(task) // (columns * (m - end)) * m * n
            x[uintp(base + i * n + j)] = subtract_panel(x, base, n, i, j, first, end)
