"""How CPUs and memory of an instance are spread over its NUMA nodes.

Source: nova's documentation, "CPU topologies" ("Customizing instance NUMA placement policies").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from placement_sched.errors import Invalid
from placement_sched.model.cpu_set import MOST_CPUS
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.image_properties import MOST_NUMA_NODES
from placement_sched.scheduler.hardware.both import conflict, of_flavor, of_image, place, said
from placement_sched.scheduler.hardware.cpu_set import all_cpus, cpu_set

_CPUS = f"{of_flavor('numa_cpus.N')} or {of_image('numa_cpus.N')}"
_MEM = f"{of_flavor('numa_mem.N')} or {of_image('numa_mem.N')}"


@dataclass(frozen=True, slots=True)
class Share:
    """What one NUMA node has of an instance: virtual CPUs, and memory in MB."""

    cpus: frozenset[int]
    memory: int


def node_count(flavor: Flavor, image: Image) -> int | None:
    """Return how many NUMA nodes are asked for; None where nothing is said of it.

    Raises :class:`Invalid` where both say it, or for what is no number of nodes.
    """
    by_flavor, by_image = said(flavor, image, "numa_nodes")
    if by_flavor and by_image:
        raise conflict(flavor, image, "numa_nodes", "only one of them may say it")
    nodes = by_flavor or by_image
    if nodes is None or nodes == "":
        return None
    where = place(flavor, image, "numa_nodes")
    return _whole_number(str(nodes), where)


def shares(flavor: Flavor, image: Image, nodes: int) -> tuple[Share, ...]:
    """Return what each of so many nodes has: as flavor or image spreads it, else equal shares.

    Raises :class:`Invalid` naming the key that spreads it in a way that cannot be.
    """
    cpus = _by_node(flavor, image, "numa_cpus", cpu_set)
    memory = _by_node(flavor, image, "numa_mem", _memory)
    if cpus is None and memory is None:
        return _equal_shares(flavor, image, nodes)
    if cpus is None or memory is None or not len(cpus) == len(memory) == nodes:
        raise Invalid(
            f"{_CPUS} and {_MEM} must both be there for each of the {nodes} nodes of "
            f"{of_flavor('numa_nodes')} or {of_image('numa_nodes')}, and for no other"
        )
    _check_cpus(flavor, cpus)
    if min(memory) < 0 or sum(memory) != flavor.memory_mb:
        raise Invalid(
            f"{_MEM}: {memory} must be amounts of 0 or more that sum up to the flavor's "
            f"{flavor.memory_mb} MB"
        )
    return tuple(map(Share, cpus, memory))


def _whole_number(text: str, where: str) -> int:
    """Return a number of nodes, which must be written plainly."""
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if str(number) != text or not 1 <= number <= MOST_CPUS:
        raise Invalid(f"{where}: expected a number of nodes from 1 to {MOST_CPUS}, got {text!r}")
    return number


def _by_node(
    flavor: Flavor, image: Image, key: str, read: Callable[[str, str], Any]
) -> Sequence[Any] | None:
    """Return what flavor or image says of each node from 0 on; None where neither does."""
    keys = (f"{key}.{node}" for node in range(MOST_NUMA_NODES))
    told = takewhile(lambda name: f"hw:{name}" in flavor.extra_specs, keys)
    by_flavor = [read(flavor.extra_specs[f"hw:{name}"], of_flavor(name)) for name in told]
    by_image: Sequence[Any] | None = image.properties.get(f"hw_{key}")
    if by_flavor and by_image is not None:
        raise Invalid(
            f"{of_flavor(f'{key}.0')} and {of_image(f'{key}.0')}: only one of them may say it"
        )
    return by_flavor or by_image


def _memory(text: str, where: str) -> int:
    """Return an amount of memory in MB."""
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{where}: expected an amount of MB, got {text!r}") from None


def _equal_shares(flavor: Flavor, image: Image, nodes: int) -> tuple[Share, ...]:
    if flavor.vcpus % nodes or flavor.memory_mb % nodes:
        raise Invalid(
            f"{place(flavor, image, 'numa_nodes')}: {flavor.vcpus} vcpus and {flavor.memory_mb} MB "
            f"are not {nodes} equal shares; spread them by {_CPUS} and {_MEM}"
        )
    every, width = sorted(all_cpus(flavor)), flavor.vcpus // nodes
    return tuple(
        Share(frozenset(every[node * width : (node + 1) * width]), flavor.memory_mb // nodes)
        for node in range(nodes)
    )


def _check_cpus(flavor: Flavor, by_node: Sequence[frozenset[int]]) -> None:
    """Raise :class:`Invalid` unless each CPU of the flavor, and no other, is of one node."""
    every, named = all_cpus(flavor), frozenset().union(*by_node)
    if not named <= every:
        raise Invalid(f"{_CPUS}: there is no CPU {min(named - every)} in {flavor.vcpus} vcpus")
    if len(named) < sum(map(len, by_node)):
        raise Invalid(f"{_CPUS}: a CPU is on two nodes")
    if named != every:
        raise Invalid(f"{_CPUS}: CPU {min(every - named)} is on no node")
