"""A short front end of Numba's compiler for the functions of kernels.

Numba reads bytecode into its own representation, rewrites that a dozen times, infers types by iteration, and only then
writes LLVM's instructions. Kernels are structured code over flat arrays and numbers, whose variables keep their type.
So one walk over the syntax tree infers the types and writes the instructions. What an operator, a cast or a function
call means is asked of Numba (its signatures and its code for them), so the results are the same. A function with
anything that this walk does not have, and one with an error, is left to Numba's own passes (`compiled` returns None):
their messages name the line.
"""

from __future__ import annotations

import ast
import functools
import inspect
from types import FunctionType

from . import phases
from .expressions import Unsupported
from .statements import OtherReturnType, Statements

TEXT = "__text__"  # the global variable of a kernel's functions that has the text in which they are defined

walking: list[FunctionType] = []  # the functions that are being written; Numba's lock is held
# The attribute of a function for the argument types for which it was left to Numba: callers that are then left to it
# ask for them again. A weak dictionary would run Python code when a function dies, where an interrupt is lost.
_LEFT = "__left_to_numba__"


def compiled(state: object) -> object | None:
    """Numba's compile result of the function of a compilation; None if Numba's own passes are needed."""
    function = state.func_id.func
    code = function.__code__
    tree = _definition(function)
    if tree is None or code.co_freevars or code.co_flags & inspect.CO_VARARGS:
        return None
    from numba.core import ir, typed_passes, types

    left = vars(function).setdefault(_LEFT, set())
    if state.args in left or any(isinstance(kind, types.Omitted) for kind in state.args):  # default values
        return None
    if function in walking:
        left.add(state.args)
        raise Unsupported("recursion")
    names = code.co_varnames[: code.co_argcount]
    library = state.library
    location = ir.Loc(code.co_filename, code.co_firstlineno)
    state.func_ir = _FunctionIR(state.func_id, names, location, function, tree)
    state.typemap = {f"arg.{name}": kind for name, kind in zip(names, state.args)}
    state.calltypes = {}
    state.return_type = types.none
    with phases.Span("lowering", "translate", state.func_id.func_qualname):
        walking.append(function)
        try:
            try:
                _lower(state)
            except OtherReturnType as error:
                state.return_type = error.kind
                _lower(state)
        except MemoryError:
            raise
        except Exception:  # of this walk or of Numba; RecursionError for a deep expression
            state.func_ir = state.typemap = state.calltypes = state.return_type = None
            state.library = library
            left.add(state.args)
            return None
        finally:
            walking.remove(function)
        typed_passes.NoPythonBackend().run_pass(state)
    return state.cr


def _lower(state: object) -> None:
    _native_lowering()().run_pass(state)


@functools.lru_cache(maxsize=16)
def _definitions(text: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions in the text of a kernel, by name and first line."""
    functions = [node for node in ast.parse(text).body if type(node) is ast.FunctionDef]
    return {
        (function.name, min([function.lineno, *(line.lineno for line in function.decorator_list)])): function
        for function in functions
    }


def _definition(function: FunctionType) -> ast.FunctionDef | None:
    """The syntax tree of a kernel's function; None if its text is not kept."""
    code, text = function.__code__, function.__globals__.get(TEXT)
    return None if text is None else _definitions(text).get((code.co_name, code.co_firstlineno))


class _FunctionIR:
    """What Numba's lowering reads of a function's representation."""

    generator_info = None

    def __init__(
        self, func_id: object, names: tuple[str, ...], loc: object, function: FunctionType, tree: ast.FunctionDef
    ) -> None:
        self.func_id, self.arg_names, self.loc, self.function, self.tree = func_id, names, loc, function, tree
        self.blocks = {0: None}


@functools.cache
def _native_lowering() -> type:
    from numba.core.lowering import Lower
    from numba.core.typed_passes import NativeLowering

    class WalkingLower(Lower):
        """Numba's lowering of a function, by a walk over its syntax tree."""

        def init(self) -> None:
            pass

        def lower_normal_function(self, fndesc: object) -> None:
            self.setup_function(fndesc)
            self.extract_function_arguments()
            self.pre_lower()  # these two are for line numbers
            Statements(self).write()
            self.post_lower()

    class WalkingNativeLowering(NativeLowering):
        lowering_class = WalkingLower

    return WalkingNativeLowering
