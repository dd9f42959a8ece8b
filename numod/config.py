"""Every environment variable numod reads, in one place. Not a settings object: values are read when first needed."""

from __future__ import annotations

import os


def cache_dir() -> str | None:
    """Folder of compiled kernels:

    NUMOD_CACHE_DIR, else the user's cache folder. None (memory only) where NUMOD_CACHE_DIR is empty, or there is no
    home.
    """
    chosen = os.environ.get("NUMOD_CACHE_DIR")
    if chosen is not None:
        return os.path.expanduser(chosen) or None
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "numod") if os.path.isabs(base) else None


def cache_is_off() -> bool:
    """Whether the user chose not to keep kernels: NUMOD_CACHE_DIR is set and empty."""
    return os.environ.get("NUMOD_CACHE_DIR") == ""


def why_no_cache_dir() -> str:
    """The reason where `cache_dir` returns None."""
    return (
        "NUMOD_CACHE_DIR is empty"
        if cache_is_off()
        else "this process has no home folder: HOME is not set, and its user has no entry in passwd"
    )


def cache_size() -> int:
    """Bytes that the cache folder may hold: NUMOD_CACHE_SIZE, such as 500M or 2.5G, else 1 GiB."""
    size = _size(os.environ.get("NUMOD_CACHE_SIZE", ""))
    return 1 << 30 if size is None else size


def why_default_cache_size() -> str:
    """What is wrong with NUMOD_CACHE_SIZE, so that the default is used; "" if nothing is."""
    chosen = os.environ.get("NUMOD_CACHE_SIZE", "").strip()
    wrong = bool(chosen) and _size(chosen) is None
    return f"NUMOD_CACHE_SIZE is {chosen!a}, but a size is a number with K, M, G or T, such as 500M" if wrong else ""


def _size(text: str) -> int | None:
    """The bytes of a size such as 500M, 2.5 G or 1GiB; units are powers of 1024. None for other texts."""
    text = text.strip().upper().removesuffix("IB").removesuffix("B")
    unit = text[-1:] if text[-1:] in "KMGT" else ""
    whole, dot, fraction = text.removesuffix(unit).strip().partition(".")
    if len(whole) > 18 or not (whole.isdecimal() and whole.isascii() and (fraction.isdecimal() or not dot)):
        return None
    return int(float(f"{whole}.{fraction or 0}") * (1 << 10 * " KMGT".index(unit or " ")))


def kernel_path() -> list[str]:
    """Files and folders with packs of kernels: NUMOD_KERNEL_PATH, separated as in PATH."""
    paths = os.environ.get("NUMOD_KERNEL_PATH", "").split(os.pathsep)
    return [os.path.expanduser(path) for path in paths if path]


def quiet() -> bool:
    """Whether the line that is shown while kernels are compiled was turned off (NUMOD_QUIET=1)."""
    return os.environ.get("NUMOD_QUIET", "0") not in ("", "0")


def num_threads() -> int:
    """Threads a parallel kernel may use: NUMOD_NUM_THREADS, else the processors this process may run on."""
    chosen = os.environ.get("NUMOD_NUM_THREADS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cuda_simulator() -> bool:
    """Whether Numba's CUDA simulator was asked for (NUMBA_ENABLE_CUDASIM=1), so that CUDA kernels run in Python."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def distributed_debug() -> bool:
    """Whether every collective is compared among the ranks before it runs (NUMOD_DISTRIBUTED_DEBUG=1)."""
    return os.environ.get("NUMOD_DISTRIBUTED_DEBUG", "0") not in ("", "0", "OFF")


def full_traceback() -> bool:
    """Whether uncaught exceptions are shown with numod's internal frames (NUMOD_FULL_TRACEBACK=1)."""
    return os.environ.get("NUMOD_FULL_TRACEBACK", "0") not in ("", "0")


def colours(stream: object) -> bool:
    """Whether to write colours to a stream: to a terminal, unless `no_colours`."""
    is_terminal = getattr(stream, "isatty", bool)() and os.environ.get("TERM") != "dumb"
    return is_terminal and not no_colours()


def no_colours() -> bool:
    """Whether the user wants no colours anywhere: NO_COLOR is set (see no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))
