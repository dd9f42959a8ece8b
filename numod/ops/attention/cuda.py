"""Attention's kernels for blocks of GPU threads: scores are never in the device's memory, which has only the logarithm
of each row's sum. See `ops.attention`.

A block has LINE rows of queries (or of keys), and goes through the keys (or queries) SEEN at a time. Why it is laid out
so:
- A thread owns 8 rows and 8 columns of a tile of results, ACROSS threads side by side, TEAM in all; of scores 8 rows
  and WIDE runs of four columns, 32 apart. A step of a product reads 8 and 8 words for 64 multiply-adds, 16 bytes at a
  time: shared memory gives a warp 512 bytes in the time of 16 multiply-adds, so that both are busy; with half the
  columns, reading takes longer than multiplying. Few threads with many registers: there is enough to do in each.
- A tile in shared memory has a line for each step of a product. Run r of line k lies at r ^ (k / 4 mod 8): what is read
  along the lines from memory and written across them here meets a bank twice at most, chances, which threads write four
  lines each, and all reads, once.
- Chances take the place of keys in shared memory, so that three tiles of 16 KiB are enough, as much as a block may
  have; four blocks share a multiprocessor.
- Barriers are many, and cost next to nothing beside a tile's multiply-adds, 4096 and more of a thread.
Products and sums run in an order of their own, so every run gives the same bits. Gradients are computed twice as far as
chances and slopes go: once by rows (of queries), once by columns (keys), as sums in memory would have no order.

SLICE is the part of the inner dimension that a tile holds, DEPTHS and PARTS how many of them queries and values have.
MASKED is the kind of mask, 1 or 2.
"""

from __future__ import annotations

from math import exp, log

from ...kernel.library.random import random_uniform
from ...kernel.language import cuda, int32, int64, load_four, real, SHARED, shared_array, store_four, uintp, written
from ...kernel.scalar import scalar
from ...kernel.specialize import template


