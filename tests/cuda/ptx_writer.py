"""A PTX program written as Python: each basic block becomes a function over the threads that are there, each register a
view of an array.
"""

from __future__ import annotations

import re

import numpy as np
from ptx_text import SIZES, TYPES, Instruction, Program, unknown

DONE, WAITING = 1 << 30, 1 << 29  # places in the text of threads that ended, and offset of those at a barrier
COMPARED = {
    "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}",
    "ge": "{0} >= {1}", "lo": "{0} < {1}", "hi": "{0} > {1}",
}  # fmt: skip
UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
SPECIAL = {"%tid.x": "thread", "%ctaid.x": "block", "%ntid.x": "threads", "%nctaid.x": "blocks"}
SIMPLE = {  # opcodes whose operands are all of one kind, which is that of the result
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "mad": "{0} * {1} + {2}", "abs": "np.abs({0})",
    "neg": "(-{0})", "mov": "{0}", "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}",
    "fma": "fused()({0}, {1}, {2})", "copysign": "np.copysign({1}, {0})", "sqrt": "np.sqrt({0})", "cvta": "{0}",
}  # fmt: skip
APPROXIMATE = {
    "rcp": "1 / {0}", "rsqrt": "1 / np.sqrt({0})", "ex2": "np.exp2({0})", "lg2": "np.log2({0})", "div": "{0} / {1}",
    "sin": "np.sin({0})", "cos": "np.cos({0})", "sqrt": "np.sqrt({0})",
}  # fmt: skip


