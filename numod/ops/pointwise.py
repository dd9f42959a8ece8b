"""Pointwise ops: how a row of the table becomes a planned loop. The rows themselves are in `table`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod

from .. import dtypes
from ..device import Layout
from ..device.layout import layout, ordered_strides
from ..dtypes import dtype as DType
from ..kernel import bind, emit, writer
from ..kernel.any_size import for_all_sizes
from ..kernel.expression import Expression, Formula, Symbol, as_expression, substitute, uses, vocabulary
from .index import transpose_copy
from .op import Op, Plan, argument_names, single_device

rows: dict[str, Pointwise] = {}
_COPY_ROWS = {"copy", "row_major"}  # rows that only copy
_BOOL_ERRORS = {  # errors of operators that are tried on bool masks
    "neg": "Negation, the `-` operator, on a bool tensor is not supported. "
    "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
}


_RESULTS = {"bool": lambda kind: dtypes.bool_, "real": DType.to_real, "complex": DType.to_complex} | {
    name: lambda kind, integers=dtypes.ALL[name]: integers for name in ("int8", "uint8", "int32")
}


class Pointwise(Op, Formula):
    """A scalar formula applied to every element, with broadcasting and type promotion.

    `accepts`: the kinds of dtypes (`dtypes.dtype.kind`) that the op is defined for. `keeps_order`: a transposed input
    gives a result with its strides. `fitting`: the inputs (True: all) whose Python ints raise if an integer dtype
    cannot hold them; other ints wrap around. Called with tensors or numbers, a row computes; called with expressions,
    it composes. Attributes: the compute dtype or None; without tensor inputs also the device and the shape.
    """

    upcasts_half = False
    wide_unsigned = True  # `accepts` decides
    compute: Callable  # runs an op on tensors and numbers; set by `core.apply`
    tensor: type | tuple = ()  # the class of tensors; set by `core.apply`
    argument_names: tuple[str, ...] = ()  # of a gradient row: the values of the differentiated op that it takes

    def __init__(
        self,
        name: str,
        body: str | Callable,
        derivatives: dict[str, Callable],
        accepts: str = "buif",
        keeps_order: bool = True,
        fitting: bool | tuple[str, ...] = False,
        **formula: object,
    ) -> None:
        Op.__init__(self, name)
        Formula.__init__(self, name, body, derivatives, **formula)
        self.accepts = accepts + "c" if self.complex else accepts
        self.keeps_order = keeps_order and not self.integers
        self.fitting = self.inputs if fitting is True else fitting or ()
        self.defaults = getattr(body, "__defaults__", None) or ()
        self.differentiable = self.result != "bool" and (bool(derivatives) or callable(body))
        self._derived: dict[int, Callable | None] = {}
        self._complex: Callable | None = None
        self._loops: dict[tuple, writer.Loop] = {}

    def complete(self, inputs: tuple) -> tuple:
        """The inputs, with defaults for those left out. Raises TypeError for a wrong number of them."""
        missing = len(self.inputs) - len(inputs)
        if not missing:
            return inputs
        if not 0 < missing <= len(self.defaults):
            raise TypeError(f"{self.name}() takes inputs ({', '.join(self.inputs)}), got {len(inputs)}")
        return inputs + self.defaults[-missing:]

    def __call__(self, *arguments: object) -> object:
        if len(arguments) != len(self.inputs):
            arguments = self.complete(arguments)
        if arguments and isinstance(arguments[0], Pointwise.tensor):  # the most frequent call first
            return Op.apply(self, arguments)
        for argument in arguments:
            if isinstance(argument, Expression):
                return self.express(*arguments)
        if not arguments:
            return self.express()
        return Pointwise.compute(self, arguments)

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        inputs = " ".join(f"{name}#[*_]~:any" for name in self.inputs)
        return f"{inputs}; / compute=dtype? device=device shape=0..^* strides=0..^*?"

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        if (
            len(attributes) > 3
            and attributes[3] is not None
            and not layout(attributes[2], dtypes.bool_, attributes[1], attributes[3]).packed
        ):
            return f"attribute 'strides' must be without gaps, got {attributes[3]} for sizes {attributes[2]}"
        for name, argument in zip(self.inputs, arguments):
            if name in self.integers and (
                argument.dtype.kind not in "iuw" if isinstance(argument, Layout) else type(argument) not in (int, bool)
            ):
                return f"input {name!r} must be of integers"
        complexes = any(
            isinstance(argument, complex) or (isinstance(argument, Layout) and argument.dtype.is_complex)
            for argument in arguments
        )
        if complexes and attributes and attributes[0] is not None and not attributes[0].is_complex:
            return f"attribute 'compute' must be complex as the inputs are, got {attributes[0]}"
        tensors = any(isinstance(argument, Layout) for argument in arguments)
        return (
            None
            if tensors or len(attributes) > 2
            else "at least one input must be a tensor, or the attributes have a device and a shape"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        tensors = [argument for argument in arguments if isinstance(argument, Layout)]
        compute, result = self.types(arguments, attributes)
        device = single_device(self.name, tensors) if tensors else attributes[1]
        shape = broadcast_shapes(self.name, [tensor.shape for tensor in tensors]) if tensors else attributes[2]
        out = layout(
            shape,
            result,
            device,
            self._strides(tensors, shape) if tensors else attributes[3] if len(attributes) > 3 else None,
        )
        loop = self._loop(arguments, compute, result, None)
        return Plan(
            out,
            *self._refusing(
                arguments, compute, len(tensors) + 1, *plan_loop(loop, self.name, device, tensors, (out,), shape)
            ),
        )

    def _strides(self, tensors: list[Layout], shape: tuple) -> tuple[int, ...] | None:
        """Strides of the result, in the memory order of the inputs (the first inputs decide, as in PyTorch); None for
        row-major.
        """
        first = tensors[0]
        if not self.keeps_order or (first.dense and first.shape == shape and first.size > 1):
            return None
        if first.packed and all(tensor.shape == shape and tensor.strides == first.strides for tensor in tensors):
            return first.strides
        return ordered_strides(shape, *[broadcast_strides(tensor, shape) for tensor in tensors])

    def prepare_into(
        self, arguments: tuple, attributes: tuple, into: tuple[Layout, ...], over: tuple[int | None, ...]
    ) -> Plan:
        tensors = [argument for argument in arguments if isinstance(argument, Layout)]
        compute, result = self.types(arguments, attributes)
        (out,) = into
        shape = broadcast_shapes(self.name, [operand.shape for operand in (*tensors, out)])
        if shape != out.shape:
            raise RuntimeError(
                f"{self.name}: output with shape {list(out.shape)} doesn't match the broadcast shape {list(shape)}"
            )
        if not dtypes.can_cast(result, out.dtype):
            raise RuntimeError(f"result type {result.short} can't be cast to the desired output type {out.dtype.short}")
        device = single_device(self.name, tensors, out)
        loop = self._loop(arguments, compute, out.dtype, None if over[0] is None else self.inputs[over[0]])
        results = into if over[0] is None else ()
        return Plan(
            into[0],
            *self._refusing(
                arguments,
                compute,
                len(tensors) + len(results),
                *plan_loop(loop, self.name, device, tensors, results, shape),
            ),
        )

    def _refusing(
        self, arguments: tuple, compute: DType, buffers: int, launch: Callable, constants: tuple
    ) -> tuple[Callable, tuple]:
        """The launcher. For a `fitting` row it raises RuntimeError for numbers that the integer dtype cannot hold."""
        numbers = [
            (name, argument) for name, argument in zip(self.inputs, arguments) if not isinstance(argument, Layout)
        ]
        positions = [buffers + k for k, (name, kind) in enumerate(numbers) if kind is int and name in self.fitting]
        if compute.kind not in "iuw" or not positions:
            return launch, constants

        def checked(*arguments: object) -> None:
            for position in positions:
                dtypes.fitting(arguments[position], compute)
            launch(*arguments)

        return checked, constants

    def types(self, arguments: tuple, attributes: tuple = ()) -> tuple[DType, DType]:
        """Compute dtype and result dtype for layouts and number types.

        Raises RuntimeError for a dtype the op is not defined for.
        """
        compute = attributes[0] if attributes else None
        if compute is None:
            values = [
                argument
                for name, argument in zip(self.inputs, arguments)
                if name not in self.conditions and name not in self.integers
            ]
            tensors = [value for value in values if isinstance(value, Layout)]
            numbers = [value for value in values if not isinstance(value, Layout)]
            if self.accepts.startswith("f") and tensors:
                # a Python float does not turn an integer op into a float op
                numbers = [number for number in numbers if number is complex]
            groups = (
                [tensor.dtype for tensor in tensors if tensor.ndim],
                [tensor.dtype for tensor in tensors if not tensor.ndim],
                numbers,
            )
            compute = dtypes.result_type(*groups) if values else dtypes.bool_
        if self.result == "float" and not compute.differentiable:
            compute = dtypes.get_default_dtype()
        elif self.result == "number" and compute.kind == "b":
            compute = dtypes.int64
        if compute.kind not in self.accepts:
            if compute.kind == "b" and self.name in _BOOL_ERRORS:
                raise RuntimeError(_BOOL_ERRORS[self.name])
            hint = (
                "take a part first, with .real, .imag or .abs()"
                if compute.is_complex
                else f"convert first, for example with .to(numod.{'int64' if compute.kind == 'w' else 'float32'})"
            )
            raise NotImplementedError(f"\"{self.name}\" not implemented for '{compute.short}'; {hint}")
        return compute, _RESULTS.get(self.result, lambda kind: kind)(compute)

    @property
    def complex_form(self) -> Callable | None:
        """The row with the gradients of complex tensors."""
        if self.complex and self._complex is None:
            self._complex = OverComplex(self)
        return self._complex

    @complex_form.setter
    def complex_form(self, form: Callable) -> None:
        self._complex = form

    def _loop(self, arguments: tuple, compute: DType, result: DType, over: str | None) -> writer.Loop:
        """The loop that computes this row."""
        kinds = tuple(
            (argument.dtype, True) if isinstance(argument, Layout) else (dtypes.of_scalar_type(argument), False)
            for argument in arguments
        )
        key = (kinds, compute, result, over)
        if key not in self._loops:
            inputs = tuple(
                writer.Input(
                    writer.argument_name(name), kind, is_tensor, name in self.conditions, name in self.integers
                )
                for name, (kind, is_tensor) in zip(self.inputs, kinds)
            )
            expression = self.express(*(self._argument(input, compute) for input in inputs))
            self._loops[key] = writer.Loop(
                inputs, (writer.Output(expression, result, over and writer.argument_name(over)),), compute.compute
            )
        return self._loops[key]

    def _argument(self, input: writer.Input, compute: DType) -> Expression:
        """An input as an expression.

        In comparisons with 16-bit floats, numbers are rounded to the 16-bit dtype first, as in PyTorch.
        """
        symbol = Symbol(input.name)
        if self.result != "bool" or compute.compute is compute or input.dtype is compute:
            return symbol
        return Formula("rounded", f"from_{compute.name}(to_{compute.name}(x))", {}).express(symbol)

    @property
    def gradients(self) -> dict[str, Callable]:
        """Gradient function by input (see `Op`)."""
        functions = {name: self.gradient_of(k) for k, name in enumerate(self.inputs)}
        return {name: function for name, function in functions.items() if function is not None}

    def gradient_of(self, position: int) -> Callable | None:
        """The row that computes an input's gradient; None for conditions and integers."""
        if position not in self._derived:
            self._derived[position] = self._derive(self.inputs[position])
        return self._derived[position]

    def refuse(self, position: int, name: str) -> None:
        """Make backward passes raise that need an input's gradient; `name`: PyTorch's name of the derivative."""

        def gradient(g: object) -> object:
            raise NotImplementedError(
                f"the derivative for '{name}' is not implemented; detach() it where no gradient is needed"
            )

        self._derived[position] = gradient

    def _derive(self, name: str) -> Callable | None:
        """The gradient function of an input, derived from its formula; None if the input has no gradient."""
        if name in self.conditions or name in self.integers:
            return None
        symbols = {symbol: Symbol(symbol) for symbol in ("g", *self.inputs, "out")}
        expression = self.gradient(name, symbols["g"], tuple(symbols[input] for input in self.inputs), symbols["out"])
        if expression is None:
            return None
        if expression is symbols["g"]:
            return _identity
        names = tuple(symbol for symbol in symbols if symbol in uses(expression, symbols) or symbol == "g")
        # the derived row's inputs are renamed, since its own gradient also has a `g` and an `out`
        roles = {
            role: tuple(f"{name}_" for name in getattr(self, role) if name in names)
            for role in ("conditions", "integers")
        }
        row = Pointwise(
            f"{self.name}_grad_{name}",
            _function_of(expression, symbols, names),
            {},
            inputs=tuple(f"{name}_" for name in names),
            complex=bool(self.complex),
            **roles,
        )
        row.argument_names = names
        return row


