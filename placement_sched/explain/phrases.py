# SPDX-License-Identifier: Apache-2.0
"""Sentences of explanations, by kind of rejection.

The functions take values: the keys of a step, a rejection or a near miss in JSON, as
``Constraint.as_json`` and ``Rejection.as_json`` return them. A server, the command line and the
console therefore build the same sentences. ``names`` maps uuids to names that replace them. An
entry of an unknown kind, from a newer server or an old record, keeps its text.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate

from placement_sched.explain.kinds import KINDS, Kind, Text, apply_text, format_option
from placement_sched.explain.nested_values import Names, merge_values, replace_numbers, with_names
from placement_sched.model.compute_node import UNKNOWN_FIELDS
from placement_sched.model.document import Json
from placement_sched.model.names import format_count, join_words
from placement_sched.model.rejection import COMPUTE_NODES, OTHER, USED_UP, Rejection

#: The keys of the subject of a rejection, in order of preference.
_SUBJECTS = ("resource_class", "traits", "aggregates", "trees", "groups", "option", "key", "filter")
#: Maximum number of characters of a subject, as in the table of decisions.
MAX_SUBJECT = 255


def describe_rejection(rejection: Rejection) -> str:
    """Return the reason of a rejection."""
    return rejection.text or format_reason(rejection.as_json())


def build_reason(rejection: Rejection) -> Json:
    """Return a rejection in JSON: kind, values and ``reason``."""
    values = rejection.as_json()
    return {**values, "reason": rejection.text or format_reason(values)}


def select_subject(values: Json) -> Json:
    """Return the kind of a rejection and its subject, without amounts."""
    return {key: values[key] for key in ("kind", *_SUBJECTS) if key in values}


def build_code(values: Json) -> str:
    """Return kind and subject as a code, such as ``capacity:MEMORY_MB``."""
    return join_code(values.get("kind", OTHER), get_subject(values))


def get_subject(values: Json) -> str:
    """Return the subject of a rejection as a text, such as ``MEMORY_MB``."""
    subject = next((values[key] for key in _SUBJECTS if key in values), "")
    return join_subject(list(map(str, subject)) if isinstance(subject, list) else [str(subject)])


def join_subject(names: Sequence[str]) -> str:
    """Join the first names that fit into the column of a decision's subject."""
    ends = accumulate(len(name) + 1 for name in names)
    fitting = [name for name, end in zip(names, ends, strict=True) if end <= MAX_SUBJECT + 1]
    return ",".join(fitting) or ",".join(names[:1])[:MAX_SUBJECT]


def join_code(kind: str, subject: str | None) -> str:
    """Join a kind and its subject to a code."""
    return f"{kind}:{subject}" if subject else kind


def describe_code(kind: str, subject: str | None, names: Names | None = None) -> str:
    """Return an operator's words for a kind and a subject, if it has any."""
    text = subject or ""
    values = {**{key: [text] for key in _SUBJECTS}, "resource_class": text, "kind": kind}
    return describe_stage(values, names)


def format_detail(values: Json) -> str:
    """Return the requested value of a constraint, with its group."""
    kind = KINDS.get(values.get("kind", ""))
    detail = _try_text(kind.detail, values) if kind else ""
    return detail + _format_group(values) if detail else str(values.get("detail", ""))


def format_label(values: Json) -> str:
    """Return the name of a step: the constraint and its detail."""
    return f"{values['constraint']} {format_detail(values)}".strip()


def format_title(values: Json) -> str:
    """Return the name of a step without the requested amount, to group steps."""
    if "resource_class" not in values:
        return format_label(values)
    return f"{values['constraint']} {values['resource_class']}{_format_group(values)}"


def format_reason(values: Json) -> str:
    """Return the reason of a rejection, or its text if the kind is unknown."""
    kind = KINDS.get(values.get("kind", ""))
    if kind is None:
        return str(values.get("reason", ""))
    words = _try_text(lambda each: _build_reason(kind, each), values)
    return words or str(values.get("reason") or build_code(values))


def _build_reason(kind: Kind, values: Json) -> str:
    if parts := values.get("parts"):
        more = f"; and {values['more']} more" if values.get("more") else ""
        return apply_text(kind.intro, values) + "; ".join(map(format_reason, parts)) + more
    return _add_provider(values, apply_text(kind.reason, values))


def _try_text(text: Text, values: Json) -> str:
    """Return a text of a kind, or an empty text if the values do not make it.

    A plugin or another release may have other values for a kind.
    """
    with suppress(AttributeError, LookupError, TypeError, ValueError):
        return apply_text(text, values)
    return ""