class Writer:
    """A program as Python:

    `source`, functions `step0(m)`, `step1(m)` … of the threads m that are at that basic block; `used` are names of
    registers' views.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.used, self.constants = program, {}, {}
        code = program.code
        ends = {
            k + 1 for k, instruction in enumerate(code) if instruction.parts[0] in ("bra", "bar", "exit", "barrier")
        }
        starts = sorted({0, *program.labels.values(), *ends} - {len(code)})
        self.numbers = {start: k for k, start in enumerate(starts)}
        self.lengths = [stop - start for start, stop in zip(starts, [*starts[1:], len(code)])]
        lines = []
        for k, start in enumerate(starts):
            lines.append(f"def step{k}(m):")
            for position in range(start, start + self.lengths[k]):
                lines += ["    " + line for line in self._lines(position, code[position])]
            if code[start + self.lengths[k] - 1].parts[0] not in ("bra", "bar", "barrier", "exit"):
                lines.append(f"    pc[m] = {k + 1}")
        self.source = "\n".join(lines)

    def _lines(self, position: int, instruction: Instruction) -> list[str]:
        name = instruction.parts[0]
        if name in ("bra", "exit", "bar", "barrier"):
            after = self.numbers.get(position + 1, DONE)
            if name in ("bar", "barrier"):
                if instruction.guard or not ({"sync"} & {*instruction.parts}) or instruction.operands != ["0"]:
                    raise unknown(instruction)
                return [f"pc[m] = {WAITING + after}"]
            target = DONE if name == "exit" else self.numbers[self.program.labels[instruction.operands[0]]]
            return [
                f"pc[m] = np.where({self._guard(instruction.guard)}, {target}, {after})"
                if instruction.guard
                else f"pc[m] = {target}"
            ]
        lines = self._operation(position, instruction)
        if instruction.guard:
            return [f"every = m; m = those(m, {self._guard(instruction.guard)})", *lines, "m = every"]
        return lines

    def _guard(self, guard: str) -> str:
        return ("~" if guard.startswith("!") else "") + self.read(guard.lstrip("!"), "pred")

    def view(self, register: str, kind: str) -> str:
        """The name of a register seen as of a kind."""
        name = f"{re.sub(r'[^A-Za-z0-9]', '_', register)}_{kind}"
        self.used[name] = register, kind
        return name

    def read(self, operand: str, kind: str) -> str:
        """The text of an operand's value, as of a kind."""
        if operand in self.program.registers:
            register_type = self.program.registers[operand]
            if register_type == "pred" or SIZES[register_type] == SIZES[kind]:
                return f"{self.view(operand, kind)}[m]"
            return f"{self.view(operand, 'u' + register_type[1:])}[m].astype('{TYPES[kind].str}')"
        if operand in SPECIAL:
            return f"{SPECIAL[operand]}[m]"
        if kind == "pred":
            return str(operand != "0")
        if operand in self.program.variables:
            value: object = self.program.variables[operand][1]
        elif re.match(r"0[fFdD][0-9a-fA-F]+$", operand):
            bits = int(operand[2:], 16)
            value = np.array(bits, "u4" if operand[1] in "fF" else "u8").view("f4" if operand[1] in "fF" else "f8")[()]
            if kind[0] != "f":
                value = bits
        elif re.match(r"-?\d|0x", operand):
            value = int(operand.rstrip("U"), 0)
        else:
            return f"np.uint64(address({operand!r}))"
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(
            value if isinstance(value, np.floating) else int(value) & (1 << 8 * SIZES[kind]) - 1,
            None if isinstance(value, np.floating) else f"u{SIZES[kind]}",
        )
        self.constants[name] = (
            self.constants[name].astype(TYPES[kind])[()]
            if isinstance(value, np.floating)
            else self.constants[name].view(TYPES[kind])[()]
        )
        return name

    def put(self, register: str, kind: str, value: str) -> str:
        """A line that gives a register a value of a kind."""
        register_type = self.program.registers[register]
        if register_type == "pred":
            return f"{self.view(register, 'pred')}[m] = {value}"
        if SIZES[register_type] > SIZES[kind]:
            kind = kind[0] + register_type[1:]
        return f"{self.view(register, kind)}[m] = {value}"

    def _operation(self, position: int, instruction: Instruction) -> list[str]:
        parts, operands = instruction.parts, instruction.operands
        name, kind = parts[0], parts[-1]
        method = getattr(self, f"_{name}", None)
        if "cc" in parts or name in ("addc", "subc", "madc"):
            return self._carried(instruction)
        if method:
            return method(position, instruction)
        values = [self.read(operand, kind) for operand in operands[1:]]
        if "approx" in parts or (name in APPROXIMATE and name not in SIMPLE and kind[0] == "f"):
            return [self.put(operands[0], kind, self._approximate(instruction, values))]
        if name not in SIMPLE or {"sat", "ftz", "hi", "wide"} & {*parts}:
            raise unknown(instruction)
        if kind == "f32" and {"rz", "rm", "rp"} & {*parts} and name in ("add", "sub", "mul", "fma"):
            x, y, *z = (f"{value}.astype('f8')" for value in values)
            exact = {
                "add": f"odd_sum({x}, {y})",
                "sub": f"odd_sum({x}, -{y})",
                "mul": f"{x} * {y}",
                "fma": f"odd_sum({x} * {y}, {z[0] if z else ''})",
            }[name]
            return [self.put(operands[0], kind, f"directed({exact}, '{parts[1]}')")]
        if kind[0] == "f" and {"rz", "rm", "rp"} & {*parts}:
            raise unknown(instruction)
        return [self.put(operands[0], kind, SIMPLE[name].format(*values))]

    def _approximate(self, instruction: Instruction, values: list[str]) -> str:
        text = APPROXIMATE[instruction.parts[0]]
        if "ftz" in instruction.parts and instruction.parts[-1] == "f32":
            return f"flushed(({text.format(*(f'flushed({value})' for value in values))}))"
        if (
            instruction.parts[-1] == "f64" and "approx" in instruction.parts
        ):  # the upper 32 bits are all that the instruction gives
            return (
                f"(np.asarray({text.format(*(f'flushed({value})' for value in values))}).view('u8') & "
                "np.uint64(0xFFFFFFFF00000000)).view('f8')"
            )
        return text.format(*values)

    def _carried(self, instruction: Instruction) -> list[str]:
        values = [self.read(operand, "u32") for operand in instruction.operands[1:]]
        values += ["np.uint32(0)"] * (3 - len(values))
        lines = [
            f"value, out = carried({instruction.parts!r}, {', '.join(values)}, carry[m])",
            self.put(instruction.operands[0], "u32", "value"),
        ]
        return [*lines, "carry[m] = out"] if "cc" in instruction.parts else lines

    def _mov(self, position: int, instruction: Instruction) -> list[str]:
        target, source, kind = instruction.operands[0], instruction.operands[1], instruction.parts[-1]
        if target.startswith("{"):  # a register in parts, the lowest first
            parts = [part.strip() for part in target.strip("{}").split(",")]
            bits = 8 * SIZES[kind] // len(parts)
            whole = self.read(source, f"u{8 * SIZES[kind]}")
            return [
                self.put(
                    part,
                    f"u{bits}",
                    f"(np.asarray({whole}) >> "
                    f"np.{TYPES[f'u{8 * SIZES[kind]}'].name}({k * bits})).astype('u{bits // 8}')",
                )
                for k, part in enumerate(parts)
                if part != "_"
            ]
        if source.startswith("{"):
            parts = [part.strip() for part in source.strip("{}").split(",")]
            bits, number = 8 * SIZES[kind] // len(parts), f"u{8 * SIZES[kind]}"
            joined = " | ".join(
                f"np.asarray({self.read(part, f'u{bits}')}).astype('u{SIZES[kind]}') << "
                f"np.{TYPES[number].name}({k * bits})"
                for k, part in enumerate(parts)
            )
            return [self.put(target, number, joined)]
        return [self.put(target, kind, self.read(source, kind))]

    def _mul(self, position: int, instruction: Instruction) -> list[str]:
        kind, (target, *operands) = instruction.parts[-1], instruction.operands
        values = [self.read(operand, kind) for operand in operands]
        if "hi" in instruction.parts:
            return [self.put(target, kind, f"high_product({values[0]}, {values[1]})")]
        if "wide" in instruction.parts:
            wide = f"{kind[0]}{2 * int(kind[1:])}"
            return [
                self.put(
                    target, wide, f"{values[0]}.astype('{TYPES[wide].str}') * {values[1]}.astype('{TYPES[wide].str}')"
                )
            ]
        return [self.put(target, kind, f"{values[0]} * {values[1]}")]

    def _mad(self, position: int, instruction: Instruction) -> list[str]:
        kind, (target, x, y, z) = instruction.parts[-1], instruction.operands
        if "wide" in instruction.parts:
            wide = f"{kind[0]}{2 * int(kind[1:])}"
            return [
                self.put(
                    target,
                    wide,
                    f"{self.read(x, kind)}.astype('{TYPES[wide].str}') * "
                    f"{self.read(y, kind)}.astype('{TYPES[wide].str}') + {self.read(z, wide)}",
                )
            ]
        return [self.put(target, kind, f"{self.read(x, kind)} * {self.read(y, kind)} + {self.read(z, kind)}")]

    def _div(self, position: int, instruction: Instruction) -> list[str]:
        kind, (target, *operands) = instruction.parts[-1], instruction.operands
        values = [self.read(operand, kind) for operand in operands]
        if kind[0] == "f":
            return [self.put(target, kind, self._approximate(instruction, values))]
        return [self.put(target, kind, f"quotient({values[0]}, {values[1]})")]

    def _rem(self, position: int, instruction: Instruction) -> list[str]:
        x, y = (self.read(operand, instruction.parts[-1]) for operand in instruction.operands[1:])
        return [self.put(instruction.operands[0], instruction.parts[-1], f"{x} - quotient({x}, {y}) * {y}")]

    def _min(self, position: int, instruction: Instruction) -> list[str]:
        name = ("f" if instruction.parts[-1][0] == "f" and "NaN" not in instruction.parts else "") + instruction.parts[
            0
        ]
        function = {"min": "np.minimum", "max": "np.maximum", "fmin": "np.fmin", "fmax": "np.fmax"}[name]
        return [
            self.put(
                instruction.operands[0],
                instruction.parts[-1],
                f"{function}({', '.join(self.read(operand, instruction.parts[-1]) for operand in instruction.operands[1:])})",
            )
        ]

    _max = _min

    def _shl(self, position: int, instruction: Instruction) -> list[str]:
        kind = instruction.parts[-1]
        return [
            self.put(
                instruction.operands[0],
                kind,
                f"shifted({self.read(instruction.operands[1], kind)}, {self.read(instruction.operands[2], 'u32')}, "
                f"{instruction.parts[0] == 'shl'})",
            )
        ]

    _shr = _shl

    def _selp(self, position: int, instruction: Instruction) -> list[str]:
        kind, (target, x, y, condition) = instruction.parts[-1], instruction.operands
        return [
            self.put(
                target, kind, f"np.where({self.read(condition, 'pred')}, {self.read(x, kind)}, {self.read(y, kind)})"
            )
        ]

    def _setp(self, position: int, instruction: Instruction) -> list[str]:
        how, kind, (target, *operands) = instruction.parts[1], instruction.parts[-1], instruction.operands
        if len(operands) > 2 or "|" in target or len(instruction.parts) > 3:
            raise unknown(instruction)
        kind = "u" + kind[1:] if how in ("lo", "hi") else kind
        x, y = (self.read(operand, kind) for operand in operands)
        lost = f"(np.isnan({x}) | np.isnan({y}))"
        if how in ("nan", "num"):
            text = lost if how == "nan" else f"~{lost}"
        elif how in UNORDERED:
            text = f"({COMPARED[UNORDERED[how]].format(x, y)}) | {lost}"
        else:
            text = COMPARED[how].format(x, y) + (f" & ~{lost}" if how == "ne" and kind[0] == "f" else "")
            text = f"({COMPARED[how].format(x, y)}) & ~{lost}" if how == "ne" and kind[0] == "f" else text
        return [self.put(target, "pred", text)]

    def _cvt(self, position: int, instruction: Instruction) -> list[str]:
        to, source = instruction.parts[-2:]
        if to == "tf32":  # to nearest, halves away from zero
            if instruction.parts != ["cvt", "rna", "tf32", "f32"]:
                raise unknown(instruction)
            bits = self.read(instruction.operands[1], "u32")
            return [
                self.put(
                    instruction.operands[0],
                    "u32",
                    f"np.where(({bits} & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FFFE000), ({bits} + "
                    "np.uint32(0x1000)) & np.uint32(0xFFFFE000))",
                )
            ]
        if to == "bf16":  # to nearest, halves to even
            if instruction.parts != ["cvt", "rn", "bf16", "f32"]:
                raise unknown(instruction)
            bits = self.read(instruction.operands[1], "u32")
            return [
                self.put(
                    instruction.operands[0],
                    "u16",
                    f"np.where(({bits} & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FFF), ({bits} + np.uint32(0x7FFF) + "
                    f"({bits} >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype('u2')",
                )
            ]
        how = next(
            (part for part in instruction.parts if part in ("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")), ""
        )
        value = (
            f"converted(np.asarray({self.read(instruction.operands[1], source)}), TYPES['{to}'], '{how}', "
            f"{'sat' in instruction.parts})"
        )
        return [
            self.put(
                instruction.operands[0],
                to,
                f"flushed({value})" if "ftz" in instruction.parts and to[0] == "f" else value,
            )
        ]

    def _mma(self, position: int, instruction: Instruction) -> list[str]:
        _, *how, shape, first, second, result, a_kind, b_kind, c_kind = instruction.parts
        if (
            how != ["sync", "aligned"]
            or (first, second, result, c_kind) != ("row", "col", "f32", "f32")
            or a_kind != b_kind
            or (shape, a_kind) not in (("m16n8k16", "f16"), ("m16n8k16", "bf16"), ("m16n8k8", "tf32"))
        ):
            raise unknown(instruction)
        target, *operand_registers = (
            [part.strip() for part in operand.strip("{}").split(",")] for operand in instruction.operands
        )
        texts = [
            "[" + ", ".join(self.read(part, kind) for part in parts) + "]"
            for parts, kind in zip(operand_registers, ("u32", "u32", "f32"))
        ]
        return [
            f"found = multiply({position}, m, '{shape}', '{a_kind}', {', '.join(texts)})",
            *[self.put(part, "f32", f"found[:, {k}]") for k, part in enumerate(target)],
        ]

    def _ldmatrix(self, position: int, instruction: Instruction) -> list[str]:
        if [part for part in instruction.parts if part != "trans"] != [
            "ldmatrix",
            "sync",
            "aligned",
            "m8n8",
            "x4",
            "shared",
            "b16",
        ]:
            raise unknown(instruction)
        space, _, where, registers = self._access(instruction, instruction.operands[1], instruction.operands[0])
        lines = [f"at = place({position}, '{space}', m, {where}, 16, 4, False)"]
        lines.append(
            f"found = rows({position}, m, {'trans' in instruction.parts}, [load({position}, '{space}', m, at, TYPES['u32'], k) for "
            "k in range(4)])"
        )
        return lines + [self.put(part, "u32", f"found[:, {k}]") for k, part in enumerate(registers)]

    def _cp(self, position: int, instruction: Instruction) -> list[str]:
        if instruction.parts[1:] == ["async", "commit_group"]:
            return ["commits[m] += 1"]
        if instruction.parts[1:] == ["async", "wait_group"]:
            return [f"land(m, {int(instruction.operands[0])})"]
        if instruction.parts[1:] != ["async", "cg", "shared", "global"] or instruction.operands[2] != "16":
            raise unknown(instruction)
        near, far = (self._access(instruction, operand, "")[2] for operand in instruction.operands[:2])
        return [f"copy({position}, m, {near}, {far}, {self.read(instruction.operands[3], 'u32')})"]

    def _clz(self, position: int, instruction: Instruction) -> list[str]:
        bits = int(instruction.parts[-1][1:])
        return [
            self.put(
                instruction.operands[0],
                "u32",
                f"np.array([{bits} - int(x).bit_length() for x in "
                f"np.ravel({self.read(instruction.operands[1], f'u{bits}')})], 'u4')",
            )
        ]

    def _popc(self, position: int, instruction: Instruction) -> list[str]:
        return [
            self.put(
                instruction.operands[0],
                "u32",
                f"np.bitwise_count({self.read(instruction.operands[1], 'u' + instruction.parts[-1][1:])})",
            )
        ]

    def _bfi(self, position: int, instruction: Instruction) -> list[str]:
        kind, (target, x, y, start, length) = instruction.parts[-1], instruction.operands
        return [
            self.put(
                target,
                kind,
                f"field({self.read(x, kind)}, {self.read(y, kind)}, {self.read(start, 'u32')}, "
                f"{self.read(length, 'u32')})",
            )
        ]

    def _membar(self, position: int, instruction: Instruction) -> list[str]:
        return []

    _fence = _membar

    def _access(self, instruction: Instruction, address: str, registers: str) -> tuple[str, str, str, list[str]]:
        """An access's space, kind, the text of its address, and the registers it moves."""
        base, offset = re.match(r"\[\s*([^\s+\]]+)\s*\+?\s*(-?\w+)?\s*\]", address).groups()
        space = next(
            (part for part in instruction.parts if part in ("global", "shared", "local", "param", "const")), "generic"
        )
        if base in self.program.variables:
            space = self.program.variables[base][0]
            where = str(self.program.variables[base][1] + int(offset or 0))
        else:
            where = self.read(base, "u64" if SIZES.get(self.program.registers.get(base), 8) == 8 else "u32")
            where = f"{where}.astype('i8') + {int(offset or 0)}"
        if space in ("generic", "const"):
            raise unknown(instruction)
        return space, instruction.parts[-1], where, [part.strip() for part in registers.strip("{}").split(",")]

    def _ld(self, position: int, instruction: Instruction) -> list[str]:
        space, kind, where, registers = self._access(instruction, instruction.operands[1], instruction.operands[0])
        if space == "param":
            return [self.put(registers[0], kind, f"parameter({where}, TYPES['{kind}'])")]
        lines = [
            f"at = place({position}, '{space}', m, {where}, {SIZES[kind] * len(registers)}, {len(registers)}, False)"
        ]
        return lines + [
            self.put(part, kind, f"load({position}, '{space}', m, at, TYPES['{kind}'], {k})")
            for k, part in enumerate(registers)
        ]

    def _st(self, position: int, instruction: Instruction) -> list[str]:
        space, kind, where, registers = self._access(instruction, instruction.operands[0], instruction.operands[1])
        lines = [
            f"at = place({position}, '{space}', m, {where}, {SIZES[kind] * len(registers)}, {len(registers)}, True)"
        ]
        return lines + [
            f"store({position}, '{space}', m, at, TYPES['{kind}'], {k}, {self.read(part, kind)})"
            for k, part in enumerate(registers)
        ]

    def _atom(self, position: int, instruction: Instruction) -> list[str]:
        if instruction.parts[1] not in ("global", "shared") or instruction.parts[2:] not in [
            how.split()
            for how in ("add f32", "add f64", "add u32", "add u64", "max s32", "max s64", "cas b32", "cas b64")
        ]:
            raise unknown(instruction)
        target, address, *values = instruction.operands
        space, kind, where, _ = self._access(instruction, address, target)
        at = f"place({position}, '{space}', m, {where}, {SIZES[kind]}, 1, False)"
        function = {"add": "np.add", "max": "np.maximum", "cas": "exchanged"}[instruction.parts[2]]
        return [
            self.put(
                target,
                kind,
                f"join({position}, '{space}', m, {at}, TYPES['{kind}'], {function}, "
                f"{', '.join(self.read(value, kind) for value in values)})",
            )
        ]
