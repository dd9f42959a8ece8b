"""Functions of kernels that convolve on a grid: the input with its borders, spread so that every element of a patch is a shift away from the output.

A grid (channels, phases, images, depth, height, width) is a copy of some images. An axis read with stride s has s phases: phase r holds every s-th
element, from r on. There, for a tap of the kernel, the elements that the outputs ask for lie one after the other, as the outputs do; so a matrix
product finds each row of patches as a run of the grid, and no matrix of patches is ever written. Positions between an output row's end and the
grid's next row are computed too, and dropped.
"""

from __future__ import annotations

from .scalar import scalar


@scalar
def is_read(phase, n, step, pad, stride):
    """Whether any of a kernel's n taps falls into a phase."""
    for k in range(n):
        if (k * step - pad) % stride == phase:
            return True
    return False


@scalar
def spread_images(
    x, base, image_step, grid, own, count, channels, depth, height, width, s_d, s_h, s_w, low_d, low_h, low_w, grid_d, grid_h, grid_w,
    kernel_d, kernel_h, kernel_w, pad_d, pad_h, pad_w, step_d, step_h, step_w, stack,
):  # fmt: skip
    """grid[own:] = the grid of `count` images at x[base:], whose place (0, 0, 0) is element (low_d, low_h, low_w) of phase 0; 0 outside."""
    for c in range(channels):
        for r_d in range(s_d):
            for r_h in range(s_h):
                for r_w in range(s_w):
                    if is_read(r_d, kernel_d, step_d, pad_d, s_d) and is_read(r_h, kernel_h, step_h, pad_h, s_h) and is_read(r_w, kernel_w, step_w, pad_w, s_w):
                        first = min(max(0, -((low_w * s_w + r_w) // s_w)), grid_w)
                        last = max(first, min(grid_w, (width - 1 - r_w) // s_w + 1 - low_w))
                        top = min(max(0, -((low_h * s_h + r_h) // s_h)), grid_h)
                        bottom = max(top, min(grid_h, (height - 1 - r_h) // s_h + 1 - low_h))
                        for n in range(count):
                            for j_d in range(grid_d):
                                d = (j_d + low_d) * s_d + r_d
                                start = top if (d >= 0) & (d < depth) else grid_h
                                stop = bottom if (d >= 0) & (d < depth) else grid_h
                                at = own + (((((c * s_d + r_d) * s_h + r_h) * s_w + r_w) * stack + n) * grid_d + j_d) * grid_h * grid_w
                                source = base + n * image_step + ((c * depth + d) * height + low_h * s_h + r_h) * width + low_w * s_w + r_w
                                for k in range(start * grid_w):
                                    grid[uintp(at + k)] = 0
                                if s_w == 1:
                                    for j_h in range(start, stop):
                                        copy_line1(x, source + j_h * s_h * width, first, last, grid, at + j_h * grid_w, grid_w)
                                elif s_w == 2:
                                    for j_h in range(start, stop):
                                        copy_line2(x, source + j_h * s_h * width, first, last, grid, at + j_h * grid_w, grid_w)
                                elif s_w == 4:
                                    for j_h in range(start, stop):
                                        copy_line4(x, source + j_h * s_h * width, first, last, grid, at + j_h * grid_w, grid_w)
                                else:
                                    for j_h in range(start, stop):
                                        for j in range(grid_w):
                                            inside = (j >= first) & (j < last)
                                            grid[uintp(at + j_h * grid_w + j)] = x[uintp(source + j_h * s_h * width + j * s_w)] if inside else 0
                                for k in range(stop * grid_w, grid_h * grid_w):
                                    grid[uintp(at + k)] = 0


@scalar
def fill_taps(
    table, channels, kernel_d, kernel_h, kernel_w, pad_d, pad_h, pad_w, step_d, step_h, step_w, s_d, s_h, s_w, low_d, low_h, low_w, grid_d, grid_h, grid_w, stack,
):  # fmt: skip
    """table (taps) = where in the grid each element of the first output's patch lies."""
    tap = 0
    plane = stack * grid_d * grid_h * grid_w
    for c in range(channels):
        for a in range(kernel_d):
            v_d = a * step_d - pad_d
            for b in range(kernel_h):
                v_h = b * step_h - pad_h
                for k in range(kernel_w):
                    v_w = k * step_w - pad_w
                    phase = ((c * s_d + v_d % s_d) * s_h + v_h % s_h) * s_w + v_w % s_w
                    table[uintp(tap)] = phase * plane + ((v_d // s_d - low_d) * grid_h + v_h // s_h - low_h) * grid_w + v_w // s_w - low_w
                    tap += 1


@scalar
def grid_reach(count, grid_d, grid_h, grid_w, slabs, lines, columns):
    """Positions of the grid from the first output to the last one's."""
    return (((count - 1) * grid_d + slabs - 1) * grid_h + lines - 1) * grid_w + columns


@scalar
def multiply_grid(
    a, a_at, rows, depth, grid, own, table, table_at, out, out_at, image_step, row_step, slab_step, line_step, column_step,
    count, slabs, lines, columns, grid_d, grid_h, grid_w, tile, tile_at, tile_rows, lanes,
):  # fmt: skip
    """out (count images, rows, slabs, lines, columns) = a (rows up to a multiple of tile_rows, depth) @ the patches of the grid."""
    end = grid_reach(count, grid_d, grid_h, grid_w, slabs, lines, columns)
    for row in range(0, rows, tile_rows):
        start = a_at + row * depth
        for position in range(0, end, 3 * lanes):
            stop = min(end, position + 3 * lanes)
            if stop - position > 2 * lanes:
                shifted3(a, start, depth, 1, grid, own + position, 0, table, table_at, tile, tile_at, 3 * lanes, depth, 0)
            elif stop - position > lanes:
                shifted2(a, start, depth, 1, grid, own + position, 0, table, table_at, tile, tile_at, 3 * lanes, depth, 0)
            else:
                shifted1(a, start, depth, 1, grid, own + position, 0, table, table_at, tile, tile_at, 3 * lanes, depth, 0)
            keep_tile(
                tile, tile_at, 3 * lanes, min(tile_rows, rows - row), position, stop, out, out_at + row * row_step, image_step, row_step, slab_step, line_step, column_step,
                slabs, lines, columns, grid_d, grid_h, grid_w,
            )  # fmt: skip


@scalar
def multiply_grid_lines(
    a, a_at, rows, depth, grid, own, table, table_at, out, out_at, image_step, row_step, slab_step, line_step, column_step,
    count, slabs, lines, columns, grid_d, grid_h, grid_w, tile, tile_at, tile_rows, lanes,
):  # fmt: skip
    """The same for few rows: a row at a time, of which many vectors are in flight."""
    end = grid_reach(count, grid_d, grid_h, grid_w, slabs, lines, columns)
    for row in range(rows):
        for position in range(0, end, 8 * lanes):
            stop = min(end, position + 8 * lanes)
            shifted_line(a, a_at + row * depth, 0, 1, grid, own + position, 0, table, table_at, tile, tile_at, 0, depth, 0)
            keep_tile(
                tile, tile_at, 0, 1, position, stop, out, out_at + row * row_step, image_step, row_step, slab_step, line_step, column_step,
                slabs, lines, columns, grid_d, grid_h, grid_w,
            )  # fmt: skip


@scalar
def keep_tile(
    tile, tile_at, tile_step, rows, position, stop, out, out_at, image_step, row_step, slab_step, line_step, column_step, slabs, lines, columns, grid_d, grid_h, grid_w,
):  # fmt: skip
    """Copy a tile's outputs, leaving out positions that are none, to their places."""
    line = position // grid_w
    begin, h, d = position - line * grid_w, line % grid_h, line // grid_h
    image = d // grid_d
    d -= image * grid_d
    first = position
    while first < stop:
        last = min(stop, first + grid_w - begin)
        ends = min(columns, begin + last - first)
        if h < lines and d < slabs and begin < ends:
            target = out_at + image * image_step + d * slab_step + h * line_step + begin * column_step
            for i in range(rows):
                source = tile_at + i * tile_step + first - position
                if column_step == 1:
                    copy_line1(tile, source, 0, ends - begin, out, target + i * row_step, ends - begin)
                else:
                    for j in range(ends - begin):
                        out[uintp(target + i * row_step + j * column_step)] = tile[uintp(source + j)]
        first, begin, h = last, 0, h + 1
        if h == grid_h:  # counted on, since divisions would take longer than the copies
            h, d = 0, d + 1
            if d == grid_d:
                d, image = 0, image + 1


@scalar
def turn_outputs(
    g, base, image_step, feature_step, features, turned, own, first, slabs, lines, out_h, out_w, grid_d, grid_h, grid_w, end, panel, lanes,
):  # fmt: skip
    """turned (panels, positions to end, panel) = g with its features along the vectors; 0 where a position of the grid is no output."""
    for feature in range(0, features, panel):
        width = min(panel, features - feature)
        for line in range((end + grid_w - 1) // grid_w):
            slab, h = line // grid_h, line % grid_h
            at = own + feature * end + line * grid_w * panel
            inside = (h < lines) & (slab % grid_d < slabs)
            stop = out_w if inside else 0
            source = base + slab // grid_d * image_step + feature * feature_step + ((slab % grid_d) * out_h + first + h) * out_w
            whole, blocks = width - width % lanes, stop - stop % lanes
            for j in range(0, whole, lanes):
                for w in range(0, blocks, lanes):
                    turn_block(g, source + j * feature_step + w, feature_step, turned, at + w * panel + j, panel)
            for j in range(width):
                for w in range(blocks if j < whole else 0, stop):
                    turned[uintp(at + w * panel + j)] = g[uintp(source + j * feature_step + w)]
            for w in range(stop):
                for j in range(width, panel):
                    turned[uintp(at + w * panel + j)] = 0
            for k in range(stop * panel, min(grid_w, end - line * grid_w) * panel):
                turned[uintp(at + k)] = 0


@scalar
def spread_outputs(g, base, image_step, grid, own, first, slabs, lines, out_h, out_w, grid_d, grid_h, grid_w, end):
    """grid (positions to end) = a feature of g; 0 where a position is no output."""
    for line in range((end + grid_w - 1) // grid_w):
        slab, h = line // grid_h, line % grid_h
        at = own + line * grid_w
        stop = out_w if (h < lines) & (slab % grid_d < slabs) else 0
        source = base + slab // grid_d * image_step + ((slab % grid_d) * out_h + first + h) * out_w
        copy_line1(g, source, 0, stop, grid, at, min(grid_w, end - line * grid_w))
