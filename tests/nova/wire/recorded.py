# SPDX-License-Identifier: Apache-2.0
"""Objects of nova 34 with a value in each field, recorded with ``peer/serve.py``."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

_RECORDED_OBJECTS = json.loads((Path(__file__).parent / "recorded.json").read_text())
#: Keys and indexes that lead to a value in a primitive.
ValuePath = tuple[str | int, ...]


def read_recorded_object(name: str) -> Any:
    return deepcopy(_RECORDED_OBJECTS[name])


def list_paths(value: Any, path: ValuePath = ()) -> Iterator[ValuePath]:
    yield path
    if isinstance(value, dict):
        for key, one in value.items():
            if not key.endswith(".changes"):
                yield from list_paths(one, (*path, key))
    elif isinstance(value, list):
        for position, one in enumerate(value):
            yield from list_paths(one, (*path, position))


def replace_value(value: Any, path: ValuePath, new: Any) -> Any:
    if not path:
        return new
    copy = deepcopy(value)
    within = copy
    for step in path[:-1]:
        within = within[step]
    within[path[-1]] = new
    return copy


def remove_value(value: Any, path: ValuePath) -> Any:
    copy = deepcopy(value)
    within = copy
    for step in path[:-1]:
        within = within[step]
    del within[path[-1]]
    return copy


def build_path_of_field(spec: Any, *fields: str | int) -> ValuePath:
    path: ValuePath = ()
    for name in fields:
        path += (name,) if isinstance(name, int) else ("nova_object.data", name)
    return path
