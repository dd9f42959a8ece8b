"""Hooks for PyInstaller, which finds them by the entry point `pyinstaller40` of the installed package."""

from pathlib import Path


def hook_folders() -> list[str]:
    """The folders with hooks."""
    return [str(Path(__file__).parent)]
