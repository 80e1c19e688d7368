# SPDX-License-Identifier: Apache-2.0
"""Queries of the console's forms, in the query string of an address.

The query string contains the whole query, so that a link repeats it.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.model.short_forms import (
    build_request_spec,
    parse_change,
    parse_hints,
    parse_overrides,
    parse_pairs,
)

#: Form fields. The keys of ``_LISTS`` are the parts of the request that the fields set. The command
#: line has an option for each field: ``image_property`` is ``--image-property``.
_NUMBERS = ("vcpus", "ram", "disk", "count")
_TEXTS = ("flavor", "image", "zone", "project")
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
#: The fields of the forms.
FIELDS = (*_TEXTS, *_NUMBERS, *_LISTS.values(), "policy", _CHANGE, _OVERRIDE)


#: Form fields by the part of a request spec.
_SPEC_TEXTS = {"availability_zone": "zone", "project_id": "project"}
_SPEC_LISTS = {"force_hosts": "force_host", "ignore_hosts": "ignore_host"}
_SPEC_SIZES = {"vcpus": "vcpus", "memory_mb": "ram", "root_gb": "disk"}
#: Parts of a request spec that are converted separately or that no stage reads.
_SPEC_SPECIAL = frozenset(
    {"flavor", "image", "scheduler_hints", "instance_uuids", "num_instances", "user_id"}
)


class FormRequest:
    """A form's contents, converted to a request, options and changes.

    Each line of a field is a value. A field whose name has a dot is an option
    (``filter_scheduler.ram_weight_multiplier``) and takes precedence over ``override``, which has
    lines ``GROUP.OPTION=VALUE``. Properties raise :class:`Invalid`, with the labels of the form,
    for invalid contents.
    """

    def __init__(self, fields: MultiDict[str, str]) -> None:
        #: The text of each field that is not empty, with its lines joined.
        self.typed: Mapping[str, str] = {
            name: text
            for name in fields
            if (name in FIELDS or "." in name) and (text := "\n".join(split_lines(fields, name)))
        }

    @property
    def is_filled(self) -> bool:
        """Return whether any field of the form has a text."""
        return bool(self.typed)

    @property
    def simulated_fields(self) -> list[str]:
        """Return the fields that change the cloud or its options."""
        return [name for name in self.typed if name in (_CHANGE, _OVERRIDE) or "." in name]

    @property
    def has_options(self) -> bool:
        """Return whether the form overrides options."""
        return bool(self._list_overrides())

    @property
    def request_spec(self) -> Json:
        """Return the request spec of the form."""
        values: dict[str, Any] = {field: self.typed.get(field) for field in _TEXTS}
        values |= {field: self._parse_number(field) for field in _NUMBERS}
        values |= {field: self._list(field) for field in _LISTS}
        for field in ("extra_specs", "image_properties"):
            values[field] = parse_pairs(values[field], LABELS[field])
        values["hints"] = parse_hints(values["hints"], LABELS["hints"])
        return build_request_spec(values, LABELS)

    @property
    def overrides(self) -> Json:
        """Return the options that the form overrides."""
        return parse_overrides(self._list_overrides(), _OVERRIDES)

    @property
    def changes(self) -> list[Json]:
        """Return the changes of the cloud to simulate."""
        lines = self.typed.get(_CHANGE, "").splitlines()
        return [parse_change(line, LABELS[_CHANGES]) for line in lines]

    @property
    def policy(self) -> str | None:
        """Return the policy of the form, or None to leave it to the selectors."""
        return self.typed.get("policy")

    def build_body(self, **more: Any) -> Json:
        """Build the body of ``POST /scheduler/v1/explain`` or ``.../capacity``.

        ``more`` are further keys of the body.
        """
        parts = {"overrides": self.overrides, "policy": self.policy, _CHANGES: self.changes}
        nonempty = {name: value for name, value in parts.items() if value}
        return {"request_spec": self.request_spec, **nonempty, **more}

    def build_query(self, **more: str | Sequence[str] | None) -> str:
        """Build the form's query string, with the fields of ``more`` replaced.

        A field with the value None is removed.
        """
        fields = {**self.typed, **more}
        return urlencode(
            {key: text for key, text in fields.items() if text is not None}, doseq=True
        )

    def build_command(self, name: str, **more: str) -> list[str]:
        """Build the words of the command that sends the same request.

        ``more`` are additional options and their values.
        """
        words = [name]
        for field in FIELDS[:-1]:
            for text in self.typed.get(field, "").splitlines():
                words += _format_option(field, text)
        for text in self._list_overrides():
            words += _format_option(_OVERRIDE, text)
        for field, text in more.items():
            words += _format_option(field, text)
        return words

    def _list(self, value: str) -> list[str]:
        return self.typed.get(_LISTS[value], "").splitlines()

    def _list_overrides(self) -> list[str]:
        option_lines = [f"{name}={text}" for name, text in self.typed.items() if "." in name]
        return [*self.typed.get(_OVERRIDE, "").splitlines(), *option_lines]

    def _parse_number(self, field: str) -> int | None:
        text = self.typed.get(field)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise Invalid(f"{LABELS[field]}: {text!r} is not an integer") from None


def build_form_query(request_spec: Mapping[str, Any], overridden: Mapping[str, Any]) -> str | None:
    """Build the query string that fills the form with a request.

    Returns None if the form has no field for a part of the request. A flavor object is converted
    to its sizes, an image object to its properties. ``overridden`` are options with their values.
    """
    convertible = {*_SPEC_TEXTS, *_SPEC_LISTS, *_SPEC_SPECIAL}
    if any(value and name not in convertible for name, value in request_spec.items()):
        return None
    flavor, image = request_spec.get("flavor") or {}, request_spec.get("image") or {}
    fields = {field: request_spec.get(name) for name, field in _SPEC_TEXTS.items()}
    fields |= {field: _join_lines(request_spec.get(n) or []) for n, field in _SPEC_LISTS.items()}
    fields["hint"] = _join_pairs(request_spec.get("scheduler_hints") or {})
    fields["override"] = _join_lines(
        f"{key}={json.dumps(value)}" for key, value in overridden.items()
    )
    count = len(request_spec.get("instance_uuids") or []) or request_spec.get("num_instances") or 1
    fields["count"] = None if count == 1 else str(count)
    if isinstance(flavor, str):
        fields["flavor"] = flavor
    elif flavor.get("ephemeral_gb") or flavor.get("swap"):
        return None
    else:
        fields |= {field: flavor.get(size) for size, field in _SPEC_SIZES.items()}
        fields["property"] = _join_pairs(flavor.get("extra_specs") or {})
    if isinstance(image, str):
        fields["image"] = image
    else:
        fields["image_property"] = _join_pairs(image.get("properties") or {})
    return urlencode({key: text for key, text in fields.items() if text not in (None, "")})


def _join_pairs(values: Mapping[str, Any]) -> str:
    lists = ((key, item if isinstance(item, list) else [item]) for key, item in values.items())
    return _join_lines(f"{key}={item}" for key, items in lists for item in items)


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def build_curl(address: str, body: Json | None = None) -> str:
    """Build the curl command that gets an address or sends a body.

    The token comes from the environment.
    """
    command = f"""curl -s {shlex.quote(address)} -H "X-Auth-Token: ${{OS_TOKEN:-admin}}\""""
    if body is None:
        return command
    sent = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f"{command} -H 'Content-Type: application/json' -d {sent}"


def split_lines(fields: MultiDict[str, str], name: str) -> Iterator[str]:
    """Yield the lines of a field that are not empty."""
    for text in fields.getlist(name):
        yield from filter(None, map(str.strip, text.splitlines()))


def _format_option(field: str, text: str) -> list[str]:
    """Format a command-line option.

    A value that begins with a hyphen is joined by an equals sign.
    """
    name = f"--{field.replace('_', '-')}"
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
