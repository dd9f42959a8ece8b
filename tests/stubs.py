"""Writes the stubs (`*.pyi`) that tell editors and type checkers of the functions and methods that tables add at
import.

    python tests/stubs.py

Signatures are those of the table (`core/signatures.txt`), and the package's own where it has none. `test_stubs.py`
checks that every name in the stubs exists, and not that they are up to date: run this after adding public functions or
changing their arguments.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numod
from numod.core import return_types, signatures
from numod.core.function_code import originals

PACKAGE = Path(numod.__file__).parent
# names of types that numod or Tensor has another meaning for
SHADOWED = ("bool", "complex", "float", "int", "dtype", "device", "layout", "memory_format", "Size")
KNOWN = {
    "Any", "Callable", "Generator", "None", "Sequence", "Tensor", "dict", "list", "np.ndarray", "str",
    "tuple", "type", "Literal", "True", "False", *SHADOWED,
}  # fmt: skip
RENAMED = {
    "Number": "float | complex",
    "DType": "dtype",
    "Device": "device",
    "Dims": "int | Sequence[int] | None",
    "Sizes": "int | Sequence[int] | None",
    "MemoryFormat": "memory_format",
    "Layout": "layout",
}
HEAD = """# Written by tests/stubs.py: signatures of what tables add to this module at import.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

"""
TYPES = (
    "from {0}device.layout import Size as _Size\nfrom {0}device.device import Device as _device\nfrom {0}dtypes "
    "import dtype as _dtype\nfrom {0}formats import layout as _layout, memory_format as _memory_format\n"
)
# signatures that the table cannot express
WRITTEN = {
    "Tensor.item": "def item(self) -> Any:",
    "Tensor.tolist": "def tolist(self) -> Any:",
    "Tensor.type": (
        "@overload\ndef type(self, dtype: None = None, non_blocking: _bool = False) -> str:\n"
        "@overload\ndef type(self, dtype: _dtype | str | type, non_blocking: _bool = False) -> Tensor:"
    ),
    "Tensor.size": "@overload\ndef size(self, dim: None = None) -> _Size:\n@overload\ndef size(self, dim: _int) -> _int:",
}
# functions that take a number in the place of a tensor: PyTorch's overloads say so by a `self`, which the table leaves out
NUMBERS_TOO = {
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"), ("input",)
    ),
    **dict.fromkeys(("bucketize", "float_power", "pow", "remainder", "searchsorted", "xlogy"), ("input",)),
    "where": ("input", "other"),
}
PROPERTIES = {
    **dict.fromkeys(("T", "H", "mT", "mH", "real", "imag", "data"), "Tensor"),
    "layout": "_layout",
    "grad_fn": "Any",
}
PADDED = ("conv1d", "conv2d", "conv3d")  # their padding may be "same" or "valid"
COMPARED = (
    "eq ne lt le gt ge add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul and or xor rand ror rxor lshift rshift rlshift rrshift"
).split()
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()


def summary(text: str) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())


def annotation(text: object, parameter: bool) -> str:
    """An annotation in names that the stubs know; anything else is Any.

    `object`, which takes everything, says nothing of what comes back.
    """
    if not isinstance(text, str):
        return (
            "Any" if text is inspect.Parameter.empty else "None" if text is None else getattr(text, "__name__", "Any")
        )
    text = re.sub(r"[A-Za-z_][\w.]*", lambda match: RENAMED.get(match[0], match[0]), text)
    words = set(re.findall(r"[A-Za-z_][\w.]*", text))
    if parameter and "Size" in words:  # a name of several files' own
        return "Any"
    if text == "object" or not all(word in KNOWN or word.startswith("return_types.") for word in words - {"object"}):
        return "object" if parameter and text == "object" else "Any"
    return re.sub(rf"\b({'|'.join(SHADOWED)})\b", r"_\1", text)


def parameters(signature: inspect.Signature) -> str:
    """The parameters of a signature as text."""
    texts, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            texts, starred = [*texts, "*"], True
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = (
            ""
            if parameter.default is parameter.empty
            else f" = {parameter.default!r}"
            if isinstance(parameter.default, (int, float, str, bool, type(None)))
            else " = ..."
        )
        untyped = parameter.annotation is parameter.empty and parameter.name in ("self", "cls")
        kind = annotation(parameter.annotation, True)
        kind += " | None" if parameter.default is None and kind != "Any" and "None" not in kind else ""
        texts.append(f"{mark}{parameter.name}" + ("" if untyped else f": {kind}") + default)
    return ", ".join(texts)


def sizes_may_be_one_number(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter of a layer's function: where it takes a sequence of numbers, it takes one number as well."""
    text = parameter.annotation
    if text is inspect.Parameter.empty or not isinstance(text, str):
        return parameter
    if parameter.name == "size" and text == "int | None":  # of `interpolate`
        text = "Sequence[int] | None"
    return parameter.replace(annotation=re.sub(r"(?<!\| )Sequence\[(int|float)\]", r"\1 | Sequence[\1]", text))