class OverComplex(Op):
    """A row over complex tensors.

    Its formula is holomorphic, so the gradient is g * conj(f'(x)), as in PyTorch: the row's gradient at the conjugates
    of the saved values.
    """

    upcasts_half, wide_unsigned = False, True  # the row's `accepts` decides

    def __init__(self, row: Pointwise) -> None:
        super().__init__(row.name)
        self.row, self.inputs, self.differentiable, self.defaults = row, row.inputs, row.differentiable, row.defaults
        self.prepare, self.prepare_into = row.prepare, row.prepare_into

    def __call__(self, inputs: tuple, attributes: tuple) -> object:
        return Op.apply(self, inputs, attributes)

    def gradient_of(self, position: int) -> Callable | None:
        rule = self.row.gradient_of(position)
        if rule is None:
            return None

        def gradient(g: object, *saved: object) -> object:
            values = (g, *[_conjugate(value) for value in saved])
            return Op.apply(rule, values) if isinstance(rule, Op) else rule(*values)

        gradient.argument_names = argument_names(rule)
        return gradient


def _conjugate(value: object) -> object:
    return value.conj() if hasattr(value, "conj") else value.conjugate()


def _identity(g: object) -> object:
    return g


def _function_of(expression: Expression, symbols: dict[str, Expression], names: tuple[str, ...]) -> Callable:
    """A Python function of `names` that returns `expression` with its symbols substituted."""
    return lambda *arguments: substitute(
        expression, {symbols[name]: as_expression(new) for name, new in zip(names, arguments)}
    )


