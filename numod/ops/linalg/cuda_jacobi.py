"""Eigenvalues and singular values on a GPU, by Jacobi's rotations.

`factorization_device` makes launches of these kernels; what else they call is in `factorization_team`.

A small matrix has a block of threads. Of a large one the rows that rotate are cut into runs of WIDTH: in each turn of a
tournament a block has two runs, and each row of the one meets each of the other, so that what a launch reads is used
WIDTH times, from the first cache. The host counts what was rotated behind each round. Golub and Van Loan, Matrix
Computations, 2013: 8.5 and 8.6.
"""

from __future__ import annotations

from math import copysign, fabs, sqrt

from ...kernel.library.teams import team_sum
from ...kernel.language import cuda, int32, int64, real, SHARED, shared_array, uintp
from ...kernel.scalar import scalar
from .cuda_block_kernels import squared, team_scale


@scalar
def rotation(here, there, between):
    """(complex or real sine, sine / (1 + cosine)) of the rotation that makes a Hermitian matrix of 2 diagonal: its
    diagonal, and what is above it, which is not 0.
    """
    length = abs(between)
    slope = (there - here) / (2.0 * length)
    steep = fabs(slope)
    tangent = copysign(1.0 / (steep + sqrt(steep * steep + 1.0)) if steep < 1e9 else 0.5 / steep, slope)
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    sine = between * (tangent * cosine / length)
    return sine, sine * (1.0 / (1.0 + cosine))


@scalar
def rotated(x, y, sine, share):
    """Two numbers, rotated: cosine x - sine* y and sine x + cosine y.

    What is added is small where the angle is; so lengths stay what they are (Rutishauser, The Jacobi method for real
    symmetric matrices, 1966): thousands of rotations by products with a cosine had changed them by hundreds of
    roundings.
    """
    return x - sine.conjugate() * (y + share * x), y + sine * (x - share.conjugate() * y)


@scalar
def rotate_rows(x, p, q, n, sine, share, lane, lanes):
    """`rotated` of n elements of x from p and from q on, by `lanes` threads.

    Four are read before any is written: for all the compiler knows, what is written is read next.
    """
    i, step = lane, int64(lanes)
    while i + 3 * step < n:
        a, e = rotated(x[uintp(p + i)], x[uintp(q + i)], sine, share)
        b, f = rotated(x[uintp(p + i + step)], x[uintp(q + i + step)], sine, share)
        c, g = rotated(x[uintp(p + i + 2 * step)], x[uintp(q + i + 2 * step)], sine, share)
        d, h = rotated(x[uintp(p + i + 3 * step)], x[uintp(q + i + 3 * step)], sine, share)
        x[uintp(p + i)], x[uintp(p + i + step)], x[uintp(p + i + 2 * step)], x[uintp(p + i + 3 * step)] = a, b, c, d
        x[uintp(q + i)], x[uintp(q + i + step)], x[uintp(q + i + 2 * step)], x[uintp(q + i + 3 * step)] = e, f, g, h
        i += 4 * step
    while i < n:
        x[uintp(p + i)], x[uintp(q + i)] = rotated(x[uintp(p + i)], x[uintp(q + i)], sine, share)
        i += step


@scalar
def opponents(turn, pair, players):
    """(first, second) of a pair of players in a turn of a tournament, in which each meets each once.

    Neighbouring pairs have neighbouring players.
    """
    rest = players - 1
    one = turn + pair if turn + pair < rest else turn + pair - rest
    other = rest if pair == 0 else turn - pair if turn >= pair else turn - pair + rest
    return min(one, other), max(one, other)


