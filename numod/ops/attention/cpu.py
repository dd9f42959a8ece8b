"""Kernels of attention: blocks of scores in scratch memory, with the products by register tiles.

Steps, sizes and gradients are `ops.attention`'s.

Of every worker's scratch memory: keys (depth, block) and values (block, padded) are packed in panels; padded is the
width up to whole panels. A head is a place (first, second, third) of up to three leading dimensions; query, key, value
and mask have a step for each, and for row and column. The mask is `allowed` or `added`.
"""

from __future__ import annotations

from math import exp

from ...kernel.registers.primitives import chances_of, greatest_score, log_sums, scale_line
from ...kernel.library.random import draw_uniforms, unit
from ...kernel.library.panels import multiply_tile, pack_columns
from ...kernel.language import address_of, int64, parallel_range, real, stack_words, uintp
from ...kernel.scalar import scalar


def attention_kernel(
    query, key, value, allowed, added, out, logsumexp, keys, values, scores, state, seed, offset, heads, second, third,
    length, count, depth, width, steps, masked, causal, block, panel, padded, workers, scale, dropped, *, CHUNK,
    DROPPED, LANES, PANEL, ROWS, SIZE, TILE_ROWS,
):  # fmt: skip
    """out (heads, length, width) and logsumexp (heads, length), by chunks of queries and blocks of keys; state (3,
    CHUNK) is each row's greatest score and sum, and its next greatest score.
    """
    chunks, factor = (length + CHUNK - 1) // CHUNK, real(scale) if masked == 0 else 1.0
    alone = count <= block  # no rescaling, and rows are divided while the first-level cache holds them
    as_it_lies = steps.value_column == 1 and steps.value_row == width and width <= panel and width % LANES == 0
    for worker in parallel_range(workers):
        task = int64(worker)
        own_keys, own_values, own_scores, own_state = (
            task * depth * block,
            task * block * padded,
            task * ROWS * block,
            task * 3 * CHUNK,
        )
        for part in range(task, heads * chunks, workers):
            head, top = part // chunks, part % chunks * CHUNK
            bottom = min(top + CHUNK, length)
            i, j, k = head // (second * third), head // third % second, head % third
            query_at = i * steps.query_first + j * steps.query_second + k * steps.query_third
            key_at = i * steps.key_first + j * steps.key_second + k * steps.key_third
            value_at = i * steps.value_first + j * steps.value_second + k * steps.value_third
            mask_at = i * steps.mask_first + j * steps.mask_second + k * steps.mask_third
            for row in range(CHUNK):
                state[uintp(own_state + row)] = -1e400
                state[uintp(own_state + CHUNK + row)] = 0
            for low in range(0, min(count, bottom) if causal != 0 else count, block):
                held = min(block, count - low)
                pack_columns(
                    key,
                    key_at + low * steps.key_row,
                    steps.key_column,
                    steps.key_row,
                    depth,
                    held,
                    keys,
                    own_keys,
                    PANEL,
                    LANES,
                )
                if not as_it_lies:
                    pack_columns(
                        value,
                        value_at + low * steps.value_row,
                        steps.value_row,
                        steps.value_column,
                        held,
                        width,
                        values,
                        own_values,
                        panel,
                        LANES,
                    )
                for start in range(max(top, low // ROWS * ROWS) if causal != 0 else top, bottom, ROWS):
                    rows = min(ROWS, bottom - start)
                    multiply_rows(
                        query,
                        query_at + start * steps.query_row,
                        steps.query_row,
                        steps.query_column,
                        rows,
                        depth,
                        keys,
                        own_keys,
                        held,
                        PANEL,
                        scores,
                        own_scores,
                        block,
                        0,
                        TILE_ROWS,
                        LANES,
                        SIZE,
                    )
                    # all before the first is needed: a row's greatest score is waited for by nothing
                    for row in range(rows):
                        line, seen = (
                            own_scores + row * block,
                            max(0, min(held, start + row + 1 - low)) if causal != 0 else held,
                        )
                        mask_scores(
                            scores,
                            line,
                            seen,
                            allowed,
                            added,
                            mask_at + (start + row) * steps.mask_row + low * steps.mask_column,
                            steps.mask_column,
                            masked,
                            real(scale),
                        )
                        at = own_state + start - top + row
                        state[uintp(at + 2 * CHUNK)] = max(state[uintp(at)], greatest_score(scores, line, seen, factor))
                    for row in range(rows):
                        line, at = own_scores + row * block, own_state + start - top + row
                        seen = max(0, min(held, start + row + 1 - low)) if causal != 0 else held
                        high = state[uintp(at + 2 * CHUNK)]
                        shift = real(0.0) if high == -1e400 else high
                        total = chances_of(scores, line, scores, line, seen, factor, shift)
                        if low > 0:
                            again = exp(state[uintp(at)] - shift)
                            total += state[uintp(at + CHUNK)] * again
                            scale_line(
                                out,
                                (head * length + start + row) * width,
                                out,
                                (head * length + start + row) * width,
                                width,
                                again,
                            )
                        state[uintp(at)] = high
                        state[uintp(at + CHUNK)] = total
                        if DROPPED:
                            drop_scores(
                                scores,
                                line,
                                seen,
                                seed,
                                offset,
                                (head * length + start + row) * count + low,
                                real(dropped),
                            )
                        for c in range(seen, held):
                            scores[uintp(line + c)] = 0
                    target = (head * length + start) * width
                    if as_it_lies:
                        multiply_rows(
                            scores,
                            own_scores,
                            block,
                            1,
                            rows,
                            held,
                            value,
                            value_at + low * width,
                            width,
                            width,
                            out,
                            target,
                            width,
                            int64(low > 0),
                            TILE_ROWS,
                            LANES,
                            SIZE,
                        )
                    else:
                        multiply_rows(
                            scores,
                            own_scores,
                            block,
                            1,
                            rows,
                            held,
                            values,
                            own_values,
                            width,
                            panel,
                            out,
                            target,
                            width,
                            int64(low > 0),
                            TILE_ROWS,
                            LANES,
                            SIZE,
                        )
                    if alone:
                        divide_rows(out, target, width, state, own_state + CHUNK + start - top, rows)
            log_sums(state, own_state, state, own_state + CHUNK, logsumexp, head * length + top, bottom - top)
            if not alone:
                divide_rows(out, (head * length + top) * width, width, state, own_state + CHUNK, bottom - top)


@scalar
def divide_rows(out, at, width, totals, totals_at, rows):
    """Rows of out (rows, width) divided by their totals; 0 where these are 0."""
    for row in range(rows):
        total = totals[uintp(totals_at + row)]
        scale_line(out, at + row * width, out, at + row * width, width, real(0.0) if total == 0.0 else 1.0 / total)


def attention_gradient_kernel(
    given, query, key, value, allowed, added, out, logsumexp, d_query, d_key, d_value, keys, values, key_rows, queries,
    gifts, scores, slopes, levels, seed, offset, heads, second, third, length, count, depth, width, steps, masked,
    causal, block, panel, padded, depth_panel, padded_depth, workers, scale, dropped, *, LANES, PANEL, ROWS, SIZE,
    TILE_ROWS, weigh_slopes,
):  # fmt: skip
    """Gradients (heads, length or count, depth or width) for dense given (heads, length, width), by blocks of keys and
    of rows.

    With chances p = exp(score - logsumexp): d_value = p^T given, slope = p (given value^T - sum of given * out) scale,
    d_query = slope key, d_key = slope^T query. A dropped chance takes no part in the products, and its slope has the
    level alone.
    """
    factor = real(scale) if masked == 0 else 1.0
    for worker in parallel_range(workers):
        task = int64(worker)
        own_keys, own_values, own_rows, own_scores = (
            task * depth * block,
            task * width * block,
            task * block * padded_depth,
            task * ROWS * block,
        )
        own_queries, own_gifts, own_level = task * ROWS * padded_depth, task * ROWS * padded, task * length
        for head in range(task, heads, workers):
            i, j, k = head // (second * third), head // third % second, head % third
            query_at = i * steps.query_first + j * steps.query_second + k * steps.query_third
            key_at = i * steps.key_first + j * steps.key_second + k * steps.key_third
            value_at = i * steps.value_first + j * steps.value_second + k * steps.value_third
            mask_at = i * steps.mask_first + j * steps.mask_second + k * steps.mask_third
            for row in range(length):
                total = real(0.0)
                for c in range((head * length + row) * width, (head * length + row + 1) * width):
                    total += given[uintp(c)] * out[uintp(c)]
                levels[uintp(own_level + row)] = total
            for c in range(head * length * depth, (head + 1) * length * depth):
                d_query[uintp(c)] = 0
            for c in range(head * count * depth, (head + 1) * count * depth):
                d_key[uintp(c)] = 0
            for c in range(head * count * width, (head + 1) * count * width):
                d_value[uintp(c)] = 0
            for low in range(0, count, block):
                held = min(block, count - low)
                pack_columns(
                    key,
                    key_at + low * steps.key_row,
                    steps.key_column,
                    steps.key_row,
                    depth,
                    held,
                    keys,
                    own_keys,
                    PANEL,
                    LANES,
                )
                pack_columns(
                    value,
                    value_at + low * steps.value_row,
                    steps.value_column,
                    steps.value_row,
                    width,
                    held,
                    values,
                    own_values,
                    PANEL,
                    LANES,
                )
                pack_columns(
                    key,
                    key_at + low * steps.key_row,
                    steps.key_row,
                    steps.key_column,
                    held,
                    depth,
                    key_rows,
                    own_rows,
                    depth_panel,
                    LANES,
                )
                for start in range(low // ROWS * ROWS if causal != 0 else 0, length, ROWS):
                    rows, g = min(ROWS, length - start), (head * length + start) * width
                    pack_columns(
                        query,
                        query_at + start * steps.query_row,
                        steps.query_row,
                        steps.query_column,
                        rows,
                        depth,
                        queries,
                        own_queries,
                        depth_panel,
                        LANES,
                    )
                    pack_columns(given, g, width, 1, rows, width, gifts, own_gifts, panel, LANES)
                    multiply_rows(
                        query,
                        query_at + start * steps.query_row,
                        steps.query_row,
                        steps.query_column,
                        rows,
                        depth,
                        keys,
                        own_keys,
                        held,
                        PANEL,
                        scores,
                        own_scores,
                        block,
                        0,
                        TILE_ROWS,
                        LANES,
                        SIZE,
                    )
                    multiply_rows(
                        given,
                        g,
                        width,
                        1,
                        rows,
                        width,
                        values,
                        own_values,
                        held,
                        PANEL,
                        slopes,
                        own_scores,
                        block,
                        0,
                        TILE_ROWS,
                        LANES,
                        SIZE,
                    )
                    for row in range(rows):
                        line = own_scores + row * block
                        seen = max(0, min(held, start + row + 1 - low)) if causal != 0 else held
                        mask_scores(
                            scores,
                            line,
                            seen,
                            allowed,
                            added,
                            mask_at + (start + row) * steps.mask_row + low * steps.mask_column,
                            steps.mask_column,
                            masked,
                            real(scale),
                        )
                        level, shift = (
                            levels[uintp(own_level + start + row)],
                            logsumexp[uintp(head * length + start + row)],
                        )
                        chances_of(scores, line, scores, line, seen, factor, shift)
                        weigh_slopes(
                            scores,
                            slopes,
                            line,
                            seen,
                            level,
                            real(scale),
                            seed,
                            offset,
                            (head * length + start + row) * count + low,
                            real(dropped),
                        )
                        for c in range(seen, held):
                            scores[uintp(line + c)] = 0
                            slopes[uintp(line + c)] = 0
                    multiply_rows(
                        scores,
                        own_scores,
                        1,
                        block,
                        held,
                        rows,
                        gifts,
                        own_gifts,
                        width,
                        panel,
                        d_value,
                        (head * count + low) * width,
                        width,
                        1,
                        TILE_ROWS,
                        LANES,
                        SIZE,
                    )
                    multiply_rows(
                        slopes,
                        own_scores,
                        1,
                        block,
                        held,
                        rows,
                        queries,
                        own_queries,
                        depth,
                        depth_panel,
                        d_key,
                        (head * count + low) * depth,
                        depth,
                        1,
                        TILE_ROWS,
                        LANES,
                        SIZE,
                    )
                    multiply_rows(
                        slopes,
                        own_scores,
                        block,
                        1,
                        rows,
                        held,
                        key_rows,
                        own_rows,
                        depth,
                        depth_panel,
                        d_query,
                        (head * length + start) * depth,
                        depth,
                        1,
                        TILE_ROWS,
                        LANES,
                        SIZE,
                    )


@scalar
def multiply_rows(
    a, a_at, a_row, a_step, rows, depth, panels, own, width, panel, c, c_at, c_row, keep, tile_rows, lanes, size
):
    """c (rows, width) = or += a (rows, depth) @ panels (depth, width)."""
    for i in range(0, rows, tile_rows):
        left = address_of(a) + (a_at + i * a_row) * size
        for j in range(0, width, panel):
            right, target = address_of(panels) + (own + j * depth) * size, c_at + i * c_row + j
            multiply_tile(
                left,
                a_row,
                a_step,
                right,
                panel,
                c,
                target,
                c_row,
                depth,
                keep,
                min(tile_rows, rows - i),
                min(panel, width - j),
                tile_rows,
                lanes,
            )


@scalar
def mask_scores(scores, line, n, allowed, added, at, step, masked, scale):
    """Where there is a mask n scores are scaled, and -inf where not allowed (1), or raised (2)."""
    if masked == 1:
        for c in range(n):
            scores[uintp(line + c)] = (
                scale * scores[uintp(line + c)] if allowed[uintp(at + c * step)] != 0 else real(-1e400)
            )
    if masked == 2:
        for c in range(n):
            scores[uintp(line + c)] = scale * scores[uintp(line + c)] + added[uintp(at + c * step)]


@scalar
def drop_scores(scores, line, n, seed, offset, index, p):
    """Of n scores each 0 with probability p, else divided by 1 - p."""
    high, low = stack_words(), stack_words()
    for start in range(0, n, 256):
        end = min(start + 256, n)
        drawn = draw_uniforms(high, low, seed, offset, index + start, index + end) - index
        for c in range(start, end):
            scores[uintp(line + c)] *= (
                0.0 if unit(high[uintp(c - drawn)], low[uintp(c - drawn)]) < p else 1.0 / (1.0 - p)
            )


@scalar
def weigh_plain_slopes(scores, slopes, line, n, level, scale, seed, offset, index, p):
    """slopes = scores * (slopes - level) * scale."""
    for c in range(n):
        slopes[uintp(line + c)] = scores[uintp(line + c)] * (slopes[uintp(line + c)] - level) * scale


@scalar
def weigh_dropped_slopes(scores, slopes, line, n, level, scale, seed, offset, index, p):
    """The same where dropout takes part, of scores and of slopes."""
    high, low = stack_words(), stack_words()
    for start in range(0, n, 256):
        end = min(start + 256, n)
        drawn = draw_uniforms(high, low, seed, offset, index + start, index + end) - index
        for c in range(start, end):
            share = 0.0 if unit(high[uintp(c - drawn)], low[uintp(c - drawn)]) < p else 1.0 / (1.0 - p)
            slopes[uintp(line + c)] = scores[uintp(line + c)] * (slopes[uintp(line + c)] * share - level) * scale
            scores[uintp(line + c)] *= share
