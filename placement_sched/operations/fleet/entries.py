"""What may stand in a fleet file: the shape of every entry. ``doc/source/fleet.rst`` tells it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from placement_sched.model import shape
from placement_sched.model.inventory import Inventory
from placement_sched.model.node_report import address
from placement_sched.model.server_group import MOST_PER_HOST, POLICIES
from placement_sched.model.shape import (
    Misfit,
    Shape,
    boolean,
    integer,
    list_of,
    mapping_of,
    moment,
    nullable,
    number,
    one_of,
    record,
)
from placement_sched.model.stored_image import (
    CONTAINER_FORMATS,
    DISK_FORMATS,
    MEMBER_STATUSES,
    STATUSES,
    VISIBILITIES,
)
from placement_sched.operations.fleet import recorded
from placement_sched.operations.fleet.patterns import expand
from placement_sched.operations.fleet.written import (
    MAX_RATIO,
    consumer,
    factor,
    flavor_id,
    key,
    label,
    label_or_empty,
    member_host,
    named,
    phrase,
    plain_name,
    printable,
    properties,
    prose,
    recorded_name,
    symbol,
    word,
    zone,
)

Json = dict[str, Any]

#: Sizes of images are in bytes, in 64 bits.
_MAX_BYTES = 2**63 - 1


@contextmanager
def located(*keys: str | int) -> Iterator[None]:
    """Let a fault within be one at the value that these keys lead to."""
    try:
        yield
    except Misfit as misfit:
        raise misfit.under(*keys) from None


#: A pattern may be longer than the names it stands for.
pattern = prose()


def patterns_of(name: Shape[str]) -> Shape[list[str]]:
    """Return the shape of patterns, or lists of them, for such names; it reads the names."""

    def read(value: Any) -> list[str]:
        if not isinstance(value, list):
            return [name(one) for one in expand(pattern(value))]
        found: list[str] = []
        for index, item in enumerate(value):
            with located(index):
                found += [name(one) for one in expand(pattern(item))]
        return found

    return read


patterns = patterns_of(named)
plain_names = patterns_of(plain_name)
recorded_names = patterns_of(recorded_name)


def uuids(value: Any) -> list[str]:
    """Return the uuids that patterns stand for."""
    return [shape.uuid(one) for one in patterns(value)]


def one_for_each(values: Sequence[str], count: int) -> Sequence[str]:
    """Return as many values as there are things; one alone is for all of them."""
    if len(values) == count:
        return values
    if len(values) == 1:
        return [values[0]] * count
    raise Misfit(f"it stands for {len(values)}, and there are {count}")


def no_fewer(values: Sequence[str], count: int) -> Sequence[str]:
    """Return as many values as there are things, each for one of them."""
    if len(values) != count:
        raise Misfit(f"it stands for {len(values)}, and there are {count}")
    return values


_STOCK = record(
    {
        "total": integer(1),
        "reserved": integer(0),
        "min_unit": integer(1),
        "max_unit": integer(1),
        "step_size": integer(1),
        "allocation_ratio": number(0.0, MAX_RATIO),
    },
    required=("total",),
)


def stocks(value: Any) -> dict[str, Inventory | None]:
    """Return inventories by class; None is for a class of which there is none."""
    found: dict[str, Inventory | None] = {}
    for name, given in mapping_of(symbol, nullable(_STOCK))(value).items():
        one = None if given is None else Inventory(resource_class=name, **given)
        if one is not None and one.capacity < 0:
            raise Misfit(f"{one.reserved} is more than the total, {one.total}", name, "reserved")
        found[name] = one
    return found


def anything(value: Any) -> Any:
    """Return a value as it is."""
    return value


def providers(value: Any) -> tuple[Json, ...]:
    """Return the entries of providers, and of those below them."""
    return list_of(PROVIDER)(value)


PROVIDER: Shape[Json] = record(
    {
        "name": anything,
        "uuid": uuids,
        "inventories": stocks,
        "traits": list_of(symbol),
        "aggregates": uuids,
        "providers": providers,
    },
    required=("name",),
)
#: What an entry of a host has beside the fields of a report.
HOST: Mapping[str, Shape[Any]] = {
    "host": plain_names,
    "node": plain_names,
    "uuid": uuids,
    "host_ip": nullable(patterns_of(address)),
    "last_seen_up": moment,
    "provider": boolean,
    "inventories": stocks,
    "traits": list_of(symbol),
    "provider_aggregates": uuids,
    "providers": providers,
}
SERVICE = record(
    {
        "host": plain_names,
        "binary": label,
        "uuid": uuids,
        "status": one_of(("enabled", "disabled")),
        "disabled_reason": nullable(named),
        "forced_down": boolean,
        "last_seen_up": nullable(moment),
    },
    required=("host",),
)
FLAVOR = record(
    {
        "name": label,
        "id": flavor_id,
        "vcpus": integer(1),
        "memory_mb": integer(1),
        "root_gb": integer(),
        "ephemeral_gb": integer(),
        "swap": integer(),
        "rxtx_factor": factor,
        "is_public": boolean,
        "description": nullable(printable),
        "extra_specs": mapping_of(key, word),
        "projects": list_of(label),
    },
    required=("name",),
)
IMAGE = record(
    {
        "name": nullable(word),
        "id": shape.uuid,
        "status": one_of(STATUSES),
        "visibility": one_of(VISIBILITIES),
        "owner": nullable(word),
        "size": nullable(integer(0, _MAX_BYTES)),
        "virtual_size": nullable(integer(0, _MAX_BYTES)),
        "disk_format": nullable(one_of(DISK_FORMATS)),
        "container_format": nullable(one_of(CONTAINER_FORMATS)),
        "min_ram": integer(),
        "min_disk": integer(),
        "protected": boolean,
        "os_hidden": boolean,
        "tags": list_of(label_or_empty),
        "properties": properties,
        "members": mapping_of(label, one_of(MEMBER_STATUSES)),
    }
)
SERVER_GROUP = record(
    {
        "name": label,
        "uuid": shape.uuid,
        "policy": one_of(POLICIES),
        "rules": record({MOST_PER_HOST: integer(1)}),
        "project": nullable(word),
        "user": nullable(word),
    },
    required=("name",),
)
AGGREGATE = record(
    {
        "name": label,
        "uuid": shape.uuid,
        "availability_zone": zone,
        "metadata": mapping_of(key, word),
        "hosts": patterns_of(member_host),
    },
    required=("name",),
)
_AMOUNTS = mapping_of(named, mapping_of(symbol, integer(1)))
_OWNER: Mapping[str, Shape[Any]] = {
    "project": named,
    "user": named,
    "type": nullable(symbol),
}


def _whole_or_named(whole: Shape[Json]) -> Shape[Json | str]:
    """Return the shape of flavors or images given whole, or what names a stored one."""

    def read(value: Any) -> Json | str:
        return whole(value) if isinstance(value, dict) else named(value)

    return read


INSTANCE = record(
    {
        "name": recorded_names,
        "uuid": uuids,
        "host": nullable(recorded_names),
        "node": nullable(recorded_names),
        "project": nullable(recorded_name),
        "user": nullable(recorded_name),
        "vm_state": nullable(phrase),
        "task_state": nullable(phrase),
        "flavor": nullable(_whole_or_named(recorded.FLAVOR)),
        "image": nullable(_whole_or_named(recorded.IMAGE)),
        "server_group": nullable(named),
        "allocations": _AMOUNTS,
        "consumer": record(_OWNER),
    }
)
CONSUMER = record(
    {"consumer": consumer, **_OWNER, "allocations": _AMOUNTS},
    required=("consumer", "project", "user", "allocations"),
)
