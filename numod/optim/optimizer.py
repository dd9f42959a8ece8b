"""Optimizer: parameter groups, state, and state dicts. Subclasses define what a step computes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from ..errors import warn_caller
from ..autograd import enable_grad, no_grad
from ..autograd.early_kernels import expect_gradients
from ..core import changes
from ..core.listeners import listeners, notify_dropped, with_gradients
from ..core.updates import apply_updates
from ..core.tensor import Tensor
from ..core.create.values import tensor
from ..core.math.complexes import view_as_real
from ..dtypes import dtype as DType, float32, float64, get_default_dtype
from ..ops.update import Update
from .hooks import Hooked, through
from .hooks import (
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook,
)


class _RequiredParameter:
    """The default of a required hyper-parameter."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()
# for annotations of optimizers in other libraries
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict, DeviceDict = dict[str, Any], dict[Any, Tensor]
# of PyTorch's own optimizers, whose files other libraries copy: paragraphs for docstrings, and helpers of `step`
_params_doc = "params (iterable): parameters, named parameters, or dicts that define parameter groups"
_foreach_doc = "foreach (bool, optional): without effect, all updates are fused"
_fused_doc = "fused (bool, optional): without effect, all updates are fused"
_capturable_doc = "capturable (bool, optional): without effect, steps are compiled by numod.compile"
_maximize_doc = "maximize (bool, optional): maximize the objective instead of minimizing it"
_differentiable_doc = "differentiable (bool, optional): not supported"


def _use_grad_for_differentiable(function: Callable) -> Callable:
    """Decorator of `step`: it runs without gradients, since `differentiable=True` is not supported."""
    return no_grad()(function)


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable[[Callable], Callable]:
    """Decorator of a functional optimizer: the function unchanged."""
    return lambda function: function


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """(fused, foreach) for a functional optimizer: neither, so that its plain loop runs."""
    return False, False


def _get_value(x: Any) -> Any:
    """A tensor of one element as a Python number; a number unchanged."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    """Bias corrections as they are: PyTorch stacks them in compiled functions."""
    return x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dimensions; a number unchanged."""
    return x.squeeze() if isinstance(x, Tensor) and x.ndim else x


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """The dtype of the count of steps: float64 where that is the default dtype."""
    return float64 if get_default_dtype() is float64 and not is_fused else float32


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace complex tensors in lists by their views as pairs of real numbers."""
    for k, param in enumerate(params):
        if param.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[k] = view_as_real(tensors[k])


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The devices for which copies of PyTorch's optimizers allow `capturable`."""
    return ["cuda", "xpu", "hpu", "privateuseone", *["xla"] * supports_xla]


