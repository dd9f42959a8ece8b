"""The build step that pyproject.toml cannot express: a wheel also has the sources of kernels as one file.

numod compiles kernels from their text, so an installation of .pyc files alone needs it.
"""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PACKAGE = Path(__file__).parent / "numod"


class BuildWithSources(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            sources = runpy.run_path(str(PACKAGE / "kernel" / "sources.py"))
            sources["write"](PACKAGE, Path(self.build_lib) / "numod" / "kernel" / sources["ARCHIVE"])


setup(cmdclass={"build_py": BuildWithSources})
