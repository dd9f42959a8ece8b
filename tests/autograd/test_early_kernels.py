"""Kernels of gradients are begun while LLVM works on those of the forward pass, without other effects."""

import pytest
from asked_kernels import forget_plans, record_asked

import numod
from numod import nn
from numod.autograd import early_kernels
from numod.device import background, cpu
from numod.kernel import build
from numod.nn import functional as F


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return record_asked(monkeypatch)


def inputs(*shapes: tuple[int, ...]) -> list[numod.Tensor]:
    return [numod.randn(*shape, requires_grad=True) for shape in shapes]


CALLS = {
    "linear": (lambda x, w, b: F.linear(x, w, b), [(6, 5), (4, 5), (4,)]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 3, 9, 9), (5, 3, 3, 3)]),
    "pooling": (lambda x: F.avg_pool2d(x, 3, 2), [(2, 3, 9, 9)]),
    "maximum": (lambda x: F.max_pool2d(x, 2), [(2, 3, 8, 8)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (7,), w, b), [(5, 7), (7,), (7,)]),
    "softmax": (lambda x: F.softmax(x, 1), [(5, 7)]),
    "tanh": (numod.tanh, [(5, 7)]),
    "addition": (lambda x, y: x + y, [(3, 5, 7), (5, 1)]),
    # its gradient reads the values of the indices
    "gather": (lambda x: x.gather(1, numod.zeros(5, 2, dtype=numod.int64)), [(5, 7)]),
}


@pytest.mark.parametrize("name", [name for name in CALLS if name != "gather"])
def test_the_backward_pass_needs_only_kernels_that_were_begun(name: str, asked: list[str]) -> None:
    function, shapes = CALLS[name]
    tensors = inputs(*shapes)
    result = function(*tensors)
    begun = set(asked)
    assert begun
    gradient = numod.randn(result.shape)
    asked.clear()
    result.backward(gradient)
    # the leaves' gradients are copied, by a kernel with the name of the op that needed it first
    assert {kernel for kernel in asked if not kernel.startswith(("copy_", "row_major_"))} <= begun


@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_those_without(name: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    function, shapes = CALLS[name]
    results = []
    for early in (True, False):
        monkeypatch.setattr(early_kernels, "_expected", early)
        forget_plans()
        numod.manual_seed(3)
        tensors = inputs(*shapes)
        result = function(*tensors)
        result.backward(numod.ones_like(result))
        results.append([result, *[tensor.grad for tensor in tensors], numod.rand(3)])
    assert all(map(numod.equal, *results))


def test_an_optimizer_lets_gradients_be_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_kernels, "_expected", False)
    numod.optim.SGD([numod.ones(2, requires_grad=True)], 0.1)
    assert early_kernels._expected


def losses_of_steps(compiled: bool) -> list[float]:
    numod.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(72, 3))
    optimizer, x = numod.optim.SGD(net.parameters(), 0.1), numod.randn(4, 1, 8, 8)

    def step() -> numod.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = numod.compile(step, fullgraph=True) if compiled else step
    return [run().item() for _ in range(4)]


def test_a_compiled_function_records_none_of_it(asked: list[str]) -> None:
    assert losses_of_steps(compiled=True) == pytest.approx(losses_of_steps(compiled=False))


def test_a_profile_counts_no_op_that_did_not_run(asked: list[str]) -> None:
    net = nn.Linear(4, 3)
    x = numod.randn(5, 4, requires_grad=True)
    with numod.profiler.profile(with_flops=True, profile_memory=True) as prof:
        net(x).sum().backward()
    events = prof.events()
    assert any(event.name == "begin kernels of gradients" for event in events)
    assert sum(event.multiply_adds for event in events) == 3 * 5 * 4 * 3


def test_a_gradient_that_cannot_be_foreseen_is_left_to_the_backward_pass(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("no values")

    monkeypatch.setattr(early_kernels, "without_memory", fail)
    x = numod.ones(3, requires_grad=True)
    x.exp().sum().backward()
    assert numod.allclose(x.grad, numod.ones(3).exp())


def test_hooks_of_saved_tensors_see_only_tensors_of_the_program(asked: list[str]) -> None:
    packed = []
    x = numod.ones(3, requires_grad=True)
    with numod.autograd.graph.saved_tensors_hooks(
        lambda tensor: packed.append(tensor) or tensor, lambda tensor: tensor
    ):
        x.exp()
    assert len(packed) == 1


def test_nothing_is_begun_when_llvm_is_done_though_kernels_were_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every new shape would cost a run of the gradient formulas, for as long as the process runs."""
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    monkeypatch.setattr(early_kernels, "_expected", True)
    monkeypatch.setattr(background, "helps", lambda: True)
    numod.ones(3).exp()
    with build.ahead():
        kernel = build.build(cpu, "unused", "def kernel(x):\n    x[0] = 6\n", "int64[]")
    for thread in tuple(background._ahead_threads):
        thread.join()
    begun = []
    monkeypatch.setattr(early_kernels, "_begin_gradients", lambda *arguments: begun.append(arguments))
    forget_plans()
    numod.ones(3, requires_grad=True).exp()
    assert kernel in build.unfinished() and not begun
    build.complete(kernel)
