"""The products that kernels of `block` compute: matrices, and convolutions with their gradients (implicit GEMM)."""

from __future__ import annotations

from .block import Operand, Product, Tile

_SHAPE = ("batches", "rows", "columns", "inner")
_IN_ORDER = "out[uintp((batch * rows + i) * columns + o)]"


def matrices(a_order: str, b_order: str, places: str, tile: Tile) -> Product:
    """out (batches, rows, columns) = bias (columns, or none) + a @ b, with any steps.

    Batches are runs of `together` batches; there are strides between runs and within a run. `a_order` and `b_order` are
    the contiguous dimensions (see `Operand.order`).
    """
    steps = ("together", "a_run", "a_batch", "a_row", "a_column", "b_run", "b_batch", "b_row", "b_column")
    a_at, b_at = "run * a_run + one * a_batch + o * a_row", "run * b_run + one * b_batch + o * b_column"
    left = Operand(a_order, "x", a_at, jumps=("1" if a_order == "outer" else "a_row", "a_column"), places=places)
    right = Operand(b_order, "y", b_at, jumps=("1" if b_order == "outer" else "b_column", "b_row"), places=places)
    # with a bias there is one product, or the parts of one
    added = {"added": f"{tile.read('bias[uintp(o)]')} if (bias.size > 0) & (batch == 0) else zero"}
    batch = ("run, one = batch // together, batch % together",)
    return Product(
        ("x", "y", "out", "bias", *_SHAPE, *steps), left, right, _IN_ORDER, added, batch, value="value + added"
    )


class _Geometry:
    """Index expressions that the products of a convolution share; dimensions d, h and w of size 1 are left out.

    `moves`: dimensions with several taps or padding; `spans` and `extends`: with several outputs or inputs.
    """

    def __init__(self, sizes: dict[str, int]) -> None:
        self.names = (*_SHAPE, *sizes)
        self.moves = [c for c in "dhw" if sizes[f"kernel_{c}"] > 1 or sizes[f"pad_{c}"] > 0]
        self.spans = [c for c in "dhw" if c in self.moves or sizes[f"out_{c}"] > 1]
        self.extends = [c for c in "dhw" if c in self.moves or sizes[_SIZES[c]] > 1]
        self.strided = [c for c in self.extends if sizes[f"stride_{c}"] > 1]
        self.lines = (
            "taps = kernel_d * kernel_h * kernel_w",
            "positions = out_d * out_h * out_w",
            "places = depth * height * width",
        )
        divisors = ["taps", *(f"{name}_{c}" for c in "dhw" for name in ("kernel", "stride", "out")), *_SIZES.values()]
        self.lines += tuple(f"by_{divisor} = reciprocal32({divisor})" for divisor in divisors)
        self.batch = ("part, group = batch // groups, batch % groups",)  # each batch sums one part of a group

    def tap(self, index: str, channel: str) -> dict[str, str]:
        """The channel of a patch element, and its offset from the first tap."""
        return _split(index, channel, {c: f"kernel_{c}" for c in self.moves}, "tap", "* step_{}")

    def patch(self, index: str) -> dict[str, str]:
        """The image of an output position, and the input position under the kernel's first tap."""
        return _split(index, "image", {c: f"out_{c}" for c in self.spans}, "at", "* stride_{0} - pad_{0}")

    def within(self) -> str:
        """Whether a tap lies within the input; as unsigned numbers, negative indices are large."""
        return "".join(f" & (uint32(at_{c} + tap_{c}) < uint32({_SIZES[c]}))" for c in self.moves)[3:]

    @staticmethod
    def input(name: str, letters: list[str]) -> str:
        """The offset of an input element within its channel."""
        return (
            " + ".join(
                {"d": f"{name}_d * height * width", "h": f"{name}_h * width", "w": f"{name}_w"}[c] for c in letters
            )
            or "0"
        )

    @staticmethod
    def output(terms: dict[str, str]) -> str:
        """The offset of an output within its feature, from its indices along some dimensions."""
        return (
            " + ".join(
                {"d": "({}) * out_h * out_w", "h": "({}) * out_w", "w": "{}"}[c].format(term)
                for c, term in terms.items()
            )
            or "0"
        )


_SIZES = {"d": "depth", "h": "height", "w": "width"}


def _split(index: str, last: str, sizes: dict[str, str], name: str, then: str) -> dict[str, str]:
    """An index split into one per dimension, innermost first; `last` is the remaining quotient."""
    parts, rest = {}, index
    for c in reversed(sizes):
        parts[f"over_{c}"] = f"quotient_by({rest}, by_{sizes[c]})"
        parts[f"{name}_{c}"] = f"int32(({rest} - over_{c} * {sizes[c]}) {then.format(c)})"
        rest = f"over_{c}"
    return {**parts, last: f"int32({rest})"}


