"""Starts the zygote from this folder, wherever it lies: `python -S -s -B .../inside/start.py FD`.

Loads the folder as the package `inside` without putting its parent on sys.path, where modules of the host's
side would hide those of the standard library. Keeps to the syntax of old Pythons, to refuse them in words.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an image may have any
    sys.exit("Python %d.%d is too old for a box: 3.11 or newer is needed" % sys.version_info[:2])  # noqa: UP031

import importlib.util
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    if sys.path[0] == FOLDER:
        del sys.path[0]  # without -P it is there; programs see a plain interpreter
    spec = importlib.util.spec_from_file_location(
        "inside", os.path.join(FOLDER, "__init__.py"), submodule_search_locations=[FOLDER]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["inside"] = package
    spec.loader.exec_module(package)
    importlib.import_module("inside.zygote").main()
