"""A whole cloud as one value, made in a program, and loading it as a fleet file is loaded."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.model import shape
from placement_sched.model.inventory import Inventory
from placement_sched.operations.fleet.applying import apply
from placement_sched.operations.fleet.blame import AgainstError
from placement_sched.operations.fleet.laying import laid, terms_of
from placement_sched.operations.fleet.patterns import escaped

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A host aggregate; with ``availability_zone`` in its metadata it is a zone."""

    uuid: str
    name: str
    hosts: tuple[str, ...]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An instance that is there already: on which node, whose, and what it holds by class."""

    uuid: str
    host: str
    project_id: str
    user_id: str
    flavor: Mapping[str, Any]
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """What hosts report, and what operators and users have made of them.

    ``reports`` are what hosts send (contract §4), one node to a host. ``traits`` gives the traits
    of hosts' root providers, ``inventories`` what these have beyond what reports tell, and
    ``disabled`` the reasons for which compute services are disabled; all three are by host.
    """

    reports: tuple[Json, ...]
    traits: Mapping[str, Collection[str]] = field(default_factory=dict)
    inventories: Mapping[str, tuple[Inventory, ...]] = field(default_factory=dict)
    aggregates: tuple[Aggregate, ...] = ()
    running: tuple[Running, ...] = ()
    disabled: Mapping[str, str] = field(default_factory=dict)


def load(connection: Connection, cloud: Cloud, settings: Settings, now: datetime) -> None:
    """Make a cloud within the caller's write transaction, as a fleet file that tells it does.

    Raises what the operations raise: :class:`Invalid`, :class:`Duplicate`, :class:`NotFound`,
    :class:`Conflict`.
    """
    terms = terms_of(settings, now)
    before, after = shape.read(
        lambda document: laid(connection, document, terms), document_of(cloud)
    )
    try:
        apply(connection, before, after, now, lambda _what: None, terms.policies)
    except AgainstError as against:
        raise against.cause from None


def document_of(cloud: Cloud) -> Json:
    """Return the fleet document of a cloud."""
    return {
        "aggregates": [
            {
                "name": one.name,
                "uuid": one.uuid,
                "metadata": dict(one.metadata),
                "hosts": [escaped(host) for host in one.hosts],
            }
            for one in cloud.aggregates
        ],
        "hosts": [_host(report, cloud) for report in cloud.reports],
        "services": [
            {"host": escaped(host), "status": "disabled", "disabled_reason": reason}
            for host, reason in cloud.disabled.items()
        ],
        "instances": [_instance(one) for one in cloud.running],
    }


def _host(report: Json, cloud: Cloud) -> Json:
    host = report["host"]
    entry = {key: value for key, value in report.items() if key != "hypervisor_hostname"}
    entry |= {"host": escaped(host), "node": escaped(report["hypervisor_hostname"])}
    entry["traits"] = sorted(cloud.traits.get(host, ()))
    if host in cloud.inventories:
        entry["inventories"] = {
            one.resource_class: {
                "total": one.total,
                "reserved": one.reserved,
                "min_unit": one.min_unit,
                "max_unit": one.max_unit,
                "step_size": one.step_size,
                "allocation_ratio": one.allocation_ratio,
            }
            for one in cloud.inventories[host]
        }
    return entry


def _instance(one: Running) -> Json:
    return {
        "uuid": one.uuid,
        "name": escaped(f"{one.flavor['name']}-{one.uuid[:8]}"),
        "host": escaped(one.host),
        "project": one.project_id,
        "user": one.user_id,
        "flavor": dict(one.flavor),
        "allocations": {one.host: dict(one.resources)},
    }
