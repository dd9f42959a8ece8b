"""`numod.storage`: the classes of tensors' memory, for annotations and `isinstance`.

`Tensor.untyped_storage` gives one.
"""

from ..core.convert import storages
from ..core.convert.storages import TypedStorage
from ..device.storage import Storage as UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
globals().update(storages.BY_NAME)
