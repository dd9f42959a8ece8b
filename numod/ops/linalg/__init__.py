"""Factorizations and solvers of linear algebra."""
