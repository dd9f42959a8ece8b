"""SGD, Adam and AdamW, 20 steps each, against the formulas written in NumPy here."""

import numpy as np
import pytest

import numod

pytestmark = pytest.mark.on_cuda(simulator=False)

STEPS = 20
START = np.linspace(-1, 1, 6).reshape(2, 3)


def gradient(p, step):
    """Of a function that changes with the step, so that no option goes unseen."""
    return np.cos(p * (1 + step / 7)) * 0.5 + p


def sgd(p, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    buffer = None
    for step in range(STEPS):
        g = gradient(p, step) * (-1 if maximize else 1)
        g = g + weight_decay * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
    return p


def adam(p, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False, decoupled=False):
    first = second = most = np.zeros_like(p)
    for step in range(STEPS):
        g = gradient(p, step) * (-1 if maximize else 1)
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        first = betas[0] * first + (1 - betas[0]) * g
        second = betas[1] * second + (1 - betas[1]) * g * g
        most = np.maximum(most, second)
        t = step + 1
        root = np.sqrt((most if amsgrad else second) / (1 - betas[1] ** t)) + eps
        p = p - lr * first / (1 - betas[0] ** t) / root
    return p


def adamw(p, weight_decay=1e-2, **options):
    return adam(p, weight_decay=weight_decay, decoupled=True, **options)


CASES = [
    (numod.optim.SGD, sgd, {}),
    (numod.optim.SGD, sgd, {"lr": 0.1}),
    (numod.optim.SGD, sgd, {"lr": 0.1, "weight_decay": 0.3}),
    (numod.optim.SGD, sgd, {"lr": 0.05, "momentum": 0.9}),
    (numod.optim.SGD, sgd, {"lr": 0.05, "momentum": 0.9, "dampening": 0.4}),
    (numod.optim.SGD, sgd, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (numod.optim.SGD, sgd, {"lr": 0.05, "momentum": 0.9, "maximize": True, "weight_decay": 0.1}),
    (numod.optim.SGD, sgd, {"lr": 0.05, "maximize": True}),
    (numod.optim.Adam, adam, {}),
    (numod.optim.Adam, adam, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
    (numod.optim.Adam, adam, {"lr": 0.1, "weight_decay": 0.2}),
    (numod.optim.Adam, adam, {"lr": 0.1, "betas": (0.5, 0.6), "amsgrad": True}),
    (numod.optim.Adam, adam, {"lr": 0.1, "maximize": True, "weight_decay": 0.2}),
    (numod.optim.Adam, adam, {"lr": 0.1, "betas": (0.0, 0.0)}),
    (numod.optim.AdamW, adamw, {}),
    (numod.optim.AdamW, adamw, {"lr": 0.1, "weight_decay": 0.3}),
    (
        numod.optim.AdamW,
        adamw,
        {"lr": 0.1, "weight_decay": 0.3, "betas": (0.5, 0.6), "amsgrad": True, "maximize": True},
    ),
]


def name(case):
    return f"{case[0].__name__}-{'-'.join(case[2]) or 'defaults'}"


def run(optimizer, parameter, steps=range(STEPS)):
    for step in steps:
        parameter.grad = numod.tensor(gradient(parameter.detach().double().numpy(), step), dtype=parameter.dtype)
        optimizer.step()


@pytest.mark.parametrize("case", CASES, ids=name)
def test_twenty_steps(case):
    make, reference, options = case
    parameter = numod.tensor(START, dtype=numod.float32).requires_grad_()
    run(make([parameter], **options), parameter)
    assert parameter.tolist() == [
        pytest.approx(row, rel=1e-4, abs=1e-5) for row in reference(START, **options).tolist()
    ]


@pytest.mark.parametrize("case", [CASES[5], CASES[11]], ids=name)
def test_float64_is_exact(case):
    make, reference, options = case
    parameter = numod.tensor(START, dtype=numod.float64).requires_grad_()
    run(make([parameter], **options), parameter)
    np.testing.assert_allclose(parameter.detach().numpy(), reference(START, **options), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", [CASES[3], CASES[8]], ids=name)
def test_parameters_and_gradients_of_any_layout(case):
    make, reference, options = case
    memory = numod.tensor(START.T.copy(), dtype=numod.float32)
    parameter = memory.t().requires_grad_()
    optimizer = make([parameter], **options)
    for step in range(STEPS):
        g = gradient(parameter.detach().double().numpy(), step)
        parameter.grad = numod.tensor(np.repeat(g, 2, axis=1), dtype=numod.float32)[:, ::2]
        optimizer.step()
    expected = reference(START, **options)
    np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(memory.numpy(), expected.T, rtol=1e-4, atol=1e-5)


def test_an_expanded_gradient():
    parameter = numod.zeros(2, 3, requires_grad=True)
    parameter.grad = numod.ones(1, 1).expand(2, 3)
    numod.optim.SGD([parameter], lr=1.0, momentum=0.5).step()
    assert parameter.tolist() == [[-1.0] * 3] * 2


def test_the_gradient_is_left_as_it_is():
    for make in (numod.optim.SGD, numod.optim.Adam, numod.optim.AdamW):
        for maximize in (False, True):
            parameter = numod.ones(3, requires_grad=True)
            parameter.grad = numod.full((3,), 2.0)
            optimizer = make([parameter], lr=0.1, weight_decay=0.5, maximize=maximize)
            optimizer.step()
            assert parameter.grad.tolist() == [2.0] * 3


def test_the_momentum_buffer_is_not_the_gradient():
    parameter = numod.ones(3, requires_grad=True)
    parameter.grad = numod.ones(3)
    optimizer = numod.optim.SGD([parameter], lr=0.1, momentum=0.9)
    optimizer.step()
    parameter.grad.zero_()
    assert optimizer.state[parameter]["momentum_buffer"].tolist() == [1.0] * 3


def test_parameters_without_gradient_are_passed_over():
    used, unused = numod.ones(2, requires_grad=True), numod.ones(2, requires_grad=True)
    optimizer = numod.optim.Adam([used, unused], lr=0.1, weight_decay=0.5)
    used.grad = numod.ones(2)
    optimizer.step()
    assert used.tolist() != [1.0, 1.0] and unused.tolist() == [1.0, 1.0]
    assert unused not in optimizer.state


def test_a_learning_rate_of_zero_moves_nothing():
    for make in (numod.optim.SGD, numod.optim.Adam, numod.optim.AdamW):
        parameter = numod.ones(2, requires_grad=True)
        parameter.grad = numod.ones(2)
        make([parameter], lr=0.0).step()
        assert parameter.tolist() == [1.0, 1.0]


def test_empty_and_scalar_parameters():
    empty, scalar = numod.zeros(0, requires_grad=True), numod.tensor(1.0, requires_grad=True)
    optimizer = numod.optim.Adam([empty, scalar], lr=0.1)
    ((scalar * 2) + empty.sum()).backward()
    optimizer.step()
    assert scalar.item() == pytest.approx(0.9) and scalar.shape == ()


def test_a_step_counts_as_a_write():
    w = numod.ones(2, requires_grad=True)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    numod.optim.SGD([w], lr=0.1).step()
    assert w._version == 1 and w.is_leaf
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_schedule_may_change_options_between_steps():
    w = numod.zeros(1, requires_grad=True)
    optimizer = numod.optim.SGD([w], lr=1.0)
    for lr in (1.0, 0.5, 0.25):
        optimizer.param_groups[0]["lr"] = lr
        w.grad = numod.ones(1)
        optimizer.step()
    assert w.item() == -1.75


def test_training_reaches_the_minimum():
    for make, options in ((numod.optim.SGD, {"lr": 0.1, "momentum": 0.5}), (numod.optim.Adam, {"lr": 0.2})):
        w, target = numod.zeros(3, requires_grad=True), numod.tensor([1.0, -2.0, 0.5])
        optimizer = make([w], **options)
        for _ in range(150):
            optimizer.zero_grad()
            ((w - target) * (w - target)).sum().backward()
            optimizer.step()
        assert w.tolist() == pytest.approx(target.tolist(), abs=1e-2)


@pytest.mark.parametrize(
    "name, options",
    [
        ("Adagrad", {"initial_accumulator_value": 0.1}),
        ("Rprop", {}),
        ("LBFGS", {}),
        ("LBFGS", {"line_search_fn": "strong_wolfe"}),
    ],
)
def test_complex_numbers_step_as_pairs_of_real_ones(name, options):
    w = numod.tensor([1.0 + 2.0j, -0.5j], dtype=numod.complex128, requires_grad=True)
    pairs = numod.view_as_real(w.detach()).clone().requires_grad_()
    results = []
    for p in (w, pairs):
        optimizer = getattr(numod.optim, name)([p], **options)

        def loss(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            z = numod.view_as_real(p) if p.is_complex() else p
            value = (z**2).sum() + (z * 3).cos().sum()
            value.backward()
            return value

        for _ in range(3):
            optimizer.step(loss)
        results.append(numod.view_as_real(p.detach()) if p.is_complex() else p.detach())
    assert results[0].flatten().tolist() == pytest.approx(results[1].flatten().tolist(), rel=1e-12)


def test_the_first_step_of_adafactor_is_at_most_as_large_as_the_parameter():
    w = numod.tensor([2.0, 2.0], requires_grad=True)
    w.grad = numod.tensor([1.0, -3.0])
    numod.optim.Adafactor([w], lr=10.0, weight_decay=0.0).step()
    assert w.tolist() == pytest.approx([0.0, 4.0], abs=1e-5)


def test_the_rate_of_asgd_falls_with_the_steps():
    w = numod.tensor([4.0], requires_grad=True)
    w.grad = numod.zeros(1)
    optimizer = numod.optim.ASGD([w], lr=0.5, lambd=1.0, alpha=1.0)
    for expected in (2.0, 4 / 3, 1.0):  # rates 1/2, 1/3, 1/4
        optimizer.step()
        assert w.item() == pytest.approx(expected)


def test_the_rate_of_weight_averaging_is_reached_by_steps():
    optimizer = numod.optim.SGD([numod.ones(1, requires_grad=True)], lr=1.0)
    schedule = numod.optim.swa_utils.SWALR(optimizer, 0.2, anneal_epochs=4, anneal_strategy="linear")
    for expected in (1.0, 0.8, 0.6, 0.4, 0.2, 0.2):
        assert schedule.get_last_lr() == [pytest.approx(expected)]
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "Adafactor", "Muon"])
def test_a_rate_that_is_nan_is_refused(name):
    with pytest.raises(ValueError, match="earning rate"):
        getattr(numod.optim, name)([numod.ones(2, 2, requires_grad=True)], lr=float("nan"))


def test_optimizers_of_real_numbers_refuse_complex_ones():
    w = numod.ones(2, 2, dtype=numod.complex64, requires_grad=True)
    w.grad = numod.ones_like(w)
    for name in ("Adafactor", "Muon"):
        with pytest.raises(RuntimeError, match="does not support complex parameters"):
            getattr(numod.optim, name)([w]).step()
    with pytest.raises(ValueError, match="does not support complex parameters"):
        numod.optim.SparseAdam([w])


@pytest.mark.parametrize("name, option, error", [
    ("Adam", {"amsgrad": True}, KeyError), ("AdamW", {"amsgrad": True}, KeyError), ("RMSprop", {"momentum": 0.9}, KeyError), ("RMSprop", {"centered": True}, KeyError),
    ("Adam", {"betas": (0.9,)}, ValueError), ("NAdam", {"betas": None}, TypeError), ("RAdam", {"betas": None}, TypeError), ("Adadelta", {"rho": "high"}, ValueError),
    ("Rprop", {"etas": None}, TypeError), ("ASGD", {"alpha": None}, TypeError), ("Adafactor", {"eps": None}, TypeError), ("SparseAdam", {"betas": None}, TypeError),
])  # fmt: skip
def test_a_step_that_raises_does_not_count(name, option, error):
    def trained(failing):
        p = numod.nn.Parameter(numod.full((3, 2), 2.0))
        optimizer = getattr(numod.optim, name)([p], lr=0.1)
        for k in range(3):
            p.grad = numod.full((3, 2), k + 1.0)
            if failing and k == 1:
                options = {key: optimizer.param_groups[0][key] for key in option}
                optimizer.param_groups[0].update(option)
                with pytest.raises(error):
                    optimizer.step()
                assert optimizer.state[p]["step"] == 1
                optimizer.param_groups[0].update(options)
            optimizer.step()
        return p.tolist()

    assert trained(True) == trained(False)


def test_rates_are_asked_for_within_a_step():
    schedule = numod.optim.lr_scheduler.StepLR(numod.optim.SGD([numod.ones(1, requires_grad=True)], 1.0), 2)
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        schedule.get_lr()
    sgd = lambda: numod.optim.SGD([numod.ones(1, requires_grad=True)], 1.0)  # noqa: E731
    for schedule in (
        numod.optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd(), 2),
        numod.optim.swa_utils.SWALR(sgd(), 0.5),
    ):
        schedule.optimizer.step()
        schedule.step()
        with pytest.warns(UserWarning, match="please use `get_last_lr"):
            schedule.get_lr()
