# SPDX-License-Identifier: Apache-2.0
"""Sentences of explanations, by kind of rejection.

The functions take values: the keys of a step, a rejection or a near miss in JSON, as
``Constraint.as_json`` and ``Rejection.as_json`` return them. A server, the command line and the
console therefore build the same sentences. ``names`` maps uuids to names that replace them. An
entry of an unknown kind, from a newer server or an old record, keeps its text.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from placement_sched.explain.nested_values import (
    AnyNumber,
    Names,
    merge_values,
    replace_numbers,
    with_names,
)
from placement_sched.model.amounts import format_amount, format_class
from placement_sched.model.clock import format_duration
from placement_sched.model.document import Json
from placement_sched.model.names import join_words
from placement_sched.model.rejection import COMPUTE_NODES, OTHER, USED_UP, Rejection

_Text = str | Callable[[Json], str]
#: Maximum number of characters of a subject, as in the table of decisions.
MAX_SUBJECT = 255


@dataclass(frozen=True, slots=True)
class Kind:
    """The sentences about a kind of rejection.

    Each text is a format string for the values, or a function of the values. ``reason`` ends "the
    host is rejected:". ``short`` is for a narrow column of the console. ``clause`` ends "the host
    would fit, but", and ``clauses`` does so for several hosts. ``drop`` ends "would fit without".
    Kinds of constraints also have ``detail``, the requested value, and ``advice``, which suggests a
    request without the constraint.
    """

    reason: _Text
    short: _Text = ""
    clause: _Text = ""
    clauses: _Text = ""
    drop: _Text = ""
    detail: _Text = ""
    advice: _Text = ""


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


def _apply(text: _Text, values: Json) -> str:
    return text(values) if callable(text) else text.format_map(values)


def format_detail(values: Json) -> str:
    """Return the requested value of a constraint, with its group."""
    kind = KINDS.get(values.get("kind", ""))
    if kind is None or not kind.detail:
        return str(values.get("detail", ""))
    return _apply(kind.detail, values) + _format_group(values)


def format_label(values: Json) -> str:
    """Return the name of a step: the constraint and its detail."""
    return f"{values['constraint']} {format_detail(values)}".strip()


def format_title(values: Json) -> str:
    """Return the name of a step without the requested amount, to group steps."""
    if "resource_class" not in values:
        return format_label(values)
    return f"{values['constraint']} {values['resource_class']}{_format_group(values)}"


def format_reason(values: Json) -> str:
    """Return the reason of a rejection.

    The text ``reason`` in ``values`` is returned for kinds without a sentence.
    """
    kind = KINDS.get(values.get("kind", ""))
    if kind is None or not kind.reason:
        return str(values.get("reason", ""))
    if parts := values.get("parts"):
        more = f"; and {values['more']} more" if values.get("more") else ""
        return "; ".join(format_reason(part) for part in parts) + more
    return _add_provider(values, _apply(kind.reason, values))


def _add_provider(values: Json, words: str) -> str:
    """Add the providers of a tree that a reason is about."""
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
    """Return the values of a reason, or its text if they do not make it.

    A plugin or another release may have other values for a kind.
    """
    values = {key: value for key, value in entry.items() if key not in {"host", "node"}}
    with suppress(KeyError, LookupError, TypeError, ValueError):
        if format_reason(values) == entry["reason"] and KINDS[entry["kind"]].reason:
            return {key: value for key, value in values.items() if key != "reason"}
    return {"reason": entry["reason"]}


def format_clause(stage: str, values: Json, *, several: bool) -> str:
    """Return a clause such as ``RamFilter rejects it``, or its plural."""
    kind = KINDS.get(values.get("kind", ""))
    if several:
        text = kind and (kind.clauses or kind.clause)
        return _apply(text, values) if text else f"{stage} rejects them"
    if kind and kind.clause:
        return _apply(kind.clause, values)
    return f"{stage} rejects it: {format_reason(values)}"


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
            droppable.append(_apply(kind.drop, named_values) + _format_group(values))
        elif text := kind.clauses if several else kind.clause:
            group = _format_group(values) if "aggregates" in values else ""
            clauses.append(_apply(text, named_values) + group)
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
    return _apply(kind.short, values) + _format_group(values) if kind and kind.short else ""


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
    return f"{format_host_count(hosts)} {disabled}{meets} {but}"


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
        f"{format_host_count(before)} can take the request, but none is a known compute node: "
        "record nova's compute nodes with placement-sched nova adopt (see the guide, "
        '"Adopt it in a running cloud", "Hosts")'
    )


def describe_limit(option: Json, cut: int) -> str:
    """Return a further sentence about hosts beyond the limit."""
    return (
        f". The limit of candidates ({format_option(option)}) had already excluded "
        f"{format_host_count(cut)}. Raise the limit, or set [placement] allocation_candidates_generation_strategy = "
        "breadth-first"
    )


def format_option(values: Json) -> str:
    """Return the name of an option, and the source of its value if overridden."""
    source = values.get("option_source")
    return f"{values['option']} (set in {source})" if source else str(values["option"])


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


def format_host_count(count: int) -> str:
    """Return a number of hosts, such as ``2 hosts``."""
    return "1 host" if count == 1 else f"{count} hosts"


def describe_traits(names: Sequence[str]) -> str:
    """Join traits for a sentence, as ``trait A`` or ``traits A and B``."""
    return f"trait{'s' * (len(names) > 1)} {join_words(names)}"


def _format_group(values: Json) -> str:
    return f" (group {values['group']})" if values.get("group") else ""


def _name(key: str, text: str) -> Callable[[Json], str]:
    """Return a text with the names under ``key``: any of them, or all."""
    return lambda values: text.format(any=" or ".join(values[key]), all=",".join(values[key]))


def _format_trait_detail(values: Json) -> str:
    names = values["traits"]
    return str(names[0]) if len(names) == 1 else f"in:{','.join(names)}"


def _describe_shortage(values: Json) -> str:
    """Describe why the requested amount exceeds the free amount."""
    name, requested = values["resource_class"], values["requested"]
    if "unit" in values:
        return _describe_host_shortage(values)
    if "amounts" in values:  # providers that do not serve together
        amounts = " + ".join(map(str, values["amounts"]))
        free = ", ".join(map(str, values["free_amounts"])) + (", ..." if values["more"] else "")
        return f"{name}: {amounts} requested, free on each provider: {free}"
    if "total" not in values:
        return f"{name}: {values['free']} free of {values['capacity']}, {requested} requested"
    total, reserved = values["total"], values["reserved"]
    if reserved >= total > 0:
        return f"{name}: all {total} reserved, {requested} requested"
    ratio = f"{values['allocation_ratio']:g}"
    numbers = f"total {total}, reserved {reserved}, allocation_ratio {ratio}"
    return f"{name}: capacity 0 ({numbers}), {requested} requested"


def _describe_cut(values: Json) -> str:
    """Describe that a host is beyond the limit of hosts."""
    drawn = ", drawn at random" if values.get("random") else ""
    limit = f"the limit of {values['hosts']} hosts{drawn}"
    return f"fits, but was cut by {limit}, set by {format_option(values)}"


def _describe_unit(values: Json) -> str:
    requested = f"{values['requested']} requested"
    if "max_unit" in values:
        words = f"at most {values['max_unit']} in one allocation (max_unit)"
    elif "min_unit" in values:
        words = f"at least {values['min_unit']} in one allocation (min_unit)"
    else:
        words = f"only in steps of {values['step_size']} (step_size)"
    return f"{values['resource_class']}: {words}, {requested}"


def _shorten_shortage(values: Json) -> str:
    title, name = format_class(values["resource_class"]), values["resource_class"]
    words = f"not enough {title if title == name else title.lower()}"
    if "requested" not in values or "unit" in values:
        return words
    return f"{words} for {format_amount(values['requested'], name)}"


def _prefix_root(words: _Text) -> _Text:
    return lambda values: ("the root " if values.get("root") else "") + _apply(words, values)


def _describe_disabled(values: Json) -> str:
    if "disabled_reason" not in values:
        return "the root has forbidden trait COMPUTE_STATUS_DISABLED"
    reason = values["disabled_reason"]
    return f"disabled: {reason}" if reason else "disabled"


def _describe_host_shortage(values: Json) -> str:
    """Describe why the requested amount exceeds the free amount of a host."""
    total, of_disk = values["total"], " of disk" * (values["resource_class"] == "DISK_GB")
    words = f"{values['requested']} {values['unit']}{of_disk} requested"
    if values["requested"] > total:
        return f"{words}, the host has {total} in all"
    # 12 digits hide rounding errors of floating point.
    return f"{words}, {values['free']:.12g} free of {total} x {values['allocation_ratio']:.12g}"


def _fill(*texts: str) -> _Text:
    """Return a function that formats the first text whose values are given.

    Lists are joined. ``{others}`` is the number of names that a list leaves out, and ``{s}`` the
    plural ending for ``members``.
    """

    def describe(values: Json) -> str:
        more = f" and {values['more']} more" if "more" in values else ""
        fields: Json = {"requested": None, "others": more, "s": "s" * (values.get("members") != 1)}
        for key, part in values.items():
            joint = " or " if key == "requested" else ", "
            fields[key] = joint.join(part) if isinstance(part, list) else part
        for text in texts[:-1]:
            with suppress(KeyError):
                return text.format_map(fields)
        return texts[-1].format_map(fields)

    return describe


def _build_kind(short: str, *texts: str) -> Kind:
    return Kind(_fill(*texts), short)


def _build_down_kind(reason: str, state: str) -> Kind:
    return Kind(reason, "down", f"its nova-compute {state}", f"their nova-compute {state}")


def _format_age(seconds: float) -> str:
    """Format an age, or the range of several ages."""
    if isinstance(seconds, AnyNumber):
        return str(seconds)
    ages = [format_duration(each) for each in getattr(seconds, "numbers", [seconds])]
    return ages[0] if ages[0] == ages[-1] else f"{ages[0]}..{ages[-1]}"


def _describe_query(values: Json) -> str:
    attributes = ", ".join(f"{name} is {value}" for name, value in values["attributes"].items())
    return f"{values['requested']} does not hold: {attributes}".rstrip(": ")


#: The keys of the subject of a rejection, in order of preference.
_SUBJECTS = ("resource_class", "traits", "aggregates", "trees", "groups", "option", "key", "filter")
#: Sentences about requests that reach no provider.
NO_HOST = {"providers": "there is no resource provider", "requested_hosts": "there is no such host"}
_AMOUNT = "{resource_class}:{requested}"
_OTHER_HOST = _fill("the request names cell {cell}", "the request names other hosts")
_FOUND = "{key}: {requested!r} requested, {actual} found"
_IGNORED = "ignore_hosts of the request names {}"
#: The kinds of rejections. The API reference describes their values.
KINDS: Mapping[str, Kind] = {
    # The candidate search.
    "capacity": Kind(_describe_shortage, _shorten_shortage, drop=_AMOUNT, detail=_AMOUNT),
    "no_inventory": Kind(
        "{resource_class}: none in inventory, {requested} requested", _shorten_shortage
    ),
    "allocation_unit": Kind(_describe_unit, _shorten_shortage),
    "missing_trait": Kind(
        _prefix_root(_name("traits", "lacks trait {any}")),
        _name("traits", "no {any}"),
        drop=_name("traits", "trait {any}"),
        detail=_format_trait_detail,
        advice=_name("traits", "do not require trait {any}"),
    ),
    "forbidden_trait": Kind(
        _prefix_root("has forbidden trait {traits[0]}"),
        "has {traits[0]}",
        drop="forbidding trait {traits[0]}",
        detail="!{traits[0]}",
        advice="do not forbid trait {traits[0]}",
    ),
    "disabled": Kind(
        _describe_disabled,
        "disabled",
        "its nova-compute is disabled",
        "their nova-compute is disabled",
        detail="!{traits[0]}",
    ),
    "not_in_aggregate": Kind(
        _name("aggregates", "not in aggregate {any}"),
        lambda values: f"not in {', '.join(values['aggregates'])}",
        _name("aggregates", "is not in {any}"),
        _name("aggregates", "are not in {any}"),
        detail=_name("aggregates", "in:{all}"),
        advice=_name("aggregates", "do not confine the request to aggregate {any}"),
    ),
    "forbidden_aggregate": Kind(
        "in a forbidden aggregate",
        lambda values: f"reserved for other requests ({', '.join(values['aggregates'])})",
        _name("aggregates", "is in {any}"),
        _name("aggregates", "are in {any}"),
        detail=_name("aggregates", "!in:{all}"),
    ),
    "other_tree": Kind(
        "not in the tree of {tree_name}",
        "the request names another host",
        clause="the request names another host",
        clauses="the request names another host",
        detail="{trees[0]}",
        advice="name this host in the request, or no host",
    ),
    "group_policy": Kind(
        "no separate provider for each group with a suffix (group_policy=isolate)",
        drop="group_policy=isolate",
        detail="isolate",
        advice="use group_policy=none",
    ),
    "same_subtree": Kind(
        _name("groups", "no providers in one subtree (same_subtree={all})"),
        drop=_name("groups", "same_subtree={all}"),
        detail=lambda values: ",".join(values["groups"]),
        advice=_name("groups", "drop same_subtree={all}"),
    ),
    "trait_combination": Kind("no providers that have all required traits together"),
    "sharing_tree": Kind(
        "only its sharing providers can serve, and they are reported under another tree"
    ),
    "combination": Kind(
        "no providers serve all request groups and resource classes together",
        detail=lambda values: " ".join(values["rules"]),
    ),
    "limit": Kind(_describe_cut, "cut by the limit of hosts, not weighed", detail="{hosts}"),
    "changed": Kind("it changed while the request was evaluated. Try again"),
    # After the search.
    "no_compute_node": Kind("no compute node is reported under the uuid of this resource provider"),
    "used_up": Kind(
        "no capacity remains after the earlier instances of this request",
        "used up by the same request",
    ),
    "claimed": Kind("concurrent requests claimed the remaining capacity or locked the host"),
    # Host filters.
    "affinity": _build_kind(
        "the server group is on another host", "the server group is on {hosts}{others}"
    ),
    "aggregate_extra_spec": _build_kind(
        "aggregate lacks the extra specs",
        _FOUND,
        "{key}: {requested!r} requested, no aggregate of the host has it",
    ),
    "aggregate_flavors": _build_kind(
        "aggregate is for other flavors", "flavor {requested} requested, the host is for {actual}"
    ),
    "aggregate_image_property": _build_kind(
        "aggregate is for other images", "{key}: the image has {requested}, the aggregates {actual}"
    ),
    "anti_affinity": _build_kind(
        "has an instance of the server group",
        "{members} member{s} of the server group here, {maximum} allowed",
    ),
    "availability_zone": _build_kind(
        "in another zone", "zone {requested} requested, the host is in {actual}"
    ),
    "closed_cell": Kind(""),
    "different_host": _build_kind(
        "has an instance to stay away from", "different_host: the host has {instances}{others}"
    ),
    "down": Kind(
        lambda values: f"no heartbeat for {_format_age(values['actual'])}",
        "down",
        lambda values: f"its nova-compute last reported {_format_age(values['actual'])} ago",
        "their nova-compute last reported over {service_down_time} s ago",
    ),
    "extra_spec": _build_kind(
        "capabilities differ from the extra specs",
        _FOUND,
        "{key}: {requested!r} requested, the host has none",
    ),
    "failover_capacity": Kind(
        "the failover capacity allows at most {actual} more of flavor {flavor}: with {too_many}, "
        "{stuck} or more instances find no place if {domain_type} {domain} fails (computed {age_s} "
        "s ago)"
    ),
    "forced_down": _build_down_kind("forced down", "is forced down"),
    "ignored_host": Kind(
        _IGNORED.format("it"), clause=_IGNORED.format("it"), clauses=_IGNORED.format("them")
    ),
    "image_property": _build_kind(
        "cannot run the image",
        "hypervisor version {requested} requested, {hypervisor_version} found",
        "{requested} bits of physical addresses requested, {address_bits} found",
        "{requested} requested, {actual} supported",
        "{requested} requested, nothing supported",
    ),
    "isolated": _build_kind(
        "isolated for other images",
        "image {isolated_image} is isolated, the host is not",
        "the host is isolated, image {image} is not",
        "the host is isolated, a request without image is not",
    ),
    "max_instances": Kind(
        "{actual} instances there, the maximum is {maximum}", "too many instances"
    ),
    "max_io_ops": Kind(
        "{actual} instances busy with disks, the maximum is {maximum}",
        "too many instances with heavy I/O",
    ),
    "missing_metrics": _build_kind(
        "lacks a metric that is weighed", "metrics not reported: {metrics}{others}"
    ),
    "never_reported": _build_down_kind("no heartbeat ever", "has never reported"),
    "numa_topology": Kind("", "NUMA topology does not fit"),
    "other_flavors": _build_kind(
        "has instances of other flavors",
        "flavor {requested} requested, the host has instances of {actual}",
    ),
    "other_host": Kind(_OTHER_HOST, clause=_OTHER_HOST),
    "pci_device": Kind("", "no such PCI device is free"),
    "project": _build_kind(
        "aggregate is for other projects",
        "requested by project {requested}, the host is for {projects}{others}",
    ),
    "query": Kind(_describe_query, "the query hint excludes it"),
    "retry": Kind("already tried ({hosts} hosts so far)", "tried before"),
    "same_host": _build_kind(
        "lacks the instance to be with", "same_host: the host has none of {instances}{others}"
    ),
    "scheduling_policy": _build_kind("", "policy {requested} requested, the host has {actual}"),
    "subnet": _build_kind(
        "outside the network of the hint",
        "an address in {requested} requested, {actual} found",
        "an address in {requested} requested, the host reports none",
    ),
    "topology_spread": _build_kind(
        "",
        "Domain {key}={domain} has {members} member{s}, the emptiest ({emptiest}) has "
        "{fewest_members}: skew {actual} after placement exceeds max_skew {requested}",
        "no aggregate of the host has metadata {key!r}, so it is in no domain",
    ),
    "trust_level": _build_kind(
        "is not trusted",
        "{requested} requested, the host is {actual} since {since}",
        "{requested} requested, the host is {actual}: {failure}",
    ),
    # Request filters.
    "no_allowed_aggregate": Kind(
        "every aggregate with trait:{traits[0]}=required is forbidden to the request"
    ),
    "no_project_aggregate": Kind("no aggregate is tagged with project {requested!r}"),
    "routed_network": _build_kind(
        "",
        "{network}: its segment {segment} is in no aggregate",
        "the segments of {network} are not known: set [neutron] auth_type, or give them in "
        "requested_networks",
    ),
    "unknown_zone": Kind("", "no such zone"),
}
#: All kinds in ``obstacle``: a run may also find no host without a rejection of a single host.
CODES = frozenset({*KINDS, *NO_HOST, OTHER, "later_instance", "room"})

#: Units of the amounts of a resource class.
_UNITS = {"MEMORY_MB": " MB", "DISK_GB": " GB"}
#: The sentences of suggested changes, by action.
_ADVICE: Mapping[str, Callable[[Json], str]] = {
    "add_inventory": lambda values: (
        f"give {values.get('provider', 'it')} an inventory of at least "
        f"{_format_amount(values, 'total')}"
    ),
    "set_inventory": lambda values: _describe_inventory(values, ()),
    "free": lambda values: _describe_inventory(values, (f"free {_format_amount(values)}",)),
    "add_capacity": lambda values: _describe_inventory(
        values, (f"add capacity for {_format_amount(values)}",)
    ),
    "make_room": lambda values: (
        f"free {values['amount']} more of {values['resource_class']} on {values['provider']}"
    ),
    "ask_amount": lambda values: (
        f"request at {'most' if values['amount'] < values['instead_of'] else 'least'} "
        f"{values['amount']} of {values['resource_class']}"
    ),
    "ask": lambda values: (
        f"request at {'most' if values['amount'] < values['instead_of'] else 'least'} "
        f"{_format_amount(values)}"
    ),
    "remove_trait": lambda values: (
        f"remove trait {values['traits'][0]} from {values.get('provider', 'its provider')}"
    ),
    "add_trait": lambda values: (
        f"give {values.get('provider', 'its provider')} trait {' or '.join(values['traits'])}"
    ),
    "leave_aggregate": lambda values: (
        f"remove {values.get('provider', 'it')} from aggregate {_join_aggregates(values, 'and')}"
    ),
    "join_aggregate": lambda values: (
        f"add {values.get('provider', 'it')} to aggregate {_join_aggregates(values, 'or')}"
    ),
    "ask_traits": lambda values: f"require {describe_traits(values['traits'])}",
    "raise_option": lambda values: (
        f"raise {format_option(values)}, or name the host in the request"
    ),
    "enable_service": lambda _: "enable its compute service",
    "drop_constraint": lambda values: _apply(KINDS[values["kind"]].advice, values),
}


def format_advice(action: str, values: Json) -> str:
    """Return the sentence of a suggested change."""
    return _ADVICE[action](values)


def _format_amount(values: Json, key: str = "amount") -> str:
    name = values["resource_class"]
    return f"{values[key]}{_UNITS.get(name, '')} of {name}"


def _describe_inventory(values: Json, parts: Sequence[str]) -> str:
    name, units = values["resource_class"], values["units"]
    changes = " and ".join(f"{key} of {name} to {number}" for key, number in units.items())
    words = " and ".join([*parts, *([f"set {changes}"] if changes else ())])
    return f"{words} on {values['provider']}" if "provider" in values else words


def _join_aggregates(values: Json, conjunction: str) -> str:
    names = [each["name"] for each in values["aggregates"]]
    return join_words(names) if conjunction == "and" else " or ".join(names)
