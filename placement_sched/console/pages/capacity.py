"""The page Capacity: how many more fit, what stops them, and what changes of the cloud come to."""

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
from placement_sched.console.forms import FIELDS, LABELS, FormQuestion
from placement_sched.console.page import (
    FormError,
    caller,
    download,
    form_error,
    heading,
    page,
    without_empty_fields,
)
from placement_sched.console.reports import asked, capacity_report
from placement_sched.errors import Error, Invalid
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names
from placement_sched.model.flat_request import FORMS, added_in_short, change_of, in_short

_CAPACITY, _PLAN = "/scheduler/v1/capacity", "/scheduler/v1/plan"
_REBALANCE = "/scheduler/v1/rebalance"
_PARTS = ("zone", "aggregate", "host", "cell")
_GOALS = {
    "fit": "make room for a flavor",
    "pack": "empty as many hosts as possible",
    "spread": "lower the highest load",
}
#: What is said to who counts with nothing chosen.
_NOTHING_ASKED = "Choose a flavor, give the sizes of one, or type a change, to count."
#: Changes that links give as parameters of their own, a host each.
_OF_HOSTS = ("drain", "remove")


@dataclass(frozen=True)
class CapacityAsked:
    """What the address asks: a request or several flavors, the parts to count, and changes."""

    given: MultiDict[str, str]

    @cached_property
    def flavors(self) -> list[str]:
        """Return the stored flavors that are named."""
        return [one for text in self.given.getlist("flavor") if (one := text.strip())]

    @property
    def all_flavors(self) -> bool:
        """Return whether every stored flavor is counted: so where changes alone are given."""
        return bool(self.given.get("all")) or (bool(self.changes_typed) and not self._describes)

    @property
    def per(self) -> str:
        """Return the parts that are counted, empty for none."""
        return self.given.get("per", "")

    @cached_property
    def question(self) -> FormQuestion:
        """Return the request; of several flavors it has none."""
        several = self.all_flavors or len(self.flavors) > 1
        left_out = {"count", "change", *(["flavor"] if several else [])}
        fields = [pair for pair in self.given.items(multi=True) if pair[0] not in left_out]
        return FormQuestion(MultiDict(fields))

    @cached_property
    def changes_typed(self) -> list[str]:
        """Return the changes in short, a line each: those of the form, and those of links."""
        lines = [
            line
            for text in self.given.getlist("change")
            for one in text.splitlines()
            if (line := one.strip())
        ]
        named = {kind: list(filter(None, self.given.getlist(kind))) for kind in _OF_HOSTS}
        if self.given.get("instead") == "add":
            # The table of hosts has one box a host, and a button for each change.
            more = self.given.get("more", "").strip() or "1"
            lines += [added_in_short(host, more) for host in named.pop("drain")]
        lines += [in_short(kind, hosts) for kind, hosts in named.items() if hosts]
        for text in filter(None, self.given.getlist("add")):
            like, _, count = text.rpartition(":")
            lines.append(added_in_short(like or count, count if like else "1"))
        return lines

    @property
    def changes(self) -> list[Json]:
        """Return the changes; raise :class:`Invalid` for a line that says none."""
        return [change_of(line, LABELS["changes"]) for line in self.changes_typed]

    @property
    def is_asked(self) -> bool:
        """Return whether there is anything to count."""
        return self._describes or self.all_flavors

    @property
    def body(self) -> Json:
        """Return the body of ``POST /capacity``, without the changes.

        Raises :class:`Invalid` for what cannot be asked.
        """
        body = self.question.body(**({"per": self.per} if self.per else {}))
        if self.all_flavors or len(self.flavors) > 1:
            spec = {key: part for key, part in body["request_spec"].items() if key != "flavor"}
            named: Json = {"all_flavors": True} if self.all_flavors else {"flavors": self.flavors}
            body = {**body, "request_spec": spec, **named}
        return body

    @property
    def _describes(self) -> bool:
        sizes = ("vcpus", "ram", "disk", "property")
        return bool(self.flavors) or any(self.given.get(name, "").strip() for name in sizes)


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """How many more fit of a flavor, or in a part, before the changes and after them."""

    name: str
    before: int
    after: int
    is_part: bool
    exact: bool


