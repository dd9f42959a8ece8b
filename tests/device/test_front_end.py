"""The front end of kernels: the same results as with Numba's own passes, which compile what it does not have."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from numod.device import compiler, cpu, front_end
from numod.kernel import build

PROVIDED = {"SINGLE": np.float32(0.1), "DOUBLE": np.float64(0.1)}
TEXTS = {
    "loops and jumps": """
    for i in range(n):
        if i == 2:
            continue
        if i > 6:
            break
        k = 0
        while k < i or k == 0:
            out[i] += x[uintp(k)] * 0.5
            k += 1
        while True:
            k -= 1
            if not k > 1:
                break
    for i in range(1, n, 3):
        out[i] += i
    for i in range(n - 1, -1, -2):
        out[i] -= 0.25 * i
    for i in range(5, n, m):
        out[i] += 100
    for i in range(uint64(n)):
        out[int64(i)] *= 2
""",
    "conditions": """
    for i in range(n):
        inside = 0 <= i - 3 < m and i != 4 or i == 0
        out[i] = (1 if inside else 0) + (x[i] if m > 2 and not inside else 7)
        if 1 and (inside or x[i] > 2.5) and not (i & 1):
            out[i] += 3 if 0 and m > 2 else 5
        elif i < 2 <= m:
            out[i] += 0.125
        else:
            pass
        out[i] += x[i] * (0.5 + int8(m > 2 or (0 and x[i] > 1))) + (i and x[i]) + float32(0.1) * (m < 2 or False)
        out[i] += float32(0.1) * (i > 2 or 0) + float32(0.1) * (i > 2 or (i and m > 1) or not 1) + (0 or i or 2)
