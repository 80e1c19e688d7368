# SPDX-License-Identifier: Apache-2.0
"""Reasons why names of nova are missing, and the errors of their reads."""

from collections.abc import Callable

from placement_sched.model.document import build_plain_error
from placement_sched.scheduler.plugin import PAGE, record_missing

#: Why a name is missing, by the beginning of the name.
_REASONS = {
    "nova.virt": "it controls hypervisors, and the scheduler runs on none",
    "nova.pci": "its devices are attributes of host_state.pci_stats",
    "nova.compute": "it is part of compute services, and the scheduler runs on none",
    "nova.compute.provider_tree": "plugins can only read the providers of a tree",
    "nova.context.RequestContext": "plugins get the user, project and roles, but no token",
    "nova.network": "it calls neutron with the token of a user",
    "nova.volume": "it calls cinder with the token of a user",
    "nova.image": "it calls glance with the token of a user",
    "nova.db": "only the functions that the guide lists are provided, without a session",
    "nova.objects": "only a part of hosts, instances, aggregates and groups is recorded",
    "nova.objects.Flavor": "the request has only a part of its flavor",
    "nova.objects.flavor": "the request has only a part of its flavor",
    "SchedulerReportClient": "plugins can only read placement, by methods that the guide lists",
}
#: The names of nova's classes whose counterparts have another name.
_NOVA_NAMES = {
    "HostAggregate": "Aggregate",
    "HostInstance": "Instance",
    "Image": "ImageMeta",
    "Limits": "SchedulerLimits",
    "Metric": "MonitorMetric",
    "MetricList": "MonitorMetricList",
    "RequestContext": "context.RequestContext",
    "RequestedGroup": "RequestGroup",
    "Retry": "SchedulerRetries",
    "ServerGroup": "InstanceGroup",
    "ServiceRecord": "Service",
    "TriedHost": "ComputeNode",
}
_FORK = "it is not part of the interface of plugins, or belongs to a fork of nova"


def describe_missing(name: str) -> str:
    """Build the message with the reason why a name of nova is not provided."""
    prefixes = [prefix for prefix in _REASONS if f"{name}.".startswith(f"{prefix}.")]
    reason = _REASONS[max(prefixes, key=len)] if prefixes else _FORK
    return f"{name} is not provided here: {reason} (see {PAGE})"


def build_missing_error(
    name: str, build_error: Callable[[str], Exception] = AttributeError
) -> Exception:
    """Record that a plugin reads a missing name, and return the error."""
    problem = describe_missing(name)
    record_missing(name, problem)
    return build_error(problem)


def build_attribute_error(kind: type, name: str) -> Exception:
    """Record that a plugin reads a missing attribute, and return the error.

    ``kind`` is the class with or without an instance. Private names are not recorded.
    """
    if name.startswith("_"):
        return build_plain_error(kind, name)
    nova_name = _NOVA_NAMES.get(kind.__name__, kind.__name__)
    package = "nova" if "." in nova_name else "nova.objects"
    return build_missing_error(f"{package}.{nova_name}.{name}")