@scalar
def orthogonalise(
    w, v, matrix, count, length, one, other, width, whole, vectors, least, shared, others, sums, thread, lanes, groups
):
    """Rotate pairs of a matrix' rows of w (matrices, count, length), and of v (matrices, count, count) if `vectors`, so
    that those of w are orthogonal: each row of run `one`, of `width` rows, with each of run `other`; or `whole`, each
    of both with each. Returns how many the thread has rotated.

    `lanes` threads have a pair, and neighbouring elements. shared, others and sums (threads) are free before and
    behind.
    """
    lane, group, turned = thread % lanes, thread // lanes, real(0.0)
    base, own = matrix * count * length, matrix * count * count
    tiny = real(least) * real(least) * real(least) * real(least)  # of squares: shorter rows count as 0
    for turn in range(2 * width - 1 if whole else width):
        for low in range(0, width, groups):
            pair = min(low + group, width - 1)
            p, q = pair, width + (pair + turn) % width
            if whole:
                p, q = opponents(turn, pair, 2 * width)
            p, q = (
                p + (one * width if p < width else (other - 1) * width),
                q + (one * width if q < width else (other - 1) * width),
            )
            meeting = (low + group < width) & (q < count)
            here, there, between = real(0.0), real(0.0), w.dtype.type(0)
            for i in range(lane, length if meeting else 0, lanes):
                x, y = w[uintp(base + p * length + i)], w[uintp(base + q * length + i)]
                here += squared(x)
                there += squared(y)
                between += x.conjugate() * y
            shared[uintp(thread)], others[uintp(thread)], sums[uintp(thread)] = here, there, between
            cuda.syncthreads()
            here, there, between = real(0.0), real(0.0), w.dtype.type(0)
            for k in range(group * lanes, group * lanes + lanes):
                here += shared[uintp(k)]
                there += others[uintp(k)]
                between += sums[uintp(k)]
            if meeting and min(here, there) > tiny and abs(between) > real(least) * sqrt(here) * sqrt(there):
                sine, share = rotation(here, there, between)
                turned += 1.0
                rotate_rows(w, base + p * length, base + q * length, length, sine, share, lane, lanes)
                if vectors:
                    rotate_rows(v, own + p * count, own + q * count, count, sine, share, lane, lanes)
            cuda.syncthreads()
    return turned


@scalar
def svd_begin(a, w, v, matrix, m, n, shared, thread, threads):
    """Rows of w (matrices, count, length) = the columns of a (matrices, m, n), or of its adjoint where it is wide,
    divided by what is returned; v (matrices, count, count) = unit matrices. count is the least of m and n, length the
    other.
    """
    base, count = matrix * m * n, min(m, n)
    scale = team_scale(a, base, m * n, shared, thread, threads)
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


