"""Python's parser under one lock: CPython counts depth in a variable that all threads share."""

import ast
import gc
import threading

from numod.kernel.syntax import parsed

TEXT = "def f(x):\n" + "".join(
    f"    y{k} = ((x + {k}) * (x - {k})) if x > {k} else [x, {{x: {k}}}]\n" for k in range(100)
)


def parse_twice(other) -> ast.Module:
    """`parsed`, where `other` parses on a second thread in the middle of it: the collector may let that run whenever a
    node is made.
    """
    threads = []

    def collecting(phase: str, info: dict) -> None:
        if not threads:
            threads.append(threading.Thread(target=other, args=(TEXT,)))
            threads[0].start()
            threads[0].join(0.2)  # which is too short where it waits for the parser

    threshold = gc.get_threshold()
    gc.callbacks.append(collecting)
    try:
        gc.set_threshold(50)
        return parsed(TEXT)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collecting)
        threads[0].join()


def test_threads_parse_in_turn():
    assert ast.dump(parse_twice(parsed)) == ast.dump(ast.parse(TEXT))


def test_the_programs_own_threads_may_parse_meanwhile():
    assert ast.dump(parse_twice(ast.parse)) == ast.dump(ast.parse(TEXT))
