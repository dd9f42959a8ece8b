"""Random numbers: Philox against its published vectors, seeds and generators, distributions, and dropout's mask."""

import copy
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import numod
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)


def philox(counter, key):
    """Philox4x32-10 in plain integers: 4 words from 4 counter words and 2 key words. Salmon et al., 2011."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k0, second & 0xFFFFFFFF, (first >> 32) ^ c[3] ^ k1, first & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def words(seed, counter):
    """The words of a 64-bit seed and a 64-bit counter."""
    return philox((counter & 0xFFFFFFFF, counter >> 32, 0, 0), (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))


ONES = 0xFFFFFFFF
VECTORS = [  # kat_vectors of Random123
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers_of_the_reference(counter, key, expected):
    assert tuple(philox(counter, key)) == expected


@pytest.mark.parametrize("write", [
    lambda: numod.empty(2).random_(0, 2**24 + 2), lambda: numod.empty(2, dtype=numod.float16).random_(0, 4096), lambda: numod.empty(2).random_(-(2**24) - 5, 2),
    lambda: numod.randint(0, 2**25, (2,), dtype=numod.float32),
])  # fmt: skip
def test_whole_numbers_that_a_dtype_does_not_hold_exactly(write):
    with pytest.warns(UserWarning, match="is out of bounds .* Due to precision limitations"):
        write()


def test_known_answer_of_uniform_numbers():
    result = numod.rand(4, generator=numod.Generator().manual_seed(0))
    assert result.tolist() == [(word >> 8) / 2**24 for word in VECTORS[0][2]]


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, 2**64 - 1, -(2**63), 0x123456789ABCDEF])
@pytest.mark.parametrize("offset", [0, 5, 2**32 - 1, 2**40])
def test_uniform_numbers_are_philox_of_seed_and_counter(seed, offset):
    generator = numod.Generator().manual_seed(seed)
    generator.set_state(numod.tensor([generator.get_state().view(numod.int64).tolist()[0], offset]))
    expected = [(word >> 8) / 2**24 for block in range(2) for word in words(seed, offset + block)]
    assert numod.rand(8, generator=generator).tolist() == expected


def test_uniform_numbers_are_the_same_in_every_dtype():
    single = numod.rand(9, generator=numod.Generator().manual_seed(3))
    double = numod.rand(9, generator=numod.Generator().manual_seed(3), dtype=numod.float64)
    assert double.tolist() == pytest.approx(single.tolist(), abs=2**-23)


def test_float64_numbers_use_more_than_24_bits():
    values = numod.rand(64, generator=numod.Generator().manual_seed(3), dtype=numod.float64)
    assert any((x * 2**24) % 1 for x in values.tolist())


# ---- seeds and generators


def draw():
    return (
        numod.rand(3).tolist()
        + numod.randn(3).tolist()
        + numod.randint(0, 1000, (3,)).tolist()
        + numod.randperm(5).tolist()
    )


@pytest.fixture
def seeded():
    state = numod.get_rng_state()
    numod.manual_seed(7)
    yield
    numod.set_rng_state(state)


def test_the_same_seed_gives_the_same_numbers(seeded):
    first = draw()
    assert draw() != first
    numod.manual_seed(7)
    assert draw() == first
    numod.manual_seed(8)
    assert draw() != first


def test_the_state_can_be_taken_back(seeded):
    draw()
    state = numod.get_rng_state()
    first = draw()
    numod.set_rng_state(state)
    assert draw() == first


def test_a_state_is_not_changed_by_later_draws(seeded):
    state = numod.get_rng_state()
    before = state.tolist()
    draw()
    assert state.tolist() == before


def test_generators_are_apart(seeded):
    a, b = numod.Generator().manual_seed(1), numod.Generator().manual_seed(1)
    before = numod.get_rng_state().tolist()
    first = numod.rand(3, generator=a)
    assert numod.get_rng_state().tolist() == before
    assert numod.rand(3, generator=b).tolist() == first.tolist() != numod.rand(3, generator=a).tolist()


def test_every_function_takes_a_generator():
    def play():
        g = numod.Generator().manual_seed(11)
        x = numod.zeros(4)
        return [
            numod.rand(4, generator=g).tolist(), numod.randn(4, generator=g).tolist(),
            numod.randint(9, (4,), generator=g).tolist(),
            numod.randperm(4, generator=g).tolist(),
            numod.normal(0.0, 1.0, (4,), generator=g).tolist(),
            numod.bernoulli(numod.full((4,), 0.5), generator=g).tolist(), x.uniform_(generator=g).tolist(),
            x.normal_(generator=g).tolist(), x.random_(5, generator=g).tolist(),
            x.bernoulli_(0.5, generator=g).tolist(),
        ]  # fmt: skip

    assert play() == play()


def test_seeds():
    generator = numod.Generator()
    assert generator.manual_seed(5) is generator and generator.initial_seed() == 5
    assert generator.seed() == generator.initial_seed()
    for wrong in (2**64, -(2**63) - 1, "5"):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            generator.manual_seed(wrong)


def test_a_process_without_a_seed_draws_its_own_numbers_and_manual_seed_repeats_them():
    program = (
        "import numod as torch; print(torch.initial_seed(), torch.rand(3).tolist()); torch.manual_seed(7); "
        "print(torch.initial_seed(), torch.rand(3).tolist())"
    )
    (seed, seeded_first), (other, seeded_second) = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    )
    assert seed != other and seeded_first == seeded_second


def test_a_new_generator_has_pytorchs_default_seed():
    generator = numod.Generator()
    assert generator.initial_seed() == 67280421310721
    assert numod.rand(3, generator=generator).tolist() == numod.rand(3, generator=numod.Generator()).tolist()
    assert 0 <= generator.seed() < 1 << 53 and generator.initial_seed() != 67280421310721


def test_the_initial_seed_is_what_was_given():
    assert numod.Generator().manual_seed(2**63).initial_seed() == 2**63


def test_draws_after_ones_there_was_no_room_for(seeded):
    for _ in range(4):
        with pytest.raises(numod.OutOfMemoryError):
            numod.rand(1 << 59)
    for _ in range(20):
        numod.default_generator.draw(1 << 60)
    assert len(set(numod.rand(4).tolist())) == 4


def test_a_generator_survives_pickle():
    generator = numod.Generator().manual_seed(5)
    numod.rand(3, generator=generator)
    other = pickle.loads(pickle.dumps(generator))
    assert numod.rand(3, generator=other).tolist() == numod.rand(3, generator=generator).tolist()


def test_the_default_generator_is_public(seeded):
    assert numod.initial_seed() == numod.default_generator.initial_seed() == 7


# ---- distributions; the seeds are fixed, so a bound that holds holds for ever


N = 20_000


def kolmogorov(values, distribution):
    """The greatest distance between the values' and the distribution's cumulative frequencies, times sqrt(n): above
    1.63 with probability 1 %.
    """
    values = np.sort(np.asarray(values, dtype=np.float64))
    expected, n = distribution(values), len(values)
    return math.sqrt(n) * max(np.max(np.arange(1, n + 1) / n - expected), np.max(expected - np.arange(n) / n))


def normal_distribution(x):
    return np.array([0.5 * math.erfc(-bound / math.sqrt(2)) for bound in x])


def test_uniform():
    x = numod.rand(N, generator=numod.Generator().manual_seed(1)).numpy()
    assert 0 <= x.min() and x.max() < 1
    assert kolmogorov(x, lambda bound: bound) < 1.63
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


def test_normal():
    x = numod.randn(N, generator=numod.Generator().manual_seed(1)).numpy()
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02 and np.isfinite(x).all()
    assert kolmogorov(x, normal_distribution) < 1.63
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


def test_a_sample_of_normal_is_a_constant_to_its_parameters():
    # As in PyTorch: otherwise the score of a Gaussian policy, whose action is drawn by it, would cancel out.
    mean, std = numod.zeros(3, requires_grad=True), numod.ones(3, 1, dtype=numod.float64, requires_grad=True)
    sample = numod.normal(mean, std, generator=numod.Generator().manual_seed(1))
    assert sample.dtype is numod.float32 and sample.allclose(
        numod.normal(0.0, 1.0, (3, 3), generator=numod.Generator().manual_seed(1))
    )
    sample.sum().backward()
    assert mean.grad.tolist() == [0.0] * 3 and std.grad.tolist() == [[0.0]] * 3


def test_normal_of_mean_and_deviation():
    x = numod.normal(5.0, 2.0, (N,), generator=numod.Generator().manual_seed(1)).numpy()
    assert kolmogorov((x - 5) / 2, normal_distribution) < 1.63
    assert numod.normal(5.0, 0.0, (3,)).tolist() == [5.0] * 3
    with pytest.raises(RuntimeError, match="std"):
        numod.normal(0.0, -1.0, (3,))


def test_two_draws_are_independent():
    generator = numod.Generator().manual_seed(1)
    for make in (numod.rand, numod.randn):
        a, b = make(N, generator=generator).numpy(), make(N, generator=generator).numpy()
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.02 and not np.isin(a, b).mean() > 0.01


def test_neighbouring_seeds_are_independent():
    a, b = (numod.rand(N, generator=numod.Generator().manual_seed(seed)).numpy() for seed in (1, 2))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02


def test_integers():
    x = numod.randint(-3, 7, (N,), generator=numod.Generator().manual_seed(1))
    assert x.dtype is numod.int64
    counts = np.bincount(x.numpy() + 3, minlength=10)
    assert len(counts) == 10 and (((counts - N / 10) ** 2) / (N / 10)).sum() < 21.7  # chi squared of 9 degrees, 1 %
    assert numod.randint(3, 4, (2,)).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="random_ expects 'from' to be less than 'to'"):
        numod.randint(3, 3, (2,))


def test_integers_are_of_the_whole_range_that_the_dtype_holds():
    least, most = numod.iinfo(numod.int64).min, numod.iinfo(numod.int64).max
    x = numod.randint(least, most, (N,), generator=numod.Generator().manual_seed(2)).double() / 2.0**63
    assert x.min() < -0.999 and x.max() > 0.999 and abs(x.mean()) < 0.02
    assert numod.randint(-(2**62), most, (N,), generator=numod.Generator().manual_seed(3)).min() < -(2**61)
    for low, high, dtype in (
        (0, 300, numod.uint8),
        (-200, 3, numod.int8),
        (0, 3, numod.bool),
        (0, 100_000, numod.float16),
    ):
        with pytest.raises(RuntimeError, match="is out of bounds for"):
            numod.randint(low, high, (3,), dtype=dtype)
        with pytest.raises(RuntimeError, match="is out of bounds for"):
            numod.zeros(3, dtype=dtype).random_(low, high)


def test_permutation():
    order = numod.randperm(1000, generator=numod.Generator().manual_seed(1))
    assert sorted(order.tolist()) == list(range(1000)) != order.tolist() and order.dtype is numod.int64
    assert numod.randperm(0).shape == (0,) and numod.randperm(1).tolist() == [0]
    assert (
        numod.randperm(5, dtype=numod.int32, device="meta").shape == (5,)
        and numod.randperm(5, dtype=numod.int32).dtype is numod.int32
    )
    g = numod.Generator().manual_seed(2)
    counts = np.unique([numod.randperm(4, generator=g).tolist() for _ in range(2400)], axis=0, return_counts=True)[1]
    assert len(counts) == 24 and ((counts - 100) ** 2 / 100).sum() < 41.6  # chi squared of 23 degrees, 1 %


def test_bernoulli():
    p = numod.full((N,), 0.3)
    x = numod.bernoulli(p, generator=numod.Generator().manual_seed(1)).numpy()
    assert set(x.tolist()) == {0.0, 1.0} and abs(x.mean() - 0.3) < 0.01
    assert numod.bernoulli(numod.tensor([0.0, 1.0] * 50)).tolist() == [0.0, 1.0] * 50
    assert numod.bernoulli(numod.tensor([0.0, 1.0]), out=numod.empty(2, dtype=numod.bool)).tolist() == [False, True]
    out = numod.full((2,), 5.0)
    assert numod.bernoulli(numod.tensor([0.0, 1.0]), out=out) is out and out.tolist() == [0.0, 1.0]


def test_filling_in_place():
    generator = numod.Generator().manual_seed(1)
    x = numod.zeros(N)
    assert kolmogorov((x.uniform_(-2, 4, generator=generator).numpy() + 2) / 6, lambda bound: bound) < 1.63
    assert kolmogorov((x.normal_(1, 3, generator=generator).numpy() - 1) / 3, normal_distribution) < 1.63
    assert set(x.random_(3, generator=generator).tolist()) == {0.0, 1.0, 2.0}
    assert abs(x.bernoulli_(0.7, generator=generator).numpy().mean() - 0.7) < 0.01
    assert x._version == 4


def test_shapes_and_dtypes():
    assert numod.rand(2, 3).shape == (2, 3) and numod.rand((2, 3)).shape == (2, 3) and numod.rand(()).shape == ()
    assert numod.randn(0, 3).shape == (0, 3) and numod.rand(2, dtype=numod.float64).dtype is numod.float64
    like = numod.zeros(2, 3, dtype=numod.float64)
    assert numod.rand_like(like).dtype is numod.randn_like(like).dtype is numod.float64
    assert numod.randint_like(like, 5).shape == (2, 3)
    assert numod.rand(2, requires_grad=True).requires_grad


def test_a_generator_is_copied_with_its_state():
    generator = numod.Generator().manual_seed(5)
    numod.rand(3, generator=generator)
    copies = [
        copy.copy(generator),
        copy.deepcopy(generator),
        pickle.loads(pickle.dumps(generator)),
        generator.clone_state(),
    ]
    expected = numod.rand(4, generator=generator).tolist()
    assert [numod.rand(4, generator=copy_).tolist() for copy_ in copies] == [expected] * 4
    assert all(copy_.initial_seed() == 5 and copy_ is not generator for copy_ in copies)
    assert generator.set_state(copies[0].get_state()) is generator and generator.get_state().equal(
        copies[0].get_state()
    )


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda g: g.manual_seed(1.5), RuntimeError, "manual_seed expected a long, but got float"),
    (lambda g: g.manual_seed(True), RuntimeError, "manual_seed expected a long, but got bool"),
    (lambda g: g.manual_seed(1 << 64), ValueError, "Overflow"),
    (lambda g: g.set_state(numod.zeros(3, dtype=numod.uint8)), RuntimeError, "found the input RNG state to be"),
    (lambda g: g.set_state(numod.zeros(16)), TypeError, "RNG state must be a ByteTensor"),
    (lambda g: g.set_state(3), TypeError, "expected a ByteTensor"),
    (lambda g: g.get_offset(), RuntimeError, "CPU Generator does not use offset"),
    (lambda g: g.set_offset(3), RuntimeError, "CPU Generator does not use offset"),
])  # fmt: skip
def test_invalid_generator_arguments(call, error, message):
    generator = numod.Generator().manual_seed(5)
    with pytest.raises(error, match=message):
        call(generator)
    assert generator.initial_seed() == 5
    assert numod.manual_seed(True).initial_seed() == 1  # which converts, as PyTorch's


# ---- the numbers belong to the place in the tensor, not to memory or threads


def test_numbers_do_not_depend_on_layout():
    generator = numod.Generator().manual_seed(4)
    state = generator.get_state()
    expected = numod.rand(3, 4, generator=generator)
    for make in (lambda: numod.zeros(4, 3).t(), lambda: numod.zeros(3, 8)[:, ::2], lambda: numod.zeros(5, 4)[1:4]):
        generator.set_state(state)
        assert make().uniform_(generator=generator).tolist() == expected.tolist()


def test_a_strided_fill_leaves_the_rest():
    memory = numod.zeros(3, 8)
    memory[:, ::2].uniform_(1, 2)
    assert (memory[:, ::2] >= 1).all() and (memory[:, 1::2] == 0).all()


@pytest.mark.parametrize("make", [numod.rand, numod.randn], ids=["rand", "randn"])
def test_numbers_do_not_depend_on_threads(make):
    before, results = numod.get_num_threads(), []
    try:
        for threads in (1, 2):
            numod.set_num_threads(threads)
            results.append(make(300_000, generator=numod.Generator().manual_seed(4)).numpy())
    finally:
        numod.set_num_threads(before)
    assert (results[0] == results[1]).all()


def test_a_long_draw_begins_like_a_short_one():
    long, short = (numod.rand(n, generator=numod.Generator().manual_seed(4)).numpy() for n in (200_000, 10))
    assert (long[:10] == short).all()


# ---- dropout


LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(64, 80),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dropout_scales_and_its_gradient_has_the_same_mask(layout):
    memory = numod.full((64, 80), 2.0, requires_grad=True)
    x = LAYOUTS[layout](memory)
    y = F.dropout(x, 0.25)
    values = y.detach().numpy()
    assert set(np.unique(values).round(5)) == {0.0, np.float32(2 / 0.75).round(5)}
    assert abs((values == 0).mean() - 0.25) < 0.03
    (g,) = numod.autograd.grad(y.sum(), x)
    assert ((g.numpy() == 0) == (values == 0)).all()
    assert g.numpy()[values != 0] == pytest.approx(1 / 0.75)


def test_dropped_infinities_and_nans_are_nans():
    x = numod.full((64,), float("inf")).requires_grad_()
    result = F.dropout(x, 0.5)
    result.backward(x.detach())
    assert (
        0 < result.isnan().sum() < 64
        and numod.equal(result.isnan(), x.grad.isnan())
        and not (result == 0).any()
        and F.dropout(x, 1.0).isnan().all()
    )


@pytest.mark.parametrize("layout", ["dense", "transposed"])
def test_dropout_has_the_same_mask_in_the_second_order(layout):
    x = LAYOUTS[layout](numod.full((8, 8), 2.0, requires_grad=True))
    y = F.dropout(x * x, 0.5)
    (g,) = numod.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = numod.autograd.grad(g.sum(), x)
    assert ((gg.numpy() == 0) == (y.detach().numpy() == 0)).all()


def test_dropout_keeps_its_mask_whatever_is_drawn_before_backward():
    x = numod.ones(64, requires_grad=True)
    y = F.dropout(x, 0.5)
    numod.rand(100)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


@pytest.mark.cpu_only
def test_dropout_at_its_limits():
    x = numod.ones(100)
    assert F.dropout(x, 0.0).tolist() == x.tolist() and F.dropout(x, 1.0).tolist() == [0.0] * 100
    assert F.dropout(x, 0.5, training=False).tolist() == x.tolist()
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            F.dropout(x, p)


def test_dropout_of_everything_has_a_gradient_of_zero():
    x = numod.ones(4, requires_grad=True)
    F.dropout(x, 1.0).sum().backward()
    assert x.grad.tolist() == [0.0] * 4


def test_two_dropouts_differ(seeded):
    x = numod.ones(100)
    assert F.dropout(x, 0.5).tolist() != F.dropout(x, 0.5).tolist()


@pytest.mark.cpu_only
def test_chances_are_between_0_and_1():
    for wrong in (numod.tensor([0.5, 2.0]), numod.tensor([-0.1]), numod.tensor([float("nan")])):
        with pytest.raises(RuntimeError, match="Expected p_in >= 0"):
            numod.bernoulli(wrong)
    with pytest.raises(RuntimeError, match=r"expects p to be in \[0, 1\], but got p=2"):
        numod.ones(2).bernoulli_(2)
    assert numod.ones(3, 2).bernoulli_(numod.tensor([0.0, 1.0])).tolist() == [[0, 1]] * 3 and numod.bernoulli(
        numod.ones(0)
    ).shape == (0,)


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["uniform_", "normal_", "random_"])
def test_numbers_drawn_over_a_result_pass_zeros_on(name):
    x, y = numod.ones(3, requires_grad=True), numod.ones(3, requires_grad=True)
    (getattr(x.clone(), name)() + y).sum().backward()
    assert x.grad.tolist() == [0, 0, 0] and y.grad.tolist() == [1, 1, 1]


def test_random_numbers_inside_a_fork_do_not_count() -> None:
    numod.manual_seed(3)
    expected = numod.rand(2)
    numod.manual_seed(3)
    with numod.random.fork_rng():
        numod.rand(5)
    assert numod.equal(numod.rand(2), expected)


def test_states_are_bytes(seeded):
    state = numod.get_rng_state()
    assert state.dtype is numod.uint8 and state.shape == (16,)
    first = draw()
    for malformed in (state.byte(), state.clone(), state.view(numod.int64)):
        numod.set_rng_state(malformed)
        assert draw() == first
    for wrong in (state[:8], state.float(), state.view(numod.int64)[:1]):
        with pytest.raises((TypeError, RuntimeError), match="RNG state"):
            numod.set_rng_state(wrong)


def test_only_the_last_draw_is_taken_back():
    generator = numod.Generator().manual_seed(3)
    _, first = generator.draw(5)
    _, second = generator.draw(7)
    generator.undraw(first, 5)  # another thread has drawn since
    assert generator.draw(1)[1] == second + 7
    generator.undraw(second + 7, 1)
    assert generator.draw(1)[1] == second + 7
