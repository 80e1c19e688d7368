# SPDX-License-Identifier: Apache-2.0
"""Sentences of suggested changes, by action and kind of rejection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placement_sched.explain.kinds import KINDS, apply_text, format_option
from placement_sched.explain.phrases import describe_traits
from placement_sched.model.document import Json
from placement_sched.model.names import format_count, join_words
from placement_sched.model.rejection import SuggestedChange

#: Units of the amounts of a resource class.
_UNITS = {"MEMORY_MB": " MB", "DISK_GB": " GB"}


def build_change(
    action: str,
    values: Mapping[str, Any] | None = None,
    *,
    kind: str = "",
    host: Mapping[str, Any] | None = None,
    spec: Any = None,
    **shown: Any,
) -> SuggestedChange:
    """Build a change with its sentence.

    ``kind`` is the kind of rejection that the change avoids, if the action has a sentence for each
    kind. ``shown`` are further values that only the sentence needs.
    """
    values = values or {}
    words = format_advice(f"{action} {kind}".strip(), {**values, **shown})
    return SuggestedChange(action, words, values, host or {}, spec)


def format_advice(name: str, values: Json) -> str:
    """Return the sentence of an action, or of an action and a kind."""
    return apply_text(ADVICE[name], values)


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


def _build_extra_spec_advice(otherwise: str) -> str:
    return f"remove extra spec {{names}} from the flavor, or {otherwise}"


#: The steps that make a host's service up.
_STEPS = {
    "enable_service": "enable its compute service",
    "report_in": "make it report again",
    "unset_forced_down": "unset forced_down of its compute service",
}


def _join_steps(values: Json) -> str:
    return " and ".join(_STEPS[step] for step in values["steps"])


#: The sentences, by action or by action and kind.
ADVICE: Mapping[str, str | Callable[[Json], str]] = {
    # Of constraints of the search.
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
    "change_request": lambda values: (
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
    "require_traits": lambda values: f"require {describe_traits(values['traits'])}",
    "raise_option limit": lambda values: (
        f"raise {format_option(values)}, or name the host in the request"
    ),
    "enable_service": _join_steps,
    "drop_constraint": lambda values: apply_text(KINDS[values["kind"]].advice, values),
    # Of the hosts and cells that the request names.
    "change_request ignore_hosts": "do not ignore it",
    "change_request requested_hosts": "name this host in the request, or none",
    "change_request requested_cell": "name its cell {cell}, or none",
    "enable_cell": "enable its cell {cell}",
    # Of host filters.
    "change_request aggregate_flavors": lambda values: (
        f"request flavor {' or '.join(values['flavors'])}"
        + (
            f", or add {values['flavor']} to instance_type of the host's aggregates"
            if values["flavor"]
            else ""
        )
    ),
    "change_request availability_zone": "request zone {availability_zone}",
    "change_request memory_mb": "request at most {memory_mb} MB of memory",
    "change_request retry": "remove the host from the request's retry hosts",
    "change_request root_gb": "request at most {root_gb} GB of root disk",
    "change_request vcpus": "request at most {vcpus} VCPU",
    "change_image_properties aggregate_image_property": lambda values: (
        "use an image with "
        + "; ".join(f"{key} {' or '.join(texts)}" for key, texts in values["allowed"].items())
    ),
    "change_image_properties image_property": lambda values: (
        f"use an image for {' or '.join(values['supported']) or 'no hypervisor'}"
    ),
    "drop_extra_specs aggregate_extra_spec": _build_extra_spec_advice(
        "add them to the host's aggregate metadata"
    ),
    "drop_extra_specs extra_spec": _build_extra_spec_advice("make the host report matching values"),
    "drop_extra_specs trust_level": _build_extra_spec_advice(
        "have the host attested at that level"
    ),
    "drop_hint": "remove the scheduler hint {hint} from the request",
    "drop_numa_topology": (
        "request no NUMA topology, or free capacity on the NUMA nodes of the host"
    ),
    "drop_pci_requests": "free such PCI devices on the host, or request none",
    "leave_group affinity": (
        "request an instance outside the server group, or move its members to this host"
    ),
    "leave_group topology_spread": "request an instance outside the server group",
    "raise_option": "raise {option} to {value}",
    "raise_rule": (
        "move a member of the server group away, or raise max_server_per_host to "
        "{max_server_per_host}"
    ),
    "raise_skew": "raise max_skew to {max_skew}",
    "remove_instances max_instances": "wait for or move away {instances} of the instances",
    "remove_instances max_io_ops": (
        "wait for or move away {instances} of the instances that are busy with disks"
    ),
    "remove_instances other_flavors": lambda values: (
        f"move away {format_count(values['instances'], 'instance')} of other flavors"
    ),
    "report_in": _join_steps,
    "report_metrics": "make the host report {names}",
    "set_option isolated_host": "use an isolated image, or remove {name} from isolated_hosts",
    "set_option isolated_image": (
        "add {name} to isolated_hosts, or use an image other than {image}"
    ),
    "tag_aggregate maximum": "raise {key} to {value} in the metadata of the host's aggregates",
    "tag_aggregate project": lambda values: (
        f"add project {values['project']} to {values['key']} of the host's aggregates"
        if values["project"]
        else f"request it for a project in {values['key']} of the host's aggregates"
    ),
    "unset_forced_down": _join_steps,
}
