"""What a cloud is, as plain values: all that a fleet file tells of it and nothing else.

Numbers of rows, generations and the times at which rows were made are not among it; when hosts were
last heard of is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.model.inventory import Inventory
from placement_sched.model.server_group import ServerGroup
from placement_sched.model.stored_image import StoredImage

#: Stands for the number of a stored flavor's row in an instance's record: the row of the flavor of
#: the same flavorid, which has another number in every database.
ITS_ROW = "row of its flavorid"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderState:
    """A resource provider and what it has; ``parent`` is a uuid, None for the root of a tree."""

    uuid: str
    name: str
    parent: str | None = None
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """A service of a host; naive UTC."""

    uuid: str
    host: str
    binary: str
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    last_seen_up: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateState:
    """A host aggregate."""

    uuid: str
    name: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorState:
    """A flavor without its row's number, and the projects that a private one is for."""

    flavor: Flavor
    projects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageState:
    """An image without its row's number and times, and its members' statuses by project."""

    image: StoredImage
    members: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerState:
    """What a consumer holds: amounts by class, by provider uuid; and whose it is."""

    uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None
    allocations: Mapping[str, Mapping[str, int]]
    #: As it was read, so that who writes sees whether somebody was faster.
    generation: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A whole cloud: each noun by what tells one from the other.

    That is flavors' ``flavorid``, services' host and binary, and the uuid of all others. Resource
    classes and traits are custom ones. Instances are without times and decision, server groups
    without their members.
    """

    resource_classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()
    flavors: Mapping[str, FlavorState] = field(default_factory=dict)
    images: Mapping[str, ImageState] = field(default_factory=dict)
    server_groups: Mapping[str, ServerGroup] = field(default_factory=dict)
    nodes: Mapping[str, ComputeNode] = field(default_factory=dict)
    services: Mapping[tuple[str, str], ServiceState] = field(default_factory=dict)
    providers: Mapping[str, ProviderState] = field(default_factory=dict)
    aggregates: Mapping[str, AggregateState] = field(default_factory=dict)
    instances: Mapping[str, Instance] = field(default_factory=dict)
    consumers: Mapping[str, ConsumerState] = field(default_factory=dict)
    #: Where a file tells a thing: the keys of its entry, by kind and what tells one from the other.
    told_at: Mapping[tuple[str, ...], tuple[str | int, ...]] = field(
        default_factory=dict, compare=False
    )
