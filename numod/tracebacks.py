"""Short tracebacks: an uncaught exception is shown with the user's frames, without those of numod and Numba.

Only the display changes, where Python's or IPython's own hook would show the exception. The exception keeps all its
frames, for debuggers, test runners, loggers and `except` blocks. NUMOD_FULL_TRACEBACK=1 shows them all.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb
from types import FrameType, TracebackType

from . import config

_COMMAND_LINE = os.path.join(os.path.dirname(__file__), "__main__.py")
_PROGRAMS = ("numod.examples", "numod.demo")  # parts of numod that are programs of a user
# internal, like the standard library, where numod calls them: the compiler, arrays, a notebook's display
_LIBRARIES = {"", "numba", "llvmlite", "numpy", "IPython", "ipykernel", "jupyter_client", "traitlets", "zmq"}


def install() -> None:
    """Shorten what Python and, in a notebook, IPython show. Hooks of other libraries stay in place."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _show_in_thread
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and not getattr(shell, "custom_exceptions", True):
        shell.set_custom_exc((BaseException,), _show_in_shell)


def users_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback without internal frames, or the traceback itself if it has none or nothing else."""
    users_entries, frames = _users_entries(traceback)
    if not users_entries or len(users_entries) == frames:
        return traceback
    short = None
    for entry in reversed(users_entries):
        short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short


def _users_entries(traceback: TracebackType | None) -> tuple[list[TracebackType], int]:
    """(the entries outside numod and what it called, the number of all); none if those are Python's library alone."""
    frames, entries, within, any_of_user = 0, [], False, False
    while traceback is not None:
        frames += 1
        root = _root(traceback.tb_frame)
        within = _is_internal(root, within)
        if not within:
            entries.append(traceback)
            any_of_user = any_of_user or not _is_standard(root)
        traceback = traceback.tb_next
    return entries if any_of_user else [], frames


def _root(frame: FrameType) -> str:
    """The name of the package that a frame's code belongs to; "" for generated code that has none."""
    module = frame.f_globals.get("__name__")
    if not isinstance(module, str):
        return ""
    if module == "__main__" and frame.f_code.co_filename == _COMMAND_LINE:
        return "numod"
    return "__main__" if module.startswith(_PROGRAMS) else module.partition(".")[0]


def _is_standard(root: str) -> bool:
    return root in sys.stdlib_module_names and root != "__main__"


def _is_internal(root: str, within: bool) -> bool:
    """Whether a frame of this package is numod's, or another library's that it called. `within`: its caller is."""
    return root == "numod" or (within and (root in _LIBRARIES or _is_standard(root)))


@contextmanager
def shortened(error: BaseException) -> Iterator[bool]:
    """Context in which the exception, its causes and its group's members have short tracebacks; whether any is shorter.

    Exceptions that numod handled, with internal frames only, are left out. At the end all are as they were.
    """
    chain = _chain(error)
    full = [(error.__traceback__, error.__context__) for error in chain]
    short = [(users_frames(error.__traceback__), _users_context(error)) for error in chain]
    _set_shown(chain, short)
    try:
        yield any(less != whole for less, whole in zip(short, full))
    finally:
        _set_shown(chain, full)


def _users_context(error: BaseException) -> BaseException | None:
    """The exception in whose handling this one was raised, without those that are numod's alone."""
    passed, context = [error], error.__context__
    while context is not None and _is_numods(context.__traceback__):
        passed.append(context)
        context = context.__context__
        if any(context is other for other in passed):  # a cycle
            return None
    return context


def _is_numods(traceback: TracebackType | None) -> bool:
    """Whether some entries are numod's, and none the user's."""
    return not _users_entries(traceback)[0] and any(_root(frame) == "numod" for frame, _ in walk_tb(traceback))


def _set_shown(chain: list[BaseException], states: list[tuple]) -> None:
    for error, (traceback, context) in zip(chain, states):
        error.__traceback__, error.__context__ = traceback, context


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and every other that is shown with it."""
    waiting, chain = [error], []
    while waiting:
        current = waiting.pop()
        if current is None or any(current is other for other in chain):
            continue
        chain.append(current)
        waiting += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]
    return chain


_HINT = "numod's internal frames are hidden; NUMOD_FULL_TRACEBACK=1 shows them"


def _shortly(error: BaseException | None, show: Callable[[], object]) -> None:
    """Call `show` while the exception has a short traceback. The hint comes first, so that the message is last."""
    if error is None or config.full_traceback():
        show()
        return
    with shortened(error) as is_shorter:
        if is_shorter and sys.stderr is not None:
            print(_HINT, file=sys.stderr)
        show()


def print_exception(error: BaseException) -> None:
    """Print an exception as Python prints one that nobody caught."""
    _show(type(error), error, error.__traceback__)


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    _shortly(error, lambda: sys.__excepthook__(kind, error, error.__traceback__))


def _show_in_thread(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    _shortly(
        error,
        lambda: threading.__excepthook__(
            threading.ExceptHookArgs((arguments.exc_type, error, error and error.__traceback__, arguments.thread))
        ),
    )


def _show_in_shell(
    shell: object,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """IPython's handler. The debugger (%debug) gets all frames, by `sys.last_traceback`."""
    if config.full_traceback():
        shell.showtraceback((kind, error, traceback), tb_offset=tb_offset, running_compiled_code=True)
        return
    with shortened(error):
        shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset, running_compiled_code=True)
    sys.last_traceback = traceback