def pointwise(name: str, body: str | Callable, **options: object) -> Pointwise:
    """Add a row to the table: a formula, and gradients `d<input>` where the derived ones are not good enough.

    A body is a string, one operation of the target in x, y and z, or a lambda built from other rows. Other options:
    see `Pointwise`.
    """
    inputs = Formula(name, body, {}, inputs=options.get("inputs")).inputs
    derivatives = {input: options.pop(f"d{input}") for input in inputs if f"d{input}" in options}
    rows[name] = vocabulary[name] = row = Pointwise(name, body, derivatives, **options)
    return row


def plan_loop(
    loop: writer.Loop,
    name: str,
    device: object,
    tensors: list[Layout],
    results: tuple[Layout, ...],
    shape: tuple[int, ...],
) -> tuple[Callable, tuple]:
    """A launcher and its constants for `loop` over `shape`, reading `tensors` and writing `results`."""
    problem = loop, name, device, tensors, results, shape
    operands = [*tensors, *results]
    work = prod(shape)
    if work == 0:
        return _launch_nothing, ()
    counts = any(input.integer for input in loop.inputs)  # the loop index must be the position in row-major order
    if all(
        (operand.dense if counts else operand.packed)
        and operand.shape == shape
        and operand.strides == operands[0].strides
        for operand in operands
    ):
        classes, sizes, steps = "1" * len(operands), [work], []
    elif work >= transpose_copy.MIN_SIZE and not counts and (launch := _transposing_launcher(*problem)):
        return launch, ()
    else:
        order = range(len(shape))
        if results and results[0].packed and not counts:  # the inner loop runs along the result's fastest dimension
            order = sorted(order, key=lambda d: -results[0].strides[d])
        steps = [broadcast_strides(operand, shape) for operand in operands]
        sizes, steps = emit.collapse([shape[d] for d in order], [[step[d] for d in order] for step in steps])
        tiles = None if counts or not device.backend.is_gpu else emit.crossing(sizes, steps)
        sizes, steps = tiles or (sizes, steps)
        classes = emit.classes_of(steps)
        if device.backend.is_gpu and not tiles:
            classes = classes.replace("t", "s")
    source, signature = _source(loop, classes, len(sizes), device.backend.is_gpu)
    strided = len(sizes) > 1 or "s" in classes
    constants = (sizes[-1], *(emit.geometry(sizes, steps, classes) if strided else ()))
    return bind.launcher(device, name, source, signature, loop.dtype, work), constants


