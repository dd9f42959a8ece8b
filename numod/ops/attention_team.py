"""Attention's kernels for blocks of GPU threads: scores are never in the device's memory, which has only the logarithm of each row's sum. See
`ops.attention`.

A block has LINE rows of queries (or of keys), and goes through the keys (or queries) LINE at a time. Why it is laid out so:
- A thread owns 8 rows and 4 columns of a tile of scores, and of results: ACROSS threads side by side, TEAM of them in all. A step of a product reads 8 and 4
  words for 32 multiply-adds, 16 bytes at a time; threads of a warp read one run of four beside the other, or the same.
- A tile in shared memory has a line for each step of a product. Run r of line k lies at r ^ (k / 4): what is read along the lines from memory, and
  written across them here, meets a bank twice at most, and so do chances, which threads write four lines each.
- Chances take the place of keys in shared memory, so that three tiles of 16 KiB are enough, as much as a block may have; four blocks share a multiprocessor.
- Barriers are many, and cost next to nothing beside a tile's 4096 multiply-adds a thread.
Products and sums run in an order of their own, so every run gives the same bits. Gradients are computed twice as far as chances and slopes go: once by rows
(of queries), once by columns (keys), as sums in memory would have no order.

SLICE is the part of the inner dimension that a tile holds, DEPTHS and PARTS how many of them queries and values have.
"""

from __future__ import annotations

from ..kernel.scalar import scalar


