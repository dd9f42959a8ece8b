"""`numod.hub`: weights from a URL, kept in a folder. No repositories of code: those are not data."""

from __future__ import annotations

import hashlib
import os
import re
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
tqdm = name_only("hub.tqdm", "numod.utils.progress shows a loop's progress; import tqdm from the package of that name")


def _get_torch_home() -> str:
    """$TORCH_HOME, or `torch` in $XDG_CACHE_HOME or ~/.cache."""
    return os.path.expanduser(
        os.environ.get("TORCH_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")
    )


def get_dir() -> str:
    """The folder of downloads: that of `set_dir`, else `hub` in PyTorch's home, so that its downloads are found."""
    return _folder[-1] if _folder else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Keep downloads there."""
    _folder[:] = [os.path.expanduser(os.fspath(d))]


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Write what is at the URL to the file. Raises RuntimeError where its SHA-256 does not begin with `hash_prefix`."""
    with urlopen(Request(url, headers={"User-Agent": "numod.hub"})) as source:  # the caller's URL
        data = source.read()
    if hash_prefix and not (found := hashlib.sha256(data).hexdigest()).startswith(hash_prefix):
        raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
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
    """The state dict at a URL, downloaded unless the file is there.

    With `check_hash` its name, `name-<hash>.ext`, says how its SHA-256 begins. Only data is read, whatever
    `weights_only` is: downloads are not to be trusted.
    """
    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.exists():
        found = HASH_REGEX.search(path.name) if check_hash else None
        download_url_to_file(url, str(path), found and found.group(1), progress)
    return load(path, map_location=map_location)


load_url = load_state_dict_from_url
