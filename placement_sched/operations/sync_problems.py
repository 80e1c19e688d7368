"""What can be in the way of synchronising, in words and with nova-manage's codes."""

from collections.abc import Callable, Iterable, Iterator

from placement_sched.errors import ServiceFailed
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_map import HostMap
from placement_sched.model.sync import Changed, Code, Problem


def hosts_without_provider(
    hosts: HostMap, aggregates: Iterable[HostAggregate]
) -> tuple[list[Problem], list[Problem]]:
    """Return which hosts of aggregates have several compute nodes, and which have none."""
    several, lacking = [], []
    for host in sorted({host for one in aggregates for host in one.hosts}):
        number = len(hosts.nodes.get(host, ()))
        if number > 1:
            several.append(
                Problem(
                    Code.SEVERAL_NODES,
                    host,
                    f"host {host} has {number} compute nodes, and which of their providers is "
                    "meant cannot be told; openstack resource provider aggregate set can",
                )
            )
        elif number == 0 and host in hosts.known:
            lacking.append(
                Problem(Code.NO_NODE, host, f"host {host} has a service, but no compute node")
            )
        elif number == 0:
            lacking.append(
                Problem(
                    Code.HOST_UNKNOWN,
                    host,
                    f"host {host} is known by its aggregates only: no service reports from it",
                )
            )
    return several, lacking


def of_changes(changed: Changed, named: Callable[[str], str], what: str) -> Iterator[Problem]:
    """Yield what kept providers from being changed; ``named`` gives the host of one."""
    for uuid in changed.missing:
        host = named(uuid)
        yield Problem(
            Code.NO_PROVIDER,
            host,
            f"host {host} has no resource provider: placement knows none with uuid {uuid}",
        )
    for uuid, reason in changed.failed.items():
        host = named(uuid)
        yield Problem(
            Code.UPDATE_FAILED,
            host,
            f"host {host} (provider {uuid}) could not be changed for {what}: {reason}",
        )


def stopped(failure: ServiceFailed) -> Problem:
    """Return that placement failed; raise the failure again where it is another service's."""
    if failure.service != "placement":
        raise failure
    return Problem(Code.PLACEMENT_FAILED, "placement", failure.detail)
