"""Builds the pack of `numod-kernels` with the numod of this source tree. Python's, Numba's and llvmlite's versions are
part of a kernel's key, so the wheel is for one version of Python and requires the versions that built it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[2]
TARGETS = os.environ.get("NUMOD_KERNEL_TARGET", "")
sys.path.insert(0, str(ROOT))

from numod.version import release  # noqa: E402


class BuildPack(build_py):
    """Adds the pack to the package."""

    def run(self) -> None:
        super().run()
        folder = Path(self.build_lib, "numod_kernels").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        paths = os.pathsep.join([str(ROOT), *sys.path])
        with tempfile.TemporaryDirectory() as private:  # a checkout may be writable by others
            pack = Path(private, "kernels.pack")
            command = [sys.executable, "-m", "numod", "cache", "build", "-o", str(pack)]
            command += ["--target", TARGETS]
            subprocess.run(command, check=True, cwd=private, env={**os.environ, "PYTHONPATH": paths})
            shutil.copy(pack, folder / pack.name)


class PlatformWheel(bdist_wheel):
    """A wheel for this version of Python and this system, on the processors of the targets."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        _, _, system = super().get_tag()
        processors = {"aarch64" if level == "aarch64" else "x86_64" for level in re.findall(r"[\w-]+", TARGETS)}
        if len(processors) == 1:
            system = re.sub("x86_64|aarch64", *processors, system)
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        return python, python, system


setup(
    version=release,
    cmdclass={"build_py": BuildPack, "bdist_wheel": PlatformWheel},
    install_requires=[f"numod=={release}", *(f"{name}=={version(name)}" for name in ("numba", "llvmlite"))],
)
