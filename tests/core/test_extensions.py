"""Extension points of `core`: behaviour without the packages above it, and with them."""

from __future__ import annotations

import pytest

import numod
import numod.amp.casts
import numod.func
from numod.core.extensions import Extensions, extensions

METHODS = [name for name in vars(Extensions) if name[0] != "_" and name != "provide"]


def test_defaults_do_nothing() -> None:
    x, plain = numod.ones(3), Extensions()
    assert plain.record(None, (), (), (), x) is plain.make_node(None, (), (), (), x) is plain.attach(None, x) is None
    assert (
        plain.check_write(x) is plain.check_leaves([x]) is plain.before_draw(None) is plain.map_rows(None, ()) is None
    )
    assert plain.as_pairs(x) is x and plain.enter_autocast(()) == () and plain.batched_function(object, ()) is None
    assert plain.random_tensor(numod.zeros, (2,)).tolist() == [0, 0] and plain.random_count(x, False) == 3


@pytest.mark.parametrize("name", METHODS)
def test_a_package_provides_each_method(name: str) -> None:
    assert callable(vars(extensions)[name])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown function recrod"):
        Extensions().provide(recrod=print)


def test_vmap_replaces_no_function_while_it_runs() -> None:
    before = {name: vars(extensions)[name] for name in METHODS}
    seen = []

    def function(x: numod.Tensor) -> numod.Tensor:
        seen.append({name: vars(extensions)[name] for name in METHODS})
        y = x.clone()
        y += 1
        return y

    assert numod.func.vmap(function)(numod.zeros(2)).tolist() == [1, 1]
    assert seen == [before] and extensions.write_watchers == []
    assert numod.func.vmap(lambda x: function(x) if x > 0 else function(x * 2))(numod.zeros(2)).tolist() == [1, 1]
    assert extensions.write_watchers == []