def convolution(sizes: dict[str, int]) -> Product:
    """out (parts, ...) = weight (features, channels * taps) @ patches (channels * taps, images * positions).

    There is a product for each group; a part has a run of `inner`, whole channels.
    """
    geometry = _Geometry(sizes)
    left = Operand("inner", "weight", "(group * features + o) * terms + part * inner", jumps=("terms", "1"))
    at = f"((image * groups + group) * channels + part * run) * places + {geometry.input('at', geometry.spans)}"
    if geometry.moves:
        right = Operand(
            "outer",
            "x",
            at,
            f"channel * places + {geometry.input('tap', geometry.moves)}",
            outer=geometry.patch("o"),
            inner=geometry.tap("k", "channel"),
            inside=geometry.within(),
        )
    else:
        right = Operand("outer", "x", at, jumps=("", "places"), outer=geometry.patch("o"))
    column = {
        "image": "quotient32(o, positions)",
        "target": "((part * images + image) * groups + group) * features * positions + o - image * positions",
    }
    lines = (*geometry.lines, "terms, run = channels * taps, inner // taps")
    return Product(
        ("x", "weight", "out", *geometry.names),
        left,
        right,
        "out[uintp(target + i * positions)]",
        column,
        geometry.batch,
        lines,
    )


def convolution_input(sizes: dict[str, int]) -> Product:
    """out (parts, ...) = weight^T (channels, features * taps) @ gradients (features * taps, images * positions).

    Positions are those of the input; the right matrix has the output gradients under each tap. There is a product for
    each group; a part has a run of `inner`, whole features.
    """
    geometry = _Geometry(sizes)
    places = _split("o", "image", {c: _SIZES[c] for c in geometry.extends}, "at", "+ pad_{}")
    taps = {"feature": "quotient_by(k, by_taps)", "tap": "k - feature * taps"}
    at = "((group * features + part * run) * channels + o) * taps"
    left = Operand("inner", "weight", at, "feature * channels * taps + tap", ("taps", ""), inner=taps)
    unstrided, moved = (
        [c for c in geometry.extends if c not in geometry.strided],
        [c for c in geometry.moves if c not in geometry.strided],
    )
    outputs = {c: f"at_{c}" for c in unstrided}
    at = f"((image * groups + group) * features + part * run) * positions + {geometry.output(outputs)}"
    shift = f"feature * positions - ({geometry.output({c: f'tap_{c}' for c in moved})})"
    from_ = {c: f"at_{c} - tap_{c}" if c in geometry.moves else f"at_{c}" for c in geometry.extends}
    quotients = {c: f"quotient_by(max({from_[c]}, 0), by_stride_{c})" for c in geometry.strided}
    inside = [f"(uint32({from_[c]}) < uint32(out_{c}))" for c in moved]
    inside += [f"({from_[c]} == {quotients[c]} * stride_{c}) & ({quotients[c]} < out_{c})" for c in geometry.strided]
    joint = geometry.output(quotients) if quotients else ""
    right = Operand(
        "outer",
        "g",
        at,
        shift,
        outer=places,
        inner=geometry.tap("k", "feature"),
        inside=" & ".join(inside),
        joint=joint,
    )
    column = {
        "image": "quotient32(o, places)",
        "target": "((part * images + image) * groups + group) * channels * places + o - image * places",
    }
    lines = (*geometry.lines, "run = inner // taps")
    return Product(
        ("g", "weight", "out", *geometry.names),
        left,
        right,
        "out[uintp(target + i * places)]",
        column,
        geometry.batch,
        lines,
    )


def convolution_weight(sizes: dict[str, int]) -> Product:
    """out (parts, groups, features, channels * taps) = g (features, images * positions) @ patches^T.

    Each part has a run of `inner` positions.
    """
    geometry, output_index, valid = _Geometry(sizes), "part * inner + k", "(part * inner + k < images * positions)"
    place_of_term = {
        "over": f"int32({output_index})",
        "image": "quotient_by(over, by_positions)",
        "position": "over - image * positions",
    }
    left = Operand(
        "inner",
        "g",
        "o * positions",
        "(image * groups + group) * features * positions + position",
        ("positions", ""),
        inner=place_of_term,
        inside=valid,
    )
    shift = f"(image * groups + group) * channels * places + {geometry.input('at', geometry.spans)}"
    inside = " & ".join(condition for condition in (valid, geometry.within()) if condition)
    right = Operand(
        "inner",
        "x",
        f"channel * places + {geometry.input('tap', geometry.moves)}",
        shift,
        outer=geometry.tap("o", "channel"),
        inner={"output_index": f"int32({output_index})", **geometry.patch("output_index")},
        inside=inside,
    )
    lines = (*geometry.lines, "by_positions = reciprocal32(positions)")
    return Product(("g", "x", "out", *geometry.names), left, right, _IN_ORDER, {}, geometry.batch, lines)
