"""Conversions: to and from NumPy, other libraries, devices and storages."""
