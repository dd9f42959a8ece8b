"""CUDA kernels for eigenvalues and singular values by Jacobi rotations.

`cuda` launches these kernels.

A small matrix is one thread block's. The rows of a large matrix are divided into runs of WIDTH. In each turn of a
round-robin tournament a block pairs each row of one run with each row of another, so that a row is read WIDTH times
from the L1 cache. The host reads the number of rotations after each round. Golub and Van Loan, Matrix Computations,
2013: 8.5 and 8.6.
"""

from __future__ import annotations

from math import copysign, fabs, sqrt

from ...kernel.library.cuda_block import block_sum
from ...kernel.language import cuda, int32, int64, real, SHARED, shared_array, uintp
from ...kernel.scalar import scalar
from .cuda_block_kernels import squared, block_scale


@scalar
def rotation(p_diagonal, q_diagonal, off_diagonal):
    """The sine (real or complex) and sine / (1 + cosine) of the rotation that diagonalises a 2 by 2 Hermitian matrix.

    Takes its diagonal elements and the one above the diagonal, which must not be 0.
    """
    off_diagonal_size = abs(off_diagonal)
    cotangent = (q_diagonal - p_diagonal) / (2.0 * off_diagonal_size)
    magnitude = fabs(cotangent)
    tangent = copysign(
        1.0 / (magnitude + sqrt(magnitude * magnitude + 1.0)) if magnitude < 1e9 else 0.5 / magnitude, cotangent
    )
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    sine = off_diagonal * (tangent * cosine / off_diagonal_size)
    return sine, sine * (1.0 / (1.0 + cosine))


@scalar
def rotated(x, y, sine, half_tangent):
    """Rotate two numbers: return cosine x - sine* y and sine x + cosine y.

    Written as small corrections for small angles, which preserves lengths (Rutishauser, The Jacobi method for real
    symmetric matrices, 1966). With products by the cosine, thousands of rotations changed lengths by hundreds of
    roundings.
    """
    return x - sine.conjugate() * (y + half_tangent * x), y + sine * (x - half_tangent.conjugate() * y)


@scalar
def rotate_rows(x, p, q, n, sine, half_tangent, lane, lanes):
    """Apply `rotated` to n elements of x from p and from q on, with `lanes` threads.

    Reads four pairs before it writes any, because the compiler cannot move loads above stores that may alias.
    """
    i, step = lane, int64(lanes)
    while i + 3 * step < n:
        a, e = rotated(x[uintp(p + i)], x[uintp(q + i)], sine, half_tangent)
        b, f = rotated(x[uintp(p + i + step)], x[uintp(q + i + step)], sine, half_tangent)
        c, g = rotated(x[uintp(p + i + 2 * step)], x[uintp(q + i + 2 * step)], sine, half_tangent)
        d, h = rotated(x[uintp(p + i + 3 * step)], x[uintp(q + i + 3 * step)], sine, half_tangent)
        x[uintp(p + i)], x[uintp(p + i + step)], x[uintp(p + i + 2 * step)], x[uintp(p + i + 3 * step)] = a, b, c, d
        x[uintp(q + i)], x[uintp(q + i + step)], x[uintp(q + i + 2 * step)], x[uintp(q + i + 3 * step)] = e, f, g, h
        i += 4 * step
    while i < n:
        x[uintp(p + i)], x[uintp(q + i)] = rotated(x[uintp(p + i)], x[uintp(q + i)], sine, half_tangent)
        i += step


@scalar
def opponents(turn, pair, players):
    """The players (first, second) of a pair in one turn of a round-robin tournament.

    Neighbouring pairs have neighbouring players.
    """
    last_player = players - 1
    first_player = turn + pair if turn + pair < last_player else turn + pair - last_player
    second_player = last_player if pair == 0 else turn - pair if turn >= pair else turn - pair + last_player
    return min(first_player, second_player), max(first_player, second_player)


