"""Reductions, scans and what is made of them: argmax, softmax, negative log-likelihood."""
