"""`ptx_machine` itself: what it runs, what it finds wrong, and how it rounds.

That kernels run on it is in `test_ptx_machine`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ptx_arithmetic import FRAGMENTS, Fault, converted, directed, exchanged, fused, matrices, numbers, odd_sum, quotient
from ptx_machine import Machine

HEAD = (
    ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 out)\n{\n.reg .pred "
    "%p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.shared .align 4 .b8 near[256];\n"
)
START = (
    "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, near;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, "
    "%r3;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nsetp.lt.u32 %p1, %r1, 32;\n"
)


def run(body: str, blocks: int = 1, threads: int = 64) -> np.ndarray:
    """What a kernel wrote to 64 words that were 0."""
    machine = Machine(1 << 16)
    module = machine.load(f"{HEAD}{START}{body}\nret;\n}}\n")
    out = machine.allocate(256)
    machine.host(out, 256, True)
    machine.launch(machine.kernels[machine.entry(module, "kernel") - 1], blocks, threads, np.uint64(out).tobytes())
    return machine.memory.bytes[out - machine.origin :][:256].view("u4")


def test_the_machine_runs_branches_barriers_and_shared_memory() -> None:
    transposed_words = (
        "st.shared.u32 [%r4], %r1;\nbar.sync 0;\nsub.s32 %r5, 252, %r3;\nadd.s32 %r5, %r5, %r2;\nld.shared.u32 "
        "%r6, [%r5];\n@%p1 bra $L;\nadd.s32 %r6, %r6, 100;\n$L:\nst.global.u32 [%rd3], %r6;"
    )
    assert run(transposed_words).tolist() == [63 - k if k < 32 else 163 - k for k in range(64)]
    assert run("shl.b32 %r5, %r1, 26;\nmul.lo.s32 %r5, %r5, 3;\nst.global.u32 [%rd3], %r5;").tolist() == [
        (k << 26) * 3 & 0xFFFFFFFF for k in range(64)
    ]


# of four threads the same
COPY = (
    "and.b32 %r7, %r1, 15;\nshl.b32 %r7, %r7, 4;\nadd.s32 %r4, %r2, %r7;\ncvt.u64.u32 %rd4, %r7;\nadd.s64 %rd4, "
    "%rd1, %rd4;\ncp.async.cg.shared.global [%r4], [%rd4], 16, 10;\n"
)


@pytest.mark.parametrize(("body", "message"), [
    ("st.global.u32 [%rd3+4], %r1;", "write outside of global memory, by 1 threads; the first is thread 63"),
    ("st.global.u32 [%rd3+2], %r1;", "misaligned access to global memory, by 64"),
    ("ld.global.v2.u32 {%r5, %r6}, [%rd1+4];", "misaligned"),
    ("ld.shared.u32 %r5, [%r4];", "shared memory is read that nobody wrote"),
    ("st.shared.u32 [%r4+4], %r1;", "write outside of shared memory, by 1 threads"),
    ("setp.lt.u32 %p2, %r1, 40;\n@%p2 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f1, %f1, %f1}, {%r1, "
     "%r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};", "some threads of a warp are not there"),
    ("st.shared.u32 [%r4], %r1;\nbar.sync 0;\nsetp.lt.u32 %p2, %r1, 40;\n@%p2 "
     "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r5, %r5, %r5}, [%r2];", "some threads of a warp are not there"),
    (f"{COPY}ld.shared.u32 %r5, [%r4];", "shared memory is read that nobody wrote"),
    (f"{COPY}cp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 %r5, [%r4];", "shared memory is read that "
                                                                                         "nobody wrote"),
    (f"{COPY}cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 %r5, [%r2];", "race: shared memory is read "
                                                                                         "that another thread wrote"),
    ("@%p1 bra $L;\nbar.sync 0;\n$L:", "a barrier is reached by 32 of 64"),
    ("st.shared.u32 [%r4], %r1;\nsub.s32 %r5, 252, %r3;\nadd.s32 %r5, %r5, %r2;\nld.shared.u32 %r6, [%r5];", "race: shared memory is read that another thread wrote"),
    ("st.shared.u32 [%r4], %r1;\nbar.sync 0;\nld.shared.u32 %r6, [%r2];\nst.shared.u32 [%r4], %r1;", "race: shared "
                                                                                                     "memory is "
                                                                                                     "written that "
                                                                                                     "another thread "
                                                                                                     "read"),
    ("st.global.u32 [%rd1], %r1;", "race: global memory is written by several threads at once"),
    ("st.global.u32 [%rd3], %r1;\nbar.sync 0;\natom.global.add.u32 %r5, [%rd1], %r1;\nld.global.u32 %r6, [%rd1];", "race: global memory is read that another thread wrote"),
    ("st.global.u32 [%rd3], %r1;\natom.global.add.u32 %r5, [%rd1], %r1;", "race: global memory is changed atomically "
                                                                          "that another thread read or wrote"),
], ids=range(16))  # fmt: skip
def test_the_machine_finds_what_is_wrong(body: str, message: str) -> None:
    with pytest.raises(Fault, match=message):
        run(body)


def test_the_machine_copies_by_itself() -> None:
    """Ten bytes of sixteen, and the rest is 0."""
    body = (
        f"st.global.u32 [%rd3], 0xFFFFFFFF;\nbar.sync 0;\n{COPY}cp.async.commit_group;\ncp.async.wait_group "
        "0;\nbar.sync 0;\nadd.s32 %r5, %r2, %r3;\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd3], %r6;"
    )
    assert run(body).tolist() == [0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF, 0] * 16


def test_the_machine_adds_atomically() -> None:
    assert run("st.global.u32 [%rd3], %r1;\nbar.sync 0;\natom.global.add.u32 %r5, [%rd1], %r1;").tolist()[:3] == [
        63 * 32,
        1,
        2,
    ]


def test_the_machine_exchanges_what_is_as_expected() -> None:
    """One thread of 64 finds the zero, and the others what that one wrote."""
    result = run("atom.global.cas.b32 %r5, [%rd1], 0, 7;")
    assert result.tolist() == [7] + [0] * 63
    assert exchanged(np.array([1, 2]), np.array([1, 1]), np.array([5, 6])).tolist() == [5, 2]


def test_the_machine_multiplies_matrices() -> None:
    rng = np.random.default_rng(0)
    for shape, kind, inner, dtype in (
        ("m16n8k16", "f16", 16, "f2"),
        ("m16n8k16", "bf16", 16, "u2"),
        ("m16n8k8", "tf32", 8, "f4"),
    ):
        a, b, c = (rng.integers(-4, 5, size).astype("f4") for size in ((16, inner), (inner, 8), (16, 8)))
        lanes = [
            np.zeros((32, count), dtype if k < 2 else "f4")
            for k, count in enumerate((FRAGMENTS[shape, "a"][0], FRAGMENTS[shape, "b"][0], 4))
        ]
        operands = [(operand.view("u4") >> 16).astype("u2") if kind == "bf16" else operand for operand in (a, b)] + [c]
        for lane in range(32):
            g, t = lane // 4, lane % 4
            near = [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)]  # words of a, in units of registers
            width = 1 if kind == "tf32" else 2
            for register, (row, column) in enumerate(near):
                lanes[0][lane, register * width : (register + 1) * width] = operands[0][
                    row, column * width : (column + 1) * width
                ]
            for register, row in enumerate((t, t + 4)):
                lanes[1][lane, register * width : (register + 1) * width] = operands[1][
                    row * width : (row + 1) * width, g
                ]
            lanes[2][lane] = [c[g, 2 * t], c[g, 2 * t + 1], c[g + 8, 2 * t], c[g + 8, 2 * t + 1]]
        actual = matrices(shape, kind, lanes[0].view("u4")[None], lanes[1].view("u4")[None], lanes[2][None])[0]
        expected = a @ b + c
        assert all(
            actual[lane].tolist() == [expected[lane // 4 + 8 * h, lane % 4 * 2 + e] for h in (0, 1) for e in (0, 1)]
            for lane in range(32)
        )
    with pytest.raises(Fault, match="more bits"):
        numbers(np.array([1], "u4"), "tf32")


@pytest.mark.parametrize("transposed", [False, True])
def test_the_machine_deals_matrices_to_a_warp(transposed: bool) -> None:
    """Thread k gives the address of row k % 8 of matrix k / 8, here the (31 - k)-th 16 bytes; that is, of elements,
    from 8 (31 - k) on.
    """
    filled = "shl.b32 %r5, %r1, 3;\n" + "".join(
        f"add.s32 %r6, %r5, {2 * j};\nadd.s32 %r7, %r6, 1;\nshl.b32 %r7, %r7, 16;\nor.b32 %r6, %r6, "
        f"%r7;\nst.shared.u32 [%r8+{4 * j}], %r6;\n"
        for j in range(4)
    )
    read = f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if transposed else ''}.shared.b16 {{%r3, %r5, %r6, %r7}}, [%r4];\n"
    for matrix, register in enumerate(("%r3", "%r5", "%r6", "%r7")):
        body = (
            "mov.u32 %r2, wide;\nshl.b32 %r3, %r1, 4;\nadd.s32 %r8, %r2, %r3;\nsub.s32 %r4, 496, %r3;\nadd.s32 "
            f"%r4, %r4, %r2;\n{filled}bar.sync 0;\n{read}st.global.u32 [%rd3], {register};"
        )
        result = run(".shared .align 16 .b8 wide[512];\n" + body, threads=32)[:32]
        for k in range(32):
            row, column = k // 4, 2 * (k % 4)
            places = [(column, row), (column + 1, row)] if transposed else [(row, column), (row, column + 1)]
            assert [int(result[k]) & 0xFFFF, int(result[k]) >> 16] == [8 * (31 - 8 * matrix - i) + j for i, j in places]


def test_the_machine_finds_blocks_that_write_one_place() -> None:
    body = "mov.u32 %r5, %ctaid.x;\nst.global.u32 [%rd3], %r5;"
    assert not run(body, blocks=1).any()
    with pytest.raises(Fault, match="race: global memory is written by several threads"):
        run(body, blocks=2)


def test_the_machine_rounds_once() -> None:
    rng = np.random.default_rng(0)
    x, y, z = (
        rng.standard_normal(4000).astype("f4") * np.float32(2.0) ** rng.integers(-70, 30, 4000).astype("f4")
        for _ in range(3)
    )
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z)]
    odd = odd_sum(x.astype("f8") * y.astype("f8"), z.astype("f8"))
    for how, right in (
        ("rm", lambda lower, upper, value: lower <= value < upper),
        ("rp", lambda lower, upper, value: lower < value <= upper),
    ):
        actual = directed(odd, how)
        beside = np.nextafter(actual, np.float32(np.inf if how == "rm" else -np.inf))
        ends = (actual, beside) if how == "rm" else (beside, actual)
        assert all(
            right(Fraction(float(lower)), Fraction(float(upper)), value) for lower, upper, value in zip(*ends, exact)
        )
    nearest = fused()(x, y, z)
    assert all(
        abs(Fraction(float(a)) - value) <= abs(Fraction(float(b)) - value)
        for other in (np.inf, -np.inf)
        for a, b, value in zip(nearest, np.nextafter(nearest, np.float32(other)), exact)
    )
    assert converted(np.array([np.nan, 3e9, -3e9, 2.5, -0.5], "f4"), np.dtype("i4"), "rni", False).tolist() == [
        0,
        2**31 - 1,
        -(2**31),
        2,
        0,
    ]
    assert quotient(np.array([-7, 7, -7, 5], "i4"), np.array([2, -2, -2, 0], "i4")).tolist() == [-3, -3, 3, -1]
