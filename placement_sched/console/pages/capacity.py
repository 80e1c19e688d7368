# SPDX-License-Identifier: Apache-2.0
"""Capacity page: how many more instances fit, and the effect of changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any

import flask
from flask import request
from werkzeug.datastructures import MultiDict

from placement_sched.console.charts import CapacityPicture, capacity_picture
from placement_sched.console.client import ApiRefused
from placement_sched.console.forms import FIELDS, LABELS, FormRequest
from placement_sched.console.page import (
    FormError,
    api_client,
    download,
    form_error,
    heading,
    page,
    redirect_without_empty_fields,
)
from placement_sched.console.reports import capacity_report, request_parts
from placement_sched.errors import Error, Invalid
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names
from placement_sched.model.flat_request import FORMS, change_of, shorten_addition, shorten_change

_CAPACITY, _PLAN = "/scheduler/v1/capacity", "/scheduler/v1/plan"
_REBALANCE = "/scheduler/v1/rebalance"
_PARTS = ("zone", "aggregate", "host", "cell")
_GOALS = {
    "fit": "make room for a flavor",
    "pack": "empty as many hosts as possible",
    "spread": "lower the highest load",
}
#: Message for an empty form.
_EMPTY_FORM = "Choose a flavor, or enter its sizes or a change, then count."
#: Changes that links may pass as a parameter for each host.
_HOST_CHANGES = ("drain", "remove")


@dataclass(frozen=True)
class CapacityForm:
    """The parsed form: a request or several flavors, the parts to count, and changes."""

    values: MultiDict[str, str]

    @cached_property
    def flavors(self) -> list[str]:
        """Return the names of the selected flavors."""
        return [name for text in self.values.getlist("flavor") if (name := text.strip())]

    @property
    def all_flavors(self) -> bool:
        """Return whether to count all stored flavors.

        This is also so if the form has changes but neither a flavor nor sizes.
        """
        return bool(self.values.get("all")) or (bool(self.changes_typed) and not self._describes)

    @property
    def per(self) -> str:
        """Return the kind of parts to count, empty for none."""
        return self.values.get("per", "")

    @cached_property
    def question(self) -> FormRequest:
        """Return the request, without a flavor if several are selected."""
        is_multiple = self.all_flavors or len(self.flavors) > 1
        omitted = {"count", "change", *(["flavor"] if is_multiple else [])}
        fields = [pair for pair in self.values.items(multi=True) if pair[0] not in omitted]
        return FormRequest(MultiDict(fields))

    @cached_property
    def changes_typed(self) -> list[str]:
        """Return the changes that are typed in the form or passed by a link.

        Each is a line.
        """
        lines = [
            line
            for text in self.values.getlist("change")
            for item in text.splitlines()
            if (line := item.strip())
        ]
        hosts_by_kind = {
            kind: list(filter(None, self.values.getlist(kind))) for kind in _HOST_CHANGES
        }
        if self.values.get("instead") == "add":
            # The table of hosts has a box for each host and a button for each change.
            more = self.values.get("more", "").strip() or "1"
            lines += [shorten_addition(host, more) for host in hosts_by_kind.pop("drain")]
        lines += [shorten_change(kind, hosts) for kind, hosts in hosts_by_kind.items() if hosts]
        for text in filter(None, self.values.getlist("add")):
            like, _, count = text.rpartition(":")
            lines.append(shorten_addition(like or count, count if like else "1"))
        return lines

    @property
    def changes(self) -> list[Json]:
        """Parse the changes. Raises :class:`Invalid` for a malformed line."""
        return [change_of(line, LABELS["changes"]) for line in self.changes_typed]

    @property
    def is_asked(self) -> bool:
        """Return whether there is anything to count."""
        return self._describes or self.all_flavors

    @property
    def body(self) -> Json:
        """Build the body of ``POST /capacity`` without the changes.

        Raises :class:`Invalid` for invalid fields.
        """
        body = self.question.body(**({"per": self.per} if self.per else {}))
        if self.all_flavors or len(self.flavors) > 1:
            spec = {key: part for key, part in body["request_spec"].items() if key != "flavor"}
            selection: Json = (
                {"all_flavors": True} if self.all_flavors else {"flavors": self.flavors}
            )
            body = {**body, "request_spec": spec, **selection}
        return body

    @property
    def _describes(self) -> bool:
        sizes = ("vcpus", "ram", "disk", "property")
        return bool(self.flavors) or any(self.values.get(name, "").strip() for name in sizes)


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """The capacity for a flavor or in a part, before and after the changes."""

    name: str
    before: int
    after: int
    is_part: bool
    exact: bool


def index() -> flask.Response:
    """Show the form and, if the address has a request, the capacity."""
    if redirect := redirect_without_empty_fields():
        return redirect
    query = CapacityForm(request.args)
    values: dict[str, Any] = {
        "wanted": query,
        "labels": LABELS,
        "nothing_asked": _EMPTY_FORM,
        "parts": _PARTS,
        "forms": FORMS,
        "query": request.query_string.decode("latin-1"),
        "refusal": None,
        "capacity": None,
        **_list_choices(),
    }
    if query.is_asked:
        try:
            values |= _count_capacity(query)
        except (ApiRefused, Error) as error:
            values["refusal"] = form_error(error)
    elif any(name in FIELDS for name in request.args):
        values["refusal"] = FormError(HTTPStatus.BAD_REQUEST, _EMPTY_FORM)
    status = values["refusal"].status if values["refusal"] else 200
    return page("capacity.html", "Capacity", values, status=status)


def report() -> flask.Response:
    """Send the capacity as a file."""
    query = CapacityForm(request.args)
    changes = query.changes
    body = query.body | ({"changes": changes} if changes else {})
    answer = api_client().ask(_CAPACITY, body)
    report_heading = heading("Capacity", *[("change", line) for line in query.changes_typed])
    html = capacity_report(answer, body, report_heading, api_client().aggregate_names())
    return download("capacity.html", html)


def moves() -> flask.Response:
    """Show advice on moves towards a goal."""
    args = request.args
    goal, flavor = args.get("goal", ""), args.get("flavor", "").strip()
    values: dict[str, Any] = {
        "given": args,
        "goals": _GOALS,
        "advice": None,
        "refusal": None,
        **_list_choices(),
    }
    if goal:
        try:
            body: Json = {"goal": goal, "moves": _parse_integer(args.get("moves") or "5", "Moves")}
            if flavor:
                zone = args.get("zone", "").strip()
                spec = {"flavor": flavor, **({"availability_zone": zone} if zone else {})}
                body["request_spec"] = spec
            values["advice"] = api_client().ask(_REBALANCE, body)
        except (ApiRefused, Error) as error:
            values["refusal"] = form_error(error)
    status = values["refusal"].status if values["refusal"] else 200
    return page("moves.html", "Advice on moves", values, status=status)


def _count_capacity(query: CapacityForm) -> dict[str, Any]:
    """Return the template values of the capacity, before and after any changes."""
    changes, body, client = query.changes, query.body, api_client()
    names, per = client.aggregate_names(), query.per or None

    def build_picture(extra: Json) -> CapacityPicture:
        return capacity_picture(with_names(client.ask(_CAPACITY, body | extra), names), per)

    before = build_picture({})
    values = {"asked": request_parts(body["request_spec"]), "capacity": before, "plan": None}
    if not changes:
        return values
    after = build_picture({"changes": changes})
    plan = client.ask(_PLAN, {"changes": changes, "flavors": []})
    return values | {"capacity": after, "plan": plan, "compared": _compare_pictures(before, after)}


def _compare_pictures(before: CapacityPicture, after: CapacityPicture) -> list[CapacityRow]:
    """Join both pictures by name. The capacity of a missing part is 0."""
    bars_by_key: list[dict[tuple[str, str], Any]] = []
    for picture in (before, after):
        bars: dict[tuple[str, str], Any] = {}
        flavor = ""
        for bar in picture.bars:
            flavor = flavor if bar.is_part else bar.name
            bars[flavor, bar.name if bar.is_part else ""] = bar
        bars_by_key.append(bars)
    rows = []
    for key in {**bars_by_key[0], **bars_by_key[1]}:
        present = [bars[key] for bars in bars_by_key if key in bars]
        capacity_before, capacity_after = (
            bars[key].capacity if key in bars else 0 for bars in bars_by_key
        )
        rows.append(
            CapacityRow(
                name=key[1] or key[0],
                before=capacity_before,
                after=capacity_after,
                is_part=bool(key[1]),
                exact=all(bar.exact for bar in present),
            )
        )
    return rows


def _list_choices() -> dict[str, Sequence[Any]]:
    """Return the values to choose from that this caller may list."""
    zones = _list_visible("/compute/v2.1/os-availability-zone", "availabilityZoneInfo")
    flavors = _list_visible("/compute/v2.1/flavors/detail", "flavors")
    return {
        "flavors": sorted(flavors, key=lambda flavor: str(flavor["name"])),
        "images": _list_visible("/image/v2/images", "images"),
        "zones": [zone["zoneName"] for zone in zones],
        "policies": [
            policy["name"] for policy in _list_visible("/scheduler/v1/policies", "policies")
        ],
    }


def _list_visible(path: str, key: str) -> list[Json]:
    try:
        items: list[Json] = api_client().get(path)[key]
    except ApiRefused:
        return []
    return items


def _parse_integer(text: str, label: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{label} {text}: expected a whole number") from None


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/capacity": index,
    "/capacity/report": report,
    "/capacity/moves": moves,
}