def of_layers(name: str, signature: inspect.Signature) -> Iterator[inspect.Signature]:
    """The overloads of a function in `nn.functional`, whose table has one line each."""
    parameters = {key: sizes_may_be_one_number(value) for key, value in signature.parameters.items()}
    if name in PADDED:
        parameters["padding"] = parameters["padding"].replace(annotation="int | Sequence[int] | str")
    result = "Tensor" if signature.return_annotation == "Any" else signature.return_annotation
    if "return_indices" not in parameters or result != "Tensor":
        yield inspect.Signature(list(parameters.values()), return_annotation=result)
        return
    for flag, outcome in (("False", "Tensor"), ("True", "tuple[Tensor, Tensor]")):
        literal = parameters["return_indices"].replace(annotation=f"Literal[{flag}]")
        with_literal = {**parameters, "return_indices": literal}
        if flag == "True":
            names = list(with_literal)
            for key in names[names.index("return_indices") :]:
                with_literal[key] = with_literal[key].replace(kind=inspect.Parameter.KEYWORD_ONLY)
            with_literal["return_indices"] = with_literal["return_indices"].replace(default=inspect.Parameter.empty)
        yield inspect.Signature(list(with_literal.values()), return_annotation=outcome)


def as_accepted(name: str, signature: inspect.Signature) -> inspect.Signature:
    """A function's signature with the types that the table leaves out: numbers (`NUMBERS_TOO`), one dimension for
    several, and einsum's tensors.
    """

    def accepted(parameter: inspect.Parameter) -> str:
        text = parameter.annotation
        if parameter.name in NUMBERS_TOO.get(name, ()) and text == "Tensor":
            return "Tensor | Number"
        if parameter.name == "dim" and str(text).startswith("Sequence[int]") and "-2" not in str(parameter.default):
            return f"int | {text}"
        return "Any" if parameter.name == "operands" else text

    return signature.replace(
        parameters=[parameter.replace(annotation=accepted(parameter)) for parameter in signature.parameters.values()]
    )


def definition(name: str, function: Callable, said: Callable | None = None, section: str = "") -> str:
    """A function of the stubs, with the overloads of the table of signatures, or as its file defines it.

    `said`: whose docstring it gets, if not its own. `section`: the part of the table that has it, if another has it
    too.
    """
    known = vars(function).get("__wrapped__")
    paths = [path for path in getattr(known, "paths", ()) if path.rpartition(".")[2] == name] if known else []
    paths = [path for path in paths if path.startswith(section)] or paths
    overloads = signatures.overloads(*paths[:1]) or (signatures.defined(function),)
    overloads = [as_accepted(name, overload) for overload in overloads]
    if section == "nn.functional.":
        overloads = [overload for base_overload in overloads for overload in of_layers(name, base_overload)]
    result_type = annotation(signatures.defined(function).return_annotation, False)
    text = summary(inspect.getdoc(said or function) or "").replace("\\", "\\\\")
    body = f'\n    """{text}"""' if text else " ..."
    mark = "@overload\n" if len(overloads) > 1 else ""
    results = [
        result_type
        if result_type.startswith("return_types") or overload.return_annotation == "Any"
        else annotation(overload.return_annotation, False)
        for overload in overloads
    ]
    return "\n".join(
        f"{mark}def {name}({parameters(overload)}) -> {result}:{body}" for overload, result in zip(overloads, results)
    )


def indented(text: str) -> str:
    """One step to the right."""
    return "\n".join("    " + line if line else line for line in text.splitlines())


def home(name: str) -> str:
    """The file of the package that defines a method of Tensor."""
    method = inspect.getattr_static(numod.Tensor, name)
    code = getattr(inspect.unwrap(getattr(method, "fget", method)), "__code__", None)
    path = Path(code.co_filename) if code is not None else PACKAGE
    path = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""
    if path != "core/forms.py":
        return path
    # generated from the in-place method or from a row of the table
    return home(f"{name}_") if hasattr(numod.Tensor, f"{name}_") else "ops/table.py"


