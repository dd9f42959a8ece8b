"""A text corpus that every Python has: the documentation strings of the standard library."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ..core.create.values import tensor
from ..core.tensor import Tensor
from ..utils.data import Dataset

_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo", "__pycache__"}


def load_docstrings(limit: int | None = None) -> str:
    """The documentation strings of the standard library's modules, classes and functions, joined by empty lines, in the
    order of the files' names; at most `limit` characters.

    They are read from the source files without importing them. The text differs between versions of Python.
    """
    parts, length = [], 0
    for text in _docstrings():
        parts.append(text)
        length += len(text) + 2
        if limit is not None and length >= limit:
            break
    return "\n\n".join(parts)[:limit]


def _docstrings() -> Iterator[str]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if _LEFT_OUT.isdisjoint(path.relative_to(root).parts):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    text = ast.get_docstring(node)
                    if text:
                        yield text


class Characters(Dataset):
    """A text for predicting the next character: sample `i` is `length` characters from place `i * stride` on, and the
    same one character later, both int64 (length,).

    `vocab` are the characters that occur (or those given), `encode` and `decode` go between texts and numbers. A
    character that is not in `vocab` raises ValueError.
    """

    def __init__(self, text: str, length: int = 64, stride: int | None = None, vocab: list[str] | None = None) -> None:
        self.vocab = sorted(set(text)) if vocab is None else list(vocab)
        self._numbers = {character: number for number, character in enumerate(self.vocab)}
        self.length, self.stride = length, stride or length
        self.data = self.encode(text)
        if len(text) <= length:
            raise ValueError(f"Characters: the text must be longer than length={length}, got {len(text)} characters")

    def encode(self, text: str) -> Tensor:
        """The numbers of characters, int64 (len(text),)."""
        unknown = set(text) - self._numbers.keys()
        if unknown:
            raise ValueError(f"Characters: {min(unknown)!r} is not in the vocabulary")
        return tensor([self._numbers[character] for character in text])

    def decode(self, numbers: Tensor) -> str:
        """The text of numbers."""
        return "".join(self.vocab[number] for number in numbers.reshape(-1).tolist())

    def __len__(self) -> int:
        return (len(self.data) - self.length - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} samples")
        start = index % len(self) * self.stride
        return self.data[start : start + self.length], self.data[start + 1 : start + self.length + 1]
