"""Length and lifetime of graphs: no recursion, no crash when a long graph is freed, no reference cycles, no leaks."""

import gc
import os
import subprocess
import sys
import weakref
from contextlib import contextmanager
from pathlib import Path

import pytest

import numod

LONG = """
import sys, threading
import numod

def chain(op, n=100_000):
    x = numod.ones(2, requires_grad=True)
    h = x * 1
    for _ in range(n):
        h = op(h)
    return x, h

def run(longest):
    class Twice(numod.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1
        @staticmethod
        def backward(ctx, g):
            return g * 1

    ops = {"pointwise": lambda h: h * 1, "view": lambda h: h.view(2), "write": lambda h: h.add_(1), "write_into_view": lambda h: (h[:1].mul_(1), h)[1]}
    for name, op in ops.items():
        n = longest if name == "pointwise" else 4_000
        chain(op, 3)[1].sum().backward(retain_graph=True)
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(250)
        x, h = chain(op, n)
        h.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0], name
        del x, h
        x, h = chain(op, n)
        del x, h  # a graph never walked
        sys.setrecursionlimit(limit)
    x, h = chain(Twice.apply, 4_000)
    h.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    del h
    x, h = chain(lambda h: h * h * 1, 4_000)
    (g,) = numod.autograd.grad(h.sum(), x, create_graph=True)
    assert g.requires_grad
    del g, h

run(100_000)
# less stack than the main thread has; from Python 3.12 on the interpreter itself frees objects 10,000 deep before it defers the rest
threading.stack_size((256 if sys.version_info < (3, 12) else 2048) * 1024)
thread = threading.Thread(target=run, args=(10_000,))
thread.start()
thread.join()
print("done")
"""


def test_long_chains():
    environment = {**os.environ, "PYTHONPATH": str(Path(numod.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", LONG], capture_output=True, text=True, env=environment, timeout=120
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.strip() == "done" and not run.stderr


@contextmanager
def no_collector():
    """Nothing but reference counts frees memory within the block; a collection there sees only what was made there, and
    not the million objects of Numba and pytest, which stay frozen.
    """
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.enable()


def train(steps, model=None):
    model = model or numod.nn.Sequential(numod.nn.Linear(4, 8), numod.nn.ReLU(), numod.nn.Linear(8, 2))
    optimizer = numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, target = numod.ones(5, 4), numod.zeros(5, dtype=numod.int64)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = numod.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
    return model


def test_training_makes_no_reference_cycles():
    model = train(2)
    with no_collector():
        train(10, model)
        assert gc.collect() == 0


def expect_freed(play):
    """`play` returns a weak reference to a result's memory: it and its graph are freed at once, and leave nothing to
    the collector.
    """
    for _ in range(2):  # builds kernels, which leaves cycles of Numba's; the second time adds to gradients
        play()
    with no_collector():
        assert play()() is None
        assert gc.collect() == 0


SITUATIONS = {
    "pointwise": lambda x: (x * x).exp(),
    "saved_result": lambda x: x.exp().sigmoid().tanh(),
    "views": lambda x: (x * 1).t()[0].view(2, 1) * 2,
    "write": lambda x: (x * 1).mul_(2).exp_(),
    "write_into_view": lambda x: (lambda h: (h[0].mul_(3), h, h.t() * 2)[2])(x * 1),
    "write_over_a_kept_input": lambda x: (x * 1).mul_(x),
    "write_with_result_kept": lambda x: (lambda h: (h[0].exp_(), h)[1])(x * 1),
    "matmul": lambda x: x @ x.t(),
    "reductions": lambda x: x.softmax(0).logsumexp(0).amax(),
    "cat": lambda x: numod.cat([x, x * 2]),
    "hooks": lambda x: (lambda h: (h.register_hook(lambda g: g * 2), h.retain_grad(), h * h)[2])(x * 1),
}


@pytest.mark.parametrize("walked", [True, False], ids=["walked", "dropped"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_graphs_are_freed_without_the_collector(name, walked):
    def play():
        result = SITUATIONS[name](x)
        storage = weakref.ref(result._storage)
        if walked:
            result.sum().backward()
        return storage

    x = numod.ones(2, 2, requires_grad=True)
    expect_freed(play)


def test_the_graph_of_a_second_order_is_freed():
    def play():
        (g,) = numod.autograd.grad((x * x * x).sum(), x, create_graph=True)
        return weakref.ref(g._storage)

    x = numod.ones(2, 2, requires_grad=True)
    expect_freed(play)


class Exponential(numod.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y


@pytest.mark.parametrize("walked", [True, False], ids=["walked", "dropped"])
def test_functions_are_freed(walked):
    def play():
        y = Exponential.apply(x)
        if walked:
            y.sum().backward()
        return weakref.ref(y._storage)

    x = numod.ones(2, 2, requires_grad=True)
    expect_freed(play)


def test_intermediate_results_are_freed_during_the_forward_pass():
    x = numod.ones(2, 2, requires_grad=True)
    h = x + 1
    storage = weakref.ref(h._storage)
    y = h + 1
    del h
    assert storage() is None and y.requires_grad


def test_kept_tensors_are_freed_by_backward():
    x = numod.ones(2, 2, requires_grad=True)
    h = x * 2
    storage = weakref.ref(h._storage)
    y = (h * h).sum()
    del h
    assert storage() is not None
    y.backward()
    assert storage() is None


def test_only_values_needed_by_the_gradient_are_saved():
    x, constant = numod.ones(2, 2, requires_grad=True), numod.full((2, 2), 3.0)
    h = x * 2
    storage = weakref.ref(h._storage)
    y = h * constant  # needs constant alone
    del h
    assert storage() is None
    y.sum().backward()
    assert x.grad.tolist() == [[6.0, 6.0], [6.0, 6.0]]


def test_inference_keeps_nothing():
    x = numod.ones(2, 2, requires_grad=True)
    with numod.no_grad():
        h = x * 2
        storage = weakref.ref(h._storage)
        y = h.exp() * h
        del h
    assert storage() is None and y.grad_fn is None
