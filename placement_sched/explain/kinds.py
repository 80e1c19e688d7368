# SPDX-License-Identifier: Apache-2.0
"""Kinds of rejections, with the sentences about each kind.

:mod:`placement_sched.explain.phrases` builds the sentences of explanations from them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from placement_sched.explain.amounts import format_amount, format_class
from placement_sched.explain.nested_values import AnyNumber
from placement_sched.model.clock import format_duration
from placement_sched.model.constraint import OTHER_TREE
from placement_sched.model.document import Json
from placement_sched.model.names import format_count, read_uuid, suggest_names

#: A format string for values, or a function of them.
Text = str | Callable[[Json], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """The sentences about a kind of rejection.

    Each text is a format string for the values, or a function of the values. ``reason`` ends "the
    host is rejected:". ``short`` is for a narrow column of the console. ``clause`` ends "the host
    would fit, but", and ``clauses`` does so for several hosts. ``drop`` ends "would fit without".
    Kinds of constraints also have ``detail``, the requested value, and ``advice``, which suggests a
    request without the constraint. ``intro`` precedes the reasons of the ``parts`` of a rejection.
    """

    reason: Text
    short: Text = ""
    clause: Text = ""
    clauses: Text = ""
    drop: Text = ""
    detail: Text = ""
    advice: Text = ""
    intro: Text = ""


def apply_text(text: Text, values: Json) -> str:
    """Return a text of a kind for the values of a rejection."""
    return text(values) if callable(text) else text.format_map(values)


def format_option(values: Json) -> str:
    """Return the name of an option, and the source of its value if overridden."""
    source = values.get("option_source")
    return f"{values['option']} (set in {source})" if source else str(values["option"])


def _name(key: str, text: str) -> Callable[[Json], str]:
    """Return a text with the names under ``key``: any of them, or all."""
    return lambda values: text.format(any=" or ".join(values[key]), all=",".join(values[key]))


def _count(key: str, noun: str, text: str) -> Callable[[Json], str]:
    """Return a text that begins with the number under ``key`` and its noun."""
    return lambda values: text.format(format_count(values[key], noun), **values)


def _format_trait_detail(values: Json) -> str:
    names = values["traits"]
    return str(names[0]) if len(names) == 1 else f"in:{','.join(names)}"


def _describe_shortage(values: Json) -> str:
    name, requested = values["resource_class"], values["requested"]
    if "unit" in values:
        return _describe_host_shortage(values)
    if "amounts" in values:  # providers that do not serve together
        amounts = " + ".join(map(str, values["amounts"]))
        free = ", ".join(map(str, values["free_amounts"])) + (", ..." if values["more"] else "")
        return f"{name}: {amounts} requested, free on each provider: {free}"
    if "total" not in values:
        return f"{name}: {values['free']} free of {values['capacity']}, {requested} requested"
    if values["reserved"] >= values["total"] > 0:
        return f"{name}: all {values['total']} reserved, {requested} requested"
    numbers = "total {total}, reserved {reserved}, allocation_ratio {allocation_ratio:g}"
    return f"{name}: capacity 0 ({numbers.format_map(values)}), {requested} requested"


def _describe_cut(values: Json) -> str:
    drawn = ", drawn at random" if values.get("random") else ""
    limit = f"the limit of {format_count(values['hosts'], 'host')}{drawn}"
    return f"fits, but was cut by {limit}, set by {format_option(values)}"


def _shorten_shortage(values: Json) -> str:
    title, name = format_class(values["resource_class"]), values["resource_class"]
    words = f"not enough {title if title == name else title.lower()}"
    if "requested" not in values or "unit" in values:
        return words
    return f"{words} for {format_amount(values['requested'], name)}"


def _shorten_other_tree(values: Json) -> str:
    name = values["trees"][0]
    return "not the requested host" if read_uuid(name) else f"not {name} (requested host)"


def _prefix_root(words: Text) -> Text:
    return lambda values: ("the root " if values.get("root") else "") + apply_text(words, values)


def _describe_disabled(values: Json) -> str:
    if "disabled_reason" not in values:
        return "the root has forbidden trait COMPUTE_STATUS_DISABLED"
    reason = values["disabled_reason"]
    return f"disabled: {reason}" if reason else "disabled"


def _describe_host_shortage(values: Json) -> str:
    total, of_disk = values["total"], " of disk" * (values["resource_class"] == "DISK_GB")
    words = f"{values['requested']} {values['unit']}{of_disk} requested"
    if values["requested"] > total:
        return f"{words}, the host has {total} in all"
    # 12 digits hide rounding errors of floating point.
    return f"{words}, {values['free']:.12g} free of {total} x {values['allocation_ratio']:.12g}"


def _fill(*texts: str) -> Text:
    """Return a function that formats the first text whose values are given.

    Lists are joined. ``{others}`` is the number of names that a list leaves out, and ``{s}`` the
    plural ending for ``members``.
    """

    def describe(values: Json) -> str:
        more = f" and {values['more']} more" if "more" in values else ""
        fields: Json = {"others": more, "s": "s" * (values.get("members") != 1)}
        for key, part in values.items():
            joint = " or " if key == "requested" else ", "
            fields[key] = joint.join(map(str, part)) if isinstance(part, list) else part
        for text in texts[:-1]:
            with suppress(KeyError):
                return text.format_map(fields)
        return texts[-1].format_map({"requested": None, **fields})

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


def _describe_unknown_zone(values: Json) -> str:
    is_cut, similar_names = "more" in values, values["similar_names"]
    zones = ", ".join([*values["zones"], *(["..."] if is_cut else ())])
    hint = suggest_names("zone", similar_names) if similar_names or is_cut else ""
    return f"no aggregate has the availability zone {values['requested']!r} (zones: {zones}){hint}"


def _describe_unevaluated(values: Json) -> str:
    if "failure" in values:
        return f"later filters were not evaluated: {values['failure']}"
    words = "the reason was not evaluated"
    if values["reasons"]:
        words = "only the first reason is shown, without suggested changes"
    return (
        f"{words}: for a request of this size, all stages are evaluated for at most "
        f"{values['maximum']} rejected hosts. Name fewer hosts"
    )


def _describe_query(values: Json) -> str:
    attributes = ", ".join(f"{name} is {value}" for name, value in values["attributes"].items())
    return f"{values['requested']} does not hold: {attributes}".rstrip(": ")


def _format_nodes(ids: Sequence[int]) -> str:
    return f"NUMA node{'s' * (len(ids) != 1)} {', '.join(map(str, ids))}"


def _describe_page_shortage(values: Json) -> str:
    """Describe missing memory in pages, for a requested page size or for any."""
    size, words = values.get("page_size"), f"{values['requested']} MB requested"
    if size is not None:
        size_text = f"{size} pages" if isinstance(size, str) else f"pages of {size} KiB"
        if not values["pages"]:
            return f"{size_text} requested, the node has none"
        words = f"{values['requested']} MB in {size_text} requested"
    pages = ", ".join(
        f"{each['memory_mb']} MB in {each.get('free', each['total'])} of {each['total']} pages of "
        f"{each['size_kb']} KiB"
        for each in values["pages"]
    )
    return f"{words}, {pages} {'free' if 'free' in values['pages'][0] else 'in all'}"


def _join_places(places: Sequence[Json], key: str) -> str:
    return ", ".join(f"{each[key]} at {_format_nodes(each['host_nodes'])}" for each in places)


def _describe_far_networks(values: Json) -> str:
    places = [_join_places(values["networks"], "name")] if values["networks"] else []
    if "tunnels" in values:
        places.append(f"tunnels at {_format_nodes(values['tunnels'])}")
    return f"the NUMA nodes with enough capacity lack requested networks: {', '.join(places)}"


_OVERCOMMIT = "free of {total} x {allocation_ratio:.12g}"
#: The reasons of ``numa_topology``, by cause. The first group is about the whole host.
NUMA_CAUSES: Mapping[str, Text] = {
    "threads": "thread policy require requested, no core of the host has several threads",
    "nodes": lambda values: (
        f"{format_count(values['requested'], 'NUMA node')} requested, the host "
        + (f"has {values['actual']}" if values["actual"] else "reports no NUMA topology")
    ),
    "arrangement": lambda values: (
        "the NUMA nodes of the instance do not fit all at once: "
        + "; ".join(
            f"node {each['instance_node']} only on {_format_nodes(each['host_nodes'])}"
            for each in values["options"]
        )
    ),
    "devices": lambda values: (
        f"{format_count(values['requested'], 'PCI request')} cannot be served near NUMA nodes with "
        "enough capacity. Free devices: "
        + (_join_places(values["devices"], "count") or "none at any node")
    ),
    "networks": _describe_far_networks,
    "candidates": "no allocation candidate remains",
    # About NUMA nodes of the host.
    "memory": _fill(
        f"{{requested}} MB requested, {{free:.12g}} MB {_OVERCOMMIT}",
        "{requested} MB requested, {free} of {total} MB free",
        "{requested} MB requested, {total} of {total} MB in all",
    ),
    "pages": _describe_page_shortage,
    "shared_cpus": _fill(
        f"{{requested}} shared CPUs requested, {{free:.12g}} {_OVERCOMMIT}",
        "{requested} shared CPUs requested, {total} in all",
    ),
    "no_dedicated_cpus": "CPU policies require pinned CPUs, none requested",
    "dedicated_cpus": _fill(
        "{requested} dedicated CPUs and {emulator_cpus} for the emulator requested, {free} of "
        "{total} dedicated CPUs free",
        "{requested} dedicated CPUs requested, {free} of {total} dedicated CPUs free",
    ),
    "sibling_threads": "{requested} dedicated CPUs on sibling threads requested, {free} free",
    "reported_cores": "{requested} dedicated CPUs on reported cores requested, {free} free",
    "separate_cores": "{requested} dedicated CPUs on separate cores requested, {free} cores free",
    "isolated_threads": "thread policy isolate requested, cores have several threads",
    "emulator_cpus": "{requested} dedicated CPUs for the emulator requested, {free} free",
}


def _describe_numa_shortage(values: Json) -> str:
    words = apply_text(NUMA_CAUSES[values["cause"]], values)
    if "host_nodes" in values:
        return f"{_format_nodes(values['host_nodes'])}: {words}"
    if not values.get("incomplete"):
        return words
    return (
        f"{words}. Not all sets of NUMA nodes were tried, since the search for a request is bounded"
    )


def _describe_specs(values: Json) -> str:
    specs = " or ".join(
        ", ".join(f"{key} {value}" for key, value in spec.items()) for spec in values["specs"]
    )
    return f"{values['devices']} {f'with {specs}' if any(values['specs']) else 'as specified'}"


def _describe_providers(values: Json) -> str:
    providers = ", ".join(f"{each['devices']} of {each['uuid']}" for each in values["providers"])
    return f"{values['devices']} of the allocation candidate's providers ({providers})"


#: The numbers of PCI devices that remain after each condition.
_CONDITIONS: Mapping[str, Text] = {
    "free": "{devices} free",
    "specs": _describe_specs,
    "numa_policy": _fill("{devices} near enough to NUMA nodes {host_nodes} (policy {policy})"),
    "type": "{devices} without unrequested physical functions and vdpa devices",
    "management": "{devices} without unrequested remote managed devices",
    "providers": _describe_providers,
    "live_migration": "{devices} live migratable",
    "one_pool": "but devices of one resource provider are in several pools",
}


def _describe_devices(values: Json) -> str:
    requester = f"PCI alias {values['alias']}" if "alias" in values else f"port {values['port']}"
    conditions = values["conditions"]
    numbers = ", ".join(apply_text(_CONDITIONS[each["condition"]], each) for each in conditions)
    devices = format_count(values["requested"], "device")
    return f"{devices} for {requester} requested: {numbers}"


#: The reasons of ``pci_device``, by cause.
PCI_CAUSES: Mapping[str, Text] = {
    "no_report": "{requested} PCI devices requested, the host reports none",
    "no_candidate": "no allocation candidate of the host remains",
    "devices": _describe_devices,
}
_AMOUNT = "{resource_class}:{requested}"
_UNIT = "{{resource_class}}: {}, {{requested}} requested"
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
    "allocation_unit": Kind(
        _fill(
            _UNIT.format("at most {max_unit} in one allocation (max_unit)"),
            _UNIT.format("at least {min_unit} in one allocation (min_unit)"),
            _UNIT.format("only in steps of {step_size} (step_size)"),
        ),
        _shorten_shortage,
    ),
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
    OTHER_TREE: Kind(
        "not in the tree of {tree_name}",
        _shorten_other_tree,
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
    "candidates": Kind("the filters removed all its allocation candidates"),
    "not_evaluated": Kind(_describe_unevaluated),
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
        "aggregate is for other flavors",
        "flavor {requested} requested, the host is for {actual}",
        "a flavor without a name requested, the host is for {actual}",
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
    "closed_cell": _build_kind(
        "",
        "the database of cell {title} has not answered for {away_s} s: {failure}",
        "the database of cell {title} has not answered for {away_s} s",
        "its cell is disabled",
    ),
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
        _count("actual", "instance", "{} there, the maximum is {maximum}"), "too many instances"
    ),
    "max_io_ops": Kind(
        _count("actual", "instance", "{} busy with disks, the maximum is {maximum}"),
        "too many instances with heavy I/O",
    ),
    "missing_metrics": _build_kind(
        "lacks a metric that is weighed", "metrics not reported: {metrics}{others}"
    ),
    "never_reported": _build_down_kind("no heartbeat ever", "has never reported"),
    "numa_topology": Kind(
        _describe_numa_shortage,
        "NUMA topology does not fit",
        intro="NUMA node {instance_node} of the instance fits on no NUMA node of the host: ",
    ),
    "other_flavors": _build_kind(
        "has instances of other flavors",
        "flavor {requested} requested, the host has instances of {actual}",
        "a flavor without a name requested, the host has instances of {actual}",
    ),
    "other_host": Kind(_OTHER_HOST, clause=_OTHER_HOST),
    "pci_device": Kind(
        lambda values: apply_text(PCI_CAUSES[values["cause"]], values),
        "no such PCI device is free",
        intro="none of {candidates} allocation candidates fits, the first: ",
    ),
    "project": _build_kind(
        "aggregate is for other projects",
        "requested by project {requested}, the host is for {projects}{others}",
        "requested without a project, the host is for {projects}{others}",
    ),
    "query": Kind(_describe_query, "the query hint excludes it"),
    "retry": Kind(_count("hosts", "host", "already tried ({} so far)"), "tried before"),
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
        "{requested} requested, the host is {actual}: {option} is not set",
        "{requested} requested, the host is {actual}: the attestation service does not list it",
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
    "unknown_zone": Kind(_describe_unknown_zone, "no such zone"),
}
