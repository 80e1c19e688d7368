"""What there is to say about aggregates that are reserved by traits, before it bites."""

from dataclasses import dataclass
from enum import StrEnum

from placement_sched.model.host_aggregate import HostAggregate


class Kind(StrEnum):
    """What can be wrong; the values are what ``--format json`` has."""

    FILTER_OFF = "filter_off"
    VALUE_IGNORED = "value_ignored"
    TRAIT_UNKNOWN = "trait_unknown"
    TRAIT_UNASKED = "trait_unasked"
    OPEN_TO_NOBODY = "open_to_nobody"
    TRAIT_LACKING = "trait_lacking"
    TRAIT_OUTSIDE = "trait_outside"
    HOST_WITHOUT_PROVIDER = "host_without_provider"
    NOT_IN_PLACEMENT = "not_in_placement"
    STALE_IN_PLACEMENT = "stale_in_placement"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that keeps requests out of where they should go, or lets them in elsewhere.

    ``names`` are the hosts that it is about (the provider's name where it is no host's), in order.
    """

    kind: Kind
    detail: str
    aggregate: str | None = None
    trait: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reserved:
    """An aggregate that is reserved by traits: to which flavors and images it is open.

    Each by itself: a flavor with an image that requires nothing, an image with such a flavor.
    Names are sorted; an image without a name has its id.
    """

    aggregate: HostAggregate
    traits: tuple[str, ...]
    open_flavors: tuple[str, ...]
    forbidden_flavors: tuple[str, ...]
    open_images: tuple[str, ...]
    forbidden_images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AggregateCheck:
    """What a check of all host aggregates says.

    While not ``filtering``, the request filter is off: everybody may use everything, and what is
    ``reserved`` is how it would be.
    """

    reserved: tuple[Reserved, ...]
    findings: tuple[Finding, ...]
    filtering: bool