@scalar
def orthogonalise(
    w, v, matrix, count, length, first_run, second_run, width, whole, vectors, tolerance, p_norms, q_norms, products,
    thread, lanes, groups,
):  # fmt: skip
    """Rotate pairs of rows of w (matrices, count, length) so that they become orthogonal, and of v (matrices, count,
    count) alike if `vectors`. Return the number of this thread's rotations.

    Pairs each row of `first_run` with each row of `second_run`, runs of `width` rows; if `whole`, all rows of both with
    each other. `lanes` threads share a pair and read neighbouring elements. p_norms, q_norms and products (threads) are
    scratch.
    """
    lane, group, rotations = thread % lanes, thread // lanes, real(0.0)
    base, v_base = matrix * count * length, matrix * count * count
    # compared with squared norms: shorter rows count as 0
    tiny = real(tolerance) * real(tolerance) * real(tolerance) * real(tolerance)
    for turn in range(2 * width - 1 if whole else width):
        for low in range(0, width, groups):
            pair = min(low + group, width - 1)
            p, q = pair, width + (pair + turn) % width
            if whole:
                p, q = opponents(turn, pair, 2 * width)
            p, q = (
                p + (first_run * width if p < width else (second_run - 1) * width),
                q + (first_run * width if q < width else (second_run - 1) * width),
            )
            is_pair = (low + group < width) & (q < count)
            p_norm, q_norm, product = real(0.0), real(0.0), w.dtype.type(0)
            for i in range(lane, length if is_pair else 0, lanes):
                x, y = w[uintp(base + p * length + i)], w[uintp(base + q * length + i)]
                p_norm += squared(x)
                q_norm += squared(y)
                product += x.conjugate() * y
            p_norms[uintp(thread)], q_norms[uintp(thread)], products[uintp(thread)] = p_norm, q_norm, product
            cuda.syncthreads()
            p_norm, q_norm, product = real(0.0), real(0.0), w.dtype.type(0)
            for k in range(group * lanes, group * lanes + lanes):
                p_norm += p_norms[uintp(k)]
                q_norm += q_norms[uintp(k)]
                product += products[uintp(k)]
            if is_pair and min(p_norm, q_norm) > tiny and abs(product) > real(tolerance) * sqrt(p_norm) * sqrt(q_norm):
                sine, half_tangent = rotation(p_norm, q_norm, product)
                rotations += 1.0
                rotate_rows(w, base + p * length, base + q * length, length, sine, half_tangent, lane, lanes)
                if vectors:
                    rotate_rows(v, v_base + p * count, v_base + q * count, count, sine, half_tangent, lane, lanes)
            cuda.syncthreads()
    return rotations


