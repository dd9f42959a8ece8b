"""`out=` of every dtype side by side with PyTorch: each case, an expression over a (2, 3), s (3, 3), i (1, 3) and O, is
refused by both or by none.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import numod

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")

CASES = """
abs(a, out=O) | neg(a, out=O) | round(a, out=O) | frac(a, out=O) | ceil(a, out=O) | floor(a, out=O) | trunc(a, out=O) | sign(a, out=O) | sgn(a, out=O)
clamp(a, 0, 1, out=O) | clamp_min(a, 1, out=O) | bitwise_not(i, out=O) | conj_physical(a, out=O) | nan_to_num(a, out=O) | isposinf(a, out=O) | signbit(a, out=O)
where(a > 0, a, a, out=O) | heaviside(a, a, out=O) | amax(a, 0, out=O) | argmax(a, 0, out=O) | norm(a, dim=0, out=O) | linalg.norm(a, dim=0, out=O)
linalg.vector_norm(a, dim=0, out=O) | linalg.matrix_norm(s, out=O) | mm(a, s, out=O) | matmul(a, s, out=O) | addmm(a, a, s, out=O) | bmm(s[None], s[None], out=O)
mv(s, s[0], out=O) | dot(s[0], s[0], out=O) | inner(a, a, out=O) | linalg.vecdot(s, s, out=O) | linalg.multi_dot([s, s], out=O) | linalg.matrix_power(s, 2, out=O)
gather(a, 0, i, out=O) | index_select(a, 0, i[0], out=O) | take(a, i, out=O) | masked_select(a, a > 0, out=O) | nonzero(a, out=O) | tril(a, out=O) | diag(s, out=O)
narrow_copy(a, 0, 0, 1, out=O) | linalg.inv(s, out=O) | inverse(s, out=O) | linalg.det(s, out=O) | linalg.cholesky(s @ s.T, out=O) | linalg.solve(s, s, out=O)
linalg.svdvals(s, out=O) | linalg.eigvalsh(s + s.T, out=O) | linalg.cross(a, a, out=O) | any(a, 0, out=O) | all(a, out=O) | quantile(a, 0.5, out=O)
bucketize(a, s[0].sort()[0], out=O) | searchsorted(s[0].sort()[0], a, out=O) | isin(a, a, out=O) | histc(a, out=O) | renorm(a, 2, 0, 1.0, out=O)
scatter(a, 0, i, 1.0, out=O) | scatter_add(a, 0, i, a, out=O) | index_add(a, 0, i[0, :1], a[:1], out=O) | index_copy(a, 0, i[0, :1], a[:1], out=O)
softmax(a, 0, out=O) | log_softmax(a, 0, out=O) | msort(a, out=O) | logcumsumexp(a, 0, out=O) | float_power(a, 2, out=O) | complex(a, a, out=O) | fft.fft(a, out=O)
exp(a, out=O) | add(a, a, out=O) | mul(a, 2, out=O) | sqrt(a, out=O) | maximum(a, a, out=O) | atan2(a, a, out=O) | eq(a, a, out=O) | logical_and(a, a, out=O)
sum(a, 0, out=O) | mean(a, 0, out=O) | prod(a, 0, out=O) | logsumexp(a, 0, out=O) | cat([a, a], out=O) | hstack([a, a], out=O) | outer(s[0], s[0], out=O)
kron(a, a, out=O) | diff(a, out=O) | eye(2, out=O) | cholesky(s @ s.T, out=O) | lerp(a, a, 0.5, out=O) | addcmul(a, a, a, out=O) | nansum(a, 0, out=O)
"""
DTYPES = ("float32", "float64", "int64", "bool", "complex64")


def refused(library: object, case: str, dtype: str) -> bool:
    a, s = np.random.default_rng(3).uniform(0.5, 2.0, (2, 3, 3)).astype(np.float32)
    arguments = {
        "a": library.tensor(a[:2]),
        "s": library.tensor(s) + 2 * library.eye(3),
        "i": library.zeros(1, 3, dtype=library.int64),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(
                f"library.{case}",
                arguments | {"library": library, "O": library.empty(0, dtype=getattr(library, dtype))},
            )
        except (RuntimeError, TypeError, NotImplementedError):
            return True
    return False


@pytest.mark.parametrize("case", [case.strip() for line in CASES.strip().splitlines() for case in line.split("|")])
def test_the_dtypes_of_out(case: str) -> None:
    theirs = {dtype: refused(torch, case, dtype) for dtype in DTYPES}
    assert {dtype: refused(numod, case, dtype) for dtype in DTYPES} == theirs and not all(theirs.values())