def _add_provider(values: Json, words: str) -> str:
    if count := values.get("provider_count"):
        return f"each of {count} providers: {words}"
    providers = list(values.get("providers", ()))
    if not providers:
        return words
    listed = join_words([*providers, *([f"{values['more']} more"] if values.get("more") else ())])
    if "resource_class" in values:
        return f"{words} on {listed}"
    several = "each of " if len(providers) > 1 and values["kind"] != "other_tree" else ""
    return f"{several}{listed}: {words}"


def merge_reasons(entries: Sequence[Json]) -> str:
    """Return a reason for rejections that differ only in numbers, as ranges."""
    return format_reason(merge_values([_select_values(each) for each in entries]))


def build_group_key(entry: Json) -> tuple[str, str]:
    """Return a key that is equal for rejections that differ only in numbers."""
    values = _select_values(entry)
    return str(values.get("kind", "")), format_reason(replace_numbers(values))


def _select_values(entry: Json) -> Json:
    """Return the values of a reason, or its text if they do not make it."""
    left_out = {"host", "node", "reason"}
    values = {key: value for key, value in entry.items() if key not in left_out}
    has_words = values.get("kind") in KINDS and format_reason(values) == entry["reason"]
    return values if has_words else {"reason": entry["reason"]}


def format_clause(stage: str, values: Json, *, several: bool) -> str:
    """Return a clause such as ``RamFilter rejects it``, or its plural."""
    kind = KINDS.get(values.get("kind", ""))
    if several:
        words = _try_text(kind.clauses or kind.clause, values) if kind else ""
        return words or f"{stage} rejects them"
    words = _try_text(kind.clause, values) if kind else ""
    return words or f"{stage} rejects it: {values.get('reason') or format_reason(values)}"


def describe_would_fit(
    constraints: Sequence[Json],
    rejections: Sequence[tuple[str, Json]],
    names: Names,
    *,
    several: bool,
) -> str:
    """Return a clause such as ``would fit without trait X, but ...``.

    ``constraints`` of the query, and ``rejections`` as pairs of stage and values, keep a host from
    fitting. With ``several``, the clause is about several hosts.
    """
    droppable, clauses = [], []
    for values in constraints:
        kind, named_values = KINDS[values["kind"]], with_names(values, names)
        if kind.drop:
            droppable.append(apply_text(kind.drop, named_values) + _format_group(values))
        elif text := kind.clauses if several else kind.clause:
            group = _format_group(values) if "aggregates" in values else ""
            clauses.append(apply_text(text, named_values) + group)
    clauses += [format_clause(stage, values, several=several) for stage, values in rejections]
    words = f"would fit without {join_words(droppable)}" if droppable else "would fit"
    return f"{words}, but {join_words(clauses)}" if clauses else words


def describe_reserved(aggregates: Sequence[str], traits: Sequence[str], *, several: bool) -> str:
    """Return a clause about hosts that only aggregates keep from fitting.

    A request with ``traits`` may use the aggregates. Without traits, they are reserved otherwise.
    """
    words = f"{'fit but are' if several else 'fits but is'} in {join_words(aggregates)}"
    if not traits:
        return words
    return f"{words}, which need{'s' * (len(aggregates) == 1)} {describe_traits(traits)}"


def describe_other_amount(values: Json) -> str:
    """Return a clause about hosts that fit another amount."""
    name, amount = values["resource_class"], values["amount"]
    return f"would fit with {name}:{amount} instead of {values['instead_of']}"


def describe_stage(values: Json, names: Names | None = None) -> str:
    """Return an operator's words for a stage, such as ``not enough memory``.

    ``values`` belong to a step, a rejection or a filter report. Returns an empty text if no kind
    has words.
    """
    entries = [values] if "kind" in values else values.get("rejected", ())
    words = map(_shorten, with_names(entries, names))
    return " or ".join(dict.fromkeys(filter(None, words)))


def _shorten(values: Json) -> str:
    kind = KINDS.get(values.get("kind", ""))
    words = _try_text(kind.short, values) if kind else ""
    return words and words + _format_group(values)


def describe_hosts_without(hosts: int, constraints: Sequence[Json], state: str = "disabled") -> str:
    """Return a sentence about hosts that fit only without constraints.

    ``hosts`` is their number. A filter may still reject them, because no filter was run on them.
    ``state`` is the word for hosts with a disabled service.
    """
    labels = [format_label(each) for each in constraints if each["kind"] != "disabled"]
    are_disabled = len(labels) < len(constraints)
    verb, meets = ("is", "meets") if hosts == 1 else ("are", "meet")
    disabled = f"{verb} {state} and " if are_disabled else ""
    but = f"all constraints but {join_words(labels)}" if labels else "all other constraints"
    return f"{format_count(hosts, 'host')} {disabled}{meets} {but}"


