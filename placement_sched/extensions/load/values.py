# SPDX-License-Identifier: Apache-2.0
"""Values of load, the states that they can have, and their evaluation.

A value is shown only if it is certain which value is right. Two series for a host, or a value that
is not a number, are states without a value.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from math import isfinite

from placement_sched.model.document import Json

#: The kinds of subjects. They begin the names of the options, ``host_queries``.
HOST, SERVER = "host", "server"

OK = "ok"
#: The value is older than ``[load] max_age``.
OLD = "old"
#: The value of a host is below 0 or above 1.
OUT_OF_RANGE = "out_of_range"
#: Prometheus returned several series for the subject.
SEVERAL_SERIES = "several_series"
#: The value is NaN or infinite.
NOT_A_NUMBER = "not_a_number"
#: No collection found a series for the subject.
MISSING = "missing"
STATES = (OK, OLD, OUT_OF_RANGE, SEVERAL_SERIES, NOT_A_NUMBER, MISSING)

#: Maximum number of names in a report.
MAX_EXAMPLES = 20
#: Maximum length of a label in a report.
_MAX_LABEL = 255


#: The first and last time of the values of a query, and the number of old values.
Times = tuple[datetime | None, datetime | None, int]


@dataclass(frozen=True, slots=True)
class LoadQuery:
    """A PromQL query, with the label that names the subject of a series."""

    kind: str
    name: str
    expression: str
    label: str

    @property
    def key(self) -> tuple[str, str]:
        """Return kind and name, which are unique."""
        return self.kind, self.name

    @property
    def option(self) -> str:
        """Return the option and the name of the query, for messages."""
        return f"[load] {self.kind}_queries, {self.name}"


@dataclass(frozen=True, slots=True)
class Series:
    """A series of an instant vector. The value may be NaN or infinite."""

    labels: Mapping[str, str]
    value: float
    time: datetime


@dataclass(frozen=True, slots=True)
class LoadValue:
    """The last value of a query for a host or server.

    ``value`` and ``smoothed`` are None unless the state is ``ok`` or ``out_of_range``.
    ``measured_at`` is the time of Prometheus' evaluation.
    """

    subject: str
    state: str
    value: float | None
    smoothed: float | None
    measured_at: datetime

    def find_state(self, now: datetime, max_age: float) -> str:
        """Return the state at a time, ``max_age`` in seconds."""
        return OLD if (now - self.measured_at).total_seconds() > max_age else self.state


@dataclass(frozen=True, slots=True)
class QueryReport:
    """The result of a query, whose PromQL is ``expression``, in a collection.

    ``error`` is the message of Prometheus or the reason why it did not answer. The other fields are
    then empty. ``without_label`` counts series that lack the label, and ``labels`` are the labels
    that they have. ``unmatched_labels`` maps labels to a host with a similar name. The lists have
    at most :data:`MAX_EXAMPLES` names.
    """

    expression: str
    collected_at: datetime
    error: str | None = None
    series: int = 0
    without_label: int = 0
    labels: Sequence[str] = ()
    matched: int = 0
    unmatched: int = 0
    unmatched_labels: Mapping[str, str | None] = field(default_factory=dict)
    missing: int = 0
    missing_names: Sequence[str] = ()
    several_series: int = 0
    not_a_number: int = 0
    out_of_range: int = 0

    def render_counts(self) -> Json:
        """Return the fields of a successful query as JSON."""
        document = asdict(self)
        for name in ("expression", "collected_at", "error"):
            del document[name]
        return document


def compute_age(moment: datetime | None, now: datetime) -> float | None:
    """Return the age of a time in seconds, rounded for clients."""
    return None if moment is None else round(max(0.0, (now - moment).total_seconds()), 3)


def evaluate_series(
    query: LoadQuery, series: Sequence[Series], subjects: Mapping[str, str], now: datetime
) -> tuple[QueryReport, list[LoadValue]]:
    """Match the series of a query to its subjects.

    ``subjects`` maps labels to names: the name and the hypervisors of each host, or the uuid of
    each server. Returns values that are not yet smoothed, a value for each matched subject.
    """
    by_subject: dict[str, list[Series]] = {}
    unmatched: set[str] = set()
    without_label: list[Series] = []
    for each in series:
        label = each.labels.get(query.label, "")
        if not label:
            without_label.append(each)
        elif (subject := subjects.get(label)) is None:
            unmatched.add(label)
        else:
            by_subject.setdefault(subject, []).append(each)
    values = [_judge(query.kind, name, items, now) for name, items in by_subject.items()]
    counts = Counter(value.state for value in values)
    missing = sorted(set(subjects.values()) - by_subject.keys())
    report = QueryReport(
        query.expression,
        now,
        series=len(series),
        without_label=len(without_label),
        labels=sorted(set().union(*(each.labels for each in without_label)))[:MAX_EXAMPLES],
        matched=len(values),
        unmatched=len(unmatched),
        unmatched_labels=_map_unmatched(query.kind, unmatched, subjects),
        missing=len(missing),
        missing_names=missing[:MAX_EXAMPLES],
        several_series=counts[SEVERAL_SERIES],
        not_a_number=counts[NOT_A_NUMBER],
        out_of_range=sum(value.value is not None and not 0 <= value.value <= 1 for value in values),
    )
    return report, values


def smooth_values(
    values: Iterable[LoadValue], previous: Mapping[str, LoadValue], half_life: float
) -> list[LoadValue]:
    """Return values with exponentially weighted averages.

    The weight of the average so far is 0.5 to the power of the elapsed time divided by
    ``half_life``, in seconds. The average starts again after a state without a value.
    """
    smoothed = []
    for each in values:
        average, last = each.value, previous.get(each.subject)
        if average is not None and half_life and last and last.smoothed is not None:
            elapsed = max(0.0, (each.measured_at - last.measured_at).total_seconds())
            weight = 0.5 ** (elapsed / half_life)
            average = weight * last.smoothed + (1 - weight) * average
        smoothed.append(replace(each, smoothed=average))
    return smoothed


def _judge(kind: str, subject: str, series: Sequence[Series], now: datetime) -> LoadValue:
    # A clock of Prometheus that is ahead must not make values younger.
    measured_at = min(now, *(each.time for each in series))
    if len(series) > 1:
        return LoadValue(subject, SEVERAL_SERIES, None, None, measured_at)
    value = series[0].value
    if not isfinite(value):
        return LoadValue(subject, NOT_A_NUMBER, None, None, measured_at)
    state = OUT_OF_RANGE if kind == HOST and not 0 <= value <= 1 else OK
    return LoadValue(subject, state, value, None, measured_at)


def _map_unmatched(
    kind: str, labels: Iterable[str], subjects: Mapping[str, str]
) -> dict[str, str | None]:
    """Map labels to similar hosts, first labels with a similar host."""
    hosts: dict[str, set[str]] = {}
    for name, host in subjects.items() if kind == HOST else ():
        hosts.setdefault(_find_stem(name), set()).add(host)
    similar = {label: hosts.get(_find_stem(label), set()) for label in labels}
    ordered = sorted(labels, key=lambda label: (len(similar[label]) != 1, label))[:MAX_EXAMPLES]
    return {
        label[:_MAX_LABEL]: min(similar[label]) if len(similar[label]) == 1 else None
        for label in ordered
    }


def _find_stem(name: str) -> str:
    """Return a name without domain and port, in lower case."""
    return name.partition(":")[0].partition(".")[0].lower()