def members() -> Iterator[str]:
    """The parts of class Tensor, grouped by the files that define them."""
    last = None
    for module_path, name in sorted((home(name), name) for name in dir(numod.Tensor) if not name.startswith("_")):
        if module_path != last:
            yield f"\n# ---- defined in {module_path}\n" if module_path else ""
        last = module_path
        attribute = inspect.getattr_static(numod.Tensor, name)
        if isinstance(attribute, type):
            continue
        if isinstance(attribute, property):
            text = PROPERTIES.get(name) or (
                "_bool"
                if name.startswith("is_")
                else annotation(inspect.signature(attribute.fget).return_annotation, False)
            )
            yield f"@property\ndef {name}(self) -> {text}:" + (
                f'\n    """{summary(attribute.fget.__doc__)}"""' if attribute.fget.__doc__ else " ..."
            )
            if attribute.fset is not None:
                yield f"@{name}.setter\ndef {name}(self, value: {text if name != 'data' else 'Tensor'}) -> None: ..."
        elif f"Tensor.{name}" in WRITTEN:
            yield WRITTEN[f"Tensor.{name}"].replace(":\n", f':\n    """{summary(attribute.__doc__)}"""\n') + (
                f'\n    """{summary(attribute.__doc__)}"""'
            )
        elif callable(attribute) and hasattr(attribute, "__code__"):
            yield definition(name, attribute)
    yield "\n# ---- operators, defined in core/operators.py\n"
    for name in COMPARED:
        yield f"def __{name}__(self, other: Any) -> Tensor: ..." + (
            "  # type: ignore[override]" if name in ("eq", "ne") else ""
        )
    for name in IN_PLACE:
        yield f"def __{name}__(self, other: Any) -> Self: ..."
    for name, class_text in {
        "neg": "Tensor",
        "abs": "Tensor",
        "pos": "Tensor",
        "invert": "Tensor",
        "len": "_int",
        "bool": "_bool",
        "int": "_int",
        "float": "_float",
        "index": "_int",
        "hash": "_int",
    }.items():
        yield f"def __{name}__(self) -> {class_text}: ..."
    yield "def __iter__(self) -> Iterator[Tensor]: ..."
    yield "def __contains__(self, value: Any) -> _bool: ..."
    yield "def __getitem__(self, index: Any) -> Tensor: ..."
    yield "def __setitem__(self, index: Any, value: Any) -> None: ..."
    yield "def __array__(self, dtype: Any = None, copy: _bool | None = None) -> np.ndarray: ..."


def tensor_stub() -> str:
    """The text of `core/tensor.pyi`."""
    parts = [
        HEAD.replace("Callable, Sequence", "Callable, Iterator, Sequence").replace("overload", "Self, overload")
        + TYPES.format("..")
        + "from . import return_types\nfrom .create.generator import Generator\n\n"
    ]
    parts.append(
        "class Tensor:\n"
        + indented(
            f'"""{numod.Tensor.__doc__.partition(chr(10))[0]}"""\n\ndef __init__(self, *arguments: Any, **named: Any) '
            "-> None: ...\n" + "\n".join(members())
        )
        + "\n\n"
    )
    return "".join(parts) + "def wrap(storage: Any, layout: Any, offset: _int) -> Tensor: ...\n"


def named_results_stub() -> str:
    """The text of `core/return_types.pyi`."""
    kinds = {
        name: value
        for name, value in vars(return_types).items()
        if isinstance(value, type) and not name.startswith("_")
    }
    classes = [
        f"class {name}(NamedTuple):\n" + "\n".join(f"    {field}: Tensor" for field in kind.__match_args__)
        for name, kind in sorted(kinds.items())
    ]
    return (
        HEAD.splitlines()[0]
        + "\nfrom typing import NamedTuple\n\nfrom .tensor import Tensor\n\n"
        + "\n\n".join(classes)
        + "\n"
    )


def is_plain(function: Callable) -> bool:
    """Whether a function can be imported as its file defines it, without options that a wrapper adds."""
    source = Path(inspect.getfile(inspect.unwrap(function))).read_text()
    return (
        function.__module__ != "numod"
        and originals.get(function, function).__code__.co_name not in ("make", "filled")
        and f"\ndef {function.__name__}(" in source
    )


