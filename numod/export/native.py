"""Runs a network that numod exported as native code. Needs only Python's standard library.

network = load()
y = network.run(x)  # NumPy arrays, buffers such as array.array, or nested lists; the outputs are of the same kind.
# Other arrays and tensors in the CPU's memory are read as NumPy arrays.
"""

import ctypes
import math
import mmap
import os
import struct
import sys

DESCRIPTION = None  # the content of NAME.json, in a file NAME.py
FORMATS = {"float16": "e", "bfloat16": "H", "bool": "?", "complex64": "f", "complex128": "d"} | dict(
    float32="f", float64="d", int8="b", int16="h", int32="i", int64="q", uint8="B", uint16="H", uint32="I", uint64="Q"
)
BUFFERS = {"bool": "?", "int": "bhilqn", "uint": "BHILQN", "bfloat": "H", "float": "fde", "complex": ("Zf", "Zd")}
JUMPS = {62: "ff25020000009090", 183: "5000005800021fd6"}  # a jump to the address stored behind it, by ELF machine
LOW = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # AArch64 relocations of low address bits: the shift


def load(folder=None, target=None):
    """The network whose files are in `folder` (None: where this file is), for this processor or a named target."""
    return Network(DESCRIPTION, folder or os.path.dirname(os.path.abspath(__file__)), target)