def _transposing_launcher(
    loop: writer.Loop,
    name: str,
    device: object,
    tensors: list[Layout],
    results: tuple[Layout, ...],
    shape: tuple[int, ...],
) -> Callable | None:
    """A launcher that first copies transposed inputs into the memory order of the result; None if no input is
    transposed.
    """
    if name in _COPY_ROWS and len(results) == 1 and tensors[0].dtype is results[0].dtype and tensors[0].shape == shape:
        return transpose_copy.plan_transpose_copy(tensors[0], results[0])
    names = [input.name for input in loop.inputs if input.tensor]
    target = results[0] if results else tensors[names.index(loop.outputs[0].over)]
    if target.strides[-1] != 1:
        return None
    dense = [layout(shape, tensor.dtype, device) for tensor in tensors]
    copies = {
        k: transpose_copy.plan_transpose_copy(tensor, target)
        for k, (tensor, target) in enumerate(zip(tensors, dense))
        if tensor.shape == shape
    }
    copies = {k: copy for k, copy in copies.items() if copy}
    if not copies:
        return None
    operands = [dense[k] if k in copies else tensor for k, tensor in enumerate(tensors)]
    run, constants = plan_loop(loop, name, device, operands, results, shape)

    def launch(*arguments: object) -> None:
        buffers = list(arguments)
        for k, copy in copies.items():
            buffers[k] = device.empty(dense[k].size, dense[k].storage)
            copy(arguments[k], buffers[k])
        run(*buffers, *constants)

    return launch