def eigh_team(
    a, x, v, sines, shares, values, vectors, info, matrices, n, lower, wanted, least, *, GROUPS, LANES, NUMBER, TEAM
):
    """values (matrices, n) in ascending order, and as columns of vectors (matrices, n, n) what belongs to them, of
    Hermitian matrices a by Jacobi's rotations.

    info (matrices): n where they do not converge. x, v (matrices, n, n), sines and shares (matrices, players / 2) are
    scratch. In each turn each row meets one other: a thread takes the 2 by 2 elements where two pairs of rows and
    columns cross. Neighbouring threads have neighbouring columns but for where a turn wraps round. Rows of v are the
    vectors.
    """
    shared = shared_array(TEAM, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, players = thread % LANES, thread // LANES, n + n % 2
    pairs = players // 2
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, own = matrix * n * n, matrix * pairs
        for i in range(group, n, GROUPS):
            for j in range(lane, n, LANES):
                value = (
                    a[uintp(base + i * n + j)] if (j <= i) == (lower != 0) else a[uintp(base + j * n + i)].conjugate()
                )
                value = NUMBER(a[uintp(base + i * n + j)].real) if i == j else value
                x[uintp(base + i * n + j)] = value
                v[uintp(base + i * n + j)] = NUMBER(1) if i == j else NUMBER(0)
        cuda.syncthreads()
        scale, size = team_scale(x, base, n * n, shared, thread, TEAM), real(0.0)
        for k in range(thread, n * n, TEAM):
            value = x[uintp(base + k)] * (1.0 / scale)
            size += squared(value)
            x[uintp(base + k)] = value
        limit = real(least) * sqrt(team_sum(size, shared, thread, TEAM)) / real(n)
        turned, sweep = real(1.0), 0
        while (turned != 0.0) & (sweep < 40):
            turned, sweep = real(0.0), sweep + 1
            for turn in range(players - 1):
                for pair in range(thread, pairs, TEAM):
                    p, q = opponents(turn, pair, players)
                    sine, share = NUMBER(0), NUMBER(0)
                    if q < n:
                        between = x[uintp(base + p * n + q)]
                        if abs(between) > limit:
                            sine, share = rotation(
                                x[uintp(base + p * n + p)].real, x[uintp(base + q * n + q)].real, between
                            )
                            turned += 1.0
                    sines[uintp(own + pair)], shares[uintp(own + pair)] = sine, share
                cuda.syncthreads()
                for pair in range(group, pairs, GROUPS):
                    p, q = opponents(turn, pair, players)
                    sine, share = sines[uintp(own + pair)], shares[uintp(own + pair)]
                    if sine != 0 and wanted != 0:
                        rotate_rows(v, base + p * n, base + q * n, n, sine, share, lane, LANES)
                    for second in range(lane, pairs, LANES):
                        r, t = opponents(turn, second, players)
                        across, part = sines[uintp(own + second)], shares[uintp(own + second)]
                        if (sine != 0) | (across != 0):
                            none = NUMBER(0)
                            pr, pt = x[uintp(base + p * n + r)], x[uintp(base + p * n + t)] if t < n else none
                            qr, qt = (
                                x[uintp(base + q * n + r)] if q < n else none,
                                x[uintp(base + q * n + t)] if q < n and t < n else none,
                            )
                            pr, pt = rotated(pr, pt, across, part)
                            qr, qt = rotated(qr, qt, across, part)
                            pr, qr = rotated(pr, qr, sine.conjugate(), share.conjugate())
                            pt, qt = rotated(pt, qt, sine.conjugate(), share.conjugate())
                            if pair == second:
                                pr, pt, qr, qt = NUMBER(pr.real), none, none, NUMBER(qt.real)
                            x[uintp(base + p * n + r)] = pr
                            if t < n:
                                x[uintp(base + p * n + t)] = pt
                            if q < n:
                                x[uintp(base + q * n + r)] = qr
                                if t < n:
                                    x[uintp(base + q * n + t)] = qt
                cuda.syncthreads()
            turned = team_sum(turned, shared, thread, TEAM)
        for k in range(group, n, GROUPS):
            value, place = x[uintp(base + k * n + k)].real, int64(0)
            for j in range(n):
                other = x[uintp(base + j * n + j)].real
                place += 1 if other < value or (other == value and j < k) else 0
            if lane == 0:
                values[uintp(matrix * n + place)] = value * scale
            for j in range(lane, n if wanted != 0 else 0, LANES):
                vectors[uintp(base + j * n + place)] = v[uintp(base + k * n + j)]
        if thread == 0:
            info[uintp(matrix)] = 0 if turned == 0.0 and scale == scale else n
        cuda.syncthreads()


def svd_team(a, w, v, norms, long, s, short, info, matrices, m, n, vectors, least, *, GROUPS, LANES, NUMBER, TEAM):
    """s (matrices, count) singular values in descending order; long (matrices, length, count): singular vectors times
    their values; short (matrices, count, count): as rows, the others; of a (matrices, m, n), or where it is wide of its
    adjoint, length by count. By one-sided rotations.

    Rows of w become orthogonal: in each turn every one meets one other. Accurate also for small values. info: as in
    `eigh_team`. w, v (as in `svd_begin`) and norms (matrices, count) are scratch.
    """
    shared = shared_array(TEAM, real, SHARED)
    others = shared_array(TEAM, real, SHARED)
    sums = shared_array(TEAM, NUMBER, SHARED)
    thread, length, count = int64(cuda.threadIdx.x), max(m, n), min(m, n)
    lane, group = thread % LANES, thread // LANES
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, own = matrix * m * n, matrix * count * count
        scale = svd_begin(a, w, v, matrix, m, n, shared, thread, TEAM)
        turned, sweep = real(1.0), 0
        while (turned != 0.0) & (sweep < 60):
            turned = orthogonalise(
                w,
                v,
                matrix,
                count,
                length,
                0,
                1,
                (count + 1) // 2,
                True,
                vectors != 0,
                least,
                shared,
                others,
                sums,
                thread,
                LANES,
                GROUPS,
            )
            turned, sweep = team_sum(turned, shared, thread, TEAM), sweep + 1
        for k in range(count):
            total = real(0.0)
            for i in range(thread, length, TEAM):
                total += squared(w[uintp(base + k * length + i)])
            total = sqrt(team_sum(total, shared, thread, TEAM))
            if thread == 0:
                norms[uintp(matrix * count + k)] = total
        cuda.syncthreads()
        for k in range(group, count, GROUPS):
            value, place = norms[uintp(matrix * count + k)], int64(0)
            for j in range(count):
                other = norms[uintp(matrix * count + j)]
                place += 1 if other > value or (other == value and j < k) else 0
            if lane == 0:
                s[uintp(matrix * count + place)] = value * scale
            if vectors != 0:
                for i in range(lane, length, LANES):
                    long[uintp(base + i * count + place)] = w[uintp(base + k * length + i)]
                for i in range(lane, count, LANES):
                    short[uintp(own + place * count + i)] = v[uintp(own + k * count + i)].conjugate()
        if thread == 0:
            info[uintp(matrix)] = 0 if turned == 0.0 and scale == scale else count
        cuda.syncthreads()


# ---- of large matrices


def svd_begin_team(a, w, v, scales, matrices, m, n, *, TEAM):
    """`svd_begin`; scales (matrices)."""
    shared = shared_array(TEAM, real, SHARED)
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        scale = svd_begin(a, w, v, matrix, m, n, shared, int64(cuda.threadIdx.x), TEAM)
        if cuda.threadIdx.x == 0:
            scales[uintp(matrix)] = scale


def hermitian_begin_team(a, x, w, scales, matrices, n, lower, *, NUMBER, TEAM):
    """x (matrices, n, n) = the Hermitian matrices a divided by scales (matrices); w = their columns, as rows, and a
    multiple of the unit matrix with which they are positive: their singular vectors are then the eigenvectors. It is
    1.5 times the Frobenius norm: no value is more than five times another.
    """
    shared = shared_array(TEAM, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for matrix in range(int64(cuda.blockIdx.x), matrices, int64(cuda.gridDim.x)):
        base, size = matrix * n * n, real(0.0)
        for k in range(thread, n * n, TEAM):
            i, j = k // n, k % n
            value = a[uintp(base + k)] if (j <= i) == (lower != 0) else a[uintp(base + j * n + i)].conjugate()
            x[uintp(base + k)] = NUMBER(value.real) if i == j else value
        cuda.syncthreads()
        scale = team_scale(x, base, n * n, shared, thread, TEAM)
        for k in range(thread, n * n, TEAM):
            value = x[uintp(base + k)] * (1.0 / scale)
            size += squared(value)
            x[uintp(base + k)] = value
        size = sqrt(team_sum(size, shared, thread, TEAM)) * 1.5
        for k in range(thread, n * n, TEAM):
            value = x[uintp(base + k)].conjugate()
            w[uintp(base + k)] = value + (size if size > 0.0 else real(1.0)) if k // n == k % n else value
        if thread == 0:
            scales[uintp(matrix)] = scale
        cuda.syncthreads()


def jacobi_team(w, v, turned, tasks, pairs, count, length, vectors, turn, least, *, GROUPS, LANES, NUMBER, TEAM, WIDTH):
    """A turn of a round of `orthogonalise`, for `pairs` pairs of runs of each matrix; turned (matrices, pairs): how
    many rows they have rotated this round.
    """
    shared = shared_array(TEAM, real, SHARED)
    others = shared_array(TEAM, real, SHARED)
    sums = shared_array(TEAM, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        one, other = opponents(turn, int64(task) % pairs, 2 * pairs)
        found = orthogonalise(
            w,
            v,
            int64(task) // pairs,
            count,
            length,
            one,
            other,
            WIDTH,
            turn == 0,
            vectors != 0,
            least,
            shared,
            others,
            sums,
            thread,
            LANES,
            GROUPS,
        )
        found = team_sum(found, shared, thread, TEAM)
        if thread == 0:
            turned[uintp(task)] = int32(found) + (turned[uintp(task)] if turn > 0 else int32(0))


def svd_lengths_team(w, found, tasks, length, *, TEAM):
    """found (tasks) = the lengths of the rows of w (tasks, length)."""
    shared = shared_array(TEAM, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        total = real(0.0)
        for i in range(thread, length, TEAM):
            total += squared(w[uintp(task * length + i)])
        total = team_sum(total, shared, thread, TEAM)
        if thread == 0:
            found[uintp(task)] = sqrt(total)


def rayleigh_team(x, w, found, tasks, n, *, NUMBER, TEAM):
    """found (tasks) = the quotients w^H x w / w^H w of the rows of w (matrices, n, n), which become of length 1: what
    belongs to nearly an eigenvector is its eigenvalue, with an error as the square of the vector's.
    """
    shared = shared_array(TEAM, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        base, row, size, value = task // n * n * n, task * n, real(0.0), real(0.0)
        for i in range(thread, n, TEAM):
            total = NUMBER(0)
            for j in range(n):
                total += x[uintp(base + j * n + i)].conjugate() * w[uintp(row + j)]
            size += squared(w[uintp(row + i)])
            value += (w[uintp(row + i)].conjugate() * total).real
        size, value = team_sum(size, shared, thread, TEAM), team_sum(value, shared, thread, TEAM)
        for i in range(thread, n, TEAM):
            w[uintp(row + i)] = w[uintp(row + i)] * (1.0 / sqrt(size))
        if thread == 0:
            found[uintp(task)] = value / size


def in_order_team(
    w, v, found, scales, turned, values, long, short, info, tasks, pairs, count, length, vectors, ascending, *, TEAM
):
    """values (matrices, count) = those found times scales, in order; long (matrices, length, count) and short
    (matrices, count, count): the rows of w as columns, and those of v conjugated, in the same order. `vectors`: how
    many of the two are wanted. info (matrices): count where they did not converge.
    """
    shared = shared_array(TEAM, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        matrix, k, before = task // count, task % count, real(0.0)
        first, value, scale = matrix * count, found[uintp(task)], scales[uintp(matrix)]
        for j in range(thread, count, TEAM):
            other = found[uintp(first + j)]
            before += 1.0 if (other < value if ascending != 0 else other > value) or (other == value and j < k) else 0.0
        place = int64(team_sum(before, shared, thread, TEAM)) if scale == scale else int64(k)
        for i in range(thread, length if vectors > 0 else 0, TEAM):
            long[uintp(first * length + i * count + place)] = w[uintp(task * length + i)]
        for i in range(thread, count if vectors > 1 else 0, TEAM):
            short[uintp((first + place) * count + i)] = v[uintp(task * count + i)].conjugate()
        if thread == 0:
            values[uintp(first + place)] = value * scale
        if (thread == 0) & (k == 0):
            left = int64(0)
            for pair in range(pairs):
                left += turned[uintp(matrix * pairs + pair)]
            info[uintp(matrix)] = 0 if left == 0 and scale == scale else count
