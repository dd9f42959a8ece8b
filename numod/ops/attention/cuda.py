"""CUDA kernels of attention. Scores stay in registers and shared memory; only the logsumexp of each row is stored.

See `ops.attention`. A thread block owns LINE rows of queries (or keys) and loops over the keys (or queries), STEP at a
time. The layout:
- A thread accumulates 8 rows and 8 columns of a tile of results, with ACROSS threads per tile row and THREADS in all.
  Of the scores it holds 8 rows and COLUMN_RUNS runs of four columns, 32 apart. One step of a product reads 8 + 8
  words for 64 multiply-adds, 16 bytes at a time. Shared memory delivers 512 bytes to a warp in the time of 16
  multiply-adds, so loads and arithmetic are balanced; with half the columns, loads would dominate. A block has few
  threads with many registers, which gives enough instruction-level parallelism.
- A tile in shared memory has one line per step of a product. Run r of line k is stored at r ^ (k / 4 mod 8), so that
  transposed stores have two-way bank conflicts at most, and stores of weights and all loads have none.
- Attention weights overwrite the key tile in shared memory. Three tiles of 16 KiB fit the limit of a block, and four
  blocks share a multiprocessor.
- The many barriers cost little beside the 4096 or more multiply-adds per thread and tile.
The order of all sums is fixed, so every run returns the same bits. The backward pass computes weights and d_scores
twice, once by query rows and once by key columns, because atomic sums in global memory would have no fixed order.

Heads are numbered over the three dimensions before the rows; `second` and `third` are the sizes of the last two.
`steps` are the strides of query, key, value and mask. `allowed` is a boolean mask, `added` a mask of floats.

SLICE is the part of the inner dimension that a tile holds. DEPTHS and PARTS are the numbers of tiles that span the
depth of queries and the width of values. MASKED is the kind of mask, 1 or 2. `top` is the first query of a tile of
scores, `low` its first key. Thread (down, across) has the rows 8 * down to 8 * down + 7 of a tile, and of its columns
4 * across to 4 * across + 3, in each run of 32.
"""

from __future__ import annotations

from math import exp, log

from ...kernel.library.random import random_uniform
from ...kernel.language import cuda, int32, int64, load_four, real, SHARED, shared_array, store_four, uintp, written
from ...kernel.scalar import scalar
from ...kernel.specialize import template


