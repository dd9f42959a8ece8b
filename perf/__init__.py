"""numod's speed beside its peers:

`python -m perf`. Not part of the package and not a test; `perf/README.md` says how to read the table.
"""
