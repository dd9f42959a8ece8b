"""From numod's ops to ONNX nodes.

`graph` builds nodes, constants and arithmetic on sizes. `translate` walks a captured program and turns writes in place
into new values. The other files have the rules, one per op, by subject; `rules` is their table.
"""

from __future__ import annotations
