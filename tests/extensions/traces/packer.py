# SPDX-License-Identifier: Apache-2.0
"""A reference packer for plain flavors, by free memory."""

from dataclasses import dataclass, field


@dataclass
class PackedHost:
    """A host with its capacity and free amounts: virtual CPUs, MB and GB."""

    name: str
    capacity: tuple[int, int, int]
    memory_mb: int
    servers: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def can_take(self, size):
        used = [sum(column) for column in zip((0, 0, 0), *self.servers.values(), strict=True)]
        fits = zip(used, size, self.capacity, strict=True)
        return all(have + more <= limit for have, more, limit in fits)

    @property
    def free_memory(self):
        return self.memory_mb - sum(memory for _, memory, _ in self.servers.values())


def pack(hosts, events, flavors):
    """Place the events of a trace, and return the lines of refused requests."""
    refused, places = [], {}
    for event in events:
        (uuid,) = event.servers
        if event.kind == "delete":
            if uuid in places:
                del places.pop(uuid).servers[uuid]
            continue
        size = flavors[event.request["flavor"]]
        fitting = [host for host in hosts if host.can_take(size)]
        if not fitting:
            refused.append(event.line)
            continue
        # Of hosts with equal free memory, the first name.
        best = min(fitting, key=lambda host: (-host.free_memory, host.name))
        best.servers[uuid] = size
        places[uuid] = best
    return refused
