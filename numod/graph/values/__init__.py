"""Values that a recorded function handles: structures of arguments, objects, lazy scalars, source locations."""
