"""Messages between two ranks: `send`, `recv`, `isend`, `irecv` and batches of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from .arguments import check_tensor, member_group, other_rank
from .collective_op import _end, _staged, specification
from .engine import load
from .group import ProcessGroup
from .work import Work


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor to rank `dst`. Do not change it before the handle's `wait`."""
    check_tensor(tensor, "tensor")
    if (group := member_group(group, "isend")) is None:
        return None
    other = other_rank(group, dst, group_dst, "destination")
    staged = _staged(tensor, "isend")
    request = group.communicator.Isend(specification(staged, group), other, tag)
    return Work(request, group, f"send to rank {group.ranks[other]}", lambda: staged, [tensor])


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor from rank `src`, or from any. It is complete after the handle's `wait`."""
    check_tensor(tensor, "tensor")
    if (group := member_group(group, "irecv")) is None:
        return None
    anyone = src is None and group_src is None
    other = -1 if anyone else other_rank(group, src, group_src, "source")
    staged = _staged(tensor, "irecv")
    status = None if group.single else load().Status()
    request = group.communicator.Irecv(
        specification(staged, group), load().ANY_SOURCE if anyone and not group.single else other, tag
    )
    name = "receive from any rank" if anyone else f"receive from rank {group.ranks[other]}"
    received = _Receipt(request, status)
    return Work(received, group, name, lambda: _end([staged], (tensor,), None), [tensor], lambda: received.rank(group))


class _Receipt:
    """A request whose status, which names the sender, is kept."""

    def __init__(self, request: Any, status: Any) -> None:
        self.request, self.status = request, status

    def Test(self) -> bool:
        """Whether the message has arrived."""
        return self.request.Test(self.status)

    def rank(self, group: ProcessGroup) -> int:
        """The sender's rank among all."""
        return group.ranks[self.status.Get_source()]


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to rank `dst`, which receives it by `recv` or `irecv` with the same tag."""
    if (work := isend(tensor, dst, group, tag, group_dst)) is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from rank `src`, or from any; returns the sender's rank, -1 outside the group."""
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else work.source_rank()


class P2POp:
    """A message for `batch_isend_irecv`: `op` is `isend` or `irecv`."""

    def __init__(
        self,
        op: Callable,
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``isend`` or ``irecv``.")
        check_tensor(tensor, "tensor")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin all messages, and return their handles."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type P2POp")
    works = [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    return [work for work in works if work is not None]
