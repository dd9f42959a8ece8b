"""Recording one call of a function: what the recorder hears, and what the call changes in Python and in gradients."""
