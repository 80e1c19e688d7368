# SPDX-License-Identifier: Apache-2.0
"""Preferred traits, and the spread of server groups over domains.

The extra specs have a namespace of their own, ``scheduler:``, because nova's API validates the
values of ``trait:X``. Images name preferred traits as ``trait:X=preferred``.

The rule for the spread is the rule of Kubernetes' pod topology spread constraints. The skew of a
domain is its number of group members after the placement, less the smallest number of members of
any eligible domain.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from placement_sched.errors import Invalid
from placement_sched.model.document import build_json_path
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.names import find_nearest, format_suggestion, suggest_name
from placement_sched.model.rejection import Rejection

NAMESPACE = "scheduler:"
#: Names of the extra specs and hints about failure domains, without the prefix.
SPREAD_BY, MAX_SKEW, SPREAD_MODE = "spread_by", "max_skew", "spread_mode"
HARD, SOFT = "hard", "soft"
_PREFER, _AVOID = f"{NAMESPACE}prefer_traits", f"{NAMESPACE}avoid_traits"
EXTRA_SPECS = (_PREFER, _AVOID, *(NAMESPACE + name for name in (SPREAD_BY, MAX_SKEW, SPREAD_MODE)))
_TRAIT = re.compile(r"[A-Z][A-Z0-9_]*")
_WHOLE = re.compile(r"[1-9][0-9]{0,8}")
#: The failure domains of each host. Hosts without a failure domain are left out.
DomainsByHost = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TraitPreferences:
    """Preferred and avoided traits, each with its JSON path in the request."""

    preferred: Mapping[str, str] = field(default_factory=dict)
    avoided: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Return all traits of the preferences."""
        return frozenset((*self.preferred, *self.avoided))

    def score(self, traits: Collection[str]) -> int:
        """Count the preferred traits in ``traits``, less the avoided traits."""
        return sum(name in self.preferred for name in traits) - sum(
            name in self.avoided for name in traits
        )

    def check(self, existing: Collection[str]) -> None:
        """Raise :class:`Invalid` for unknown traits, with a similar trait."""
        for name, path in (*self.preferred.items(), *self.avoided.items()):
            if name not in existing:
                suggestion = format_suggestion(find_nearest(name, existing))
                raise Invalid(f"No such trait: {name}{suggestion}", json_path=path)


def find_trait_preferences(flavor: Flavor, image: Image) -> TraitPreferences | None:
    """Return the traits that flavor and image prefer or avoid, or None.

    Raises :class:`Invalid` for a name that no trait may have, and for a trait that is both
    preferred and avoided.
    """
    specs = flavor.extra_specs
    if not (_PREFER in specs or _AVOID in specs or image.preferred_traits):
        return None
    preferred, avoided = _map_traits(flavor, _PREFER), _map_traits(flavor, _AVOID)
    for name in sorted(image.preferred_traits):
        path = build_json_path(("request_spec", "image", "properties", f"trait:{name}"))
        preferred.setdefault(_check_trait(name, path), path)
    for name in preferred.keys() & avoided.keys():
        raise Invalid(
            f"trait {name} is both avoided, and preferred at {preferred[name]}",
            json_path=avoided[name],
        )
    return TraitPreferences(preferred, avoided)


def _map_traits(flavor: Flavor, key: str) -> dict[str, str]:
    path = build_json_path(("request_spec", "flavor", "extra_specs", key))
    parts = (part.strip() for part in flavor.extra_specs.get(key, "").split(","))
    return {_check_trait(name, path): path for name in parts if name}


def _check_trait(name: str, path: str) -> str:
    if not _TRAIT.fullmatch(name):
        reason = f"{name!r} is not the name of a trait: use upper case letters, digits and _"
        raise Invalid(reason, json_path=path)
    return name


@dataclass(frozen=True, slots=True)
class SpreadRequest:
    """The settings of a request that spreads its group over failure domains.

    The domains are the values of the metadata ``key``. If ``is_hard``, hosts that exceed
    ``max_skew`` are rejected, otherwise domains with few members are preferred.
    """

    key: str
    max_skew: int
    is_hard: bool
    path: str


@dataclass(frozen=True, slots=True)
class _Setting:
    """The value of a hint or extra spec, and its JSON path."""

    value: str
    path: str

    def fail(self, expected: str) -> Invalid:
        return Invalid(f"{self.value!r} is not {expected}", json_path=self.path)


