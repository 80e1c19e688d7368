# SPDX-License-Identifier: Apache-2.0
"""Members of a server group by failure domain.

The rule is the rule of Kubernetes' pod topology spread constraints: the skew of a domain is its
number of members after the placement, less the smallest number of members of any eligible domain.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from placement_sched.model.preferences.requested import SpreadRequest
from placement_sched.model.verdict import Rejection

#: The failure domains of each host that is in any.
DomainsByHost = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Spread:
    """The members of a server group by domain, while instances are placed.

    ``members`` counts the members without the instances of the request, until they are placed.
    ``eligible`` are the domains whose smallest number of members counts. ``own`` has the present
    host of each instance of the request that has a host.
    """

    request: SpreadRequest
    domains_by_host: DomainsByHost
    eligible: frozenset[str]
    members: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    def with_members(self, members_by_host: Mapping[str, int]) -> Self:
        """Return a copy with the members counted on these hosts."""
        members: Counter[str] = Counter()
        for host, number in members_by_host.items():
            for domain in self.domains_by_host.get(host, ()):
                members[domain] += number
        return replace(self, members=members)

    def placed_on(self, host: str) -> Self:
        """Return a copy with another member on a host."""
        domains = self.domains_by_host.get(host, ())
        added = {domain: self.members.get(domain, 0) + 1 for domain in domains}
        return replace(self, members={**self.members, **added})

    def members_beside(self, host: str) -> int | None:
        """Return the number of members in the domain of a host, or None without a domain.

        For a host in several domains, the largest number counts.
        """
        counts = (self.members.get(domain, 0) for domain in self.domains_by_host.get(host, ()))
        return max(counts, default=None)

    def find_emptiest(self) -> tuple[int, str] | None:
        """Return the smallest number of members of eligible domains, with its domain."""
        return min(
            ((self.members.get(domain, 0), domain) for domain in self.eligible), default=None
        )

    def rejection(
        self, host: str, instance: str | None, emptiest: tuple[int, str] | None
    ) -> Rejection | None:
        """Return why the spread rejects an instance on a host, or None.

        ``emptiest`` is the result of :meth:`find_emptiest`. The present host of an instance that
        moves always passes.
        """
        if instance is not None and self.own.get(instance) == host:
            return None
        key, max_skew = self.request.key, self.request.max_skew
        domains = self.domains_by_host.get(host, ())
        if not domains:
            reason = f"no aggregate of the host has metadata {key!r}, the domain to spread over"
            return Rejection(reason, key)
        skews = []
        for domain in domains:
            count = self.members.get(domain, 0)
            least, name = (count, domain) if emptiest is None else min(emptiest, (count, domain))
            skews.append((count + 1 - least, domain, count, name, least))
        skew, domain, count, name, least = max(skews)
        if skew <= max_skew:
            return None
        reason = (
            f"Domain {key}={domain} has {count} member{'s' * (count != 1)}, the emptiest ({name}) "
            f"has {least}: skew {skew} after placement exceeds max_skew {max_skew}"
        )
        return Rejection(reason, max_skew, skew)
