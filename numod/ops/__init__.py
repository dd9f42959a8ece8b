"""The ops. Each has one home with its shape rule, its kernels and its gradient.

Ops know layouts and buffers, not tensors. `op` is the base class. Three kinds are tables of rows: pointwise ops
(`table` and `special`, planned by `pointwise`), reductions (`reduce.reduction`) and optimizer steps (`update`). All
others have kernels of their own, in one folder per family; the first file of a folder says what the op is and which
kernel runs when:

- `matmul`: `matmul`, then `tiled`, `gemv`, `int8`, `linear_backward`, `split_k`; `epilogue` is pointwise work at the
  end of a product or a convolution.
- `convolution`, `image` (pooling, unfold, interpolate, grid_sample, cdist), `attention`, `sequence` (recurrent cells
  and layers, CTC).
- `norm`, `reduce` (reductions, scans, argmax, softmax, nll), `sort`, `index` (gather, scatter, concat, pad, flip,
  transposing copies).
- `linalg` (factorizations, triangular solves) and `fft`.

`view` has the ops that change a layout only, `complexes` those of complex numbers, `sampling` random draws of varying
length, `contract` what each op accepts, `cost` the floating-point operations and bytes of a call.
"""

from ..errors import name_only as _name_only

aten = _name_only(
    "ops.aten",
    "its operators are functions and methods of their own names, as numod.add; there is no registry of operators",
)


def load_library(path: str) -> None:
    """Raises OSError: numod has no operators of C++. Libraries that bring some, as torchvision, go on without them."""
    raise OSError(
        f"numod loads no operators written in C++, as those in {path}; numod.library.custom_op makes one of a Python "
        "function"
    )
