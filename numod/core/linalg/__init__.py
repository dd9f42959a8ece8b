"""Linear algebra on tensors."""
