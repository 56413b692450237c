"""The code that runs inside a box: standard library only, and no import of anything outside this folder.

In a box the folder is the package `inside`, started as `python -S -s -P -B -m inside.zygote FD`; the host
imports `protocol` from it. Hence the relative imports.
"""