class Network:
    """An exported network. Threads may share it. `weights`: the block of weights, or the state that runs change."""

    def __init__(self, about, folder, target=None):
        self.about, self.name, self.weights = about, about["name"], None
        self.target, path = choice(about, folder, target)
        self._library = Mapped(path) if path.endswith(".o") else ctypes.CDLL(path)
        self._error, check = self._library[f"{self.name}_error"], self._library[f"{self.name}_check"]
        self._run = {e: self._library[f"{self.name}_{e and e + '_'}run"] for e in about["entries"] or [""]}
        self._error.restype = ctypes.c_char_p
        self._raise(check(about["abi"]))
        if about["weights_bytes"] and (about.get("stateful") or not about["embedded"]):
            self.weights = (ctypes.c_uint64 * (about["weights_bytes"] // 8 + 1))()
            if about["embedded"]:
                self._raise(self._library[f"{self.name}_state_init"](self.weights))
            else:
                with open(os.path.join(folder, f"{self.name}.safetensors"), "rb") as file:
                    names = file.read(int.from_bytes(file.read(8), "little")).decode().split('"')
                    if {*about.get("names", ())} - {*names} or file.readinto(self.weights) != about["weights_bytes"]:
                        raise ValueError(f"{file.name} belongs to another network, or is cut short")

    def __getattr__(self, entry):  # for a network with several functions: network.encode(x)
        if entry not in self.__dict__.get("_run", ()):
            raise AttributeError(f"the network has no {entry}; its functions: {', '.join(self._run).strip() or 'run'}")
        return lambda *inputs: self.run(*inputs, entry=entry)

    def run(self, *inputs, entry=""):
        """The network's output for these inputs; a tuple if it has several."""
        about = self.about["entries"].get(entry, self.about)
        ports, results = about["inputs"], about["outputs"]
        if len(inputs) != len(ports):
            raise TypeError(f"run takes {len(ports)} inputs ({', '.join(p['name'] for p in ports)}), got {len(inputs)}")
        inputs = [*map(plain, inputs, ports)]
        sizes = [measured(inputs, ports, row) for row in about["sizes"]]
        ports, results = [[shaped(port, sizes) for port in described] for described in (ports, results)]
        outputs = [bytearray(math.prod(port["shape"]) * port["itemsize"]) for port in results]
        arena = (ctypes.c_uint64 * (about["arena_bytes"] // 8 + 1))()
        addresses = [(ctypes.c_char * len(data)).from_buffer(data) for data in (*map(read, inputs, ports), *outputs)]
        numbers = [ctypes.c_size_t(ctypes.sizeof(arena)), *map(ctypes.c_int64, sizes)]
        self._raise(self._run[entry](self.weights, arena, *numbers, *addresses))
        values = tuple([shown(data, port, kind(*inputs[:1])) for data, port in zip(outputs, results)])
        return values[0] if len(values) == 1 else values

    def _raise(self, code):
        if code:
            raise RuntimeError(f"{self.name}: {self._error(code).decode()} (code {code})")


def shaped(port, sizes):
    """A port with its shape evaluated for these sizes."""
    dims = [sum(factor * math.prod(map(pow, sizes, powers)) for factor, powers in dim) for dim in port["dims"]]
    return {**port, "shape": dims or port["shape"]}


def measured(inputs, ports, row):
    """The size of a dynamic dimension, read from its input; of a flat buffer, what the other dimensions leave."""
    value, port, index = inputs[row["input"]], ports[row["input"]], row["index"]
    if kind(value) == "list":
        for _ in range(index):
            value = value[0]
        size = len(value) if isinstance(value, (list, tuple)) else 0
    else:
        view, shape = memoryview(value), [1 if k == index else n for k, n in enumerate(port["shape"])]
        size = view.shape[index] if view.ndim == len(shape) else view.nbytes // (math.prod(shape) * port["itemsize"])
    size = (size - row["offset"]) // row["factor"]
    if row["low"] <= size <= row["high"]:
        return size
    raise ValueError(f"{row['name']} must be from {row['low']} to {row['high']}, got {size}")


def kind(value=0):
    """The kind of a value: "numpy", "list" (or a number) or "buffer"."""
    is_array = type(value).__module__.startswith("numpy")
    return "list" if isinstance(value, (list, tuple, int, float)) else "numpy" if is_array else "buffer"


def plain(value, port):
    """An input as a list, a buffer or a NumPy array. Raises TypeError where it is none of them."""
    if kind(value) == "list":
        return value
    try:
        memoryview(value)
    except (TypeError, ValueError):
        if not hasattr(value, "__array__"):
            received = type(value).__name__
            raise TypeError(f"{port['name']} must be an array, a buffer or a list, got {received}") from None
        value = (value.detach() if hasattr(value, "detach") else value).__array__()
    return value


def read(value, port):
    """The bytes of an input. Raises TypeError or ValueError if it does not fit."""
    name, dtype, shape = port["name"], port["dtype"], tuple(port["shape"])
    pairs = (*shape, 2) if dtype.startswith("complex") else shape
    if kind(value) == "list":
        return packed(flat(value, pairs, f"{name} must have the shape {pairs}"), name, dtype)
    view = memoryview(value)
    form, size, letters = view.format.lstrip("@=<"), port["itemsize"], BUFFERS[dtype.rstrip("0123456789")]
    if form == "B" and view.nbytes == math.prod(shape) * size and kind(value) == "buffer":
        return bytearray(view)
    if form not in letters or view.itemsize != size:
        got = getattr(value, "dtype", f"elements of the format {view.format!r}")
        raise TypeError(f"{name} must hold {dtype}, got {got}; convert it first, an array with x.astype('{dtype}')")
    if view.shape not in (shape, (math.prod(shape),)):
        raise ValueError(f"{name} must have the shape {shape}, got {view.shape}")
    return bytearray(view.tobytes())


def flat(value, shape, message):
    """The numbers of nested lists, row by row."""
    is_list = isinstance(value, (list, tuple))
    if is_list != bool(shape) or (is_list and len(value) != shape[0]):
        got, want = f"{len(value)} items" if is_list else repr(value), f"{shape[0]} items" if shape else "a number"
        raise ValueError(f"{message}, got {got} in the place of {want}")
    return [number for part in value for number in flat(part, shape[1:], message)] if shape else [value]


def packed(numbers, name, dtype):
    """Numbers as bytes."""
    try:
        if dtype == "bfloat16":  # the upper half of a float, rounded to even
            bits = memoryview(struct.pack(f"{len(numbers)}f", *numbers)).cast("I")
            numbers = [b >> 16 | 64 if b & (2**31 - 1) > 0x7F800000 else b + 32767 + (b >> 16 & 1) >> 16 for b in bits]
        return bytearray(struct.pack(f"{len(numbers)}{FORMATS[dtype]}", *numbers))
    except (struct.error, TypeError, OverflowError) as error:
        raise TypeError(f"{name} must hold numbers of {dtype}: {error}") from None


def shown(data, port, kind):
    """An output as a NumPy array, nested lists or a memoryview (16-bit floats as uint16, complex numbers as pairs)."""
    dtype, shape, form = port["dtype"], list(port["shape"]), FORMATS[port["dtype"]].replace("e", "H")
    if kind == "numpy":
        return sys.modules["numpy"].frombuffer(data, "uint16" if dtype == "bfloat16" else dtype).reshape(shape)
    if kind == "list" and dtype in ("float16", "bfloat16"):
        bits, form = memoryview(data).cast("H"), "f"
        whole = [half << 16 for half in bits] if dtype == "bfloat16" else struct.unpack(f"{len(bits)}e", data)
        data = struct.pack(f"{len(bits)}{'I' if dtype == 'bfloat16' else 'f'}", *whole)
    view, shape = memoryview(data).cast(form), [*shape, *([2] if dtype.startswith("complex") else [])]
    view = view if 0 in shape or len(shape) == 1 else view.cast("B").cast(form, shape)
    return view.tolist() if kind == "list" else view


def choice(about, folder, wanted=None):
    """(name, file) of the best target for this machine. A linked library is preferred to an object."""
    machine = os.uname().machine if hasattr(os, "uname") else os.environ["PROCESSOR_ARCHITECTURE"].lower()
    machine, able, fits = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine), abilities(), []
    for name, row in about["targets"].items():
        if wanted == name or not wanted and row["system"] == [sys.platform, machine] and able >= {*row["needs"]}:
            paths = [os.path.join(folder, f"{about['name']}-{name}{suffix}") for suffix in row["suffixes"]]
            fits += [(len(row["needs"]), path[-2:] != ".o", name, path) for path in paths if os.path.exists(path)]
    if fits:
        return max(fits)[2:]
    wanted, targets = wanted or f"this machine ({sys.platform}, {machine})", ", ".join(about["targets"])
    raise OSError(f"no library in {folder} fits {wanted}, only {targets}; export it for this machine too")


def abilities():
    """The processor's features, by Linux's names."""
    if sys.platform == "win32":
        return {"avx2"} if ctypes.windll.kernel32.IsProcessorFeaturePresent(40) else set()
    with open("/proc/cpuinfo" if os.path.exists("/proc/cpuinfo") else os.devnull) as file:
        return {*next((line for line in file if line.lower().startswith(("flags", "features"))), "").split()}


class Mapped:
    """Loads an object file (ELF; x86-64, AArch64). Memory is never writable and executable at the same time."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        sections = [self.at("IIQQQQIIQQ", self.at("Q", 40)[0] + 64 * k) for k in range(self.at("H", 60)[0])]
        self.places, ends, size = {}, [0], 0
        for executable in (4, 0):  # pages of code and jumps, then pages of constants
            for k, (_, form, flags, _, _, length, _, _, alignment, _) in enumerate(sections):
                if form == 1 and flags & 6 == 2 | executable:
                    self.places[k] = -(-size // alignment) * alignment
                    size = self.places[k] + length
            self.jump = self.jump if len(ends) > 1 else -(-size // 16) * 16
            ends.append(size := (size + 4096 | 65535) + 1)
        self.memory = mmap.mmap(-1, size)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for k, spot in self.places.items():
            self.memory[spot : spot + sections[k][5]] = self.data[sections[k][4] :][: sections[k][5]]
        table = next(section for section in sections if section[1] == 2)
        names, starts = sections[table[6]][4], range(table[4], table[4] + table[5], 24)
        self.symbols = [self.symbol(names, *self.at("IBBHQQ", spot)) for spot in starts]
        for _, form, _, _, start, length, _, section, _, _ in sections:
            for spot in range(start, start + length, 24) if form == 4 and section in self.places else ():
                offset, info, addend = self.at("QQq", spot)
                self.relocate(self.places[section] + offset, info & 0xFFFFFFFF, self.symbols[info >> 32][1] + addend)
        for first, last, rights in zip(ends, ends[1:], (5, 1)):  # read and execute; read
            if ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.base + first), ctypes.c_size_t(last - first), rights):
                raise OSError(f"this system does not let Python run code in memory; link {path} with cc -shared")

    def __getitem__(self, name):
        return ctypes.CFUNCTYPE(ctypes.c_int)(self.base + dict(self.symbols)[name])

    def at(self, form, spot):
        return struct.unpack_from("<" + form, self.data, spot)

    def symbol(self, names, name, info, _, section, value, __):
        """(name, position) of a symbol. External functions may be far away: a jump in this memory reaches them."""
        name = self.data[names + name : self.data.index(0, names + name)].decode()
        if section or not name:
            return name, self.places.get(section, 0) + value
        spot, address = self.jump, ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
        self.memory[spot : spot + 16] = bytes.fromhex(JUMPS[self.at("H", 18)[0]]) + struct.pack("<Q", address)
        self.jump += 16
        return name, spot

    def relocate(self, spot, form, value):
        """Write a value into an instruction or a constant. The numbers are ELF relocation types."""
        distance, pages = value - spot, (value >> 12) - (spot >> 12)
        if form in (1, 24, 257, 260):  # 64 bits
            self.memory[spot : spot + 8] = struct.pack("<q", distance + (self.base + spot) * (form in (1, 257)))
        elif form in (2, 4, 261):  # 32 bits
            self.memory[spot : spot + 4] = struct.pack("<i", distance)
        elif form in LOW or form in (275, 282, 283):
            field = (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 if form == 275 else distance >> 2 & 0x3FFFFFF
            field = (value & 4095) >> LOW[form] << 10 if form in LOW else field
            word = int.from_bytes(self.memory[spot : spot + 4], "little") | field
            self.memory[spot : spot + 4] = struct.pack("<I", word)
        else:
            raise OSError(f"this object file needs a linker (relocation {form}): link it with cc -shared")
