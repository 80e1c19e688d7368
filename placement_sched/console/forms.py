"""A question about a request, as a form has it in the query string of an address.

The address is the whole question: to open it is to ask the same again.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.model.flat_request import FlatRequest, change_of, hints, overrides, pairs

#: Fields by the value of a request that each gives, and the labels of these values in forms. The
#: option of a command is called as the field: ``image_property`` is ``--image-property``.
_NUMBERS = {"vcpus": "vcpus", "ram": "ram", "disk": "disk", "count": "count"}
_TEXTS = {"flavor": "flavor", "image": "image", "zone": "zone", "project": "project"}
_LISTS = {
    "extra_specs": "property",
    "image_properties": "image_property",
    "hints": "hint",
    "force_hosts": "force_host",
    "ignore_hosts": "ignore_host",
}
_CHANGE, _CHANGES = "change", "changes"
LABELS = {
    "flavor": "Flavor",
    "vcpus": "VCPUs",
    "ram": "Memory",
    "disk": "Disk",
    "count": "Instances",
    "image": "Image",
    "zone": "Zone",
    "project": "Project",
    "extra_specs": "Extra specs",
    "image_properties": "Image properties",
    "hints": "Hints",
    "force_hosts": "Only these hosts",
    "ignore_hosts": "Leave out these hosts",
    _CHANGES: "What if",
}
_OVERRIDE, _OVERRIDES = "override", "Options"
#: Every field of a form that asks.
FIELDS = (*_TEXTS.values(), *_NUMBERS.values(), *_LISTS.values(), "policy", _CHANGE, _OVERRIDE)


#: The parts of a request spec, by the fields that have them.
_SPEC_TEXTS = {"availability_zone": "zone", "project_id": "project"}
_SPEC_LISTS = {"force_hosts": "force_host", "ignore_hosts": "ignore_host"}
_SPEC_SIZES = {"vcpus": "vcpus", "memory_mb": "ram", "root_gb": "disk"}
#: Parts that have fields in other ways, or that no stage looks at.
_SPEC_ELSEWHERE = frozenset(
    {"flavor", "image", "scheduler_hints", "instance_uuids", "num_instances", "user_id"}
)


class FormQuestion:
    """What was typed into a form, and what it asks.

    Several lines in a field are several values. A field whose name has a dot is an option
    (``filter_scheduler.ram_weight_multiplier``); ``override`` has lines ``GROUP.OPTION=VALUE``. Of
    several values for an option the field of its own counts. Properties raise :class:`Invalid` for
    what cannot be asked, in the words of the form.
    """

    def __init__(self, fields: MultiDict[str, str]) -> None:
        #: What each field has, lines joined; those that are empty are left out.
        self.typed: Mapping[str, str] = {
            name: text
            for name in fields
            if (name in FIELDS or "." in name) and (text := "\n".join(_lines(fields, name)))
        }

    @property
    def is_asked(self) -> bool:
        """Return whether anything was typed."""
        return bool(self.typed)

    @property
    def has_options(self) -> bool:
        """Return whether an option was given a value."""
        return bool(self._overrides())

    @property
    def request_spec(self) -> Json:
        """Return the request spec."""
        given: dict[str, Any] = {value: self.typed.get(field) for value, field in _TEXTS.items()}
        given |= {value: self._number(value, field) for value, field in _NUMBERS.items()}
        extra_specs, image_properties, hinted, forced, ignored = map(self._list, _LISTS)
        request = FlatRequest(
            **given,
            extra_specs=pairs(extra_specs, LABELS["extra_specs"]),
            image_properties=pairs(image_properties, LABELS["image_properties"]),
            hints=hints(hinted, LABELS["hints"]),
            force_hosts=forced,
            ignore_hosts=ignored,
        )
        return request.as_spec(LABELS)

    @property
    def overrides(self) -> Json:
        """Return the values of options that the question has of its own."""
        return overrides(self._overrides(), _OVERRIDES)

    @property
    def changes(self) -> list[Json]:
        """Return the changes of the cloud as if which the question is asked."""
        lines = self.typed.get(_CHANGE, "").splitlines()
        return [change_of(line, LABELS[_CHANGES]) for line in lines]

    @property
    def policy(self) -> str | None:
        """Return the policy that is asked about, or None where the selectors choose it."""
        return self.typed.get("policy")

    def body(self, **more: Any) -> Json:
        """Return the body of ``POST /scheduler/v1/explain``, or of ``capacity``, with ``more``."""
        own = {"overrides": self.overrides, "policy": self.policy, _CHANGES: self.changes}
        given = {name: value for name, value in own.items() if value}
        return {"request_spec": self.request_spec, **given, **more}

    def query(self, **more: str | None) -> str:
        """Return the query string that asks this again, with ``more`` fields or without (None)."""
        fields = {**self.typed, **more}
        return urlencode({key: one for key, one in fields.items() if one is not None})

    def command(self, name: str, url: str, **more: str) -> str:
        """Return the command line that asks this of the server at ``url``, for a shell.

        ``more`` are further options and their values.
        """
        words = ["placement-sched", name, "--url", url]
        for field in FIELDS[:-1]:
            for text in self.typed.get(field, "").splitlines():
                words += _option(field, text)
        for text in self._overrides():
            words += _option(_OVERRIDE, text)
        for field, text in more.items():
            words += _option(field, text)
        return shlex.join(words)

    def _list(self, value: str) -> list[str]:
        return self.typed.get(_LISTS[value], "").splitlines()

    def _overrides(self) -> list[str]:
        own = [f"{name}={text}" for name, text in self.typed.items() if "." in name]
        return [*self.typed.get(_OVERRIDE, "").splitlines(), *own]

    def _number(self, value: str, field: str) -> int | None:
        text = self.typed.get(field)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise Invalid(f"{LABELS[value]} {text}: expected a whole number") from None


def asked_again(request_spec: Mapping[str, Any], overridden: Mapping[str, Any]) -> str | None:
    """Return the query string that asks a request of its parts again, to be changed in the form.

    A flavor that is an object is given by its sizes, an image by its properties. None where the
    form has no field for a part. ``overridden`` are options with the values they had.
    """
    known = {*_SPEC_TEXTS, *_SPEC_LISTS, *_SPEC_ELSEWHERE}
    if any(value and name not in known for name, value in request_spec.items()):
        return None
    flavor, image = request_spec.get("flavor") or {}, request_spec.get("image") or {}
    fields = {field: request_spec.get(name) for name, field in _SPEC_TEXTS.items()}
    fields |= {field: _joined(request_spec.get(n) or []) for n, field in _SPEC_LISTS.items()}
    fields["hint"] = _paired(request_spec.get("scheduler_hints") or {})
    fields["override"] = _joined(f"{key}={json.dumps(one)}" for key, one in overridden.items())
    count = len(request_spec.get("instance_uuids") or []) or request_spec.get("num_instances") or 1
    fields["count"] = None if count == 1 else str(count)
    if isinstance(flavor, str):
        fields["flavor"] = flavor
    elif flavor.get("ephemeral_gb") or flavor.get("swap"):
        return None
    else:
        fields |= {field: flavor.get(size) for size, field in _SPEC_SIZES.items()}
        fields["property"] = _paired(flavor.get("extra_specs") or {})
    if isinstance(image, str):
        fields["image"] = image
    else:
        fields["image_property"] = _paired(image.get("properties") or {})
    return urlencode({key: one for key, one in fields.items() if one not in (None, "")})


def _paired(values: Mapping[str, Any]) -> str:
    every = ((key, one if isinstance(one, list) else [one]) for key, one in values.items())
    return _joined(f"{key}={one}" for key, ones in every for one in ones)


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def curl(address: str, body: Json) -> str:
    """Return the command that sends this question, for a shell; the token comes from there."""
    sent = shlex.quote(json.dumps(body, ensure_ascii=False))
    headers = """-H "X-Auth-Token: ${OS_TOKEN:-admin}" -H 'Content-Type: application/json'"""
    return f"curl -s {shlex.quote(address)} {headers} -d {sent}"


def _lines(fields: MultiDict[str, str], name: str) -> Iterator[str]:
    """Yield the lines of a field that are not empty."""
    for text in fields.getlist(name):
        yield from filter(None, map(str.strip, text.splitlines()))


def _option(field: str, text: str) -> list[str]:
    """Return an option and its value; a value that begins like an option needs an equals sign."""
    name = f"--{field.replace('_', '-')}"
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