def find_spread_request(
    extra_specs: Mapping[str, str], hints: Mapping[str, Sequence[str]]
) -> SpreadRequest | None:
    """Return how a request spreads its server group, or None if it does not.

    A hint overrides its extra spec. Without a mode, the spread is hard if a maximum skew is set,
    and soft otherwise. Raises :class:`Invalid` for an invalid value.
    """
    key = _find_setting(SPREAD_BY, extra_specs, hints)
    if key is None:
        return None
    if not key.value.strip():
        raise key.fail("the name of a metadata key of aggregates")
    skew = _find_setting(MAX_SKEW, extra_specs, hints)
    mode = _find_setting(SPREAD_MODE, extra_specs, hints)
    if skew is not None and not _WHOLE.fullmatch(skew.value):
        raise skew.fail("a whole number that is at least 1")
    if mode is not None and mode.value not in (HARD, SOFT):
        raise mode.fail(f"a mode{suggest_name('mode', mode.value, (HARD, SOFT))}")
    is_hard = skew is not None if mode is None else mode.value == HARD
    return SpreadRequest(key.value.strip(), int(skew.value) if skew else 1, is_hard, key.path)


def _find_setting(
    name: str, extra_specs: Mapping[str, str], hints: Mapping[str, Sequence[str]]
) -> _Setting | None:
    if values := hints.get(name):
        path = build_json_path(("request_spec", "scheduler_hints", name))
        if len(values) > 1:
            raise Invalid(f"the hint must be a single value, got {len(values)}", json_path=path)
        return _Setting(values[0], path)
    key = f"{NAMESPACE}{name}"
    if key not in extra_specs:
        return None
    path = build_json_path(("request_spec", "flavor", "extra_specs", key))
    return _Setting(extra_specs[key], path)


@dataclass(frozen=True, slots=True)
class Spread:
    """The members of a server group by domain, while instances are placed.

    ``members`` counts members by domain, and instances of the request once they are placed.
    ``eligible`` are the domains to compare for the smallest number.
    """

    request: SpreadRequest
    domains_by_host: DomainsByHost
    eligible: frozenset[str]
    members: Mapping[str, int] = field(default_factory=dict)
    current_hosts: Mapping[str, str] = field(default_factory=dict)

    def with_members(self, members_by_host: Mapping[str, int]) -> Self:
        """Return a copy with the members by domain, from the members by host."""
        members: Counter[str] = Counter()
        for host, number in members_by_host.items():
            for domain in self.domains_by_host.get(host, ()):
                members[domain] += number
        return replace(self, members=members)

    def with_member_on(self, host: str) -> Self:
        """Return a copy with another member on a host."""
        domains = self.domains_by_host.get(host, ())
        added = {domain: self.members.get(domain, 0) + 1 for domain in domains}
        return replace(self, members={**self.members, **added})

    def count_members(self, host: str) -> int | None:
        """Return the largest number of members in a domain of the host, or None."""
        counts = (self.members.get(domain, 0) for domain in self.domains_by_host.get(host, ()))
        return max(counts, default=None)

    def find_emptiest_domain(self) -> tuple[int, str] | None:
        """Return the fewest members of any eligible domain and this domain."""
        return min(
            ((self.members.get(domain, 0), domain) for domain in self.eligible), default=None
        )

    def find_rejection(
        self, host: str, instance: str | None, emptiest: tuple[int, str] | None
    ) -> Rejection | None:
        """Return why the spread rejects an instance on a host, or None.

        ``emptiest`` is the result of :meth:`find_emptiest_domain`. The current host of an instance
        that moves always passes.
        """
        if instance is not None and self.current_hosts.get(instance) == host:
            return None
        key, max_skew = self.request.key, self.request.max_skew
        domains = self.domains_by_host.get(host, ())
        if not domains:
            return Rejection(kind="topology_spread", values={"key": key})
        skews = []
        for domain in domains:
            count = self.members.get(domain, 0)
            least, name = (count, domain) if emptiest is None else min(emptiest, (count, domain))
            skews.append((count + 1 - least, domain, count, name, least))
        skew, domain, count, name, least = max(skews)
        if skew <= max_skew:
            return None
        values = {"key": key, "domain": domain, "members": count}
        values |= {"emptiest": name, "fewest_members": least}
        return Rejection(kind="topology_spread", requested=max_skew, actual=skew, values=values)
