"""What a recorder decides: whether the recording is usable, and why not."""

from __future__ import annotations

from ..values.source_location import CannotRepeat


class Decisions:
    """Whether a recording is usable. Its first refusal is an error, or is noted if the call has a fallback."""

    def __init__(self) -> None:
        self.has_fallback = False  # whether a refusal ends the recording without an error
        self.refused = ""  # why no program can repeat the call
        # whether a later recording may succeed: an input shared memory with a known tensor, or another thread created
        # state meanwhile
        self.may_succeed_later = False
        self.rate_is_argument = False  # whether an optimizer reads an argument of the call, so that it cannot
        self.failed = False  # whether an operation raised an error (LinAlgError) that depends on the values
        self.made_state = False  # whether an optimizer created its state in the recorded step

    def give_up(self, why: str) -> None:
        """Refuse the recording: raise CannotRepeat, or go on eagerly if there is a fallback."""
        if not self.refused:
            self.refused = why
            if not self.has_fallback:
                raise CannotRepeat(why)

    def refuse_read(self, what: str, where: str) -> None:
        """Refuse that Python reads a value: `what` was called at a line."""
        self.give_up(
            f"trace: {what} at {where} reads a tensor's value in Python, which a recorded program cannot repeat; keep "
            "it a tensor, return its item() without branching on it, or read it after the call"
        )

    def refuse_override(self, function: str, where: str) -> None:
        """Refuse that a class or mode overrides a function."""
        self.give_up(
            f"trace: {where} calls {function or 'a function'} of a class, or in a mode, that overrides functions "
            "(__torch_function__), which a recorded program would not call; call it outside, or pass plain tensors"
        )

    def refuse_array(self, where: str) -> None:
        """Refuse a tensor that is created from a NumPy array, which may have other values at the next run."""
        self.give_up(
            f"trace: {where} creates a tensor from a NumPy array, which a recorded program cannot repeat; create it "
            "before the call, or pass it as an argument"
        )

    def refuse_changed_memory(self, where: str) -> None:
        """Refuse a tensor whose shape or memory was replaced."""
        self.give_up(
            f"trace: a tensor's shape or memory was changed in place before {where}, which a recorded program cannot "
            "repeat; use the operation that returns a new tensor"
        )

    def refuse_other_thread(self, where: str) -> None:
        """Refuse a tensor that another thread computed meanwhile."""
        self.give_up(
            f"trace: a tensor that another thread computed is used at {where}, which a recorded program cannot "
            "repeat; compute it in this thread, or before the call"
        )

    def refuse_view(self) -> None:
        """Refuse a result that should be a view but is a copy in the program."""
        self.give_up(
            "trace: the function returns a view of an outside tensor or of another result, made with a 0-dimensional "
            "tensor as the index, with a number that changes, or as another dtype; a recorded program has a copy "
            "instead of this view; return a clone() of it"
        )

    def refuse_metric(self, where: str, schedule: object) -> None:
        """Refuse a schedule that is stepped with a metric which the function computes."""
        self.give_up(
            f"trace: {where} passes {type(schedule).__name__} a metric that the function computes, which a recorded "
            "program cannot repeat; step it outside"
        )
