"""Variants of a compiled function: ways to pass its arguments to programs, each with its own versions.

The plain variant passes arguments as they are. A variant may also pass numbers that change as tensors
(`NumberArguments`), and state that the function stores in Python as arguments and results (`StateArguments`).
"""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.tensor import Tensor
from ..ops.op import planning_for_all_sizes
from .backend.section import CheckFailed, Form
from .capture.capture import record
from .capture.grad_state import SAME_MEMORY
from .capture.number_arguments import NumberArguments
from .capture.python_state import StateArguments
from .capture.call_lock import CallLock
from .guards.build import build_guards
from .guards.cache_key import describe
from .guards.state_visitor import Place
from .values.source_location import CannotRepeat, subject
from .version import LimitReached, Version, Versions

if TYPE_CHECKING:
    from .compile import Compiled

CHANGE_LIMIT = 8  # calls that change Python in different ways, or additions of state, after which recording stops
UNFINISHED_LIMIT = (
    4  # recordings in which an optimizer reads an argument, without a version between them, after which recording stops
)
_PACKAGE = str(Path(__file__).parent.parent)
_lazy_scalars_in_places = CallLock()  # recordings that put lazy scalars where other functions may read them


class NoResult(Enum):
    """Why a variant has no result for a call."""

    NOT_TAKEN = "one of the arguments that this variant takes as numbers is not a number"
    RETRY = "the variants or their versions have changed"
    EAGER = "this call runs eagerly"
    EAGER_AT_ANY_SIZE = "this call runs eagerly, with kernels for all sizes"


NOT_TAKEN, RETRY, EAGER, EAGER_AT_ANY_SIZE = NoResult  # names of this module are faster to read than members of an Enum


class Miss(NamedTuple):
    """A call that no version fits, with the variants and versions at the time of the lookup."""

    key: tuple
    tensors: tuple[Tensor, ...]
    variants: tuple[Variant, ...]
    versions: dict[tuple, list[Version]]
    mismatch: str | None  # the reason why the last version with this key did not match
    check_failed: bool


