"""PCI devices that an instance is to be given (nova's InstancePCIRequest attribute names)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from placement_sched.model.nova_object import NovaObject


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePCIRequest(NovaObject):
    """``count`` devices, each of which is as one of ``spec`` says.

    ``requester_id`` is the port that they are for, of which the alias name is None.
    ``numa_policy`` says how near they must be: ``required``, ``legacy``, ``preferred`` or
    ``socket``.
    """

    FLAVOR_ALIAS: ClassVar[int] = 0
    NEUTRON_PORT: ClassVar[int] = 1

    count: int
    spec: tuple[Mapping[str, Any], ...] = ()
    alias_name: str | None = None
    request_id: str | None = None
    requester_id: str | None = None
    numa_policy: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the request that a JSON object describes."""
        return cls(
            count=document["count"],
            spec=tuple(document.get("spec") or ()),
            alias_name=document.get("alias_name"),
            request_id=document.get("request_id"),
            requester_id=document.get("requester_id"),
            numa_policy=document.get("numa_policy"),
        )

    @property
    def source(self) -> int:
        """Return who asks: the flavor, by an alias, or a port, which has none."""
        return self.NEUTRON_PORT if self.alias_name is None else self.FLAVOR_ALIAS

    def is_live_migratable(self) -> bool:
        """Return whether every device that will do can move with a running instance."""
        return all(spec.get("live_migratable") == "true" for spec in self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePCIRequests(NovaObject):
    """Every PCI device that an instance is to be given; true even where it is none, as in nova."""

    requests: tuple[InstancePCIRequest, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the requests that a request's JSON object (contract, ``pci_requests``) gives."""
        return cls(
            requests=tuple(
                InstancePCIRequest.from_document(request) for request in document["requests"]
            )
        )
