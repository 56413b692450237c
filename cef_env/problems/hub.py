"""Data sets of the Hugging Face hub, through the `datasets` library when it is installed.

The library fetches the data set or finds it in its cache, and leaves Arrow files, which are then read like
any other local file. Imported only for names that are no local path.
"""

from pathlib import Path

from cef_env.errors import UserError
from cef_env.problems.fields import first_line


def hub_files(source: str, name: str, config: str | None, split: str | None) -> list[Path]:
    """The Arrow files of a hub data set; `UserError` without the library, or with what it complains about."""
    try:
        import datasets
    except ImportError as error:
        raise UserError(
            f"problem source {source!r}: {name} is no file or folder; to load it from the Hugging Face hub, "
            "pip install datasets"
        ) from error
    try:
        loaded = datasets.load_dataset(name, config, split=split)
    except Exception as error:
        raise UserError(f"problem source {source!r}: datasets cannot load it: {first_line(error)}") from error
    parts = loaded.values() if isinstance(loaded, dict) else [loaded]
    files = [Path(file["filename"]) for part in parts for file in part.cache_files]
    if not files:
        raise UserError(f"problem source {source!r}: datasets keeps no file of it; give local files instead")
    return files