def index() -> flask.Response:
    """Show the form, and the answer where the address asks anything."""
    if tidy := without_empty_fields():
        return tidy
    wanted = CapacityAsked(request.args)
    values: dict[str, Any] = {
        "wanted": wanted,
        "labels": LABELS,
        "nothing_asked": _NOTHING_ASKED,
        "parts": _PARTS,
        "forms": FORMS,
        "query": request.query_string.decode("latin-1"),
        "refusal": None,
        "capacity": None,
        **_choices(),
    }
    if wanted.is_asked:
        try:
            values |= _answer(wanted)
        except (ApiRefused, Error) as failure:
            values["refusal"] = form_error(failure)
    elif any(name in FIELDS for name in request.args):
        values["refusal"] = FormError(HTTPStatus.BAD_REQUEST, _NOTHING_ASKED)
    status = values["refusal"].status if values["refusal"] else 200
    return page("capacity.html", "Capacity", values, status=status)


def report() -> flask.Response:
    """Send the answer as a file that needs nothing else."""
    wanted = CapacityAsked(request.args)
    changes = wanted.changes
    body = wanted.body | ({"changes": changes} if changes else {})
    answer = caller().ask(_CAPACITY, body)
    headed = heading("Capacity", *[("change", line) for line in wanted.changes_typed])
    html = capacity_report(answer, body, headed, caller().aggregate_names())
    return download("capacity.html", html)


def moves() -> flask.Response:
    """Show advice on moves towards a goal; nothing is moved."""
    given = request.args
    goal, flavor = given.get("goal", ""), given.get("flavor", "").strip()
    values: dict[str, Any] = {
        "given": given,
        "goals": _GOALS,
        "advice": None,
        "refusal": None,
        **_choices(),
    }
    if goal:
        try:
            body: Json = {"goal": goal, "moves": _whole(given.get("moves") or "5", "Moves")}
            if flavor:
                zone = given.get("zone", "").strip()
                spec = {"flavor": flavor, **({"availability_zone": zone} if zone else {})}
                body["request_spec"] = spec
            values["advice"] = caller().ask(_REBALANCE, body)
        except (ApiRefused, Error) as failure:
            values["refusal"] = form_error(failure)
    status = values["refusal"].status if values["refusal"] else 200
    return page("moves.html", "Advice on moves", values, status=status)


def _answer(wanted: CapacityAsked) -> dict[str, Any]:
    """Return what the page shows of the answer, before and after changes where there are any."""
    changes, body, ask = wanted.changes, wanted.body, caller()
    names, per = ask.aggregate_names(), wanted.per or None

    def picture(more: Json) -> CapacityPicture:
        return capacity_picture(with_names(ask.ask(_CAPACITY, body | more), names), per)

    before = picture({})
    shown = {"asked": asked(body["request_spec"]), "capacity": before, "plan": None}
    if not changes:
        return shown
    after = picture({"changes": changes})
    plan = ask.ask(_PLAN, {"changes": changes, "flavors": []})
    return shown | {"capacity": after, "plan": plan, "compared": _compared(before, after)}


def _compared(before: CapacityPicture, after: CapacityPicture) -> list[CapacityRow]:
    """Return both pictures beside each other; a part that is in one of them has 0 in the other."""
    keyed: list[dict[tuple[str, str], Any]] = []
    for one in (before, after):
        found: dict[tuple[str, str], Any] = {}
        flavor = ""
        for bar in one.bars:
            flavor = flavor if bar.is_part else bar.name
            found[flavor, bar.name if bar.is_part else ""] = bar
        keyed.append(found)
    rows = []
    for key in {**keyed[0], **keyed[1]}:
        there = [found[key] for found in keyed if key in found]
        was, now = (found[key].capacity if key in found else 0 for found in keyed)
        rows.append(
            CapacityRow(
                name=key[1] or key[0],
                before=was,
                after=now,
                is_part=bool(key[1]),
                exact=all(bar.exact for bar in there),
            )
        )
    return rows


def _choices() -> dict[str, Sequence[Any]]:
    """Return what there is to choose from, as far as this caller may see it."""
    zones = _seen("/compute/v2.1/os-availability-zone", "availabilityZoneInfo")
    flavors = _seen("/compute/v2.1/flavors/detail", "flavors")
    return {
        "flavors": sorted(flavors, key=lambda one: str(one["name"])),
        "images": _seen("/image/v2/images", "images"),
        "zones": [one["zoneName"] for one in zones],
        "policies": [one["name"] for one in _seen("/scheduler/v1/policies", "policies")],
    }


def _seen(path: str, key: str) -> list[Json]:
    try:
        found: list[Json] = caller().get(path)[key]
    except ApiRefused:
        return []
    return found


def _whole(text: str, called: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{called} {text}: expected a whole number") from None


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/capacity": index,
    "/capacity/report": report,
    "/capacity/moves": moves,
}
