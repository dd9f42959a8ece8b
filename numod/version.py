"""`numod.version`: what this numod is and was built for. There is nothing built, so there is no CUDA version."""

from . import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]

cuda: str | None = None
hip: str | None = None
git_version: str | None = None
debug = False
