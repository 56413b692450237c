"""The code that runs inside a box: standard library only, and no import of anything outside this folder.

In a box the folder is the package `inside`, started by its `start.py`; the host imports `protocol` and
`landlock` from it. Hence the relative imports.
"""