def attention_block(
    query, key, value, allowed, added, out, logsumexp, seed, offset, heads, second, third, length, count, depth, width,
    steps, masked, causal, scale, dropped, *, ACROSS, DEPTHS, DROPPED, LINE, PARTS, STEP, SLICE, THREADS, COLUMN_RUNS,
):  # fmt: skip
    """Compute out (heads, length, width) and logsumexp (heads, length)."""
    q_tile = shared_array(SLICE * LINE, real, SHARED)
    v_tile = shared_array(LINE * LINE, real, SHARED)
    tile = shared_array(LINE * LINE, real, SHARED)
    scores, totals = cuda.local.array(32 * COLUMN_RUNS, real), cuda.local.array(64 * PARTS, real)
    row_sums, rescale = cuda.local.array(8, real), cuda.local.array(8, real)
    thread = int32(cuda.threadIdx.x)
    down, across = int32(thread // ACROSS), int32(thread % ACROSS)
    chunks = (length + LINE - 1) // LINE
    for task in range(int64(cuda.blockIdx.x), heads * chunks, int64(cuda.gridDim.x)):
        # the last rows first: if `causal` they have the most keys
        head, top = task // chunks, (chunks - 1 - task % chunks) * LINE
        i, j, k = head // (second * third), head // third % second, head % third
        query_at = i * steps.query_first + j * steps.query_second + k * steps.query_third + top * steps.query_row
        key_at = i * steps.key_first + j * steps.key_second + k * steps.key_third
        value_at = i * steps.value_first + j * steps.value_second + k * steps.value_third
        mask_at = i * steps.mask_first + j * steps.mask_second + k * steps.mask_third
        running_max, shift = real(-1e400), real(0.0)  # of row `thread`
        for part in written(PARTS):
            for c in range(64):
                totals[64 * part + c] = 0.0
        for c in range(8):
            row_sums[c] = 0.0
        if DEPTHS == 1:
            load_tile_transposed(
                q_tile, LINE, query, query_at, steps.query_row, steps.query_column, length - top, depth, thread
            )
        for low in range(0, min(count, top + LINE) if causal != 0 else count, STEP):
            for c in range(32 * COLUMN_RUNS):
                scores[c] = 0.0
            cuda.syncthreads()
            load_tile(
                v_tile, 0, STEP, value, value_at + low * steps.value_row, steps.value_row, steps.value_column,
                count - low, width, thread,
            )  # fmt: skip
            for part in written(DEPTHS):
                multiply_part(
                    scores, part, DEPTHS == 1, q_tile, query, query_at, steps.query_row, steps.query_column,
                    length - top, tile, key, key_at + low * steps.key_row, steps.key_row, steps.key_column, count - low,
                    depth, thread, down, across,
                )  # fmt: skip
            for first in written(0, 32 * COLUMN_RUNS, SCORES_PER_LOOP):
                mask_scores(
                    scores, first, 0, top, low, length, count, allowed, added, mask_at, steps.mask_row,
                    steps.mask_column, causal, real(scale), down, across,
                )  # fmt: skip
            cuda.syncthreads()
            for r in range(8):
                greatest_score = scores[4 * COLUMN_RUNS * r]
                for c in range(1, 4 * COLUMN_RUNS):
                    greatest_score = max(greatest_score, scores[4 * COLUMN_RUNS * r + c])
                tile[uintp((8 * down + r) * ACROSS + across)] = greatest_score
            cuda.syncthreads()
            if thread < LINE:
                old_max = running_max
                for c in range(ACROSS):
                    running_max = max(running_max, tile[uintp(thread * ACROSS + c)])
                shift = real(0.0) if running_max == -1e400 else running_max
                tile[uintp(LINE * ACROSS + thread)], tile[uintp(LINE * ACROSS + LINE + thread)] = (
                    shift,
                    exp(old_max - shift),
                )
            cuda.syncthreads()
            for r in range(8):
                rescale[r] = tile[uintp(LINE * ACROSS + LINE + 8 * down + r)]
                row_shift, total = tile[uintp(LINE * ACROSS + 8 * down + r)], real(0.0)
                for c in range(4 * COLUMN_RUNS):
                    scores[4 * COLUMN_RUNS * r + c] = exp(scores[4 * COLUMN_RUNS * r + c] - row_shift)
                    total += scores[4 * COLUMN_RUNS * r + c]
                row_sums[r] = row_sums[r] * rescale[r] + total
            if DROPPED:
                cuda.syncthreads()
                draw_dropout_factors(
                    tile, 0, head * length, top, low, count, seed, offset, real(dropped), thread, down, across
                )
                for c in range(32 * COLUMN_RUNS):
                    scores[c] *= tile[uintp(c * THREADS + thread)]
            for part in written(PARTS):
                for c in range(64):
                    totals[64 * part + c] *= rescale[c // 8]
            cuda.syncthreads()
            for run in written(COLUMN_RUNS):
                store_transposed(tile, 32 * LINE * run, scores, COLUMN_RUNS, run, down, across)
            for part in written(PARTS):
                if part > 0:
                    cuda.syncthreads()
                    load_tile(
                        v_tile, 0, STEP, value, value_at + low * steps.value_row + part * LINE * steps.value_column,
                        steps.value_row, steps.value_column, count - low, width - part * LINE, thread,
                    )  # fmt: skip
                cuda.syncthreads()
                multiply_tiles(totals, 64 * part, tile, 0, v_tile, 0, runs_of_four(count - low, STEP), 2, down, across)
        cuda.syncthreads()
        for r in range(8):
            tile[uintp((8 * down + r) * ACROSS + across)] = row_sums[r]
        cuda.syncthreads()
        if thread < LINE:
            total = real(0.0)
            for c in range(ACROSS):
                total += tile[uintp(thread * ACROSS + c)]
            tile[uintp(LINE * ACROSS + thread)] = real(0.0) if total == 0.0 else 1.0 / total
            if top + thread < length:
                logsumexp[uintp(head * length + top + thread)] = real(1e400) if total == 0.0 else shift + log(total)
        cuda.syncthreads()
        for part in written(PARTS):
            for c in range(64):
                totals[64 * part + c] *= tile[uintp(LINE * ACROSS + 8 * down + c // 8)]
        for part in written(PARTS):
            store_tile(
                out, (head * length + top) * width + part * LINE, width, length - top, width - part * LINE, totals,
                64 * part, down, across,
            )  # fmt: skip


def attention_backward_rows(
    d_out, query, key, value, allowed, added, out, logsumexp, d_query, deltas, seed, offset, heads, second, third,
    length, count, depth, width, steps, masked, causal, scale, dropped, *, ACROSS, DEPTHS, DROPPED, LINE, PARTS, STEP,
    SLICE, COLUMN_RUNS,
):  # fmt: skip
    """Compute d_query (heads, length, depth) and deltas (heads, length) = rowsum(d_out * out).

    With weights p = exp(score - logsumexp): d_scores = p (d_out value^T - delta) scale, d_query = d_scores key.
    `attention_backward_columns` reads the deltas.
    """
    q_tile = shared_array(SLICE * LINE, real, SHARED)
    d_out_tile = shared_array(SLICE * LINE, real, SHARED)
    tile = shared_array(LINE * LINE, real, SHARED)
    scores, d_scores, totals = (
        cuda.local.array(32 * COLUMN_RUNS, real),
        cuda.local.array(32 * COLUMN_RUNS, real),
        cuda.local.array(64 * DEPTHS, real),
    )
    thread = int32(cuda.threadIdx.x)
    down, across = int32(thread // ACROSS), int32(thread % ACROSS)
    chunks = (length + LINE - 1) // LINE
    for task in range(int64(cuda.blockIdx.x), heads * chunks, int64(cuda.gridDim.x)):
        head, top = task // chunks, (chunks - 1 - task % chunks) * LINE
        i, j, k = head // (second * third), head // third % second, head % third
        query_at = i * steps.query_first + j * steps.query_second + k * steps.query_third + top * steps.query_row
        key_at = i * steps.key_first + j * steps.key_second + k * steps.key_third
        value_at = i * steps.value_first + j * steps.value_second + k * steps.value_third
        mask_at = i * steps.mask_first + j * steps.mask_second + k * steps.mask_third
        d_out_at = (head * length + top) * width
        cuda.syncthreads()
        for r in range(8):
            delta, row = real(0.0), 8 * down + r
            if top + row < length:
                for c in range(across, width, ACROSS):
                    delta += d_out[uintp(d_out_at + row * width + c)] * out[uintp(d_out_at + row * width + c)]
            tile[uintp(row * ACROSS + across)] = delta
        cuda.syncthreads()
        if thread < LINE and top + thread < length:
            delta = real(0.0)
            for c in range(ACROSS):
                delta += tile[uintp(thread * ACROSS + c)]
            deltas[uintp(head * length + top + thread)] = delta
        for part in written(DEPTHS):
            for c in range(64):
                totals[64 * part + c] = 0.0
        if DEPTHS == 1:
            load_tile_transposed(
                q_tile, LINE, query, query_at, steps.query_row, steps.query_column, length - top, depth, thread
            )
        if PARTS == 1:
            load_tile_transposed(d_out_tile, LINE, d_out, d_out_at, width, 1, length - top, width, thread)
        for low in range(0, min(count, top + LINE) if causal != 0 else count, STEP):
            for c in range(32 * COLUMN_RUNS):
                scores[c], d_scores[c] = 0.0, 0.0
            for part in written(DEPTHS):
                multiply_part(
                    scores, part, DEPTHS == 1, q_tile, query, query_at, steps.query_row, steps.query_column,
                    length - top, tile, key, key_at + low * steps.key_row, steps.key_row, steps.key_column, count - low,
                    depth, thread, down, across,
                )  # fmt: skip
            for part in written(PARTS):
                multiply_part(
                    d_scores, part, PARTS == 1, d_out_tile, d_out, d_out_at, width, 1, length - top, tile, value,
                    value_at + low * steps.value_row, steps.value_row, steps.value_column, count - low, width, thread,
                    down, across,
                )  # fmt: skip
            if DROPPED:
                cuda.syncthreads()
                draw_dropout_factors(
                    tile, 0, head * length, top, low, count, seed, offset, real(dropped), thread, down, across
                )
            for first in written(0, 32 * COLUMN_RUNS, SCORES_PER_LOOP):
                mask_scores(
                    scores, first, 0, top, low, length, count, allowed, added, mask_at, steps.mask_row,
                    steps.mask_column, causal, real(scale), down, across,
                )  # fmt: skip
                softmax_backward(
                    scores, d_scores, tile, first, 0, head * length, top, length, real(scale), logsumexp, deltas,
                    thread, down, across,
                )  # fmt: skip
            for run in written(COLUMN_RUNS):  # d_scores of 32 keys, and these keys, share a tile
                for part in written(DEPTHS):
                    accumulate(
                        totals, part, tile, d_scores, run, key, key_at + (low + 32 * run) * steps.key_row,
                        steps.key_row, steps.key_column, count - low - 32 * run, depth, thread, down, across,
                    )  # fmt: skip
        for part in written(DEPTHS):
            store_tile(
                d_query, (head * length + top) * depth + part * LINE, depth, length - top, depth - part * LINE, totals,
                64 * part, down, across,
            )  # fmt: skip


def attention_backward_columns(
    d_out, query, key, value, allowed, added, deltas, logsumexp, d_key, d_value, seed, offset, heads, second, third,
    length, count, depth, width, steps, masked, causal, scale, dropped, *, ACROSS, DEPTHS, DROPPED, LINE, PARTS, STEP,
    SLICE, COLUMN_RUNS,
):  # fmt: skip
    """Compute d_key (heads, count, depth) = d_scores^T query and d_value (heads, count, width) = p^T d_out.

    p and d_scores are those of `attention_backward_rows`. For a dropped weight, p is 0 in the product and d_score is
    -weight * delta * scale.
    """
    k_tile = shared_array(SLICE * LINE, real, SHARED)
    v_tile = shared_array(SLICE * LINE, real, SHARED)
    tile = shared_array(LINE * LINE, real, SHARED)
    scores, d_scores = cuda.local.array(32 * COLUMN_RUNS, real), cuda.local.array(32 * COLUMN_RUNS, real)
    key_totals, value_totals = cuda.local.array(64 * DEPTHS, real), cuda.local.array(64 * PARTS, real)
    thread = int32(cuda.threadIdx.x)
    down, across = int32(thread // ACROSS), int32(thread % ACROSS)
    chunks = (count + LINE - 1) // LINE
    for task in range(int64(cuda.blockIdx.x), heads * chunks, int64(cuda.gridDim.x)):
        head, low = task // chunks, task % chunks * LINE  # the first keys first: if `causal` they have the most queries
        i, j, k = head // (second * third), head // third % second, head % third
        query_at = i * steps.query_first + j * steps.query_second + k * steps.query_third
        key_at = i * steps.key_first + j * steps.key_second + k * steps.key_third + low * steps.key_row
        value_at = i * steps.value_first + j * steps.value_second + k * steps.value_third + low * steps.value_row
        mask_at = i * steps.mask_first + j * steps.mask_second + k * steps.mask_third
        for part in written(DEPTHS):
            for c in range(64):
                key_totals[64 * part + c] = 0.0
        for part in written(PARTS):
            for c in range(64):
                value_totals[64 * part + c] = 0.0
        cuda.syncthreads()
        if DEPTHS == 1:
            load_tile_transposed(k_tile, LINE, key, key_at, steps.key_row, steps.key_column, count - low, depth, thread)
        if PARTS == 1:
            load_tile_transposed(
                v_tile, LINE, value, value_at, steps.value_row, steps.value_column, count - low, width, thread
            )
        for top in range(low if causal != 0 else 0, length, STEP):
            d_out_at, rows_at = (head * length + top) * width, query_at + top * steps.query_row
            for c in range(32 * COLUMN_RUNS):
                scores[c], d_scores[c] = 0.0, 0.0
            for part in written(DEPTHS):
                multiply_part(
                    scores, part, DEPTHS == 1, k_tile, key, key_at, steps.key_row, steps.key_column, count - low, tile,
                    query, rows_at, steps.query_row, steps.query_column, length - top, depth, thread, down, across,
                )  # fmt: skip
            for part in written(PARTS):
                multiply_part(
                    d_scores, part, PARTS == 1, v_tile, value, value_at, steps.value_row, steps.value_column,
                    count - low, tile, d_out, d_out_at, width, 1, length - top, width, thread, down, across,
                )  # fmt: skip
            if DROPPED:
                cuda.syncthreads()
                draw_dropout_factors(
                    tile, 1, head * length, top, low, count, seed, offset, real(dropped), thread, down, across
                )
            for first in written(0, 32 * COLUMN_RUNS, SCORES_PER_LOOP):
                mask_scores(
                    scores, first, 1, top, low, length, count, allowed, added, mask_at, steps.mask_row,
                    steps.mask_column, causal, real(scale), down, across,
                )  # fmt: skip
                softmax_backward(
                    scores, d_scores, tile, first, 1, head * length, top, length, real(scale), logsumexp, deltas,
                    thread, down, across,
                )  # fmt: skip
            for run in written(COLUMN_RUNS):  # of 32 queries
                for part in written(PARTS):
                    accumulate(
                        value_totals, part, tile, scores, run, d_out, d_out_at + 32 * run * width, width, 1,
                        length - top - 32 * run, width, thread, down, across,
                    )  # fmt: skip
                for part in written(DEPTHS):
                    accumulate(
                        key_totals, part, tile, d_scores, run, query, rows_at + 32 * run * steps.query_row,
                        steps.query_row, steps.query_column, length - top - 32 * run, depth, thread, down, across,
                    )  # fmt: skip
        for part in written(DEPTHS):
            store_tile(
                d_key, (head * count + low) * depth + part * LINE, depth, count - low, depth - part * LINE, key_totals,
                64 * part, down, across,
            )  # fmt: skip
        for part in written(PARTS):
            store_tile(
                d_value, (head * count + low) * width + part * LINE, width, count - low, width - part * LINE,
                value_totals, 64 * part, down, across,
            )  # fmt: skip


@template
def mask_scores(
    scores, first, transposed, top, low, length, count, allowed, added, at, row_step, column_step, causal, scale, down,
    across, *, LINE, MASKED, COLUMN_RUNS,
):  # fmt: skip
    """Scale and mask SCORES_PER_LOOP scores from `first` on.

    Scores become -inf where the mask forbids them, outside the matrix, and if `causal` where the key comes after the
    query. If `transposed`, a thread's rows are keys.
    """
    for r in range(first // (4 * COLUMN_RUNS), (first + SCORES_PER_LOOP) // (4 * COLUMN_RUNS)):
        line = 8 * down + r
        if transposed:  # the columns are queries
            begin, end, last = (
                low + line - top if causal != 0 else 0,
                length - top if low + line < count else 0,
                length - top - 1,
            )
            index, step = at + top * row_step + min(low + line, count - 1) * column_step, row_step
        else:
            begin, end, last = 0, min(count, top + line + 1 if causal != 0 else count) - low, count - low - 1
            index, step = at + min(top + line, length - 1) * row_step + low * column_step, column_step
        begin, end = int32(min(max(begin, 0), LINE)), int32(min(max(end, 0), LINE))
        for c in range(4 * COLUMN_RUNS):
            element, position = 4 * COLUMN_RUNS * r + c, int32(4 * across + c % 4 + c // 4 * 32)
            score = scores[element] * scale
            if MASKED == 1:
                score = score if allowed[uintp(index + min(position, last) * step)] != 0 else real(-1e400)
            elif MASKED == 2:
                score += added[uintp(index + min(position, last) * step)]
            scores[element] = score if (begin <= position) & (position < end) else real(-1e400)


@template
def draw_dropout_factors(
    tile, transposed, head_at, top, low, count, seed, offset, p, thread, down, across, *, THREADS, COLUMN_RUNS
):
    """tile[c * THREADS + thread] = the factor of this thread's weight c: 0 with probability p, else 1 / (1 - p).

    Not unrolled, because the code of a random number is long.
    """
    for c in range(32 * COLUMN_RUNS):
        line, position = 8 * down + c // (4 * COLUMN_RUNS), 4 * across + c % 4 + c % (4 * COLUMN_RUNS) // 4 * 32
        row, column = (top + position, low + line) if transposed else (top + line, low + position)
        tile[uintp(c * THREADS + thread)] = (
            real(0.0) if random_uniform(seed, offset, (head_at + row) * count + column) < p else 1.0 / (1.0 - p)
        )


@template
def softmax_backward(
    scores, d_scores, factors, first, transposed, head_at, top, length, scale, logsumexp, deltas, thread, down, across,
    *, DROPPED, THREADS, COLUMN_RUNS,
):  # fmt: skip
    """Replace SCORES_PER_LOOP masked scores by attention weights, and gradients of weights by those of scores."""
    for r in range(first // (4 * COLUMN_RUNS), (first + SCORES_PER_LOOP) // (4 * COLUMN_RUNS)):
        for c in range(4 * COLUMN_RUNS):
            element, row = (
                4 * COLUMN_RUNS * r + c,
                top + (4 * across + c % 4 + c // 4 * 32 if transposed else 8 * down + r),
            )
            index = uintp(head_at + min(row, length - 1))
            weight = exp(scores[element] - logsumexp[index])
            factor = factors[uintp(element * THREADS + thread)] if DROPPED else real(1.0)
            d_scores[element] = weight * (d_scores[element] * factor - deltas[index]) * scale
            scores[element] = weight * factor


@template
def multiply_tiles(totals, at, left, left_at, right, right_at, runs, wide, down, across, *, LINE):
    """totals[at : at + 32 * wide] += products of this thread's 8 rows and `wide` runs of four columns, 32 apart, over 4
    * runs lines of the tiles that begin at left_at (LINE words each) and right_at (32 * wide).
    """
    a, b = cuda.local.array(8, real), cuda.local.array(8, real)
    for run in range(runs):
        swizzle = int32(run & 7)
        first = uintp(left_at + 4 * LINE * run + 4 * int32(2 * down ^ swizzle))
        second = uintp(left_at + 4 * LINE * run + 4 * int32((2 * down + 1) ^ swizzle))
        other = uintp(right_at + 128 * wide * run + 4 * int32(across ^ swizzle))
        for k in range(4):
            for i in range(4):
                a[i], a[i + 4] = left[first + uintp(k * LINE + i)], left[second + uintp(k * LINE + i)]
                b[i] = right[other + uintp(k * 32 * wide + i)]
                if wide == 2:
                    b[i + 4] = right[other + uintp(k * 64 + 32 + i)]
            for i in range(8):
                for j in range(4):
                    totals[at + 4 * wide * i + j] += a[i] * b[j]
                    if wide == 2:
                        totals[at + 8 * i + 4 + j] += a[i] * b[4 + j]


@template
def multiply_part(
    scores, part, is_loaded, left_tile, left, left_at, left_row, left_column, rows, tile, right, right_at, right_row,
    right_column, lines, depth, thread, down, across, *, LINE, STEP, SLICE, COLUMN_RUNS,
):  # fmt: skip
    """scores += left (`rows` rows) @ right (`lines` lines) transposed, over one part of the inner dimension.

    `is_loaded`: left is in its tile already.
    """
    cuda.syncthreads()
    if not is_loaded:
        load_tile_transposed(
            left_tile, LINE, left, left_at + part * LINE * left_column, left_row, left_column, rows,
            depth - part * LINE, thread,
        )  # fmt: skip
    load_tile_transposed(
        tile, STEP, right, right_at + part * LINE * right_column, right_row, right_column, lines, depth - part * LINE,
        thread,
    )  # fmt: skip
    cuda.syncthreads()
    multiply_tiles(scores, 0, left_tile, 0, tile, 0, SLICE // 4, COLUMN_RUNS, down, across)


@template
def accumulate(
    totals, part, tile, values, run, x, at, line_step, step, lines, width, thread, down, across, *, LINE, COLUMN_RUNS
):
    """totals of a part += 32 columns of the matrix in `values`, transposed, @ 32 rows of x.

    Both operands share one tile.
    """
    cuda.syncthreads()
    if part == 0:
        store_transposed(tile, 0, values, COLUMN_RUNS, run, down, across)
    load_tile(tile, 32 * LINE, 32, x, at + part * LINE * step, line_step, step, lines, width - part * LINE, thread)
    cuda.syncthreads()
    multiply_tiles(totals, 64 * part, tile, 0, tile, 32 * LINE, runs_of_four(lines, 32), 2, down, across)


@template
def load_tile_transposed(tile, all_lines, x, at, line_step, step, lines, depth, thread, *, SLICE, THREADS):
    """tile[k, line] = x[at + line * line_step + k * step], for `all_lines` lines; zero beyond `lines` and
    `depth`.

    Neighbouring threads load neighbouring k, with four loads in flight.
    """
    values, all_items = cuda.local.array(16, real), all_lines * (SLICE // 4)
    for first in range(thread, all_items, 4 * THREADS):
        for j in range(4):
            item = int32(first + j * THREADS)
            line, k = int32(item // (SLICE // 4)), int32(item % (SLICE // 4) * 4)
            read_four(
                values, 4 * j, x, at + line * line_step + k * step, step,
                min(depth - k, 4) if (line < lines) & (item < all_items) else 0,
            )  # fmt: skip
        for j in range(4):
            item = int32(first + j * THREADS)
            if item < all_items:
                line, k = int32(item // (SLICE // 4)), int32(item % (SLICE // 4) * 4)
                index = k * all_lines + 4 * int32(line // 4 ^ (k // 4 & 7)) + line % 4
                for i in range(4):
                    tile[uintp(index + i * all_lines)] = values[4 * j + i]


@template
def load_tile(tile, tile_at, all_lines, x, at, line_step, step, lines, width, thread, *, LINE, THREADS):
    """tile[line, c] = x[at + line * line_step + c * step] for `all_lines` lines of LINE elements; zero beyond
    `lines` and `width`.
    """
    values = cuda.local.array(16, real)
    for first in range(thread, all_lines * (LINE // 4), 4 * THREADS):
        for j in range(4):
            item = int32(first + j * THREADS)
            line, c = int32(item // (LINE // 4)), int32(item % (LINE // 4) * 4)
            read_four(
                values, 4 * j, x, at + line * line_step + c * step, step, min(width - c, 4) if line < lines else 0
            )
        for j in range(4):
            item = int32(first + j * THREADS)
            line, c = int32(item // (LINE // 4)), int32(item % (LINE // 4) * 4)
            index = uintp(tile_at + line * LINE + 4 * int32(c // 4 ^ (line // 4 & 7)))
            store_four(tile, index, values[4 * j], values[4 * j + 1], values[4 * j + 2], values[4 * j + 3])


@template
def store_transposed(tile, tile_at, values, wide, run, down, across, *, LINE):
    """Store one run of a thread's columns transposed: tile[4 * across + j, 8 * down + i] = values[4 * wide * i + 4 *
    run + j].
    """
    for j in range(4):
        line, first, step = tile_at + (4 * across + j) * LINE, 4 * run + j, 4 * wide
        store_four(
            tile, uintp(line + 4 * int32(2 * down ^ across)), values[first], values[first + step],
            values[first + 2 * step], values[first + 3 * step],
        )  # fmt: skip
        first += 4 * step
        store_four(
            tile, uintp(line + 4 * int32((2 * down + 1) ^ across)), values[first], values[first + step],
            values[first + 2 * step], values[first + 3 * step],
        )  # fmt: skip


@template
def store_tile(out, at, row_step, rows, columns, totals, first, down, across):
    """out[at + row * row_step + column] = this thread's totals, where there are such rows and columns."""
    for i in range(8):
        for run in range(2):
            column, k = 4 * across + 32 * run, first + 8 * i + 4 * run
            index = uintp(at + (8 * down + i) * row_step + column)
            if (8 * down + i < rows) & (column + 4 <= columns):
                store_four(out, index, totals[k], totals[k + 1], totals[k + 2], totals[k + 3])
            elif 8 * down + i < rows:
                for j in range(4):
                    if column + j < columns:
                        out[index + uintp(j)] = totals[k + j]


@template
def read_four(values, first, x, at, step, n):
    """values[first : first + 4] = four elements of x, `step` apart; zero beyond n of them."""
    if n == 4 and step == 1:
        values[first], values[first + 1], values[first + 2], values[first + 3] = load_four(x, uintp(at))
    else:
        for i in range(4):
            values[first + i] = x[uintp(at + i * step)] if i < n else real(0.0)


@scalar
def runs_of_four(remaining, most):
    """The number of runs of four lines that cover `remaining` lines, `most` lines at most."""
    return int32(min(max(remaining, 0), most) + 3) // 4


# Scores of a thread per loop. A longer loop is not unrolled, and its array would leave the registers.
SCORES_PER_LOOP = 16
# runs of four score columns per thread (COLUMN_RUNS), as registers allow
KERNEL_COLUMN_RUNS = {attention_block: 2, attention_backward_rows: 1, attention_backward_columns: 1}