class Optimizer(Hooked):
    """Base class of optimizers.

    `param_groups` is a list of dicts with `params` and hyper-parameters; `state` holds a dict per parameter.

    `params` are tensors, (name, tensor) pairs, or dicts that override `defaults`. Raises TypeError and ValueError as
    PyTorch does. Subclasses define `_updates(parameters, group)`.

    Example:

        >>> weight = nn.Parameter(torch.ones(2))
        >>> optimizer = optim.SGD([weight], lr=0.5)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight
        Parameter containing:
        tensor([0.5000, 0.5000], requires_grad=True)
    """

    # whether a step reads settings and counts only in the functions of `_updates` that return its scalars; compiled
    # programs call these functions in every run
    rereads_scalars = True

    def __init__(self, params: Iterable, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got numod."
                + type(params).__name__
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        super().__init__()
        _check_options(defaults)
        params = _listed(params)
        if not params:
            raise ValueError("optimizer got an empty parameter list")
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(dict(group))
        expect_gradients()

    def __setattr__(self, name: str, value: Any) -> None:
        # compiled programs depend on these attributes and on the class's methods
        if name in ("param_groups", "state") or hasattr(type(self), name):
            changes.note(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        changes.note(name)
        super().__delattr__(name)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with its own hyper-parameters."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else _listed(params)
        names = [param[0] for param in params if isinstance(param, tuple)]
        if names:
            if len(names) != len(params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
            params = [parameter for _, parameter in params]
        param_group["params"] = params
        self._check(param_group)
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, value)
        self.param_groups.append(param_group)
        changes.note()

    def _check(self, new: dict[str, Any]) -> None:
        """Raise if a parameter of a new group is not a tensor, not a leaf, or already in a group."""
        for parameter in new["params"]:
            if not isinstance(parameter, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}; pass "
                    "model.parameters()"
                )
            if not (self.defaults.get("differentiable") or parameter.is_leaf or parameter.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        if len(set(new["params"])) != len(new["params"]):
            warn_caller(
                "optimizer contains a parameter group with duplicate parameters; each step would update them several "
                "times, so pass each parameter once"
            )
        for group in self.param_groups:
            if ("param_names" in new) != ("param_names" in group):
                how = "with names" if "param_names" in new else "without names"
                raise ValueError(
                    f"all optimizer param groups should be with/without names. cannot add param group {how} to the "
                    "optimizer"
                )
            if not set(group["params"]).isdisjoint(new["params"]):
                raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients to None, or to zero with `set_to_none=False`."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    if listeners:
                        notify_dropped(parameter)
                    parameter._grad = None
                elif with_gradients([parameter]):
                    parameter._grad = parameter._grad.detach() if parameter._grad.requires_grad else parameter._grad
                    parameter._grad.zero_()

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update all parameters that have a gradient.

        A `closure` is called first to compute the loss and gradients; its value is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = to_update(group)
            for op, members, numbers in self._updates(parameters, group):
                apply_updates(op, members, numbers)
        return loss

    def _updates(
        self, parameters: list[Tensor], group: dict[str, Any]
    ) -> list[tuple[Update, list[tuple[Tensor, ...]], Callable[[], tuple]]]:
        """The updates of a step: (op, a tuple of tensors per parameter, a function that returns the step's scalars)."""
        raise NotImplementedError(f"{type(self).__name__} must define _updates(parameters, group)")

    def _create_state(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Create the state of parameters that have none, without an update."""
        self._updates(parameters, group)  # these updates do not run

    def state_dict(self) -> dict[str, Any]:
        """State and groups, with parameters replaced by their indices. A copy: later steps do not change it."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        for k, parameter in enumerate(parameter for group in self.param_groups for parameter in group["params"]):
            numbers.setdefault(id(parameter), k)
        groups = []
        for group in self.param_groups:
            settings = deepcopy({name: value for name, value in group.items() if name != "params"})
            groups.append({**settings, "params": [numbers[id(parameter)] for parameter in group["params"]]})
        state = {}
        for parameter, values in self.state.items():
            saved = (
                {name: _saved(name, value) for name, value in values.items()}
                if isinstance(values, dict)
                else deepcopy(values)
            )
            state[numbers.get(id(parameter), parameter)] = saved
        return through(self._optimizer_state_dict_post_hooks, self, {"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a copy of `state_dict`.

        Raises ValueError if the groups do not match, KeyError if it is not an optimizer's state dict.
        """
        state_dict = through(self._optimizer_load_state_dict_pre_hooks, self, dict(state_dict))
        if "param_groups" not in state_dict:
            inside = next(
                (name for name, value in state_dict.items() if isinstance(value, dict) and "param_groups" in value),
                None,
            )
            hint = (
                "pass what an optimizer's state_dict() returned"
                if inside is None
                else f"an optimizer's state is in its entry {inside!r}: load that"
            )
            raise KeyError(f"param_groups; the state dict has the keys {list(state_dict)[:9]}; {hint}")
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for k, (group, saved_group) in enumerate(zip(self.param_groups, saved)):
            if len(group["params"]) != len(saved_group["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"group {k} has {len(saved_group['params'])} parameters there and {len(group['params'])} here"
                )
        by_number = {
            number: parameter
            for group, saved_group in zip(self.param_groups, saved)
            for number, parameter in zip(saved_group["params"], group["params"])
        }
        self.state = defaultdict(dict)
        for number, values in state_dict["state"].items():
            parameter = by_number.get(number)
            self.state[number if parameter is None else parameter] = (
                values
                if parameter is None
                else {name: _placed(name, value, parameter) for name, value in values.items()}
            )
        for group, saved_group in zip(self.param_groups, saved):
            parameters = {name: group[name] for name in ("params", "param_names") if name in group}
            group.clear()
            group.update({**parameters, **deepcopy({k: v for k, v in saved_group.items() if k != "params"})})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": dict(self.state), "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Hooked.__init__(self)
        self.__dict__.update(state)
        self.state = defaultdict(dict, state["state"])

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for k, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {k}"] if k else [f"Parameter Group {k}"]
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _listed(params: Iterable) -> list:
    """What `params` yields. Raises TypeError, with advice for a module or for `model.parameters` without its call."""
    try:
        iterator = iter(params)
    except TypeError as error:
        advice = "; pass model.parameters()" if hasattr(params, "parameters") or callable(params) else ""
        raise TypeError(f"{error}{advice}") from None
    return list(iterator)


def _check_options(defaults: dict[str, Any]) -> None:
    """Raise RuntimeError, as PyTorch does, for options that exclude each other."""
    if defaults.get("fused") and defaults.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`")
    if defaults.get("fused") and defaults.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together; leave one out.")


def to_update(group: dict[str, Any]) -> list[Tensor]:
    """The parameters of a group that have gradients. Raises if they do not support the group's options."""
    parameters = with_gradients(group["params"])
    if group.get("differentiable") and parameters:
        if any(parameter.is_leaf and parameter.requires_grad for parameter in parameters):
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        raise NotImplementedError(
            "steps of numod's optimizers are not differentiable: differentiable=True; "
            "write the update with tensor operations on func.functional_call's parameters"
        )
    if group.get("capturable") and any(parameter.device.type == "cpu" for parameter in parameters):
        raise AssertionError("If capturable=True, params and state_steps must be on supported devices: ['cuda'].")
    return parameters


# state that is a Python number here, and a tensor of one element in PyTorch's state dicts
_COUNTS = ("step", "mu_product", "eta", "mu")


def _saved(name: str, value: Any) -> Any:
    return tensor(float(value)) if name in _COUNTS and not isinstance(value, Tensor) else deepcopy(value)


def _placed(name: str, value: Any, parameter: Tensor) -> Any:
    """A loaded state value: floating tensors get the parameter's dtype and device, step counts become numbers."""
    if not isinstance(value, Tensor):
        return deepcopy(value)
    if name in _COUNTS:
        return int(value.item()) if name == "step" else value.item()
    return value.to(
        device=parameter.device, dtype=parameter.dtype if value.dtype.is_floating_point else value.dtype, copy=True
    )
