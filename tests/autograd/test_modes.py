"""no_grad, enable_grad, set_grad_enabled, inference_mode: as contexts, decorators and functions, per thread."""

import threading

import pytest

import numod


def records():
    return (numod.ones(1, requires_grad=True) * 2).requires_grad


def test_the_tape_records_by_default():
    assert numod.is_grad_enabled() and records() and not numod.is_inference_mode_enabled()


def test_no_grad_as_a_context():
    with numod.no_grad():
        assert not numod.is_grad_enabled() and not records()
    assert records()


def test_nesting():
    with numod.no_grad():
        with numod.enable_grad():
            assert records()
            with numod.no_grad():
                assert not records()
            assert records()
        assert not records()
    assert records()


def test_one_object_entered_twice():
    mode = numod.no_grad()
    for _ in range(2):
        with mode:
            assert not records()
        assert records()


def test_an_exception_restores():
    with pytest.raises(KeyError):
        with numod.no_grad():
            raise KeyError
    assert records()


@pytest.mark.parametrize(
    "decorate", [lambda f: numod.no_grad()(f), lambda f: numod.no_grad(f)], ids=["instance", "class"]
)
def test_no_grad_as_a_decorator(decorate):
    @decorate
    def function(a, *, b):
        """Its text."""
        return records(), a, b

    assert function(1, b=2) == (False, 1, 2)
    assert function.__name__ == "function" and function.__doc__ == "Its text."
    assert records()


def test_a_decorated_function_may_call_itself():
    @numod.no_grad()
    def count(n):
        assert not records()
        return 0 if n == 0 else 1 + count(n - 1)

    assert count(3) == 3 and records()


def test_enable_grad_as_a_decorator():
    function = numod.enable_grad()(records)
    with numod.no_grad():
        assert function() and not records()


def test_a_decorated_method():
    class Model:
        @numod.no_grad()
        def predict(self):
            return self, records()

    model = Model()
    assert model.predict() == (model, False)


def test_a_decorated_generator_acts_within_its_steps_only():
    @numod.no_grad()
    def steps():
        for _ in range(2):
            yield records()
        return "end"

    results = []
    for inside in steps():
        results.append((inside, records()))
    assert results == [(False, True), (False, True)]


def test_a_decorated_generator_takes_and_returns_values():
    @numod.no_grad()
    def echo():
        received = yield "first"
        while received is not None:
            received = yield (received, records())
        return "end"

    def outer():
        return (yield from echo())

    steps = outer()
    assert next(steps) == "first"
    assert steps.send(3) == (3, False)
    with pytest.raises(StopIteration) as stop:
        steps.send(None)
    assert stop.value.value == "end" and records()


def test_a_decorated_generator_receives_exceptions():
    @numod.no_grad()
    def steps():
        try:
            yield 1
        except KeyError:
            yield ("caught", records())

    generator = steps()
    next(generator)
    assert generator.throw(KeyError()) == ("caught", False)
    assert records()


def test_a_decorated_generator_is_closed():
    closed = []

    @numod.no_grad()
    def steps():
        try:
            yield 1
        finally:
            closed.append(records())

    generator = steps()
    next(generator)
    generator.close()
    assert closed == [False]


def test_set_grad_enabled_as_a_function():
    try:
        numod.set_grad_enabled(False)
        assert not records()
    finally:
        numod.set_grad_enabled(True)
    assert records()


@pytest.mark.parametrize("mode", [False, True])
def test_set_grad_enabled_as_a_context(mode):
    with numod.set_grad_enabled(mode):
        assert records() is mode
    assert records()


def test_set_grad_enabled_as_a_decorator():
    function = numod.set_grad_enabled(False)(records)
    assert records() and function() is False and records()


def test_inference_mode_makes_inference_tensors():
    x = numod.ones(2)
    with numod.inference_mode():
        assert numod.is_inference_mode_enabled() and not numod.is_grad_enabled()
        y, z = x * 2, numod.zeros(2)
        assert y.is_inference() and z.is_inference() and not x.is_inference()
    assert not numod.is_inference_mode_enabled() and numod.is_grad_enabled()


def test_inference_mode_off():
    with numod.inference_mode(), numod.inference_mode(False):
        assert not numod.is_inference_mode_enabled()
        assert not numod.ones(1).is_inference()


def test_inference_mode_as_a_decorator():
    @numod.inference_mode()
    def function():
        return numod.ones(1).is_inference()

    @numod.inference_mode
    def other():
        return numod.ones(1).is_inference()

    assert function() and other() and not numod.ones(1).is_inference()


def inferred():
    with numod.inference_mode():
        return numod.ones(2) * 3


def test_inference_tensors_are_not_saved_for_backward():
    w = numod.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        inferred() * w


def test_inference_tensors_may_be_used_where_nothing_is_saved():
    w = numod.ones(2, requires_grad=True)
    (inferred() + w).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_inference_tensors_are_not_written_outside():
    y = inferred()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.add_(1)
    with numod.inference_mode():
        y.add_(1)
    assert y.tolist() == [4.0, 4.0]


def test_inference_tensors_cannot_require_gradients_outside():
    with pytest.raises(RuntimeError, match="inference tensor"):
        inferred().requires_grad_()


def test_a_clone_of_an_inference_tensor_is_normal():
    y = inferred().clone()
    assert not y.is_inference()
    y.requires_grad_().sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_views_in_inference_mode_take_after_their_base():
    x = numod.ones(2)
    with numod.inference_mode():
        assert not x.view(2, 1).is_inference()
        assert x.clone().view(2, 1).is_inference()


def test_modes_are_per_thread():
    seen, entered, leave = {}, threading.Event(), threading.Event()

    def other():
        seen["fresh"] = records()
        with numod.no_grad():
            seen["inside"] = records()
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with numod.inference_mode():
        thread.start()
        assert entered.wait(30)
    assert records()
    leave.set()
    thread.join()
    assert seen == {"fresh": True, "inside": False}


def test_backward_on_threads_of_their_own():
    results = {}

    def work(k):
        x = numod.full((8,), float(k), requires_grad=True)
        for _ in range(20):
            x.grad = None
            (x * x * x).sum().backward()
        results[k] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [3.0 * k * k] * 8 for k in range(4)}


def test_leaving_inference_mode_records_again():
    with numod.inference_mode(), numod.inference_mode(False):
        assert numod.is_grad_enabled()
        assert (numod.ones(2, requires_grad=True) * 2).requires_grad
