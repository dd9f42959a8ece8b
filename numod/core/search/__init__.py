"""Sorting, searching and distinct elements."""
