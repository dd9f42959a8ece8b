"""Reductions, scans, and ops composed of them: argmax, softmax, negative log-likelihood."""