def attention_team(
    query, key, value, allowed, added, out, logsumexp, seed, offset, heads, second, third, length, count, depth, width, STEPS, masked, causal, scale, dropped
):
    """out (heads, length, width) and logsumexp (heads, length)."""
    near_query = shared_array(SLICE * LINE, real, SHARED)
    near_value = shared_array(LINE * LINE, real, SHARED)
    near = shared_array(LINE * LINE, real, SHARED)
    scores, totals = cuda.local.array(32, real), cuda.local.array(32 * PARTS, real)
    sums, again = cuda.local.array(8, real), cuda.local.array(8, real)
    thread = int32(cuda.threadIdx.x)
    down, across = int32(thread // ACROSS), int32(thread % ACROSS)
    chunks = (length + LINE - 1) // LINE
    for task in range(int64(cuda.blockIdx.x), heads * chunks, int64(cuda.gridDim.x)):
        head, top = task // chunks, (chunks - 1 - task % chunks) * LINE  # the last rows first: if `causal` they have the most keys
        i, j, k = head // (second * third), head // third % second, head % third
        query_at = i * query_first + j * query_second + k * query_third + top * query_row
        key_at = i * key_first + j * key_second + k * key_third
        value_at = i * value_first + j * value_second + k * value_third
        mask_at = i * mask_first + j * mask_second + k * mask_third
        high, shift = real(-1e400), real(0.0)  # of row `thread`
        for c in range(32 * PARTS):
            totals[c] = 0.0
        for c in range(8):
            sums[c] = 0.0
        if DEPTHS == 1:
            bring_turned(near_query, query, query_at, query_row, query_column, length - top, depth, thread)
        for low in range(0, min(count, top + LINE) if causal != 0 else count, LINE):
            for c in range(32):
                scores[c] = 0.0
            for part in range(DEPTHS):
                cuda.syncthreads()
                if DEPTHS > 1:
                    bring_turned(near_query, query, query_at + part * LINE * query_column, query_row, query_column, length - top, depth - part * LINE, thread)
                bring_turned(near, key, key_at + low * key_row + part * LINE * key_column, key_row, key_column, count - low, depth - part * LINE, thread)
                if part == 0:
                    bring(near_value, 0, LINE, value, value_at + low * value_row, value_row, value_column, count - low, width, thread)
                cuda.syncthreads()
                multiply_near(scores, 0, near_query, 0, near, 0, SLICE // 4, down, across)
            for c in range(32):
                scores[c] = score_of(
                    scores[c], top + 8 * down + c // 4, low + 4 * across + c % 4, length, count, allowed, added, mask_at, mask_row, mask_column, masked, causal,
                    real(scale),
                )
            cuda.syncthreads()
            for r in range(8):
                near[uintp((8 * down + r) * ACROSS + across)] = max(max(scores[4 * r], scores[4 * r + 1]), max(scores[4 * r + 2], scores[4 * r + 3]))
            cuda.syncthreads()
            if thread < LINE:
                before = high
                for c in range(ACROSS):
                    high = max(high, near[uintp(thread * ACROSS + c)])
                shift = real(0.0) if high == -1e400 else high
                near[uintp(LINE * ACROSS + thread)], near[uintp(LINE * ACROSS + LINE + thread)] = shift, exp(before - shift)
            cuda.syncthreads()
            for r in range(8):
                again[r] = near[uintp(LINE * ACROSS + LINE + 8 * down + r)]
                moved = near[uintp(LINE * ACROSS + 8 * down + r)]
                for c in range(4):
                    scores[4 * r + c] = exp(scores[4 * r + c] - moved)
                sums[r] = sums[r] * again[r] + ((scores[4 * r] + scores[4 * r + 1]) + (scores[4 * r + 2] + scores[4 * r + 3]))
            if DROPPED:
                for c in range(32):
                    scores[c] *= kept_share(seed, offset, (head * length + top + 8 * down + c // 4) * count + low + 4 * across + c % 4, real(dropped))
            for c in range(32 * PARTS):
                totals[c] *= again[c % 32 // 4]
            cuda.syncthreads()
            leave(near, 0, scores, down, across)
            for part in range(PARTS):
                if part > 0:
                    cuda.syncthreads()
                    bring(
                        near_value, 0, LINE, value, value_at + low * value_row + part * LINE * value_column, value_row, value_column, count - low,
                        width - part * LINE, thread,
                    )
                cuda.syncthreads()
                multiply_near(totals, 32 * part, near, 0, near_value, 0, LINE // 4, down, across)
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
        for c in range(32 * PARTS):
            totals[c] *= near[uintp(LINE * ACROSS + 8 * down + c % 32 // 4)]
        for part in range(PARTS):
            give_tile(out, (head * length + top) * width + part * LINE, width, length - top, width - part * LINE, totals, 32 * part, down, across)


def attention_rows_team(
    given, query, key, value, allowed, added, out, logsumexp, d_query, levels, seed, offset, heads, second, third, length, count, depth, width, STEPS, masked,
    causal, scale, dropped,
):  # fmt: skip
    """d_query (heads, length, depth), and levels (heads, length): the sums of given * out, for `attention_columns_team`.

    With chances p = exp(score - logsumexp): slope = p (given value^T - level) scale, d_query = slope key.
    """
    near_query = shared_array(SLICE * LINE, real, SHARED)
    near_given = shared_array(SLICE * LINE, real, SHARED)
    near = shared_array(LINE * LINE, real, SHARED)
    scores, slopes, totals = cuda.local.array(32, real), cuda.local.array(32, real), cuda.local.array(32 * DEPTHS, real)
    level, shift = cuda.local.array(8, real), cuda.local.array(8, real)
    thread = int32(cuda.threadIdx.x)
    down, across = int32(thread // ACROSS), int32(thread % ACROSS)
    chunks = (length + LINE - 1) // LINE
    for task in range(int64(cuda.blockIdx.x), heads * chunks, int64(cuda.gridDim.x)):
        head, top = task // chunks, (chunks - 1 - task % chunks) * LINE
        i, j, k = head // (second * third), head // third % second, head % third
        query_at = i * query_first + j * query_second + k * query_third + top * query_row
        key_at = i * key_first + j * key_second + k * key_third
        value_at = i * value_first + j * value_second + k * value_third
        mask_at = i * mask_first + j * mask_second + k * mask_third
        given_at = (head * length + top) * width
        cuda.syncthreads()
        for r in range(8):
            level[r], row = 0.0, 8 * down + r
            if top + row < length:
                for c in range(across, width, ACROSS):
                    level[r] += given[uintp(given_at + row * width + c)] * out[uintp(given_at + row * width + c)]
            near[uintp(row * ACROSS + across)] = level[r]
        cuda.syncthreads()
        if thread < LINE:
            total = real(0.0)
            for c in range(ACROSS):
                total += near[uintp(thread * ACROSS + c)]
            near[uintp(LINE * ACROSS + thread)] = total
            if top + thread < length:
                levels[uintp(head * length + top + thread)] = total
        cuda.syncthreads()
        for r in range(8):
            level[r] = near[uintp(LINE * ACROSS + 8 * down + r)]
            shift[r] = logsumexp[uintp(head * length + min(top + 8 * down + r, length - 1))]
        for c in range(32 * DEPTHS):
            totals[c] = 0.0
        if DEPTHS == 1:
            bring_turned(near_query, query, query_at, query_row, query_column, length - top, depth, thread)
        if PARTS == 1:
            bring_turned(near_given, given, given_at, width, 1, length - top, width, thread)
        for low in range(0, min(count, top + LINE) if causal != 0 else count, LINE):
            for c in range(32):
                scores[c], slopes[c] = 0.0, 0.0
            for part in range(DEPTHS):
                cuda.syncthreads()
                if DEPTHS > 1:
                    bring_turned(near_query, query, query_at + part * LINE * query_column, query_row, query_column, length - top, depth - part * LINE, thread)
                bring_turned(near, key, key_at + low * key_row + part * LINE * key_column, key_row, key_column, count - low, depth - part * LINE, thread)
                cuda.syncthreads()
                multiply_near(scores, 0, near_query, 0, near, 0, SLICE // 4, down, across)
            for part in range(PARTS):
                cuda.syncthreads()
                if PARTS > 1:
                    bring_turned(near_given, given, given_at + part * LINE, width, 1, length - top, width - part * LINE, thread)
                bring_turned(
                    near, value, value_at + low * value_row + part * LINE * value_column, value_row, value_column, count - low, width - part * LINE, thread
                )
                cuda.syncthreads()
                multiply_near(slopes, 0, near_given, 0, near, 0, SLICE // 4, down, across)
            for c in range(32):
                row, column = top + 8 * down + c // 4, low + 4 * across + c % 4
                score = score_of(scores[c], row, column, length, count, allowed, added, mask_at, mask_row, mask_column, masked, causal, real(scale))
                if DROPPED:
                    slopes[c] *= kept_share(seed, offset, (head * length + row) * count + column, real(dropped))
                slopes[c] = exp(score - shift[c // 4]) * (slopes[c] - level[c // 4]) * real(scale)
            for half in range(2):  # slopes of so many keys, and these keys, take a tile's place
                for part in range(DEPTHS):
                    cuda.syncthreads()
                    if part == 0 and across // (ACROSS // 2) == half:
                        leave(near, 0, slopes, down, across - half * (ACROSS // 2))
                    bring(
                        near, LINE * LINE // 2, LINE // 2, key, key_at + (low + half * (LINE // 2)) * key_row + part * LINE * key_column, key_row, key_column,
                        count - low - half * (LINE // 2), depth - part * LINE, thread,
                    )
                    cuda.syncthreads()
                    multiply_near(totals, 32 * part, near, 0, near, LINE * LINE // 2, LINE // 8, down, across)
        for part in range(DEPTHS):
            give_tile(d_query, (head * length + top) * depth + part * LINE, depth, length - top, depth - part * LINE, totals, 32 * part, down, across)


def attention_columns_team(
    given, query, key, value, allowed, added, levels, logsumexp, d_key, d_value, seed, offset, heads, second, third, length, count, depth, width, STEPS, masked,
    causal, scale, dropped,
):  # fmt: skip
    """d_key (heads, count, depth) = slope^T query and d_value (heads, count, width) = p^T given, of `attention_rows_team`'s chances and slopes. A dropped
    chance takes no part in the products, and its slope has the level alone."""
    near_key = shared_array(SLICE * LINE, real, SHARED)
    near_value = shared_array(SLICE * LINE, real, SHARED)
    near = shared_array(LINE * LINE, real, SHARED)
    scores, slopes = cuda.local.array(32, real), cuda.local.array(32, real)
    key_totals, value_totals = cuda.local.array(32 * DEPTHS, real), cuda.local.array(32 * PARTS, real)
    thread = int32(cuda.threadIdx.x)
    down, across = int32(thread // ACROSS), int32(thread % ACROSS)
    chunks = (count + LINE - 1) // LINE
    for task in range(int64(cuda.blockIdx.x), heads * chunks, int64(cuda.gridDim.x)):
        head, low = task // chunks, task % chunks * LINE  # the first keys first: if `causal` they have the most queries
        i, j, k = head // (second * third), head // third % second, head % third
        query_at = i * query_first + j * query_second + k * query_third
        key_at = i * key_first + j * key_second + k * key_third + low * key_row
        value_at = i * value_first + j * value_second + k * value_third + low * value_row
        mask_at = i * mask_first + j * mask_second + k * mask_third
        for c in range(32 * DEPTHS):
            key_totals[c] = 0.0
        for c in range(32 * PARTS):
            value_totals[c] = 0.0
        cuda.syncthreads()
        if DEPTHS == 1:
            bring_turned(near_key, key, key_at, key_row, key_column, count - low, depth, thread)
        if PARTS == 1:
            bring_turned(near_value, value, value_at, value_row, value_column, count - low, width, thread)
        for top in range(low if causal != 0 else 0, length, LINE):
            given_at, rows_at = (head * length + top) * width, query_at + top * query_row
            for c in range(32):
                scores[c], slopes[c] = 0.0, 0.0
            for part in range(DEPTHS):
                cuda.syncthreads()
                if DEPTHS > 1:
                    bring_turned(near_key, key, key_at + part * LINE * key_column, key_row, key_column, count - low, depth - part * LINE, thread)
                bring_turned(near, query, rows_at + part * LINE * query_column, query_row, query_column, length - top, depth - part * LINE, thread)
                cuda.syncthreads()
                multiply_near(scores, 0, near_key, 0, near, 0, SLICE // 4, down, across)
            for part in range(PARTS):
                cuda.syncthreads()
                if PARTS > 1:
                    bring_turned(near_value, value, value_at + part * LINE * value_column, value_row, value_column, count - low, width - part * LINE, thread)
                bring_turned(near, given, given_at + part * LINE, width, 1, length - top, width - part * LINE, thread)
                cuda.syncthreads()
                multiply_near(slopes, 0, near_value, 0, near, 0, SLICE // 4, down, across)
            for c in range(32):
                row, column = top + 4 * across + c % 4, low + 8 * down + c // 4
                score = score_of(scores[c], row, column, length, count, allowed, added, mask_at, mask_row, mask_column, masked, causal, real(scale))
                at = uintp(head * length + min(row, length - 1))
                scores[c] = exp(score - logsumexp[at]) if row < length else real(0.0)
                if DROPPED:
                    share = kept_share(seed, offset, (head * length + row) * count + column, real(dropped))
                    slopes[c] = scores[c] * (slopes[c] * share - levels[at]) * real(scale)
                    scores[c] *= share
                else:
                    slopes[c] = scores[c] * (slopes[c] - levels[at]) * real(scale)
            for half in range(2):  # of so many queries
                for part in range(PARTS):
                    cuda.syncthreads()
                    if part == 0 and across // (ACROSS // 2) == half:
                        leave(near, 0, scores, down, across - half * (ACROSS // 2))
                    bring(
                        near, LINE * LINE // 2, LINE // 2, given, given_at + half * (LINE // 2) * width + part * LINE, width, 1,
                        length - top - half * (LINE // 2), width - part * LINE, thread,
                    )
                    cuda.syncthreads()
                    multiply_near(value_totals, 32 * part, near, 0, near, LINE * LINE // 2, LINE // 8, down, across)
                for part in range(DEPTHS):
                    cuda.syncthreads()
                    if part == 0 and across // (ACROSS // 2) == half:
                        leave(near, 0, slopes, down, across - half * (ACROSS // 2))
                    bring(
                        near, LINE * LINE // 2, LINE // 2, query, rows_at + half * (LINE // 2) * query_row + part * LINE * query_column, query_row,
                        query_column, length - top - half * (LINE // 2), depth - part * LINE, thread,
                    )
                    cuda.syncthreads()
                    multiply_near(key_totals, 32 * part, near, 0, near, LINE * LINE // 2, LINE // 8, down, across)
        for part in range(DEPTHS):
            give_tile(d_key, (head * count + low) * depth + part * LINE, depth, count - low, depth - part * LINE, key_totals, 32 * part, down, across)
        for part in range(PARTS):
            give_tile(d_value, (head * count + low) * width + part * LINE, width, count - low, width - part * LINE, value_totals, 32 * part, down, across)


def multiply_near(totals, at, left, left_at, right, right_at, runs, down, across):
    """totals[at : at + 32] += products of this thread's 8 rows and 4 columns, over 4 * runs lines of the tiles that begin at left_at and right_at."""
    a, b = cuda.local.array(8, real), cuda.local.array(4, real)
    for run in range(runs):
        turned = int32(run & (ACROSS - 1))
        first = uintp(left_at + 4 * LINE * run + 4 * int32(2 * down ^ turned))
        second = uintp(left_at + 4 * LINE * run + 4 * int32((2 * down + 1) ^ turned))
        other = uintp(right_at + 4 * LINE * run + 4 * int32(across ^ turned))
        for k in range(4):
            for i in range(4):
                a[i], a[i + 4] = left[first + uintp(k * LINE + i)], left[second + uintp(k * LINE + i)]
                b[i] = right[other + uintp(k * LINE + i)]
            for i in range(8):
                for j in range(4):
                    totals[at + 4 * i + j] += a[i] * b[j]


def bring_turned(near, x, at, line_step, step, lines, depth, thread):
    """near[k, line] = x[at + line * line_step + k * step], zero beyond `lines` and `depth`. Neighbouring threads take neighbouring k."""
    for turn in range((LINE * (SLICE // 4) + TEAM - 1) // TEAM):
        item = int32(thread + turn * TEAM)
        line, k = int32(item // (SLICE // 4)), int32(item % (SLICE // 4) * 4)
        if line < LINE:
            a, b, c, d = read_four(x, at + line * line_step + k * step, step, min(depth - k, 4) if line < lines else 0)
            place = uintp(k * LINE + 4 * int32(line // 4 ^ (k // 4 & (ACROSS - 1))) + line % 4)
            near[place], near[place + uintp(LINE)], near[place + uintp(2 * LINE)], near[place + uintp(3 * LINE)] = a, b, c, d


def bring(near, near_at, all_lines, x, at, line_step, step, lines, width, thread):
    """The tile from near_at on, near[line, c] = x[at + line * line_step + c * step], of so many lines; zero beyond `lines` and `width`."""
    for turn in range((all_lines * ACROSS + TEAM - 1) // TEAM):
        item = int32(thread + turn * TEAM)
        line, c = int32(item // ACROSS), int32(item % ACROSS * 4)
        found = read_four(x, at + line * line_step + c * step, step, min(width - c, 4) if line < lines else 0)
        store_four(near, uintp(near_at + line * LINE + 4 * int32(c // 4 ^ (line // 4 & (ACROSS - 1)))), found[0], found[1], found[2], found[3])


def leave(near, near_at, held, down, across):
    """What a thread holds of a tile, turned: near[4 * across + j, 8 * down + i] = held[4 * i + j]."""
    for j in range(4):
        line, turned = near_at + (4 * across + j) * LINE, int32(across & (ACROSS - 1))
        store_four(near, uintp(line + 4 * int32(2 * down ^ turned)), held[j], held[4 + j], held[8 + j], held[12 + j])
        store_four(near, uintp(line + 4 * int32((2 * down + 1) ^ turned)), held[16 + j], held[20 + j], held[24 + j], held[28 + j])


def give_tile(out, at, row_step, rows, columns, totals, first, down, across):
    """out[at + row * row_step + column] = this thread's totals, where there are such rows and columns."""
    for i in range(8):
        place, k = uintp(at + (8 * down + i) * row_step + 4 * across), first + 4 * i
        if 8 * down + i < rows:
            if 4 * across + 4 <= columns:
                store_four(out, place, totals[k], totals[k + 1], totals[k + 2], totals[k + 3])
            else:
                for j in range(4):
                    if 4 * across + j < columns:
                        out[place + uintp(j)] = totals[k + j]


def read_four(x, at, step, n):
    """Four elements of x, `step` apart; zero beyond n of them."""
    if n == 4 and step == 1:
        return load_four(x, uintp(at))
    a = x[uintp(at)] if n > 0 else real(0.0)
    b = x[uintp(at + step)] if n > 1 else real(0.0)
    c = x[uintp(at + 2 * step)] if n > 2 else real(0.0)
    d = x[uintp(at + 3 * step)] if n > 3 else real(0.0)
    return a, b, c, d


@scalar
def score_of(total, row, column, length, count, allowed, added, at, row_step, column_step, masked, causal, scale):
    """A score: scaled, masked (1: -inf where not allowed; 2: with what is added), and -inf where there is no such key, or if `causal` it comes later."""
    score = total * scale
    if masked != 0:
        place = uintp(at + min(row, length - 1) * row_step + min(column, count - 1) * column_step)
        if masked == 1:
            score = score if allowed[place] != 0 else real(-1e400)
        else:
            score += added[place]
    return score if (column < count) & ((causal == 0) | (column <= row)) else real(-1e400)


@scalar
def kept_share(seed, offset, index, p):
    """What a chance is multiplied by: 0 with probability p, else 1 / (1 - p)."""
    return real(0.0) if random_uniform(seed, offset, index) < p else 1.0 / (1.0 - p)


HELPERS = multiply_near, read_four, bring_turned, bring, leave, give_tile
RESIDENT = {attention_team: 3, attention_rows_team: 3, attention_columns_team: 3}  # blocks that a multiprocessor has registers for
