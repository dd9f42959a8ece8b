"""Guards: under which conditions a recorded program may run again."""
