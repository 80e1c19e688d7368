"""The shape in which nova's versioned objects are sent."""

from typing import Any

Json = dict[str, Any]


def versioned(name: str, version: str, data: Json, *, namespace: str = "nova") -> Json:
    """Return an object of this name and version, with its fields."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": namespace,
        "nova_object.version": version,
        "nova_object.data": data,
    }
