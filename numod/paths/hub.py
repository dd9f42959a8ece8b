"""`numod.hub`: weights from a URL, cached in a folder. Repositories of code are not supported."""

from __future__ import annotations

import hashlib
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from ..errors import name_only
from ..serialization import load
from ..serialization.atomic import written

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: list[str] = []


def __getattr__(name: str) -> Any:
    """`tqdm` is that of the package tqdm, which is imported where this name is asked for."""
    if name != "tqdm":
        raise AttributeError(f"module 'numod.hub' has no attribute '{name}'")
    try:
        return import_module("tqdm").tqdm
    except ImportError:
        return name_only("hub.tqdm", "numod.utils.progress shows a loop's progress; or install the package tqdm")


def _get_torch_home() -> str:
    """$TORCH_HOME, or `torch` in $XDG_CACHE_HOME or ~/.cache."""
    return os.path.expanduser(
        os.environ.get("TORCH_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")
    )


def get_dir() -> str:
    """The folder of downloads: that of `set_dir`, otherwise `hub` in PyTorch's home."""
    return _folder[-1] if _folder else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Set the folder of downloads."""
    _folder[:] = [os.path.expanduser(os.fspath(d))]


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a URL to a file. Raises RuntimeError if its SHA-256 does not begin with `hash_prefix`."""
    with urlopen(Request(url, headers={"User-Agent": "numod.hub"})) as source:  # the caller's URL
        data = source.read()
    if hash_prefix and not (digest := hashlib.sha256(data).hexdigest()).startswith(hash_prefix):
        raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest}")')
    with written(dst) as file:
        file.write(data)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """The state dict at a URL, downloaded unless the file exists.

    With `check_hash` the file's name, `name-<hash>.ext`, contains the beginning of its SHA-256. Only data is read,
    whatever `weights_only` is, since downloads are not trusted.
    """
    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.exists():
        match = HASH_REGEX.search(path.name) if check_hash else None
        download_url_to_file(url, str(path), match and match.group(1), progress)
    return load(path, map_location=map_location)


load_url = load_state_dict_from_url
