# SPDX-License-Identifier: Apache-2.0
"""Parsers of the short texts in command options and form fields."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from placement_sched.errors import Invalid
from placement_sched.model.document import Json, decode

#: The names of values in errors, such as ``{"zone": "--zone"}``.
Labels = Mapping[str, str]
#: The form field for each part of a request body. Keys are the keys of the part, joined by dots.
FORM_FIELD_BY_PATH = {
    "request_spec.num_instances": "count",
    "request_spec.instance_uuids": "count",
    "request_spec.flavor": "flavor",
    "request_spec.flavor.vcpus": "vcpus",
    "request_spec.flavor.memory_mb": "ram",
    "request_spec.flavor.root_gb": "disk",
    "request_spec.flavor.extra_specs": "extra_specs",
    "request_spec.image": "image",
    "request_spec.image.properties": "image_properties",
    "request_spec.availability_zone": "zone",
    "request_spec.project_id": "project",
    "request_spec.scheduler_hints": "hints",
    "request_spec.force_hosts": "force_hosts",
    "request_spec.ignore_hosts": "ignore_hosts",
    "flavors": "flavor",
}
#: Defaults for a flavor that is given by its sizes.
_FLAVOR_DEFAULTS = {
    "name": "typed",
    "vcpus": 1,
    "memory_mb": 512,
    "root_gb": 0,
    "ephemeral_gb": 0,
    "swap": 0,
}


def build_request_spec(values: Mapping[str, Any], labels: Labels) -> Json:
    """Build a request spec from the values of a form.

    :data:`FORM_FIELD_BY_PATH` has the names of the values, which may be None, empty or missing.
    Without the id or name of a ``flavor``, ``vcpus``, ``ram`` (MiB) and ``disk`` (GiB) describe a
    flavor, and without an ``image`` the ``image_properties`` an image. Raises :class:`Invalid` for
    values that exclude each other, with their names in ``labels``.
    """
    optional = {
        "availability_zone": values.get("zone"),
        "project_id": values.get("project"),
        "scheduler_hints": values.get("hints"),
        "force_hosts": values.get("force_hosts"),
        "ignore_hosts": values.get("ignore_hosts"),
    }
    count = values.get("count")
    spec = {
        "num_instances": 1 if count is None else count,
        "flavor": _build_flavor(values, labels),
        **{name: value for name, value in optional.items() if value},
    }
    image, properties = values.get("image"), values.get("image_properties")
    if image and properties:
        raise Invalid(f"{labels['image']} cannot be combined with {labels['image_properties']}")
    if image or properties:
        spec["image"] = image or {"properties": properties}
    return spec


def _build_flavor(values: Mapping[str, Any], labels: Labels) -> Json | str:
    fields = {"vcpus": "vcpus", "ram": "memory_mb", "disk": "root_gb"}
    sizes = {field: values[name] for name, field in fields.items() if values.get(name) is not None}
    flavor, extra_specs = values.get("flavor"), values.get("extra_specs") or {}
    if flavor is None:
        return {**_FLAVOR_DEFAULTS, **sizes, "extra_specs": extra_specs}
    if sizes or extra_specs:
        excluded = ", ".join(labels[name] for name in fields)
        raise Invalid(
            f"{labels['flavor']} cannot be combined with {excluded} and {labels['extra_specs']}"
        )
    return str(flavor)


def parse_pairs(texts: Iterable[str], label: str) -> dict[str, str]:
    """Parse ``KEY=VALUE`` texts, or raise :class:`Invalid`."""
    return dict(_split_pair(text, label) for text in texts)


def parse_hints(texts: Iterable[str], label: str) -> dict[str, str | list[str]]:
    """Parse hints as :func:`parse_pairs`, with a list for a repeated key."""
    values_by_key: dict[str, list[str]] = {}
    for key, value in (_split_pair(text, label) for text in texts):
        values_by_key.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in values_by_key.items()}


def parse_overrides(texts: Iterable[str], label: str) -> Json:
    """Parse ``GROUP.OPTION=VALUE`` texts, and decode values that are JSON."""
    values: Json = {}
    for key, value in parse_pairs(texts, label).items():
        try:
            values[key] = decode(value)
        except ValueError:
            values[key] = value
    return values


def _split_pair(text: str, label: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Invalid(f"{label} {text}: expected KEY=VALUE")
    return key, value


#: The short forms of changes, for errors and help.
FORMS = (
    "drain=HOST,... or aggregate:NAME | remove=HOST,... | add=HOST or HOST*COUNT (like HOST) | "
    "inventory=HOST:CLASS=TOTAL | aggregate=NAME:+HOST,-HOST,KEY=VALUE"
)
#: The schema of the request rejects numbers that are out of range.
_COUNTED = re.compile(r"(?P<like>.+?)(?:\*(?P<count>-?[0-9]{1,30}))?")
_INVENTORY = re.compile(r"(?P<host>[^:]+):(?P<name>[A-Z0-9_]+)=(?P<total>-?[0-9]{1,30})")
#: Characters with a meaning in short forms. Names that contain them need the JSON form.
_MARKS = re.compile(r"[,*\s]")


def parse_change(text: str, label: str) -> Json:
    """Parse a change in its short form or as JSON.

    ``label`` is the name of the text in errors. Raises :class:`Invalid` for any other text.
    """
    if text.lstrip().startswith("{"):
        try:
            change: Json = decode(text)
        except ValueError as error:
            raise Invalid(f"{label} {text}: not JSON: {error}") from None
        return change
    kind, _, arguments = text.partition("=")
    match kind:
        case "drain" | "remove" if arguments:
            return {kind: arguments.split(",")}
        case "add" if parts := _COUNTED.fullmatch(arguments):
            return {"add": {"like": parts["like"], "count": int(parts["count"] or 1)}}
        case "inventory" if parts := _INVENTORY.fullmatch(arguments):
            total = {"total": int(parts["total"])}
            return {"inventory": {"host": parts["host"], "resource_class": parts["name"], **total}}
        case "aggregate" if ":" in arguments:
            return {"aggregate": _parse_aggregate(text, arguments, label)}
    raise Invalid(f"{label} {text}: expected {FORMS}, or JSON")


def _parse_aggregate(text: str, arguments: str, label: str) -> Json:
    name, _, parts = arguments.partition(":")
    hosts: dict[str, list[str]] = {"+": [], "-": []}
    metadata: dict[str, str | None] = {}
    for part in parts.split(","):
        if part[:1] in hosts and len(part) > 1:
            hosts[part[0]].append(part[1:])
        elif "=" in part:
            key, _, value = part.partition("=")
            metadata[key] = value or None
        else:
            raise Invalid(f"{label} {text}: expected +HOST, -HOST or KEY=VALUE, got {part!r}")
    return {"name": name, "add_hosts": hosts["+"], "remove_hosts": hosts["-"], "metadata": metadata}


def shorten_change(kind: str, hosts: Iterable[str]) -> str:
    """Return the short form of a change of hosts (``drain``, ``remove``).

    The result is JSON if a name contains a separator. :func:`parse_change` parses both forms.
    """
    names = list(hosts)
    if any(_MARKS.search(name) for name in names):
        return _as_json({kind: names})
    return f"{kind}={','.join(names)}"


def shorten_addition(like: str, count: str) -> str:
    """Return the short form, or JSON, of adding hosts like a host."""
    if _MARKS.search(like) and count.isdecimal():
        return _as_json({"add": {"like": like, "count": int(count)}})
    return f"add={like}*{count}"


def _as_json(change: Mapping[str, Any]) -> str:
    return orjson.dumps(change).decode()
