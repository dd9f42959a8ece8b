"""Compiled versions of a function: a program with the conditions under which it may run, and the table of versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..core.tensor import Tensor
from .backend.autograd_executable import Differentiable
from .backend.executable import Executable
from .backend.fast_path import build_fast_path
from .backend.section import Form
from .guards.cache_key import difference, family
from .guards.inputs import InputConditions
from .guards.snapshot import Snapshot
from .guards.state_visitor import Place
from .settings import Settings
from .values import pytree

FAMILY_LIMIT = 8  # versions for different sizes of one call, after which other sizes are recorded at their second call
SIZE_LIMIT = 64  # versions of a function that is compiled for all sizes


class Version:
    """A compiled program and the conditions under which it may run."""

    def __init__(
        self, executable: Executable, snapshot: Snapshot, inputs: InputConditions, gradient_places: list[Place]
    ) -> None:
        self.executable, self.snapshot, self.inputs = executable, snapshot, inputs
        self.gradient_places = gradient_places  # of the leaves that the function reaches
        self.number, self.cause = 0, ""  # its place in the order of recording, and why it was recorded
        parts: list[Any] = []
        pytree.replace(executable.program.outputs, parts.append)
        self._returns_containers = any(type(part) is pytree.ArgumentContainer for part in parts)
        self._fast_path: Callable | None = None

    def mismatch(self, tensors: tuple[Tensor, ...]) -> str | None:
        """Why the program may not run now, or None."""
        return self.inputs.mismatch(tensors) or self.snapshot.difference()

    def run(self, tensors: tuple[Tensor, ...], function: Callable, args: tuple, kwargs: dict) -> Any:
        """Run the program; `function` recomputes the results eagerly if their gradients are differentiated again."""
        containers = pytree.containers(args, kwargs) if self._returns_containers else ()
        if isinstance(self.executable, Differentiable):
            return self.executable.run(
                tensors, lambda: function(*args, **kwargs) if self.mismatch(tensors) is None else None, containers
            )
        return self.executable.run(tensors, containers)

    @property
    def allows_fast_path(self) -> bool:
        """Whether a generated function may check the conditions and launch the kernels.

        It cannot undo writes that precede a failed check, and does not launch kernels on a GPU one by one.
        """
        section, executable = self.executable.section, self.executable
        launches = (
            section.linked
            or section.replay is not None
            or all(buffer.device.type == "cpu" for buffer in section.buffers)
        )
        return launches and (type(executable) is not Executable or not executable.spoiled)

    def fast_path(self, args: tuple, kwargs: dict[str, Any], slow: Callable, function: Callable) -> Callable:
        """The generated function for arguments like these; it calls `slow` where a condition does not hold."""
        if self._fast_path is None:
            run = (
                (lambda tensors, args, kwargs: self.run(tensors, function, args, kwargs))
                if isinstance(self.executable, Differentiable)
                else None
            )
            self._fast_path = build_fast_path(self.executable, self.snapshot, self.inputs, args, kwargs, slow, run)
        return self._fast_path


class LimitReached(Exception):
    """A call is not recorded, because there are too many versions: `reason`, and whether `dynamic=True` may help."""

    def __init__(self, reason: str, sizes_differ: bool) -> None:
        super().__init__(reason)
        self.reason, self.sizes_differ = reason, sizes_differ


class Versions:
    """The versions of one function, by the keys of calls, and the limits on their number."""

    def __init__(self, settings: Settings, recorded: int = 0, has_state: bool = False) -> None:
        self.settings, self.has_state = settings, has_state
        # Threads read this without a lock: it is replaced, never changed.
        self.by_key: dict[tuple, list[Version]] = {}
        self.recorded = recorded  # recordings, including those of a variant that this one replaces
        self._counted = 0  # recordings that count towards the recompile limit
        self._family_counts: dict[tuple, int] = {}  # recordings of calls that differ in sizes, or also in integers
        self._forms: dict[tuple, Form] = {}  # of versions for all sizes, by the keys of their calls without sizes
        self._sizes_seen: set[tuple] = set()  # keys of calls that were not recorded at their first occurrence

    def __iter__(self) -> Iterator[Version]:
        return (version for versions in self.by_key.values() for version in versions)

    @property
    def last(self) -> Version:
        """The version recorded last."""
        return next(reversed(self.by_key.values()))[0]

    def add(self, key: tuple, version: Version, counts: bool, mismatch: str | None) -> None:
        """Add a version for calls with this key; `counts`: towards the recompile limit. `mismatch`: see `plan`."""
        version.cause = mismatch or (self._difference(key) if self.by_key else self._first_cause())
        self.by_key = {**self.by_key, key: [version, *self.by_key.get(key, ())]}
        for kind in {family(key), family(key, integers=False)}:
            self._family_counts[kind] = self._family_counts.get(kind, 0) + 1
        self.recorded += 1
        version.number = self.recorded
        self._counted += counts

    def keep_form(self, key: tuple, form: Form) -> None:
        """Compile other sizes of this call in the same form."""
        self._forms.setdefault(family(key, integers=False), form)

    def clear(self) -> None:
        """Free all versions. The counts remain."""
        self.by_key = {}

    def plan(self, key: tuple, tensors: tuple[Tensor, ...], mismatch: str | None) -> tuple[Form, bool] | None:
        """How to record a call, and whether it counts towards the recompile limit; None to run it eagerly this time.

        `mismatch`: why the versions with this key may not run. Raises LimitReached.
        """
        kind = self._kind(key)
        form = self._form(key, kind, tensors)
        counts = not (form.dynamic and kind in self._family_counts and mismatch is None)
        if counts and self._counted >= self.settings.recompile_limit:
            reason = mismatch or (self._difference(key) if self.by_key else "its limit")
            raise LimitReached(reason, kind in self._family_counts)
        if not counts and self._family_counts[kind] >= FAMILY_LIMIT:
            if len(self.by_key) >= SIZE_LIMIT:
                raise LimitReached(self._difference(key), False)
            if self._is_first_sight(key):
                return None
        return form, counts

    def _first_cause(self) -> str:
        return "numbers that change are passed as arguments now" if self.recorded else "the first call"

    def _difference(self, key: tuple) -> str:
        return difference(key, next(reversed(self.by_key)), self.has_state)

    def _is_first_sight(self, key: tuple) -> bool:
        """Whether a call with these sizes comes for the first time. Old sizes are forgotten."""
        if key in self._sizes_seen:
            return False
        if len(self._sizes_seen) == 16 * SIZE_LIMIT:
            self._sizes_seen.clear()
        self._sizes_seen.add(key)
        return True

    def _kind(self, key: tuple) -> tuple:
        """The key without sizes. Integers count as sizes if they lead to programs with the same steps."""
        kind = family(key, integers=False)
        programs = [
            versions[0].executable.lowered
            for other, versions in self.by_key.items()
            if family(other, integers=False) == kind
        ]
        layouts = {tuple(program.layouts.values()) for program in programs}
        return kind if len(layouts) > 1 and len({*map(len, layouts)}) == 1 else family(key)

    def _form(self, key: tuple, kind: tuple, tensors: tuple[Tensor, ...]) -> Form:
        """How to compile: for all sizes if requested, or if sizes have changed twice."""
        dynamic = self.settings.dynamic
        if dynamic is None:
            sizes_change = key not in self.by_key and self._family_counts.get(kind, 0) >= 2
            dynamic = sizes_change or any(getattr(tensor, "_dynamic", False) for tensor in tensors)
        if dynamic and family(key, integers=False) in self._forms:
            return self._forms[family(key, integers=False)]
        linked, freezing = self.settings.option("linked"), bool(self.settings.option("freezing"))
        sparsity = bool(self.settings.option("sparsity"))
        return Form(linked, dynamic, freezing, requested=self.settings.dynamic is True, sparsity=sparsity)
