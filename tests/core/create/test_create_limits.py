"""Ranges and random numbers that fill views or the whole range of a dtype; results that do not fit into memory."""

import pytest

import numod


@pytest.mark.parametrize(
    "make",
    [
        lambda: numod.zeros(10**13),
        lambda: numod.zeros(2).resize_([2, 4, 2**29, 2**29]),
        lambda: numod.ones(1).expand(10**13).contiguous(),
    ],
)
def test_no_room_is_an_error_of_either_kind(make):
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        make()
    with pytest.raises(MemoryError):
        make()


def test_ranges_keep_the_shape_of_what_they_fill():
    x = numod.zeros(2, 3)
    numod.linspace(0, 3, 4, out=x.narrow(1, 1, 2))
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
    numod.arange(4, 8, out=x.narrow(1, 0, 2))
    assert x.tolist() == [[4, 5, 1], [6, 7, 3]]


def test_draws_within_what_a_dtype_holds():
    for dtype, digits in ((numod.bfloat16, 8), (numod.float16, 11), (numod.float32, 24)):
        drawn = numod.zeros(50, dtype=dtype).random_()
        assert 0 <= drawn.min().item() and drawn.max().item() <= 2**digits
    for wrong, words in (
        (lambda x: x.random_(-4), "'from' to be less than 'to'"),
        (lambda x: x.uniform_(-3e38, 3e38), "to-from"),
    ):
        with pytest.raises(RuntimeError, match=words):
            wrong(numod.zeros(3))


def test_permutations_and_random_integers_fill_what_the_dtype_holds():
    assert numod.randperm(256, dtype=numod.uint8).sort().values.tolist() == list(range(256))
    for dtype in (numod.uint8, numod.float16):
        with pytest.raises(RuntimeError, match="n cannot be greater than"):
            numod.randperm(3000, dtype=dtype)
    numod.manual_seed(0)
    assert numod.zeros(4000, dtype=numod.uint8).random_().aminmax() == (0, 255) and numod.zeros(
        4000, dtype=numod.int8
    ).random_(-128, None).aminmax() == (
        -128,
        127,
    )
    with pytest.raises(RuntimeError, match="expects 'from' to be less than 'to'"):
        numod.zeros(3).random_(0)
