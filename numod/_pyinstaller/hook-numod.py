"""PyInstaller's hook of numod: kernels are compiled from their text, and modules are imported by name."""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

OPTIONAL = ("numod._pyinstaller", "numod.distributed.worker", "numod.examples")
hiddenimports = collect_submodules("numod", filter=lambda name: not name.startswith(OPTIONAL), on_error="ignore")
module_collection_mode = {"numod": "pyz+py"}
datas = collect_data_files("numod", excludes=["**/*.pyi", "guide/**"])