@lru_cache(maxsize=8192)
def _source(loop: writer.Loop, classes: str, rank: int, on_gpu: bool) -> tuple[str, str]:
    return emit.pointwise(loop, classes, rank, on_gpu)


def _launch_nothing(*arguments: object) -> None:
    """The launcher of an empty loop."""


def broadcast_strides(tensor: Layout, shape: tuple[int, ...]) -> list[int]:
    """Strides of a tensor expanded to `shape`.

    In a plan for all sizes, a dimension of size 1 that stays 1 keeps its stride: it may be larger at another time.
    """
    missing = len(shape) - tensor.ndim
    if for_all_sizes.get():
        pairs = zip(tensor.shape, shape[missing:], tensor.strides)
        return [0] * missing + [0 if n == 1 != wanted else s for n, wanted, s in pairs]
    return [0] * missing + [0 if n == 1 else s for n, s in zip(tensor.shape, tensor.strides)]


def broadcast_shapes(name: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The common broadcast shape. Raises RuntimeError, naming the sizes and the dimension, if there is none."""
    result = tuple(shapes[0])
    for shape in shapes[1:]:
        if tuple(shape) == result:
            continue
        ndim = max(len(result), len(shape))
        a = (1,) * (ndim - len(result)) + result
        b = (1,) * (ndim - len(shape)) + tuple(shape)
        for dim, (m, n) in enumerate(zip(a, b)):
            if m != n and 1 not in (m, n):
                raise RuntimeError(
                    f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension "
                    f"{dim} ({name}: {', '.join(str(tuple(shape)) for shape in shapes)})"
                )
        result = tuple(n if m == 1 else m for m, n in zip(a, b))
    return result
