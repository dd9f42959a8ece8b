"""`python -m numod.distributed.launch script.py`: `numod.distributed.run` for older scripts.

Each script gets the argument `--local-rank=N`; with the option `--use_env` it reads LOCAL_RANK instead.
"""

from __future__ import annotations

import sys

from .run import main

if __name__ == "__main__":
    sys.exit(main(passes_local_rank=True))
