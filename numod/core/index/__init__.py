"""Indexing, selection and scattering."""