def namespace_stub() -> str:
    """The text of `numod/__init__.pyi`."""
    modules, values, functions = [], [], []
    for name in sorted(dir(numod)):
        value = getattr(numod, name)
        if name.startswith("_") or name == "annotations":
            continue
        if isinstance(value, ModuleType):
            home, _, class_name = value.__name__.rpartition(".")
            passed_on = name if class_name == name else f"_{class_name}"  # another name is not passed on
            modules.append(
                f"from {home.replace('numod', '.', 1).replace('..', '.')} import {class_name} as {passed_on}"
            )
            values += [f"{name} = {passed_on}"] if class_name != name else []
        elif inspect.isclass(value) and value.__module__ != "numod":
            # another name is not passed on
            class_name = value.__qualname__ if value.__qualname__ == name else f"_{value.__qualname__}"
            values += [
                f"from .{value.__module__.removeprefix('numod.')} import {value.__qualname__} as {class_name}",
                *([f"{name} = {class_name}"] if class_name != name else []),
            ]
        elif inspect.isfunction(value):
            functions.append(
                f"from .{value.__module__.removeprefix('numod.')} import {value.__name__} as {name}"
                if value.__name__ == name and is_plain(value)
                else definition(name, value)
            )
        else:
            kind = "Tensor" if type(value).__name__ == "_Constructor" else type(value).__name__
            values.append(
                f"{name}: type[Tensor]"
                if kind == "Tensor"
                else f"{name}: {annotation(kind, False) if kind != 'NoneType' else 'None'}"
            )
    class_name = [value for value in values if not value.startswith("from")]
    imports = [line for line in (*modules, *values, *functions) if line.startswith("from")]
    imports.append("from .version import __version__ as __version__")
    defined = [function for function in functions if not function.startswith("from")]
    return (
        HEAD
        + TYPES.format(".")
        + "\n".join(imports)
        + "\n\n"
        + "\n".join(class_name)
        + "\n\n"
        + "\n".join(defined)
        + "\n"
    )


def linear_algebra_stub() -> str:
    """The text of `numod/linalg.pyi`."""
    functions = [
        definition(name, value) for name, value in sorted(vars(numod.linalg).items()) if inspect.isfunction(value)
    ]
    imports = (
        "from .core import return_types\nfrom .core.tensor import Tensor\nfrom .errors import LinAlgError as "
        "LinAlgError\n\n"
    )
    return HEAD + TYPES.format(".") + imports + "\n".join(functions) + "\n"


def functional_stub() -> str:
    """The text of `numod/nn/functional/__init__.pyi`."""
    functions = [
        definition(name, value, section="nn.functional.")
        for name, value in sorted(vars(numod.nn.functional).items())
        if inspect.isfunction(value) and not name.startswith("_")
    ]
    imports = "from ...core import return_types\nfrom ...core.tensor import Tensor\nfrom .. import grad as grad\n\n"
    return HEAD + TYPES.format("...") + imports + "\n".join(functions) + "\n"


def layer(name: str, kind: type) -> str:
    """A class of layers that its file makes in a loop over dimensions."""
    signature = inspect.signature(kind.__init__)
    sizes = [
        parameter.replace(annotation=re.sub(r"\bSize\b", "int | Sequence[int]", str(parameter.annotation)))
        if parameter.annotation is not inspect.Parameter.empty
        else parameter
        for parameter in signature.parameters.values()
    ]
    arguments = parameters(signature.replace(parameters=sizes))
    forward = parameters(inspect.signature(kind.forward))
    return (
        f'class {name}(Module):\n    """{summary(kind.__doc__)}"""\n'
        f"    def __init__({arguments}) -> None: ...\n    def forward({forward}) -> Any: ...\n"
    )


def layers_stub(module: ModuleType) -> str:
    """The text of `numod/nn/pooling.pyi` or `numod/nn/padding.pyi`."""
    layers = [layer(name, getattr(module, name)) for name in module.__all__]
    imports = "from ..core.tensor import Tensor\nfrom .module import Module\n\n"
    names = f"__all__ = {list(module.__all__)!r}\n\n"
    return HEAD + TYPES.format("..") + imports + names + "\n".join(layers)


def special_stub() -> str:
    """The text of `numod/special.pyi`."""
    functions = [
        definition(name, value, section="special.")
        for name, value in sorted(vars(numod.special).items())
        if inspect.isfunction(value) and not name.startswith("_")
    ]
    return HEAD + TYPES.format(".") + "from .core.tensor import Tensor\n\n" + "\n".join(functions) + "\n"


def fourier_stub() -> str:
    """The text of `numod/fft.pyi`."""
    functions = [definition(name, getattr(numod.fft, name)) for name in numod.fft.__all__]
    return HEAD + TYPES.format(".") + "from .core.tensor import Tensor\n\n" + "\n".join(functions) + "\n"


STUBS = {
    "__init__.pyi": namespace_stub,
    "linalg.pyi": linear_algebra_stub,
    "fft.pyi": fourier_stub,
    "special.pyi": special_stub,
    "nn/functional/__init__.pyi": functional_stub,
    "nn/padding.pyi": partial(layers_stub, numod.nn.padding),
    "nn/pooling.pyi": partial(layers_stub, numod.nn.pooling),
    "core/tensor.pyi": tensor_stub,
    "core/return_types.pyi": named_results_stub,
}

if __name__ == "__main__":
    for name, text in STUBS.items():
        (PACKAGE / name).write_text(text())