class Variant:
    """One way to pass arguments to programs of a function, and the versions recorded so."""

    def __init__(
        self,
        compiled: Compiled,
        numbers: NumberArguments | None = None,
        state: StateArguments | None = None,
        recorded: int = 0,
    ) -> None:
        self.compiled, self.call_lock = compiled, compiled.call_lock
        self.numbers, self.state = numbers, state
        self.versions = Versions(compiled.settings, recorded, state is not None)
        self.refused = ""  # why nothing more is recorded
        self.changes = _Changes()
        self.unfinished = 0  # recordings in which an optimizer reads an argument, since a version was recorded
        self.wrapped, self.excluded = compiled.function, frozenset()
        for adapter in filter(None, (numbers, state)):
            self.excluded |= adapter.excluded
            self.wrapped = adapter.wrap(self.wrapped, self._math_places())
        self.entry = self.look_up  # or the fast path into the version that ran last

    def _math_places(self) -> list[Place]:
        """The places where the function finds Python's math module and its functions."""
        with suppress(CannotRepeat):
            return build_guards(self.wrapped, (), self.excluded).math_places
        return []

    @property
    def is_plain(self) -> bool:
        """Whether the arguments are passed as they are."""
        return self.numbers is None and self.state is None

    def run(self, args: tuple, kwargs: dict) -> Any:
        """Return the results of a call, or a NoResult."""
        passed_args, passed_kwargs = args, kwargs
        if self.numbers is not None:
            passed_args, passed_kwargs = self.numbers.take(args, kwargs), {}
            if passed_args is None:
                return NOT_TAKEN
        if self.state is not None:
            return self._run_with_state(passed_args, passed_kwargs, args, kwargs)
        results = self.entry(*passed_args, **passed_kwargs)
        return self._record(results, passed_args, passed_kwargs, args, kwargs) if type(results) is Miss else results

    def _run_with_state(self, passed_args: tuple, passed_kwargs: dict, args: tuple, kwargs: dict) -> Any:
        """Run with the state as arguments, and store the new state. One thread at a time."""
        lock = self.call_lock.acquire()
        if lock is None:
            return EAGER
        try:
            if self not in self.compiled.variants:
                return RETRY
            passed_args, passed_kwargs = (self.state.read(), passed_args, passed_kwargs), {}
            results = self.entry(*passed_args)
            if type(results) is Miss:
                results = self._record(results, passed_args, passed_kwargs, args, kwargs)
            if results is EAGER or results is EAGER_AT_ANY_SIZE:
                return self.compiled.run_eagerly(results, args, kwargs)
            if results is RETRY:
                return results
            outputs, new_values = results
            self.state.store(new_values, outputs, [version.snapshot for version in self.versions])
            return outputs
        finally:
            lock.release()

    def look_up(self, *args: Any, **kwargs: Any) -> Any:
        """Run the version that fits; return a Miss if there is none."""
        variants, versions = self.compiled.variants, self.versions.by_key
        try:
            key, tensors = describe(args, kwargs)
        except RecursionError:
            name = self.compiled.name
            return self.compiled.refuse(f"compile: {name} runs eagerly for arguments that contain themselves")
        mismatch, check_failed = None, False
        for version in versions.get(key, ()):
            mismatch = version.mismatch(tensors)
            if mismatch is None:
                self._install_fast_path(version, args, kwargs)
                try:
                    return version.run(tensors, self.wrapped, args, kwargs)
                except CheckFailed as failure:
                    mismatch, check_failed = str(failure), True
            elif mismatch.startswith(SAME_MEMORY):
                # the gradients are other tensors at every call: pass them as arguments from now on
                return self._pass_gradients(version.gradient_places)
        return Miss(key, tensors, variants, versions, mismatch, check_failed)

    def _install_fast_path(self, version: Version, args: tuple, kwargs: dict) -> None:
        """Make the fast path into this version the entry point of the next call."""
        if not version.allows_fast_path:
            return
        if self.is_plain:
            self.compiled.__call__ = version.fast_path(args, kwargs, self.compiled._call, self.wrapped)
        else:
            self.entry = version.fast_path(args, kwargs, self.look_up, self.wrapped)

    # ---- recording

    def _record(self, miss: Miss, passed_args: tuple, passed_kwargs: dict, args: tuple, kwargs: dict) -> Any:
        """Run eagerly and record a version, if the limits allow one."""
        with self.call_lock.locked() as is_locked:
            if not is_locked or self.refused:
                return EAGER
            compiled = self.compiled
            is_outdated = miss.variants is not compiled.variants or miss.versions is not self.versions.by_key
            if is_outdated or compiled.update_numbers(args, kwargs):
                return RETRY
            try:
                plan = self.versions.plan(miss.key, miss.tensors, miss.mismatch)
            except LimitReached as limit:
                compiled.warn_once(self._limit_message(limit))
                return EAGER
            if plan is None:
                return EAGER_AT_ANY_SIZE
            return self._record_version(miss, *plan, passed_args, passed_kwargs)

    def _record_version(self, miss: Miss, form: Form, counts: bool, args: tuple, kwargs: dict) -> Any:
        """Run the call eagerly while recording it, and keep the recording as a new version."""
        compiled = self.compiled
        with (
            nullcontext(True) if self.is_plain else _lazy_scalars_in_places.locked() as is_locked,
            planning_for_all_sizes() if form.dynamic else nullcontext(),
        ):
            if not is_locked:
                return EAGER
            recording = record(
                self.wrapped,
                args,
                kwargs,
                compiled.name,
                form,
                miss.check_failed,
                self.excluded,
                compiled.settings.fullgraph,
                self.numbers is not None,
            )
        if recording.refused and not miss.check_failed:
            self._stop_recording(recording.refused)
        if recording.version is not None:
            self.versions.add(miss.key, recording.version, counts, miss.mismatch)
            if form.dynamic:
                self.versions.keep_form(miss.key, recording.version.executable.section.form_at_other_sizes(form))
            self.changes.clear()
            compiled.note_recorded(self)
            self.unfinished = 0
        elif recording.change is not None:
            self._handle_change(miss.key, recording.change, recording.places)
        elif recording.rate_is_argument and not recording.refused:
            self._note_unfinished()
        return recording.outputs

    def _note_unfinished(self) -> None:
        """A recording could not be finished, since an optimizer reads an argument. Stop after many in a row."""
        self.unfinished += 1
        if self.unfinished >= UNFINISHED_LIMIT:
            why = (
                f"compile: {self.compiled.name} passes one of its arguments to an optimizer, as a learning rate, which "
                "a compiled function cannot repeat; assign it to param_groups before the call"
            )
            if self.compiled.settings.fullgraph and self.numbers is None:
                raise CannotRepeat(why)
            self._stop_recording(why)

    def _limit_message(self, limit: LimitReached) -> str:
        hint = ""
        if "(" not in limit.reason and " at 0x" not in limit.reason:
            hint = "; pass a number that keeps changing as a tensor"
        elif limit.sizes_differ and not self.compiled.settings.dynamic:
            hint = "; dynamic=True compiles once for all sizes"
        return (
            f"compile: {self.compiled.name} was recorded {self.versions.recorded} times, the last time because of "
            f"{limit.reason}; it runs eagerly from here{hint}"
        )

    def _stop_recording(self, why: str) -> None:
        """Run all calls eagerly that no version fits."""
        self.refused = why
        if self.numbers is not None:
            self.compiled.drop_numbers(self)
            return
        others = ", except for recorded calls" if self.versions.by_key else ""
        warn(
            f"compile: {self.compiled.name} runs eagerly from here{others}: {why.partition(': ')[2]} (fullgraph=True "
            "makes this an error)"
        )

    # ---- state

    def _handle_change(self, key: tuple, change: str, places: list[Place]) -> None:
        """Handle a call that changed Python state.

        The first such change may be an initialisation. If it happens again, changed tensors and numbers become
        arguments; other changes cannot be repeated.
        """
        is_known, is_endless = self.changes.note(key, change)
        if is_known and places and (self.state is None or self.state.rounds < CHANGE_LIMIT):
            self.compiled.add_state(self, places)
        elif is_endless:
            schedule_names = "param_groups[", "last_epoch", "_last_lr", "_step_count"
            advice = (
                "read the values that a schedule sets after the call"
                if any(name in change for name in schedule_names)
                else "write tensors in place, or return them, and keep other state outside"
            )
            why = f"compile: {change} whenever it runs, which a compiled function cannot repeat; {advice}"
            if self.compiled.settings.fullgraph and self.numbers is None:
                raise CannotRepeat(why)
            self._stop_recording(why)

    def _pass_gradients(self, places: list[Place]) -> NoResult:
        """Pass these gradients as arguments from the next call on."""
        with self.call_lock.locked() as is_locked:
            if is_locked and self in self.compiled.variants:
                self.compiled.add_state(self, places)
        return EAGER


class _Changes:
    """Changes of Python state by calls, since a version was recorded."""

    def __init__(self) -> None:
        self._keys: set[tuple] = set()  # of the calls, since a version was recorded
        self._subjects: set[str] = set()  # the changes that all calls made

    def note(self, key: tuple, change: str) -> tuple[bool, bool]:
        """Whether another call made such a change, and whether calls seem to make changes without end."""
        is_known = subject(change) in self._subjects
        is_endless = (is_known and key in self._keys) or len(self._keys) >= CHANGE_LIMIT
        self._keys.add(key)
        self._subjects.add(subject(change))
        return is_known, is_endless

    def clear(self) -> None:
        """A version was recorded."""
        self._keys.clear()


def warn(message: str) -> None:
    """Warn at the innermost line outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<numod call of ")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level - 1)