""",
    "names": """
    a, b = 1, n
    a, b = b, a
    first = out[3], out[4] = (a, b + 0.5)
    out[5] = first[1] / 4
    first, last = both(a, b)
    low, high = (first, last) if first < last else (last, first)
    out[0], out[1] = low, high
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
    out[2] = total
    out[-1] = max(1, m, n) - min(n, m) + abs(-m) + (-7 // m) + (-7 % m) + (1 << 3 | 5 ^ m) + (n / m)
    out[3] = sign(x[1] - 100) + float32(0.1) + float64(float32(0.1)) + int64(-2.7)
""",
    "types that change": """
    value = 1
    for i in range(n):
        value = value + x[i]
        if i == 3:
            kept = 0.5
        else:
            kept = i
        out[i] = value + kept
""",
    "conditions of constants": """
    limit = 2
    zero = int32(n - n)
    positive = uint64(zero)
    out[0] = 1 / -(zero if 1 < limit else positive)
    out[1] = 1 / -(zero if 3 > 2 else positive)
    out[2] = 1 / -(zero if LIMIT > 2 and n == 9 else positive)
    out[3] = 1 / -(zero if 1 < LIMIT < 7 else positive)
    out[4] = 1 / -constant_test(zero, positive)
""",
    "globals": """
    first, second = PAIR
    out[0] = first + second * PAIR[1] + SINGLE * x[1] + DOUBLE
""",
    "default values": """
    out[0] = scaled(x[1]) + scaled(x[2], 2)
    out[1] = scaled(x[2], factor=3)
""",
    "a deep expression": f"""
    out[0] = {" + ".join(["x[0]"] * 700)}
    out[1] = out[2] = 1
""",
    "powers": """
    power = m
    power **= 2
    out[0] = x[1] ** x[2] + 2.0 ** x[3] + x[4] ** -x[1] + x[5] ** 0.75 + (m / n) ** (1 / m) + 0.5 ** 53 * float64(power)
    out[1] = m ** n + 2.5 ** m + 2 ** 3
""",
    "constant powers": """
    k = 3
    out[0] = x[1] ** 2 + x[2] ** k + m ** LIMIT
    out[1] = 1
""",
    "another iterable": """
    for i in (1, 2, 3):
        out[i] = x[i] + m
""",
}
HEAD = """
LIMIT, PAIR = 5, (2.5, 4)

@inlined_function
def constant_test(a, b):
    if LIMIT > 2:
        return a
    return b

@inlined_function
def scaled(value, factor=3):
    return value * factor

@inlined_function
def both(a, b):
    \"\"\"A function of two results.\"\"\"
    return a - b, a * b

@shared_function
def sign(value):
    if value > 0:
        return 1
    return -1 if value < 0 else 0

def part_of_a_loop_0(_first, _last, x, out):
    for i in range(uint64(_first), uint64(_last)):
        out[i] += x[int64(i)] * 2

def kernel(x, out, n, m):
"""
TAIL = "    divide(part_of_a_loop_0, n, 1, (x, out))\n"
LEFT_TO_NUMBA = {
    "types that change", "conditions of constants", "default values", "a deep expression", "another iterable",
    "constant powers",
}  # fmt: skip


def results(monkeypatch: pytest.MonkeyPatch, text: str, count: int, by_numba: bool) -> tuple[np.ndarray, list]:
    """The output of a kernel, and what the front end returned for each of its functions."""
    made, usual = [], front_end.compiled

    def compiled(state: object) -> object | None:
        result = None if by_numba else usual(state)
        made.append((state.func_id.func_qualname, result is not None))
        return result

    with monkeypatch.context() as patch:
        patch.setattr(front_end, "compiled", compiled)
        patch.setattr(compiler, "_helpers", {})  # those of other kernels are compiled already
        provided = build._provided(cpu) | PROVIDED
        patch.setattr(build, "_provided", lambda backend: provided)
        text = f"{HEAD}    # {count} {by_numba}\n{text.strip(chr(10))}\n{TAIL}"
        kernel = build.build(cpu, "sample", text, "float32[], float64[], int64, int64", count > 0)
    out = np.zeros(9)
    kernel.launch(np.arange(9, dtype=np.float32) + np.float32(0.3), out, 9, 3)
    return out, made


@pytest.mark.parametrize("name", TEXTS)
def test_results_are_those_of_numbas_passes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    out, made = results(monkeypatch, TEXTS[name], len(name), by_numba=False)
    expected, _ = results(monkeypatch, TEXTS[name], len(name), by_numba=True)
    assert out.tobytes() == expected.tobytes() and np.count_nonzero(out) > 2
    left = {function.partition("_")[0] for function, here in made if not here} - {"constant", "scaled"}
    assert len(made) > 1 and left == ({"sample"} if name in LEFT_TO_NUMBA else set())


def test_a_result_of_another_type_is_that_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    text = """
@device_function
def mixed(value):
    if value > 2:
        return 1
    return value * float32(0.5)

def kernel(x, out):
    for i in range(x.size):
        out[i] = mixed(x[i])
"""
    out = np.zeros(4)
    build.build(cpu, "mixed", text, "float32[], float64[]").launch(np.arange(4, dtype=np.float32), out)
    assert out.tolist() == [0.0, 0.5, 1.0, 1.0]


def test_two_kernels_of_one_name_have_their_own_text() -> None:
    functions = [build.function(cpu, "kernel", f"def kernel(x):\n    x[0] = {number}\n") for number in (3, 4)]
    values = [front_end._definition(function).body[0].value.value for function in functions]
    assert values == [3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t = (x[0], 1)\n    out[0] = t[5]", "tuple index out of range.*line 4"),
        ("x[0] = 1\n    out[0] = 99999999999999999999", "too large.*line 4"),
        ("x[0] = 1\n    out[0] = missing", "'missing' is not defined"),
    ],
)
def test_errors_are_those_of_numba(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    with pytest.raises(TypingError, match=f"(?s){message}"):
        build.build(cpu, "wrong", f"\ndef kernel(x, out):\n    {text}\n", "float32[], float64[]")


def test_recursion_is_refused_by_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    text = """
@device_function
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)

def kernel(out):
    out[0] = factorial(5)
"""
    with pytest.raises(TypingError, match="factorial"):
        build.build(cpu, "recursive", text, "float64[]")


def test_a_function_that_fails_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for each caller that is left to Numba because of it."""
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    walked, usual = [], front_end._lower

    def lower(state: object) -> None:
        walked.append(state.func_id.func_qualname.partition("_")[0])
        usual(state)

    monkeypatch.setattr(front_end, "_lower", lower)
    callers = "".join(
        f"@inlined_function\ndef caller{k}(value):\n    return {called}(value)\n"
        for k, called in enumerate(("missing", "caller0", "caller1"))
    )
    with pytest.raises(TypingError, match="missing"):
        build.build(cpu, "chain", f"{callers}\ndef kernel(x):\n    x[0] = caller2(x[1])\n", "float32[]")
    assert walked == ["chain", "caller2", "caller1", "caller0"]
