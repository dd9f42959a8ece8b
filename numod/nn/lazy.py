"""Lazy modules, whose parameters get their shapes from the first input.

A lazy layer combines the mixin, the layer's class and a method that sets the shapes:

    class LazyConv2d(LazyModuleMixin, Conv2d):
        cls_to_become = Conv2d

        def __init__(self, out_channels, kernel_size, ...):
            super().__init__(0, 0, kernel_size, ..., bias=False)
            self.weight = UninitializedParameter()

        def initialize_parameters(self, input):
            self.weight.materialize((self.out_channels, input.shape[1], *self.kernel_size))

The layer's own constructor calls `reset_parameters`, which must do nothing while `has_uninitialized_params()` holds.
"""

from __future__ import annotations

from typing import Any

from ..autograd import no_grad
from ..core import Tensor
from .linear import Linear
from .module import Module
from .parameter import UninitializedParameter, is_lazy

__all__ = ["LazyLinear"]


class LazyModuleMixin:
    """A mixin that initializes a module from its first input and then turns it into a `cls_to_become`.

    Put it before the Module class. Until the first call the parameters are UninitializedParameters. An optimizer
    accepts them, since they keep their identity. Loading a state dict sets their shapes; the first call completes the
    rest.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters from the first call's input. Every lazy class defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of the module itself, not of submodules, has no shape yet."""
        return any(is_lazy(tensor) for tensors in (self._parameters, self._buffers) for tensor in tensors.values())

    @no_grad()
    def _lazy_load_hook(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Materialize the parameters with the shapes in a state dict."""
        for name, tensor in [*self._parameters.items(), *self._buffers.items()]:
            value = state_dict.get(prefix + name)
            if is_lazy(tensor) and isinstance(value, Tensor) and not is_lazy(value):
                tensor.materialize(value.shape)

    def _infer_parameters(self, module: Module, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLayer(LazyModuleMixin):
    """Mixin of numod's lazy layers. The size named `inferred` is 0 until the first input sets it."""

    inferred: str

    def reset_parameters(self) -> None:
        """Draw new values, once the parameters have shapes."""
        if not self.has_uninitialized_params() and getattr(self, self.inferred) != 0:
            super().reset_parameters()


def lazy_form(cls: type, mixin: type) -> type:
    """The lazy form of a layer's class, with the mixin's constructor."""
    name, ndim = cls.__name__, int(cls.__name__[-2])
    arguments = "3, 1" if "Conv" in name else ""  # a convolution has 3 output channels and windows of 1
    members = {
        "cls_to_become": cls,
        "__doc__": f"""A {name} that takes `{mixin.inferred}` from its first input; see LazyLinear.

        Example:

            >>> layer = nn.Lazy{name}({arguments})
            >>> layer(torch.rand(2, 3{", 4" * ndim})).shape
            numod.Size([2, 3{", 4" * ndim}])
        """,
        "__module__": mixin.__module__,
    }
    return type(f"Lazy{cls.__name__}", (mixin, cls), members)


class LazyLinear(LazyLayer, Linear):
    """A Linear that takes `in_features` from its first input and then becomes a Linear.

    Example:

        >>> m = nn.LazyLinear(3)
        >>> m(torch.ones(2, 5)).shape, m.in_features
        (numod.Size([2, 3]), 5)
    """

    cls_to_become = Linear
    inferred = "in_features"
    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    @no_grad()
    def initialize_parameters(self, input: Tensor) -> None:
        """Set `in_features` from the input, or from the weight if it was loaded."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]
