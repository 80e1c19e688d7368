"""A request in single values, as the options of a command and the fields of a form have it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
