"""CPU kernels of attention: blocks of scores in scratch memory, products by register tiles.

`attention.py` prepares steps and sizes.

Each worker has scratch memory in which keys (depth, block) and values (block, padded) are packed in panels; `padded` is
the width rounded up to whole panels. A head is an index (first, second, third) into up to three leading dimensions.
query, key, value and mask have a step for each of these, for rows and for columns. The mask is in `allowed` (bool) or
in `added` (float).
"""

from __future__ import annotations

from math import exp

from ...kernel.registers.primitives.attention import exp_scores, greatest_score, log_sums, scale_line
from ...kernel.library.random import draw_uniforms, unit
from ...kernel.library.panels import multiply_tile, pack_columns
from ...kernel.language import address_of, int64, parallel_range, real, stack_words, uintp
from ...kernel.scalar import scalar


def attention_kernel(
    query, key, value, allowed, added, out, logsumexp, keys, values, scores, state, seed, offset, heads, second, third,
    length, count, depth, width, steps, masked, causal, block, panel, padded, workers, scale, dropped, *, CHUNK,
    DROPPED, LANES, PANEL, ROWS, SIZE, TILE_ROWS,
):  # fmt: skip
    """Compute out (heads, length, width) and logsumexp (heads, length), by chunks of queries and blocks of keys.

    `state` (3, CHUNK) has each row's running maximum and sum, and the maximum that includes the current block.
    """
    chunks, factor = (length + CHUNK - 1) // CHUNK, real(scale) if masked == 0 else 1.0
    single_block = count <= block  # no rescaling; rows are divided while they are in the L1 cache
    as_it_lies = steps.value_column == 1 and steps.value_row == width and width <= panel and width % LANES == 0
    for worker in parallel_range(workers):
        task = int64(worker)
        keys_at, values_at, scores_at, state_at = (
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
                state[uintp(state_at + row)] = -1e400
                state[uintp(state_at + CHUNK + row)] = 0
            for low in range(0, min(count, bottom) if causal != 0 else count, block):
                block_count = min(block, count - low)
                pack_columns(
                    key, key_at + low * steps.key_row, steps.key_column, steps.key_row, depth, block_count, keys,
                    keys_at, PANEL, LANES,
                )  # fmt: skip
                if not as_it_lies:
                    pack_columns(
                        value, value_at + low * steps.value_row, steps.value_row, steps.value_column, block_count,
                        width, values, values_at, panel, LANES,
                    )  # fmt: skip
                for start in range(max(top, low // ROWS * ROWS) if causal != 0 else top, bottom, ROWS):
                    rows = min(ROWS, bottom - start)
                    multiply_rows(
                        query, query_at + start * steps.query_row, steps.query_row, steps.query_column, rows, depth,
                        keys, keys_at, block_count, PANEL, scores, scores_at, block, 0, TILE_ROWS, LANES, SIZE,
                    )  # fmt: skip
                    # a separate loop, which hides the latency of a row's maximum
                    for row in range(rows):
                        line, visible = (
                            scores_at + row * block,
                            max(0, min(block_count, start + row + 1 - low)) if causal != 0 else block_count,
                        )
                        mask_scores(
                            scores, line, visible, allowed, added,
                            mask_at + (start + row) * steps.mask_row + low * steps.mask_column, steps.mask_column,
                            masked, real(scale),
                        )  # fmt: skip
                        at = state_at + start - top + row
                        state[uintp(at + 2 * CHUNK)] = max(
                            state[uintp(at)], greatest_score(scores, line, visible, factor)
                        )
                    for row in range(rows):
                        line, at = scores_at + row * block, state_at + start - top + row
                        visible = max(0, min(block_count, start + row + 1 - low)) if causal != 0 else block_count
                        running_max = state[uintp(at + 2 * CHUNK)]
                        shift = real(0.0) if running_max == -1e400 else running_max
                        total = exp_scores(scores, line, scores, line, visible, factor, shift)
                        if low > 0:
                            rescale = exp(state[uintp(at)] - shift)
                            total += state[uintp(at + CHUNK)] * rescale
                            scale_line(
                                out, (head * length + start + row) * width, out, (head * length + start + row) * width,
                                width, rescale,
                            )  # fmt: skip
                        state[uintp(at)] = running_max
                        state[uintp(at + CHUNK)] = total
                        if DROPPED:
                            drop_scores(
                                scores, line, visible, seed, offset, (head * length + start + row) * count + low,
                                real(dropped),
                            )  # fmt: skip
                        for c in range(visible, block_count):
                            scores[uintp(line + c)] = 0
                    target = (head * length + start) * width
                    if as_it_lies:
                        multiply_rows(
                            scores, scores_at, block, 1, rows, block_count, value, value_at + low * width, width, width,
                            out, target, width, int64(low > 0), TILE_ROWS, LANES, SIZE,
                        )  # fmt: skip
                    else:
                        multiply_rows(
                            scores, scores_at, block, 1, rows, block_count, values, values_at, width, panel, out,
                            target, width, int64(low > 0), TILE_ROWS, LANES, SIZE,
                        )  # fmt: skip
                    if single_block:
                        divide_rows(out, target, width, state, state_at + CHUNK + start - top, rows)
            log_sums(state, state_at, state, state_at + CHUNK, logsumexp, head * length + top, bottom - top)
            if not single_block:
                divide_rows(out, (head * length + top) * width, width, state, state_at + CHUNK, bottom - top)


@scalar
def divide_rows(out, at, width, totals, totals_at, rows):
    """Divide rows of out (rows, width) by their totals; 0 where a total is 0."""
    for row in range(rows):
        total = totals[uintp(totals_at + row)]
        scale_line(out, at + row * width, out, at + row * width, width, real(0.0) if total == 0.0 else 1.0 / total)


def attention_gradient_kernel(
    d_out, query, key, value, allowed, added, out, logsumexp, d_query, d_key, d_value, keys, values, key_rows, queries,
    d_out_panels, scores, d_scores, deltas, seed, offset, heads, second, third, length, count, depth, width, steps,
    masked, causal, block, panel, padded, depth_panel, padded_depth, workers, scale, dropped, *, LANES, PANEL, ROWS,
    SIZE, TILE_ROWS, scores_backward,
):  # fmt: skip
    """Compute the gradients of query, key and value for dense d_out (heads, length, width), by blocks of keys and rows.

    With weights p = exp(score - logsumexp) and delta = rowsum(d_out * out): d_value = p^T d_out, d_scores = p (d_out
    value^T - delta) scale, d_query = d_scores key, d_key = d_scores^T query. For a dropped weight, p is 0 in the
    product and d_score is -weight * delta * scale.
    """
    factor = real(scale) if masked == 0 else 1.0
    for worker in parallel_range(workers):
        task = int64(worker)
        keys_at, values_at, key_rows_at, scores_at = (
            task * depth * block,
            task * width * block,
            task * block * padded_depth,
            task * ROWS * block,
        )
        queries_at, d_out_panels_at, deltas_at = task * ROWS * padded_depth, task * ROWS * padded, task * length
        for head in range(task, heads, workers):
            i, j, k = head // (second * third), head // third % second, head % third
            query_at = i * steps.query_first + j * steps.query_second + k * steps.query_third
            key_at = i * steps.key_first + j * steps.key_second + k * steps.key_third
            value_at = i * steps.value_first + j * steps.value_second + k * steps.value_third
            mask_at = i * steps.mask_first + j * steps.mask_second + k * steps.mask_third
            for row in range(length):
                total = real(0.0)
                for c in range((head * length + row) * width, (head * length + row + 1) * width):
                    total += d_out[uintp(c)] * out[uintp(c)]
                deltas[uintp(deltas_at + row)] = total
            for c in range(head * length * depth, (head + 1) * length * depth):
                d_query[uintp(c)] = 0
            for c in range(head * count * depth, (head + 1) * count * depth):
                d_key[uintp(c)] = 0
            for c in range(head * count * width, (head + 1) * count * width):
                d_value[uintp(c)] = 0
            for low in range(0, count, block):
                block_count = min(block, count - low)
                pack_columns(
                    key, key_at + low * steps.key_row, steps.key_column, steps.key_row, depth, block_count, keys,
                    keys_at, PANEL, LANES,
                )  # fmt: skip
                pack_columns(
                    value, value_at + low * steps.value_row, steps.value_column, steps.value_row, width, block_count,
                    values, values_at, PANEL, LANES,
                )  # fmt: skip
                pack_columns(
                    key, key_at + low * steps.key_row, steps.key_row, steps.key_column, block_count, depth, key_rows,
                    key_rows_at, depth_panel, LANES,
                )  # fmt: skip
                for start in range(low // ROWS * ROWS if causal != 0 else 0, length, ROWS):
                    rows, d_out_at = min(ROWS, length - start), (head * length + start) * width
                    pack_columns(
                        query, query_at + start * steps.query_row, steps.query_row, steps.query_column, rows, depth,
                        queries, queries_at, depth_panel, LANES,
                    )  # fmt: skip
                    pack_columns(d_out, d_out_at, width, 1, rows, width, d_out_panels, d_out_panels_at, panel, LANES)
                    multiply_rows(
                        query, query_at + start * steps.query_row, steps.query_row, steps.query_column, rows, depth,
                        keys, keys_at, block_count, PANEL, scores, scores_at, block, 0, TILE_ROWS, LANES, SIZE,
                    )  # fmt: skip
                    multiply_rows(
                        d_out, d_out_at, width, 1, rows, width, values, values_at, block_count, PANEL, d_scores,
                        scores_at, block, 0, TILE_ROWS, LANES, SIZE,
                    )  # fmt: skip
                    for row in range(rows):
                        line = scores_at + row * block
                        visible = max(0, min(block_count, start + row + 1 - low)) if causal != 0 else block_count
                        mask_scores(
                            scores, line, visible, allowed, added,
                            mask_at + (start + row) * steps.mask_row + low * steps.mask_column, steps.mask_column,
                            masked, real(scale),
                        )  # fmt: skip
                        delta, shift = (
                            deltas[uintp(deltas_at + start + row)],
                            logsumexp[uintp(head * length + start + row)],
                        )
                        exp_scores(scores, line, scores, line, visible, factor, shift)
                        scores_backward(
                            scores, d_scores, line, visible, delta, real(scale), seed, offset,
                            (head * length + start + row) * count + low, real(dropped),
                        )  # fmt: skip
                        for c in range(visible, block_count):
                            scores[uintp(line + c)] = 0
                            d_scores[uintp(line + c)] = 0
                    multiply_rows(
                        scores, scores_at, 1, block, block_count, rows, d_out_panels, d_out_panels_at, width, panel,
                        d_value, (head * count + low) * width, width, 1, TILE_ROWS, LANES, SIZE,
                    )  # fmt: skip
                    multiply_rows(
                        d_scores, scores_at, 1, block, block_count, rows, queries, queries_at, depth, depth_panel,
                        d_key, (head * count + low) * depth, depth, 1, TILE_ROWS, LANES, SIZE,
                    )  # fmt: skip
                    multiply_rows(
                        d_scores, scores_at, block, 1, rows, block_count, key_rows, key_rows_at, depth, depth_panel,
                        d_query, (head * length + start) * depth, depth, 1, TILE_ROWS, LANES, SIZE,
                    )  # fmt: skip


@scalar
def multiply_rows(
    a, a_at, a_row, a_step, rows, depth, panels, panels_at, width, panel, c, c_at, c_row, keep, tile_rows, lanes, size
):
    """c (rows, width) = or += a (rows, depth) @ panels (depth, width)."""
    for i in range(0, rows, tile_rows):
        left = address_of(a) + (a_at + i * a_row) * size
        for j in range(0, width, panel):
            right, target = address_of(panels) + (panels_at + j * depth) * size, c_at + i * c_row + j
            multiply_tile(
                left, a_row, a_step, right, panel, c, target, c_row, depth, keep, min(tile_rows, rows - i),
                min(panel, width - j), tile_rows, lanes,
            )  # fmt: skip


@scalar
def mask_scores(scores, line, n, allowed, added, at, step, masked, scale):
    """Scale and mask n scores: -inf where not `allowed` (masked = 1), or plus `added` (2)."""
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
    """Apply dropout to n scores: 0 with probability p, else divided by 1 - p."""
    high, low = stack_words(), stack_words()
    for start in range(0, n, 256):
        end = min(start + 256, n)
        first_drawn = draw_uniforms(high, low, seed, offset, index + start, index + end) - index
        for c in range(start, end):
            scores[uintp(line + c)] *= (
                0.0 if unit(high[uintp(c - first_drawn)], low[uintp(c - first_drawn)]) < p else 1.0 / (1.0 - p)
            )


@scalar
def plain_scores_backward(scores, d_scores, line, n, delta, scale, seed, offset, index, p):
    """d_scores = scores * (d_scores - delta) * scale."""
    for c in range(n):
        d_scores[uintp(line + c)] = scores[uintp(line + c)] * (d_scores[uintp(line + c)] - delta) * scale


@scalar
def dropped_scores_backward(scores, d_scores, line, n, delta, scale, seed, offset, index, p):
    """As `plain_scores_backward`, with dropout of scores and d_scores."""
    high, low = stack_words(), stack_words()
    for start in range(0, n, 256):
        end = min(start + 256, n)
        first_drawn = draw_uniforms(high, low, seed, offset, index + start, index + end) - index
        for c in range(start, end):
            keep_factor = (
                0.0 if unit(high[uintp(c - first_drawn)], low[uintp(c - first_drawn)]) < p else 1.0 / (1.0 - p)
            )
            d_scores[uintp(line + c)] = (
                scores[uintp(line + c)] * (d_scores[uintp(line + c)] * keep_factor - delta) * scale
            )
            scores[uintp(line + c)] *= keep_factor
