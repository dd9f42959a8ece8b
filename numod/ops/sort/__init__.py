"""Sorting, selection and searching."""
