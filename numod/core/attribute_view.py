"""AttributeView: `vars(object)` restricted to the attributes that users have set."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping


class AttributeView(MutableMapping, dict):
    """The visible entries of an object's dictionary `fields`. Reads and writes through the view use that dictionary.

    It is a dict, because callers test for one. C code that reads a dict directly sees the entries from when the view
    was created.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, object]) -> None:
        self.fields = fields
        dict.__init__(self, self.copy())

    def is_hidden(self, name: str, value: object) -> bool:
        """Whether an entry of `fields` is internal. Defined by subclasses."""
        raise NotImplementedError

    def copy(self) -> dict[str, object]:
        return {name: value for name, value in self.fields.items() if not self.is_hidden(name, value)}

    def __getitem__(self, name: str) -> object:
        value = self.fields[name]
        if self.is_hidden(name, value):
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: object) -> None:
        self.fields[name] = value
        dict.__setitem__(self, name, value)

    def __delitem__(self, name: str) -> None:
        self[name]  # raises KeyError for a hidden entry
        del self.fields[name]
        dict.pop(self, name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.copy())

    def __len__(self) -> int:
        return len(self.copy())

    def __repr__(self) -> str:
        return repr(self.copy())

    def __or__(self, other: dict) -> dict:
        return self.copy() | other

    def __ror__(self, other: dict) -> dict:
        return other | self.copy()

    def __ior__(self, other: dict) -> AttributeView:
        self.update(other)
        return self

    def __reduce_ex__(self, protocol: int) -> tuple:
        return dict, (self.copy(),)
