"""One object for several levels of x86-64: `cpuid` determines the level once; the caller's arena caches it.

The arena begins with a mark and the level. Without the mark (a new arena, or one that was overwritten), the level is
determined again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..device import helpers

ROOM = 64  # bytes of the arena before the kernel's
_MARK = 0x6E756D6F6400  # "numod", and a byte for the level
_V3 = (1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29, 1 << 3 | 1 << 5 | 1 << 8, 1 << 5, 0x6)
_V4 = (_V3[0], _V3[1] | 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31, _V3[2], 0xE6)
# machine code, since LLVM's library here has no assembler: cpuid(ptr to four i32, i32 leaf) and i32 xgetbv()
_CPUID = "53 89f0 31c9 0fa2 8907 895f04 894f08 89570c 5b c3"
_XGETBV = "31c9 0f01d0 c3"


def dispatcher(kernel: str, names: Sequence[str], ports: int) -> str:
    """LLVM IR of a function that calls the kernel for the processor's level. `names`: the kernels for v2, v3, v4."""
    arguments = [
        "ptr %result",
        "ptr %exception",
        "i64 %weights",
        "i64 %arena",
        *(f"i64 %port{k}" for k in range(ports)),
    ]
    call_arguments = ", ".join(argument if "arena" not in argument else "i64 %inner" for argument in arguments)
    kinds = ", ".join(argument.split()[0] for argument in arguments)
    declared = "\n".join(f"declare i32 @{name}({kinds})" for name in names)
    calls = "\n".join(
        f"level{k}:\n  %code{k} = call i32 @{name}({call_arguments})\n  ret i32 %code{k}"
        for k, name in enumerate(names)
    )
    cases = " ".join(f"i64 {_MARK + k}, label %level{k}" for k in range(1, len(names)))
    return f"""
{declared}
define i32 @{kernel}({", ".join(arguments)}) noinline nounwind {{
  %inner = add i64 %arena, {ROOM}
  %place = inttoptr i64 %arena to ptr
  %kept = load i64, ptr %place
  %mark = and i64 %kept, -256
  %known = icmp eq i64 %mark, {_MARK}
  br i1 %known, label %choose, label %ask
ask:
  %level = call i64 @numod_level()
  %marked = or i64 %level, {_MARK}
  store i64 %marked, ptr %place
  br label %choose
choose:
  %found = phi i64 [ %kept, %0 ], [ %marked, %ask ]
  switch i64 %found, label %level0 [ {cases} ]
{calls}
}}
declare i64 @numod_level()
"""


def level() -> str:
    """LLVM IR of @numod_level, which returns 0, 1 or 2 for v2, v3 and v4."""

    def cpuid_call(name: str, leaf: str) -> str:
        parts = "".join(
            f"  %{name}_{register} = extractvalue {{i32, i32, i32, i32}} %{name}, {k}\n"
            for k, register in enumerate(("a", "b", "c", "d"))
        )
        lines = f"  call void @numod_cpuid(ptr %words, i32 {leaf})\n"
        return f"{lines}  %{name} = load {{i32, i32, i32, i32}}, ptr %words\n{parts}"

    def has(level: str, needed: tuple[int, ...]) -> str:
        values = "%first_c", "%seventh_b", "%extended_c", "%system_a"
        lines = [f"  %{level}_all0 = or i1 true, false\n"]
        for k, (value, bits) in enumerate(zip(values, needed)):
            lines.append(
                f"  %{level}_bits{k} = and i32 {value}, {bits}\n  %{level}_has{k} = icmp eq i32 %{level}_bits{k}, "
                f"{bits}\n"
                f"  %{level}_all{k + 1} = and i1 %{level}_all{k}, %{level}_has{k}\n"
            )
        return "".join(lines)

    return f"""
declare void @numod_cpuid(ptr, i32)
declare i32 @numod_xgetbv()
define i64 @numod_level() noinline nounwind {{
  %words = alloca [4 x i32]
{cpuid_call("most", "0")}  %long = icmp uge i32 %most_a, 7
  br i1 %long, label %more, label %least
more:
{cpuid_call("first", "1")}  %saves = and i32 %first_c, {1 << 27}
  %system = icmp ne i32 %saves, 0
  br i1 %system, label %ask, label %least
ask:
{cpuid_call("seventh", "7")}{cpuid_call("extended", str(0x80000001 - (1 << 32)))}\
  %system_a = call i32 @numod_xgetbv()
{has("v3", _V3)}{has("v4", _V4)}  %third = zext i1 %v3_all4 to i64
  %level = select i1 %v4_all4, i64 2, i64 %third
  ret i64 %level
least:
  ret i64 0
}}
"""


def instructions() -> str:
    """LLVM IR of the functions written in machine code. LLVM cannot analyse them and must not optimise them."""
    return helpers.written_as_code("void", "numod_cpuid", "ptr, i32", _CPUID) + helpers.written_as_code(
        "i32", "numod_xgetbv", "", _XGETBV
    )
