"""The PTX text as data: its variables, its functions, and a kernel with its calls written out.

What instructions do is in `ptx_writer`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict

import numpy as np

TYPES = {
    f"{kind}{8 * size}": np.dtype(f"{'u' if kind == 'b' else 'i' if kind == 's' else kind}{size}")
    for kind in "usbf"
    for size in (1, 2, 4, 8)
    if kind != "f" or size > 1
}
SIZES = {**{name: type_.itemsize for name, type_ in TYPES.items()}, "pred": 0}


def statements(text: str) -> list[str]:
    """Statements of a PTX text without semicolons; functions' heads, labels (`name:`) and the braces of scopes are some
    too.
    """
    text = re.sub(r"//.*|^\.(version|target|address_size).*", "", text, flags=re.M)
    statements = re.findall(
        r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b[^;{]*|^\s*[{}](?=\s*$)|[$\w]+:(?!:)|[^\s;{}][^;]*(?=;)",
        text,
        flags=re.M,
    )
    return [statement.strip() for statement in statements if statement.strip()]


class Declared:
    """A variable: `.shared .align 16 .b8 name[64] = {…}`."""

    def __init__(self, text: str) -> None:
        self.space = re.search(r"\.(reg|param|local|shared|global|const)\b", text)[1]
        kind, self.name, count, values = re.search(
            r"\.([usbf]\d+)\s+([%$\w]+)(?:\[(\d+)\])?(?:\s*=\s*\{?([^}]*)\}?)?", text
        ).groups()
        self.size = SIZES[kind] * int(count or 1)
        self.align = int(result[1]) if (result := re.search(r"\.align (\d+)", text)) else SIZES[kind]
        self.values = (
            np.array([int(word, 0) for word in values.split(",")], TYPES[kind]).tobytes().ljust(self.size, b"\0")
            if values
            else None
        )


class Function:
    """A function of a text: its formal results and arguments, and its statements."""

    def __init__(self, head: str, body: list[str]) -> None:
        results, self.name, arguments = re.search(
            r"\.(?:entry|func)\s*(?:\(([^)]*)\))?\s*([$\w]+)\s*(?:\(([^)]*)\))?", head
        ).groups()
        self.results, self.arguments = (
            [Declared(word) for word in (part or "").split(",") if word.strip()] for part in (results, arguments)
        )
        self.body = body


def read(text: str) -> tuple[list[Declared], dict[str, Function]]:
    """A text's global variables and its functions."""
    variables, functions, rest = [], {}, iter(statements(text))
    head = ""
    for part in rest:
        if part == "{":
            body, depth = [], 1
            while depth:
                body.append(next(rest))
                depth += {"{": 1, "}": -1}.get(body[-1], 0)
            made = Function(head, body[:-1])
            functions[made.name] = made
        elif re.search(r"\.(entry|func)\b", part):
            head = part
        elif re.match(r"\.(common|visible|weak|extern|global|const|shared)\b", part):
            variables.append(Declared(part))
    return variables, functions


class Instruction:
    """`@!%p1 setp.gt.s32 %p2, %r1, 5`: guard, opcode's parts, operands, and what the text says."""

    def __init__(self, text: str) -> None:
        guard, opcode, rest = re.match(r"(?:@(!?[%\w]+)\s+)?([\w.]+)\s*(.*)", text, re.S).groups()
        self.text, self.guard, self.parts = " ".join(text.split()), guard, opcode.split(".")
        self.operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^\s,]+", rest)


def unknown(instruction: Instruction) -> NotImplementedError:
    """The error for an instruction, or a form of one, that no kernel had so far."""
    return NotImplementedError(
        f"`{instruction.text}`: the PTX machine does not know this instruction; teach it in tests/cuda/ptx_writer.py"
    )


class Program:
    """An entry with its calls written out:

    `code` with names that are unique, `labels`, and the registers and variables it needs.
    """

    def __init__(self, functions: dict[str, Function], entry: str, variables: list[Declared]) -> None:
        self.functions, self.code, self.labels = functions, [], {}
        self.registers: dict[str, str] = {}  # name: kind
        self.variables: dict[str, tuple[str, int]] = {}  # name: space and place there
        self.ends, self.spans = Counter(), defaultdict(list)  # of a space: bytes it needs, variables in it
        self._fresh = itertools.count()
        self.parameters = functions[entry].arguments
        names = {
            variable.name: self._variable_address(variable)
            for variable in [*variables, *self.parameters]
            if variable.space != "global"
        }
        self._write(functions[entry], names, "end")
        self.labels["end"] = len(self.code)
        self.code.append(Instruction("exit"))

    def _variable_address(self, variable: Declared) -> str:
        name = f"{variable.name}.{next(self._fresh)}"
        space = "local" if variable.space == "param" and variable not in self.parameters else variable.space
        start = -(-self.ends[space] // variable.align) * variable.align
        self.variables[name], self.ends[space] = (space, start), start + variable.size
        self.spans[space].append((start, start + variable.size))
        if space != "param":
            # nobody's, so that one array's end is not the next one's beginning
            self.ends[space] = -(-self.ends[space] // 128) * 128 + 128
        return name

    def _write(self, function: Function, names: dict[str, str], end: str) -> None:
        number = next(self._fresh)
        scopes = [{**names, **{label[:-1]: f"{label[:-1]}.{number}" for label in function.body if label.endswith(":")}}]

        def known(text: str) -> str:
            return re.sub(
                r"[%$A-Za-z_][%$\w]*",
                lambda match: next((scope[match[0]] for scope in reversed(scopes) if match[0] in scope), match[0]),
                text,
            )

        for line in function.body:
            if line == "{":
                scopes.append({})
            elif line == "}":
                scopes.pop()
            elif line.endswith(":"):
                self.labels[known(line[:-1])] = len(self.code)
            elif line.startswith(".reg"):
                kind, listed = re.match(r"\.reg\s+\.(\w+)\s+(.*)", line, re.S).groups()
                for name in listed.split(","):
                    stem, count = re.match(r"\s*([%\w]+)(?:<(\d+)>)?", name).groups()
                    for each_name in [f"{stem}{k}" for k in range(int(count))] if count else [stem]:
                        scopes[-1][each_name] = made = f"{each_name}.{next(self._fresh)}"
                        self.registers[made] = kind
            elif re.match(r"\.(param|local|shared)\b", line):
                variable = Declared(line)
                scopes[-1][variable.name] = self._variable_address(variable)
            elif line.startswith(".pragma") or line.startswith(".loc"):
                continue
            elif line.startswith("call"):
                results, name, arguments = re.match(
                    r"call(?:\.uni)?\s*(?:\(([^)]*)\)\s*,)?\s*([$\w]+)\s*(?:,\s*\(([^)]*)\))?", line
                ).groups()
                called, after = self.functions[name], f"after.{next(self._fresh)}"
                operands = [
                    known(part.strip())
                    for part in [*(results or "").split(","), *(arguments or "").split(",")]
                    if part.strip()
                ]
                self._write(
                    called, dict(zip([part.name for part in called.results + called.arguments], operands)), after
                )
                self.labels[after] = len(self.code)
            else:
                made = Instruction(re.sub(r"^(@\S+\s+)?(ret)$", rf"\1bra {end}", line))
                made.guard = made.guard and known(made.guard)
                made.operands = [known(operand) for operand in made.operands]
                self.code.append(made)
