"""Recording one call of a function: its ops, and its changes of Python state and of gradients."""