def describe_silent_rejection(name: str) -> str:
    """Return the reason of a filter that rejects a host without a reason."""
    return f"rejected by {name}"


def describe_unexamined(field: str, plugins: Sequence[str], hosts: int) -> str:
    """Return a warning about hosts with an unknown field in their report.

    ``plugins`` are the filters that passed these hosts, or weighers that compared no hosts.
    """
    return (
        f"{format_count(hosts, 'host')} not examined by {join_words(plugins)}: "
        f"{UNKNOWN_FIELDS.get(field, field)} are in no API"
    )


def describe_upper_bound(field: str) -> str:
    """Return why a count is an upper bound."""
    facts = UNKNOWN_FIELDS.get(field, field)
    return f"{facts} are in no API and were not examined: the number is an upper bound"


def describe_refused_claim(host: str, field: str) -> str:
    """Return why a host with an unknown field cannot be claimed."""
    facts = UNKNOWN_FIELDS.get(field, field)
    return (
        f"host {host} was not examined, because {facts} are in no API: nothing is claimed on hosts "
        "of a fetched cloud. Explain the request, or read nova's databases (placement-sched nova "
        "adopt)"
    )


def describe_rejected_request(name: str, reason: str | None) -> str:
    """Return a sentence about a request filter that rejected the request."""
    return f"{name} rejected the request: {reason}"


def describe_fit(hosts: Sequence[str], clause: str, *, exact: bool) -> str:
    """Return a sentence about hosts that would fit.

    ``clause`` ends it. If not ``exact``, there may be more such hosts.
    """
    if not exact:
        return f"at least {format_count(len(hosts), 'host')} {clause}"
    return f"{hosts[0] if len(hosts) == 1 else format_count(len(hosts), 'host')} {clause}"


def describe_last_stage(label: str, before: int) -> str:
    """Return a sentence about the stage that left no host."""
    hosts = "the last remaining host" if before == 1 else f"all {before} remaining hosts"
    return f"{label} rejected {hosts}"


def describe_last_filter(name: str, before: int) -> str:
    """Return a sentence about the filter that left no host."""
    if name == USED_UP:
        return "no host has remaining capacity"
    if name != COMPUTE_NODES:
        return describe_last_stage(name, before)
    return (
        f"{format_count(before, 'host')} can take the request, but none is a known compute node: "
        "record nova's compute nodes with placement-sched nova adopt (see the guide, "
        '"Adopt it in a running cloud", "Hosts")'
    )


def describe_limit(option: Json, cut: int) -> str:
    """Return a further sentence about hosts beyond the limit."""
    return (
        f". The limit of candidates ({format_option(option)}) had already excluded "
        f"{format_count(cut, 'host')}. Raise the limit, or set [placement] "
        "allocation_candidates_generation_strategy = breadth-first"
    )


def describe_cut_hosts(cut: int) -> str:
    """Return a sentence about the hosts that a step of kind ``limit`` cut."""
    words = "1 host fits, but was" if cut == 1 else f"{cut} hosts fit, but were"
    return f"{words} cut by the limit and not weighed"


def describe_later_instance(placed: int, requested: int, stage: str | None) -> str:
    """Return a sentence about a later instance that found no host."""
    words = "there are hosts for some of the instances, but not for all of them"
    if requested:
        words = f"{placed} of the {requested} instances {'fit' if placed > 1 else 'fits'}"
    return words if stage is None else f"{words}, and for the next instance {stage}"


def describe_room(at_most: int, instances: int) -> str:
    """Return a sentence about capacity for some of the instances."""
    return f"the hosts that passed have capacity for at most {at_most} of the {instances} instances"


def describe_traits(names: Sequence[str]) -> str:
    """Join traits for a sentence, as ``trait A`` or ``traits A and B``."""
    return f"trait{'s' * (len(names) > 1)} {join_words(names)}"


def _format_group(values: Json) -> str:
    return f" (group {values['group']})" if values.get("group") else ""


#: Sentences about requests that reach no provider.
NO_HOST = {"providers": "there is no resource provider", "requested_hosts": "there is no such host"}
#: Kinds of entries that are no rejections: obstacles, and a limit of a capacity.
FURTHER_KINDS = (*NO_HOST, "room", "later_instance", "capacity_budget")
CODES = frozenset({*KINDS, OTHER, *FURTHER_KINDS})
