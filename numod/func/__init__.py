"""Functions of functions: gradients as functions, and modules called with parameters from outside. PyTorch's `torch.func`, over the tape."""

from __future__ import annotations

from .gradients import grad, grad_and_value, hessian, jacrev, value_and_grad, vjp
from .modules import functional_call, stack_module_state

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacrev", "stack_module_state", "value_and_grad", "vjp"]
