"""Special functions under the names of `torch.special`.

Nothing is computed here: rows are in `ops.special` and `ops.table`.
"""

from __future__ import annotations

from .core import methods as _methods
from .core.forms import row_function as _row_function
from .core.math import special as _special
from .core.math.polynomials import POLYNOMIALS, spherical_bessel_j0 as _spherical
from .ops import special as _rows

digamma = psi = _methods.functions["digamma"]
gammaln = _methods.functions["lgamma"]
erf, erfc, erfinv, exp2, expit, expm1, i0, log1p, sinc, xlogy = (
    _methods.functions[name]
    for name in ("erf", "erfc", "erfinv", "exp2", "expit", "expm1", "i0", "log1p", "sinc", "xlogy")
)
(
    entr,
    erfcx,
    i0e,
    i1,
    i1e,
    log_ndtr,
    ndtr,
    ndtri,
    xlog1py,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    airy_ai,
) = (  # fmt: skip
    _row_function(getattr(_rows, name))
    for name in (
        "entr",
        "erfcx",
        "i0e",
        "i1",
        "i1e",
        "log_ndtr",
        "ndtr",
        "ndtri",
        "xlog1py",
        "bessel_j0",
        "bessel_j1",
        "bessel_y0",
        "bessel_y1",
        "modified_bessel_k0",
        "modified_bessel_k1",
        "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1",
        "airy_ai",
    )
)
modified_bessel_i0, modified_bessel_i1 = i0, i1
_POLYNOMIALS = {name: _methods.checked(name, function) for name, function in POLYNOMIALS.items()}
globals().update(_POLYNOMIALS)
gammainc, gammaincc, polygamma, zeta = (
    _methods.checked(name, getattr(_special, name)) for name in ("gammainc", "gammaincc", "polygamma", "zeta")
)
multigammaln = _methods.checked("multigammaln", _special.mvlgamma)
spherical_bessel_j0 = _methods.checked("spherical_bessel_j0", _spherical)
logit, log_softmax, logsumexp, round, softmax = (
    _methods.functions[name] for name in ("logit", "log_softmax", "logsumexp", "round", "softmax")
)

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv",
    "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr",
    "log_softmax", "logit", "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__all__ += list(_POLYNOMIALS)
