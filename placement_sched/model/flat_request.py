"""A request in single values, as the options of a command and the fields of a form have it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from placement_sched.errors import Invalid
from placement_sched.model.document import Json, decoded

#: Names of the values, for errors: ``{"zone": "--zone"}``.
Called = Mapping[str, str]
#: What a flavor that is described by its sizes is called, and has where nothing is said of it.
_TYPED = {"name": "typed", "vcpus": 1, "memory_mb": 512, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatRequest:
    """What is asked for, value by value; what is None or empty was not given.

    ``flavor`` is the id or name of a stored flavor, or a whole one; without it ``vcpus``, ``ram``
    (MiB) and ``disk`` (GiB) describe one. ``image`` is the id or name of a stored image; without it
    ``image_properties`` describe one.
    """

    flavor: str | Json | None = None
    vcpus: int | None = None
    ram: int | None = None
    disk: int | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    count: int | None = None
    zone: str | None = None
    project: str | None = None
    hints: Mapping[str, str | list[str]] = field(default_factory=dict)
    force_hosts: Sequence[str] = ()
    ignore_hosts: Sequence[str] = ()

    def as_spec(self, called: Called) -> Json:
        """Return the request spec; ``called`` has the name of each value, for errors.

        Raises :class:`Invalid` for values that contradict each other.
        """
        spec: Json = {"num_instances": 1 if self.count is None else self.count}
        spec["flavor"] = self._flavor(called)
        if self.image and self.image_properties:
            raise Invalid(f"{called['image']} excludes {called['image_properties']}")
        if self.image:
            spec["image"] = self.image
        elif self.image_properties:
            spec["image"] = {"properties": dict(self.image_properties)}
        others = {
            "availability_zone": self.zone,
            "project_id": self.project,
            "scheduler_hints": dict(self.hints),
            "force_hosts": list(self.force_hosts),
            "ignore_hosts": list(self.ignore_hosts),
        }
        return spec | {name: value for name, value in others.items() if value}

    def _flavor(self, called: Called) -> Json | str:
        sizes = {"vcpus": self.vcpus, "ram": self.ram, "disk": self.disk}
        is_typed = any(size is not None for size in sizes.values())
        if isinstance(self.flavor, str):
            if is_typed or self.extra_specs:
                words = _listed([called[name] for name in (*sizes, "extra_specs")])
                raise Invalid(f"{called['flavor']} excludes {words}")
            return self.flavor
        if self.flavor is not None:
            return {**self.flavor, "extra_specs": self._all_extra_specs(self.flavor)}
        given = {"vcpus": self.vcpus, "memory_mb": self.ram, "root_gb": self.disk}
        known = {name: size for name, size in given.items() if size is not None}
        return {**_TYPED, **known, "extra_specs": dict(self.extra_specs)}

    def _all_extra_specs(self, flavor: Json) -> Json:
        return {**(flavor.get("extra_specs") or {}), **self.extra_specs}


def pairs(texts: Iterable[str], called: str) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a mapping; raise :class:`Invalid` for one without ``=``."""
    return dict(_split(text, called) for text in texts)


def hints(texts: Iterable[str], called: str) -> dict[str, str | list[str]]:
    """Return ``KEY=VALUE`` texts as hints: a key that is given several times has a list.

    Raises :class:`Invalid` for a text without ``=``.
    """
    found: dict[str, list[str]] = {}
    for key, value in (_split(text, called) for text in texts):
        found.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def overrides(texts: Iterable[str], called: str) -> Json:
    """Return ``GROUP.OPTION=VALUE`` texts as a mapping; a value that is JSON is taken as such."""
    found: Json = {}
    for key, value in pairs(texts, called).items():
        try:
            found[key] = decoded(value)
        except ValueError:
            found[key] = value
    return found


def _split(text: str, called: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Invalid(f"{called} {text}: expected KEY=VALUE")
    return key, value


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


#: The short forms of changes.
FORMS = (
    "drain=HOST,... | remove=HOST,... | add=HOST or HOST*COUNT (like HOST) | "
    "inventory=HOST:CLASS=TOTAL | aggregate=NAME:+HOST,-HOST,KEY=VALUE"
)
#: Of numbers, those that cannot be are refused where they are, as a JSON document's are.
_COUNTED = re.compile(r"(?P<like>.+?)(?:\*(?P<count>-?[0-9]{1,30}))?")
_INVENTORY = re.compile(r"(?P<host>[^:]+):(?P<name>[A-Z0-9_]+)=(?P<total>-?[0-9]{1,30})")
#: What has a meaning in a short form: names there may not have it.
_MARKS = re.compile(r"[,*\s]")


def change_of(text: str, called: str) -> Json:
    """Return the change that a text says, in short or as JSON; ``called`` is its name in errors.

    Raises :class:`Invalid` for a text that says none.
    """
    if text.lstrip().startswith("{"):
        try:
            found: Json = decoded(text)
        except ValueError as wrong:
            raise Invalid(f"{called} {text}: not JSON: {wrong}") from None
        return found
    kind, _, rest = text.partition("=")
    match kind:
        case "drain" | "remove" if rest:
            return {kind: rest.split(",")}
        case "add" if parts := _COUNTED.fullmatch(rest):
            return {"add": {"like": parts["like"], "count": int(parts["count"] or 1)}}
        case "inventory" if parts := _INVENTORY.fullmatch(rest):
            total = {"total": int(parts["total"])}
            return {"inventory": {"host": parts["host"], "resource_class": parts["name"], **total}}
        case "aggregate" if ":" in rest:
            return {"aggregate": _aggregate(text, rest, called)}
    raise Invalid(f"{called} {text}: expected {FORMS}, or JSON")


def _aggregate(text: str, rest: str, called: str) -> Json:
    name, _, parts = rest.partition(":")
    hosts: dict[str, list[str]] = {"+": [], "-": []}
    tags: dict[str, str | None] = {}
    for part in parts.split(","):
        if part[:1] in hosts and len(part) > 1:
            hosts[part[0]].append(part[1:])
        elif "=" in part:
            key, _, value = part.partition("=")
            tags[key] = value or None
        else:
            raise Invalid(f"{called} {text}: {part!r} is none of +HOST, -HOST and KEY=VALUE")
    return {"name": name, "add_hosts": hosts["+"], "remove_hosts": hosts["-"], "metadata": tags}


def in_short(kind: str, hosts: Iterable[str]) -> str:
    """Return the text of a change of hosts (``drain``, ``remove``), as :func:`change_of` reads it.

    It is JSON where a name would be read as something else.
    """
    names = list(hosts)
    if any(_MARKS.search(name) for name in names):
        return _as_json({kind: names})
    return f"{kind}={','.join(names)}"


def added_in_short(like: str, count: str) -> str:
    """Return the text of a change that adds so many hosts like one."""
    if _MARKS.search(like) and count.isdecimal():
        return _as_json({"add": {"like": like, "count": int(count)}})
    return f"add={like}*{count}"


def _as_json(change: Mapping[str, Any]) -> str:
    return orjson.dumps(change).decode()