def attention_team(
    query,
    key,
    value,
    allowed,
    added,
    out,
    logsumexp,
    seed,
    offset,
    heads,
    second,
    third,
    length,
    count,
    depth,
    width,
    steps,
    masked,
    causal,
    scale,
    dropped,
    *,
    ACROSS,
    DEPTHS,
    DROPPED,
    LINE,
    PARTS,
    SEEN,
    SLICE,
    TEAM,
    WIDE,
):
    """out (heads, length, width) and logsumexp (heads, length)."""
    near_query = shared_array(SLICE * LINE, real, SHARED)
    near_value = shared_array(LINE * LINE, real, SHARED)
    near = shared_array(LINE * LINE, real, SHARED)
    scores, totals = cuda.local.array(32 * WIDE, real), cuda.local.array(64 * PARTS, real)
    sums, again = cuda.local.array(8, real), cuda.local.array(8, real)
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
        high, shift = real(-1e400), real(0.0)  # of row `thread`
        for part in written(PARTS):
            for c in range(64):
                totals[64 * part + c] = 0.0
        for c in range(8):
            sums[c] = 0.0
        if DEPTHS == 1:
            load_tile_transposed(
                near_query, LINE, query, query_at, steps.query_row, steps.query_column, length - top, depth, thread
            )
        for low in range(0, min(count, top + LINE) if causal != 0 else count, SEEN):
            for c in range(32 * WIDE):
                scores[c] = 0.0
            cuda.syncthreads()
            load_tile(
                near_value,
                0,
                SEEN,
                value,
                value_at + low * steps.value_row,
                steps.value_row,
                steps.value_column,
                count - low,
                width,
                thread,
            )
            for part in written(DEPTHS):
                multiply_part(
                    scores,
                    part,
                    DEPTHS == 1,
                    near_query,
                    query,
                    query_at,
                    steps.query_row,
                    steps.query_column,
                    length - top,
                    near,
                    key,
                    key_at + low * steps.key_row,
                    steps.key_row,
                    steps.key_column,
                    count - low,
                    depth,
                    thread,
                    down,
                    across,
                )
            for first in written(0, 32 * WIDE, PIECE):
                weigh_scores(
                    scores,
                    first,
                    0,
                    top,
                    low,
                    length,
                    count,
                    allowed,
                    added,
                    mask_at,
                    steps.mask_row,
                    steps.mask_column,
                    causal,
                    real(scale),
                    down,
                    across,
                )
            cuda.syncthreads()
            for r in range(8):
                greatest = scores[4 * WIDE * r]
                for c in range(1, 4 * WIDE):
                    greatest = max(greatest, scores[4 * WIDE * r + c])
                near[uintp((8 * down + r) * ACROSS + across)] = greatest
            cuda.syncthreads()
            if thread < LINE:
                before = high
                for c in range(ACROSS):
                    high = max(high, near[uintp(thread * ACROSS + c)])
                shift = real(0.0) if high == -1e400 else high
                near[uintp(LINE * ACROSS + thread)], near[uintp(LINE * ACROSS + LINE + thread)] = (
                    shift,
                    exp(before - shift),
                )
            cuda.syncthreads()
            for r in range(8):
                again[r] = near[uintp(LINE * ACROSS + LINE + 8 * down + r)]
                moved, total = near[uintp(LINE * ACROSS + 8 * down + r)], real(0.0)
                for c in range(4 * WIDE):
                    scores[4 * WIDE * r + c] = exp(scores[4 * WIDE * r + c] - moved)
                    total += scores[4 * WIDE * r + c]
                sums[r] = sums[r] * again[r] + total
            if DROPPED:
                cuda.syncthreads()
                draw_shares(near, 0, head * length, top, low, count, seed, offset, real(dropped), thread, down, across)
                for c in range(32 * WIDE):
                    scores[c] *= near[uintp(c * TEAM + thread)]
            for part in written(PARTS):
                for c in range(64):
                    totals[64 * part + c] *= again[c // 8]
            cuda.syncthreads()
            for run in written(WIDE):
                leave(near, 32 * LINE * run, scores, WIDE, run, down, across)
            for part in written(PARTS):
                if part > 0:
                    cuda.syncthreads()
                    load_tile(
                        near_value,
                        0,
                        SEEN,
                        value,
                        value_at + low * steps.value_row + part * LINE * steps.value_column,
                        steps.value_row,
                        steps.value_column,
                        count - low,
                        width - part * LINE,
                        thread,
                    )
                cuda.syncthreads()
                multiply_near(totals, 64 * part, near, 0, near_value, 0, fours(count - low, SEEN), 2, down, across)
        cuda.syncthreads()
        for r in range(8):
            near[uintp((8 * down + r) * ACROSS + across)] = sums[r]
        cuda.syncthreads()
        if thread < LINE:
            total = real(0.0)
            for c in range(ACROSS):
                total += near[uintp(thread * ACROSS + c)]
            near[uintp(LINE * ACROSS + thread)] = real(0.0) if total == 0.0 else 1.0 / total
            if top + thread < length:
                logsumexp[uintp(head * length + top + thread)] = real(1e400) if total == 0.0 else shift + log(total)
        cuda.syncthreads()
        for part in written(PARTS):
            for c in range(64):
                totals[64 * part + c] *= near[uintp(LINE * ACROSS + 8 * down + c // 8)]
        for part in written(PARTS):
            store_tile(
                out,
                (head * length + top) * width + part * LINE,
                width,
                length - top,
                width - part * LINE,
                totals,
                64 * part,
                down,
                across,
            )


def attention_rows_team(
    given, query, key, value, allowed, added, out, logsumexp, d_query, levels, seed, offset, heads, second, third,
    length, count, depth, width, steps, masked, causal, scale, dropped, *, ACROSS, DEPTHS, DROPPED, LINE, PARTS, SEEN,
    SLICE, WIDE,
):  # fmt: skip
    """d_query (heads, length, depth), and levels (heads, length): the sums of given * out, for
    `attention_columns_team`.

    With chances p = exp(score - logsumexp): slope = p (given value^T - level) scale, d_query = slope key.
    """
    near_query = shared_array(SLICE * LINE, real, SHARED)
    near_given = shared_array(SLICE * LINE, real, SHARED)
    near = shared_array(LINE * LINE, real, SHARED)
    scores, slopes, totals = (
        cuda.local.array(32 * WIDE, real),
        cuda.local.array(32 * WIDE, real),
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
        given_at = (head * length + top) * width
        cuda.syncthreads()
        for r in range(8):
            level, row = real(0.0), 8 * down + r
            if top + row < length:
                for c in range(across, width, ACROSS):
                    level += given[uintp(given_at + row * width + c)] * out[uintp(given_at + row * width + c)]
            near[uintp(row * ACROSS + across)] = level
        cuda.syncthreads()
        if thread < LINE and top + thread < length:
            level = real(0.0)
            for c in range(ACROSS):
                level += near[uintp(thread * ACROSS + c)]
            levels[uintp(head * length + top + thread)] = level
        for part in written(DEPTHS):
            for c in range(64):
                totals[64 * part + c] = 0.0
        if DEPTHS == 1:
            load_tile_transposed(
                near_query, LINE, query, query_at, steps.query_row, steps.query_column, length - top, depth, thread
            )
        if PARTS == 1:
            load_tile_transposed(near_given, LINE, given, given_at, width, 1, length - top, width, thread)
        for low in range(0, min(count, top + LINE) if causal != 0 else count, SEEN):
            for c in range(32 * WIDE):
                scores[c], slopes[c] = 0.0, 0.0
            for part in written(DEPTHS):
                multiply_part(
                    scores,
                    part,
                    DEPTHS == 1,
                    near_query,
                    query,
                    query_at,
                    steps.query_row,
                    steps.query_column,
                    length - top,
                    near,
                    key,
                    key_at + low * steps.key_row,
                    steps.key_row,
                    steps.key_column,
                    count - low,
                    depth,
                    thread,
                    down,
                    across,
                )
            for part in written(PARTS):
                multiply_part(
                    slopes,
                    part,
                    PARTS == 1,
                    near_given,
                    given,
                    given_at,
                    width,
                    1,
                    length - top,
                    near,
                    value,
                    value_at + low * steps.value_row,
                    steps.value_row,
                    steps.value_column,
                    count - low,
                    width,
                    thread,
                    down,
                    across,
                )
            if DROPPED:
                cuda.syncthreads()
                draw_shares(near, 0, head * length, top, low, count, seed, offset, real(dropped), thread, down, across)
            for first in written(0, 32 * WIDE, PIECE):
                weigh_scores(
                    scores,
                    first,
                    0,
                    top,
                    low,
                    length,
                    count,
                    allowed,
                    added,
                    mask_at,
                    steps.mask_row,
                    steps.mask_column,
                    causal,
                    real(scale),
                    down,
                    across,
                )
                weigh_slopes(
                    scores,
                    slopes,
                    near,
                    first,
                    0,
                    head * length,
                    top,
                    length,
                    real(scale),
                    logsumexp,
                    levels,
                    thread,
                    down,
                    across,
                )
            for run in written(WIDE):  # slopes of 32 keys, and these keys, take a tile's place
                for part in written(DEPTHS):
                    pass_on(
                        totals,
                        part,
                        near,
                        slopes,
                        run,
                        key,
                        key_at + (low + 32 * run) * steps.key_row,
                        steps.key_row,
                        steps.key_column,
                        count - low - 32 * run,
                        depth,
                        thread,
                        down,
                        across,
                    )
        for part in written(DEPTHS):
            store_tile(
                d_query,
                (head * length + top) * depth + part * LINE,
                depth,
                length - top,
                depth - part * LINE,
                totals,
                64 * part,
                down,
                across,
            )


def attention_columns_team(
    given, query, key, value, allowed, added, levels, logsumexp, d_key, d_value, seed, offset, heads, second, third,
    length, count, depth, width, steps, masked, causal, scale, dropped, *, ACROSS, DEPTHS, DROPPED, LINE, PARTS, SEEN,
    SLICE, WIDE,
):  # fmt: skip
    """d_key (heads, count, depth) = slope^T query and d_value (heads, count, width) = p^T given, of
    `attention_rows_team`'s chances and slopes. A dropped chance takes no part in the products, and its slope has the
    level alone.
    """
    near_key = shared_array(SLICE * LINE, real, SHARED)
    near_value = shared_array(SLICE * LINE, real, SHARED)
    near = shared_array(LINE * LINE, real, SHARED)
    scores, slopes = cuda.local.array(32 * WIDE, real), cuda.local.array(32 * WIDE, real)
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
            load_tile_transposed(
                near_key, LINE, key, key_at, steps.key_row, steps.key_column, count - low, depth, thread
            )
        if PARTS == 1:
            load_tile_transposed(
                near_value, LINE, value, value_at, steps.value_row, steps.value_column, count - low, width, thread
            )
        for top in range(low if causal != 0 else 0, length, SEEN):
            given_at, rows_at = (head * length + top) * width, query_at + top * steps.query_row
            for c in range(32 * WIDE):
                scores[c], slopes[c] = 0.0, 0.0
            for part in written(DEPTHS):
                multiply_part(
                    scores,
                    part,
                    DEPTHS == 1,
                    near_key,
                    key,
                    key_at,
                    steps.key_row,
                    steps.key_column,
                    count - low,
                    near,
                    query,
                    rows_at,
                    steps.query_row,
                    steps.query_column,
                    length - top,
                    depth,
                    thread,
                    down,
                    across,
                )
            for part in written(PARTS):
                multiply_part(
                    slopes,
                    part,
                    PARTS == 1,
                    near_value,
                    value,
                    value_at,
                    steps.value_row,
                    steps.value_column,
                    count - low,
                    near,
                    given,
                    given_at,
                    width,
                    1,
                    length - top,
                    width,
                    thread,
                    down,
                    across,
                )
            if DROPPED:
                cuda.syncthreads()
                draw_shares(near, 1, head * length, top, low, count, seed, offset, real(dropped), thread, down, across)
            for first in written(0, 32 * WIDE, PIECE):
                weigh_scores(
                    scores,
                    first,
                    1,
                    top,
                    low,
                    length,
                    count,
                    allowed,
                    added,
                    mask_at,
                    steps.mask_row,
                    steps.mask_column,
                    causal,
                    real(scale),
                    down,
                    across,
                )
                weigh_slopes(
                    scores,
                    slopes,
                    near,
                    first,
                    1,
                    head * length,
                    top,
                    length,
                    real(scale),
                    logsumexp,
                    levels,
                    thread,
                    down,
                    across,
                )
            for run in written(WIDE):  # of 32 queries
                for part in written(PARTS):
                    pass_on(
                        value_totals,
                        part,
                        near,
                        scores,
                        run,
                        given,
                        given_at + 32 * run * width,
                        width,
                        1,
                        length - top - 32 * run,
                        width,
                        thread,
                        down,
                        across,
                    )
                for part in written(DEPTHS):
                    pass_on(
                        key_totals,
                        part,
                        near,
                        slopes,
                        run,
                        query,
                        rows_at + 32 * run * steps.query_row,
                        steps.query_row,
                        steps.query_column,
                        length - top - 32 * run,
                        depth,
                        thread,
                        down,
                        across,
                    )
        for part in written(DEPTHS):
            store_tile(
                d_key,
                (head * count + low) * depth + part * LINE,
                depth,
                count - low,
                depth - part * LINE,
                key_totals,
                64 * part,
                down,
                across,
            )
        for part in written(PARTS):
            store_tile(
                d_value,
                (head * count + low) * width + part * LINE,
                width,
                count - low,
                width - part * LINE,
                value_totals,
                64 * part,
                down,
                across,
            )


@template
def weigh_scores(
    scores,
    first,
    turned,
    top,
    low,
    length,
    count,
    allowed,
    added,
    at,
    row_step,
    column_step,
    causal,
    scale,
    down,
    across,
    *,
    LINE,
    MASKED,
    WIDE,
):
    """PIECE scores from `first` on, scaled and masked (-inf where not allowed, or with what is added); -inf where there
    is no such query or key, or if `causal` the key comes later. If `turned` a thread's rows are keys.
    """
    for r in range(first // (4 * WIDE), (first + PIECE) // (4 * WIDE)):
        line = 8 * down + r
        if turned:  # queries beside each other from `begin` on
            begin, end, last = (
                low + line - top if causal != 0 else 0,
                length - top if low + line < count else 0,
                length - top - 1,
            )
            place, step = at + top * row_step + min(low + line, count - 1) * column_step, row_step
        else:
            begin, end, last = 0, min(count, top + line + 1 if causal != 0 else count) - low, count - low - 1
            place, step = at + min(top + line, length - 1) * row_step + low * column_step, column_step
        begin, end = int32(min(max(begin, 0), LINE)), int32(min(max(end, 0), LINE))
        for c in range(4 * WIDE):
            each, beside = 4 * WIDE * r + c, int32(4 * across + c % 4 + c // 4 * 32)
            score = scores[each] * scale
            if MASKED == 1:
                score = score if allowed[uintp(place + min(beside, last) * step)] != 0 else real(-1e400)
            elif MASKED == 2:
                score += added[uintp(place + min(beside, last) * step)]
            scores[each] = score if (begin <= beside) & (beside < end) else real(-1e400)


@template
def draw_shares(near, turned, head_at, top, low, count, seed, offset, p, thread, down, across, *, TEAM, WIDE):
    """near[c * TEAM + thread] = what this thread's chance c is multiplied by: 0 with probability p, else 1 / (1 - p).

    Not unrolled: random numbers are long.
    """
    for c in range(32 * WIDE):
        line, beside = 8 * down + c // (4 * WIDE), 4 * across + c % 4 + c % (4 * WIDE) // 4 * 32
        row, column = (top + beside, low + line) if turned else (top + line, low + beside)
        near[uintp(c * TEAM + thread)] = (
            real(0.0) if random_uniform(seed, offset, (head_at + row) * count + column) < p else 1.0 / (1.0 - p)
        )


@template
def weigh_slopes(
    scores,
    slopes,
    shares,
    first,
    turned,
    head_at,
    top,
    length,
    scale,
    logsumexp,
    levels,
    thread,
    down,
    across,
    *,
    DROPPED,
    TEAM,
    WIDE,
):
    """PIECE scores from `first` on, weighed, become chances, and gradients of chances slopes."""
    for r in range(first // (4 * WIDE), (first + PIECE) // (4 * WIDE)):
        for c in range(4 * WIDE):
            each, row = 4 * WIDE * r + c, top + (4 * across + c % 4 + c // 4 * 32 if turned else 8 * down + r)
            place = uintp(head_at + min(row, length - 1))
            chance = exp(scores[each] - logsumexp[place])
            share = shares[uintp(each * TEAM + thread)] if DROPPED else real(1.0)
            slopes[each] = chance * (slopes[each] * share - levels[place]) * scale
            scores[each] = chance * share


@template
def multiply_near(totals, at, left, left_at, right, right_at, runs, wide, down, across, *, LINE):
    """totals[at : at + 32 * wide] += products of this thread's 8 rows and `wide` runs of four columns, 32 apart, over 4
    * runs lines of the tiles that begin at left_at (LINE words each) and right_at (32 * wide).
    """
    a, b = cuda.local.array(8, real), cuda.local.array(8, real)
    for run in range(runs):
        turned = int32(run & 7)
        first = uintp(left_at + 4 * LINE * run + 4 * int32(2 * down ^ turned))
        second = uintp(left_at + 4 * LINE * run + 4 * int32((2 * down + 1) ^ turned))
        other = uintp(right_at + 128 * wide * run + 4 * int32(across ^ turned))
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
    scores, part, kept, near_left, left, left_at, left_row, left_column, rows, near, right, right_at, right_row,
    right_column, lines, depth, thread, down, across, *, LINE, SEEN, SLICE, WIDE,
):  # fmt: skip
    """scores += products over a part of the inner dimension: of `rows` of left, unless they are `kept` near, and
    `lines` of right.
    """
    cuda.syncthreads()
    if not kept:
        load_tile_transposed(
            near_left,
            LINE,
            left,
            left_at + part * LINE * left_column,
            left_row,
            left_column,
            rows,
            depth - part * LINE,
            thread,
        )
    load_tile_transposed(
        near,
        SEEN,
        right,
        right_at + part * LINE * right_column,
        right_row,
        right_column,
        lines,
        depth - part * LINE,
        thread,
    )
    cuda.syncthreads()
    multiply_near(scores, 0, near_left, 0, near, 0, SLICE // 4, WIDE, down, across)


@template
def pass_on(totals, part, near, held, run, x, at, line_step, step, lines, width, thread, down, across, *, LINE, WIDE):
    """totals of a part += a run of the columns that threads hold, turned, @ 32 rows of x, which take the tile's place
    together.
    """
    cuda.syncthreads()
    if part == 0:
        leave(near, 0, held, WIDE, run, down, across)
    load_tile(near, 32 * LINE, 32, x, at + part * LINE * step, line_step, step, lines, width - part * LINE, thread)
    cuda.syncthreads()
    multiply_near(totals, 64 * part, near, 0, near, 32 * LINE, fours(lines, 32), 2, down, across)


@template
def load_tile_transposed(near, all_lines, x, at, line_step, step, lines, depth, thread, *, SLICE, TEAM):
    """near[k, line] = x[at + line * line_step + k * step], for so many lines; zero beyond `lines` and `depth`.

    Neighbouring threads take neighbouring k, and have four loads in flight.
    """
    held, all_items = cuda.local.array(16, real), all_lines * (SLICE // 4)
    for first in range(thread, all_items, 4 * TEAM):
        for j in range(4):
            item = int32(first + j * TEAM)
            line, k = int32(item // (SLICE // 4)), int32(item % (SLICE // 4) * 4)
            read_four(
                held,
                4 * j,
                x,
                at + line * line_step + k * step,
                step,
                min(depth - k, 4) if (line < lines) & (item < all_items) else 0,
            )
        for j in range(4):
            item = int32(first + j * TEAM)
            if item < all_items:
                line, k = int32(item // (SLICE // 4)), int32(item % (SLICE // 4) * 4)
                place = k * all_lines + 4 * int32(line // 4 ^ (k // 4 & 7)) + line % 4
                for i in range(4):
                    near[uintp(place + i * all_lines)] = held[4 * j + i]


@template
def load_tile(near, near_at, all_lines, x, at, line_step, step, lines, width, thread, *, LINE, TEAM):
    """The tile from near_at on, near[line, c] = x[at + line * line_step + c * step], for so many lines of LINE; zero
    beyond `lines` and `width`.
    """
    held = cuda.local.array(16, real)
    for first in range(thread, all_lines * (LINE // 4), 4 * TEAM):
        for j in range(4):
            item = int32(first + j * TEAM)
            line, c = int32(item // (LINE // 4)), int32(item % (LINE // 4) * 4)
            read_four(held, 4 * j, x, at + line * line_step + c * step, step, min(width - c, 4) if line < lines else 0)
        for j in range(4):
            item = int32(first + j * TEAM)
            line, c = int32(item // (LINE // 4)), int32(item % (LINE // 4) * 4)
            place = uintp(near_at + line * LINE + 4 * int32(c // 4 ^ (line // 4 & 7)))
            store_four(near, place, held[4 * j], held[4 * j + 1], held[4 * j + 2], held[4 * j + 3])


@template
def leave(near, near_at, held, wide, run, down, across, *, LINE):
    """One of the runs of columns that a thread holds of a tile, turned: near[4 * across + j, 8 * down + i] = held[4 *
    wide * i + 4 * run + j].
    """
    for j in range(4):
        line, first, step = near_at + (4 * across + j) * LINE, 4 * run + j, 4 * wide
        store_four(
            near,
            uintp(line + 4 * int32(2 * down ^ across)),
            held[first],
            held[first + step],
            held[first + 2 * step],
            held[first + 3 * step],
        )
        first += 4 * step
        store_four(
            near,
            uintp(line + 4 * int32((2 * down + 1) ^ across)),
            held[first],
            held[first + step],
            held[first + 2 * step],
            held[first + 3 * step],
        )


@template
def store_tile(out, at, row_step, rows, columns, totals, first, down, across):
    """out[at + row * row_step + column] = this thread's totals, where there are such rows and columns."""
    for i in range(8):
        for run in range(2):
            column, k = 4 * across + 32 * run, first + 8 * i + 4 * run
            place = uintp(at + (8 * down + i) * row_step + column)
            if (8 * down + i < rows) & (column + 4 <= columns):
                store_four(out, place, totals[k], totals[k + 1], totals[k + 2], totals[k + 3])
            elif 8 * down + i < rows:
                for j in range(4):
                    if column + j < columns:
                        out[place + uintp(j)] = totals[k + j]


@template
def read_four(held, first, x, at, step, n):
    """held[first : first + 4] = four elements of x, `step` apart; zero beyond n of them."""
    if n == 4 and step == 1:
        held[first], held[first + 1], held[first + 2], held[first + 3] = load_four(x, uintp(at))
    else:
        for i in range(4):
            held[first + i] = x[uintp(at + i * step)] if i < n else real(0.0)


@scalar
def fours(left, most):
    """Runs of four lines that hold what is left of so many at most."""
    return int32(min(max(left, 0), most) + 3) // 4


# of a thread's scores: a loop over more of them is too long to be unrolled, and what it goes over would be no registers
PIECE = 16
# runs of four columns of scores that a thread has registers for
RUNS = {attention_team: 2, attention_rows_team: 1, attention_columns_team: 1}
