"""Function transforms, as in `torch.func`: gradients, Jacobians, vmap, and modules with given parameters.

They are implemented on the tape.
"""

from __future__ import annotations

from ..core.docstrings import attach as attach_docstrings
from .batching import vmap
from .forward import jacfwd, jvp, linearize
from .gradients import grad, grad_and_value, hessian, jacrev, value_and_grad, vjp
from .modules import functional_call, functionalize, replace_all_batch_norm_modules_, stack_module_state

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "value_and_grad", "vjp", "vmap",
]  # fmt: skip

attach_docstrings({name: globals()[name] for name in __all__}, "func.")