@scalar
def svd_begin(a, w, v, matrix, m, n, shared, thread, threads):
    """Set rows of w (matrices, count, length) to the columns of a (matrices, m, n), or of its adjoint if m < n, divided
    by the scale that is returned. Set v (matrices, count, count) to identity matrices.

    count = min(m, n), length = max(m, n).
    """
    base, count = matrix * m * n, min(m, n)
    scale = block_scale(a, base, m * n, shared, thread, threads)
    for k in range(thread, m * n, threads):
        value = a[uintp(base + k)] * (1.0 / scale)
        if m < n:
            w[uintp(base + k)] = value.conjugate()
        else:
            w[uintp(base + k % n * m + k // n)] = value
    for k in range(thread, count * count, threads):
        v[uintp(matrix * count * count + k)] = v.dtype.type(1 if k // count == k % count else 0)
    cuda.syncthreads()
    return scale


def eigh_kernel(
    a, x, v, sines, half_tangents, values, vectors, info, matrices, n, lower, with_vectors, tolerance, *, GROUPS, LANES,
    NUMBER, THREADS,
):  # fmt: skip
    """Compute ascending eigenvalues, values (matrices, n), and eigenvectors, the columns of vectors (matrices, n, n),
    of Hermitian matrices a by Jacobi rotations.

    info (matrices) is n where a matrix does not converge. x, v (matrices, n, n), sines and half_tangents (matrices,
    players / 2) are scratch. Each turn pairs all rows, and a thread updates the 2 by 2 elements where a pair of rows
    crosses a pair of columns. Neighbouring threads have neighbouring columns, except where a turn wraps around. Rows of
    v are the eigenvectors.
    """
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, players = thread % LANES, thread // LANES, n + n % 2
    pairs = players // 2
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, pair_base = matrix * n * n, matrix * pairs
        for i in range(group, n, GROUPS):
            for j in range(lane, n, LANES):
                value = (
                    a[uintp(base + i * n + j)] if (j <= i) == (lower != 0) else a[uintp(base + j * n + i)].conjugate()
                )
                value = NUMBER(a[uintp(base + i * n + j)].real) if i == j else value
                x[uintp(base + i * n + j)] = value
                v[uintp(base + i * n + j)] = NUMBER(1) if i == j else NUMBER(0)
        cuda.syncthreads()
        scale, norm = block_scale(x, base, n * n, shared, thread, THREADS), real(0.0)
        for k in range(thread, n * n, THREADS):
            value = x[uintp(base + k)] * (1.0 / scale)
            norm += squared(value)
            x[uintp(base + k)] = value
        limit = real(tolerance) * sqrt(block_sum(norm, shared, thread, THREADS)) / real(n)
        rotations, sweep = real(1.0), 0
        while (rotations != 0.0) & (sweep < 40):
            rotations, sweep = real(0.0), sweep + 1
            for turn in range(players - 1):
                for pair in range(thread, pairs, THREADS):
                    p, q = opponents(turn, pair, players)
                    sine, half_tangent = NUMBER(0), NUMBER(0)
                    if q < n:
                        off_diagonal = x[uintp(base + p * n + q)]
                        if abs(off_diagonal) > limit:
                            sine, half_tangent = rotation(
                                x[uintp(base + p * n + p)].real, x[uintp(base + q * n + q)].real, off_diagonal
                            )
                            rotations += 1.0
                    sines[uintp(pair_base + pair)], half_tangents[uintp(pair_base + pair)] = sine, half_tangent
                cuda.syncthreads()
                for pair in range(group, pairs, GROUPS):
                    p, q = opponents(turn, pair, players)
                    sine, half_tangent = sines[uintp(pair_base + pair)], half_tangents[uintp(pair_base + pair)]
                    if sine != 0 and with_vectors != 0:
                        rotate_rows(v, base + p * n, base + q * n, n, sine, half_tangent, lane, LANES)
                    for column_pair in range(lane, pairs, LANES):
                        r, t = opponents(turn, column_pair, players)
                        column_sine, column_half_tangent = (
                            sines[uintp(pair_base + column_pair)],
                            half_tangents[uintp(pair_base + column_pair)],
                        )
                        if (sine != 0) | (column_sine != 0):
                            zero = NUMBER(0)
                            pr, pt = x[uintp(base + p * n + r)], x[uintp(base + p * n + t)] if t < n else zero
                            qr, qt = (
                                x[uintp(base + q * n + r)] if q < n else zero,
                                x[uintp(base + q * n + t)] if q < n and t < n else zero,
                            )
                            pr, pt = rotated(pr, pt, column_sine, column_half_tangent)
                            qr, qt = rotated(qr, qt, column_sine, column_half_tangent)
                            pr, qr = rotated(pr, qr, sine.conjugate(), half_tangent.conjugate())
                            pt, qt = rotated(pt, qt, sine.conjugate(), half_tangent.conjugate())
                            if pair == column_pair:
                                pr, pt, qr, qt = NUMBER(pr.real), zero, zero, NUMBER(qt.real)
                            x[uintp(base + p * n + r)] = pr
                            if t < n:
                                x[uintp(base + p * n + t)] = pt
                            if q < n:
                                x[uintp(base + q * n + r)] = qr
                                if t < n:
                                    x[uintp(base + q * n + t)] = qt
                cuda.syncthreads()
            rotations = block_sum(rotations, shared, thread, THREADS)
        for k in range(group, n, GROUPS):
            value, rank = x[uintp(base + k * n + k)].real, int64(0)
            for j in range(n):
                other = x[uintp(base + j * n + j)].real
                rank += 1 if other < value or (other == value and j < k) else 0
            if lane == 0:
                values[uintp(matrix * n + rank)] = value * scale
            for j in range(lane, n if with_vectors != 0 else 0, LANES):
                vectors[uintp(base + j * n + rank)] = v[uintp(base + k * n + j)]
        if thread == 0:
            info[uintp(matrix)] = 0 if rotations == 0.0 and scale == scale else n
        cuda.syncthreads()


def svd_kernel(
    a, w, v, norms, long, s, short, info, matrices, m, n, vectors, tolerance, *, GROUPS, LANES, NUMBER, THREADS
):
    """Compute the SVD of a (matrices, m, n), or of its adjoint if m < n, by one-sided rotations.

    s (matrices, count) is the singular values in descending order, long (matrices, length, count) the left singular
    vectors times their values, short (matrices, count, count) the right ones as rows. Rows of w become orthogonal; each
    turn pairs all of them. Small singular values are accurate, too. info: as in `eigh_kernel`. w, v (as in `svd_begin`)
    and norms (matrices, count) are scratch.
    """
    p_norms = shared_array(THREADS, real, SHARED)
    q_norms = shared_array(THREADS, real, SHARED)
    products = shared_array(THREADS, NUMBER, SHARED)
    thread, length, count = int64(cuda.threadIdx.x), max(m, n), min(m, n)
    lane, group = thread % LANES, thread // LANES
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, v_base = matrix * m * n, matrix * count * count
        scale = svd_begin(a, w, v, matrix, m, n, p_norms, thread, THREADS)
        rotations, sweep = real(1.0), 0
        while (rotations != 0.0) & (sweep < 60):
            rotations = orthogonalise(
                w, v, matrix, count, length, 0, 1, (count + 1) // 2, True, vectors != 0, tolerance, p_norms, q_norms,
                products, thread, LANES, GROUPS,
            )  # fmt: skip
            rotations, sweep = block_sum(rotations, p_norms, thread, THREADS), sweep + 1
        for k in range(count):
            total = real(0.0)
            for i in range(thread, length, THREADS):
                total += squared(w[uintp(base + k * length + i)])
            total = sqrt(block_sum(total, p_norms, thread, THREADS))
            if thread == 0:
                norms[uintp(matrix * count + k)] = total
        cuda.syncthreads()
        for k in range(group, count, GROUPS):
            value, rank = norms[uintp(matrix * count + k)], int64(0)
            for j in range(count):
                other = norms[uintp(matrix * count + j)]
                rank += 1 if other > value or (other == value and j < k) else 0
            if lane == 0:
                s[uintp(matrix * count + rank)] = value * scale
            if vectors != 0:
                for i in range(lane, length, LANES):
                    long[uintp(base + i * count + rank)] = w[uintp(base + k * length + i)]
                for i in range(lane, count, LANES):
                    short[uintp(v_base + rank * count + i)] = v[uintp(v_base + k * count + i)].conjugate()
        if thread == 0:
            info[uintp(matrix)] = 0 if rotations == 0.0 and scale == scale else count
        cuda.syncthreads()


# ---- large matrices


def svd_begin_kernel(a, w, v, scales, matrices, m, n, *, THREADS):
    """Run `svd_begin` for each matrix and store the scales (matrices)."""
    shared = shared_array(THREADS, real, SHARED)
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        scale = svd_begin(a, w, v, matrix, m, n, shared, int64(cuda.threadIdx.x), THREADS)
        if cuda.threadIdx.x == 0:
            scales[uintp(matrix)] = scale


def hermitian_begin_kernel(a, x, w, scales, matrices, n, lower, *, NUMBER, THREADS):
    """Set x (matrices, n, n) to the Hermitian a divided by scales (matrices), and w to the transpose of x + c I.

    c makes the matrix positive definite, so that its singular vectors are the eigenvectors of a. It is 1.5 times the
    Frobenius norm, so that no eigenvalue is more than five times another.
    """
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, norm = matrix * n * n, real(0.0)
        for k in range(thread, n * n, THREADS):
            i, j = k // n, k % n
            value = a[uintp(base + k)] if (j <= i) == (lower != 0) else a[uintp(base + j * n + i)].conjugate()
            x[uintp(base + k)] = NUMBER(value.real) if i == j else value
        cuda.syncthreads()
        scale = block_scale(x, base, n * n, shared, thread, THREADS)
        for k in range(thread, n * n, THREADS):
            value = x[uintp(base + k)] * (1.0 / scale)
            norm += squared(value)
            x[uintp(base + k)] = value
        norm = sqrt(block_sum(norm, shared, thread, THREADS)) * 1.5
        for k in range(thread, n * n, THREADS):
            value = x[uintp(base + k)].conjugate()
            w[uintp(base + k)] = value + (norm if norm > 0.0 else real(1.0)) if k // n == k % n else value
        if thread == 0:
            scales[uintp(matrix)] = scale
        cuda.syncthreads()


def jacobi_kernel(
    w, v, rotations, tasks, pairs, count, length, vectors, turn, tolerance, *, GROUPS, LANES, NUMBER, THREADS, WIDTH
):
    """Run one turn of `orthogonalise` for `pairs` pairs of runs of each matrix.

    rotations (matrices, pairs) counts the rotations of a round.
    """
    p_norms = shared_array(THREADS, real, SHARED)
    q_norms = shared_array(THREADS, real, SHARED)
    products = shared_array(THREADS, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        first_run, second_run = opponents(turn, int64(task) % pairs, 2 * pairs)
        block_rotations = orthogonalise(
            w, v, int64(task) // pairs, count, length, first_run, second_run, WIDTH, turn == 0, vectors != 0, tolerance,
            p_norms, q_norms, products, thread, LANES, GROUPS,
        )  # fmt: skip
        block_rotations = block_sum(block_rotations, p_norms, thread, THREADS)
        if thread == 0:
            rotations[uintp(task)] = int32(block_rotations) + (rotations[uintp(task)] if turn > 0 else int32(0))


def row_norms_kernel(w, norms, tasks, length, *, THREADS):
    """norms (tasks) = the norms of the rows of w (tasks, length)."""
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        total = real(0.0)
        for i in range(thread, length, THREADS):
            total += squared(w[uintp(task * length + i)])
        total = block_sum(total, shared, thread, THREADS)
        if thread == 0:
            norms[uintp(task)] = sqrt(total)


def rayleigh_kernel(x, w, eigenvalues, tasks, n, *, NUMBER, THREADS):
    """Compute eigenvalues (tasks), the Rayleigh quotients w^H x w / w^H w of the rows of w (matrices, n, n).

    Also normalises the rows. The error of a Rayleigh quotient is of the order of the square of the vector's error.
    """
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        base, row, squared_norm, value = task // n * n * n, task * n, real(0.0), real(0.0)
        for i in range(thread, n, THREADS):
            total = NUMBER(0)
            for j in range(n):
                total += x[uintp(base + j * n + i)].conjugate() * w[uintp(row + j)]
            squared_norm += squared(w[uintp(row + i)])
            value += (w[uintp(row + i)].conjugate() * total).real
        squared_norm, value = (
            block_sum(squared_norm, shared, thread, THREADS),
            block_sum(value, shared, thread, THREADS),
        )
        for i in range(thread, n, THREADS):
            w[uintp(row + i)] = w[uintp(row + i)] * (1.0 / sqrt(squared_norm))
        if thread == 0:
            eigenvalues[uintp(task)] = value / squared_norm


def sort_kernel(
    w, v, unsorted, scales, rotations, values, long, short, info, tasks, pairs, count, length, vectors, ascending, *,
    THREADS,
):  # fmt: skip
    """Sort values and vectors: values (matrices, count) = unsorted * scales.

    long (matrices, length, count) is the rows of w as columns, short (matrices, count, count) the rows of v conjugated,
    in this order. `vectors` is the number of these outputs to fill, 0 to 2. info (matrices) is count where a matrix did
    not converge.
    """
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        matrix, k, preceding = task // count, task % count, real(0.0)
        first, value, scale = matrix * count, unsorted[uintp(task)], scales[uintp(matrix)]
        for j in range(thread, count, THREADS):
            other = unsorted[uintp(first + j)]
            preceding += (
                1.0 if (other < value if ascending != 0 else other > value) or (other == value and j < k) else 0.0
            )
        rank = int64(block_sum(preceding, shared, thread, THREADS)) if scale == scale else int64(k)
        for i in range(thread, length if vectors > 0 else 0, THREADS):
            long[uintp(first * length + i * count + rank)] = w[uintp(task * length + i)]
        for i in range(thread, count if vectors > 1 else 0, THREADS):
            short[uintp((first + rank) * count + i)] = v[uintp(task * count + i)].conjugate()
        if thread == 0:
            values[uintp(first + rank)] = value * scale
        if (thread == 0) & (k == 0):
            remaining = int64(0)
            for pair in range(pairs):
                remaining += rotations[uintp(matrix * pairs + pair)]
            info[uintp(matrix)] = 0 if remaining == 0 and scale == scale else count
