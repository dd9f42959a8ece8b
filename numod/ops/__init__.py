"""The ops: one file for each, with its shape rule, kernels and gradient. Ops know no tensors: they plan with layouts and run on buffers.

`op` is the base class. Three kinds are tables of rows: pointwise ops (`table` and `special`, planned by `pointwise`; `turning` copies inputs that lie another
way), reductions (`reduction`) and optimizer steps (`update`). The others have kernels of their own. Where these fill several files, the first one says what
the op is and which kernel runs when:

- `matmul`: `product_tiles`, `product_vectors`, `byte_product`, `linear_gradient`. `convolution/` and `image/` are folders of a family.
- `attention`: `attention_kernels`. `recurrent_layer`: `recurrent`, a single step. `normalization`: `group_norm`, `channel_norm_team`. `softmax`: `nll`.
- `sort` and `select`: `keys`; `runs` and `search` work on sorted rows. `scan`: `scan_team`. `fourier`: `fourier_stages`, `fourier_block`.
- `factorization`: `elimination`, `factorization_gradients`; on a GPU `factorization_device`, `factorization_team`, `factorization_panels`, `jacobi_team`.
- `teams` and `rows_team` are kernels in which blocks of GPU threads share rows, `finish` pointwise work at the end of a product, `cost` what an op's call
takes.
"""

from ..errors import name_only as _name_only

aten = _name_only("ops.aten", "its operators are functions and methods of their own names, as numod.add; there is no registry of operators")


def load_library(path: str) -> None:
    """Raises OSError: numod has no operators of C++. Libraries that bring some, as torchvision, go on without them."""
    raise OSError(f"numod loads no operators written in C++, as those in {path}; numod.library.custom_op makes one of a Python function")
