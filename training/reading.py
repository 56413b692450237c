"""Reads configurations: examples of the package by name, or YAML files by path, checked against their model.

Whatever is wrong is one line that names the field. Knows no field itself.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cef_env.errors import UserError

Model = TypeVar("Model", bound=BaseModel)


def examples(folder: str) -> list[str]:
    """The names of the examples in a folder of `training`."""
    entries = (entry.name for entry in (files("cef_env.training") / folder).iterdir())
    return sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml"))


def read_config(name_or_path: str, folder: str) -> dict[str, Any]:
    """Keys and values of an example of `folder` or of a YAML file; `UserError` when they cannot be had."""
    if name_or_path in examples(folder):
        text = (files("cef_env.training") / folder / f"{name_or_path}.yaml").read_text()
    elif name_or_path.endswith((".yaml", ".yml")):
        try:
            text = Path(name_or_path).read_text()
        except OSError as error:
            raise UserError(f"config {name_or_path!r} cannot be read: {error.strerror}") from error
    else:
        names = ", ".join(examples(folder))
        raise UserError(f"config {name_or_path!r} is unknown; choose {names}, or give a .yaml file")
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"config {name_or_path!r} is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(data, dict):
        raise UserError(f"config {name_or_path!r}: expected keys and values at the top level")
    return data


def layered(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both, section by section; a key that both have is that of `above`."""
    both = dict(below)
    for key, value in above.items():
        mine = both.get(key)
        both[key] = layered(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def validated(model: type[Model], data: dict[str, Any], name: str) -> Model:
    """The configuration; `UserError` names the first field that is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        key = f", key {field}" if field else ""
        reason = first["msg"].removeprefix("Value error, ")
        raise UserError(f"config {name!r}{key}: {reason}") from error
