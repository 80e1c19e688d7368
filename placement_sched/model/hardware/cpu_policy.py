"""How an instance's virtual CPUs share those of the host: policies, masks and resource classes.

Sources: nova's documentation, "CPU topologies", "Real Time" and "Extra Specs" (``hw:cpu_*``,
``hw:emulator_threads_policy``); the placement API's "Resource classes".
"""

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.cpu_sets import all_cpus, masked_cpus
from placement_sched.model.image import Image


def of_flavor(key: str, prefix: str = "hw") -> str:
    """Return the name that errors give the extra spec of this key."""
    return f"flavor extra spec '{prefix}:{key}'"


def of_image(key: str, prefix: str = "hw") -> str:
    """Return the name that errors give the image property of this key."""
    return f"image property '{prefix}_{key}'"


def one_of(value: str, known: Collection[str], where: str) -> str:
    """Return the value; raises :class:`Invalid` naming ``where`` it is set if it is not known."""
    if value not in known:
        raise Invalid(f"{where}: expected {' or '.join(known)}, got {value!r}")
    return value


@dataclass(frozen=True)
class FlavorImage:
    """A flavor and an image, read together: the base of what they request.

    Its methods, and the properties of its children, raise :class:`Invalid`, naming the keys, for a
    value that is not known and for two that contradict each other.
    """

    flavor: Flavor
    image: Image

    @property
    def has_stateless_firmware(self) -> bool:
        """Return whether firmware that keeps nothing is requested; it counts with UEFI only."""
        get = self.image.properties.get
        return get("hw_firmware_type") == "uefi" and bool(get("hw_firmware_stateless"))

    def values(self, key: str, prefix: str = "hw") -> tuple[str | None, Any]:
        """Return the value of the flavor and that of the image; None for one that is not set."""
        by_flavor = self.flavor.extra_specs.get(f"{prefix}:{key}")
        return by_flavor, self.image.properties.get(f"{prefix}_{key}")

    def source(self, key: str, prefix: str = "hw") -> str:
        """Return where a value is set: in the flavor if it has one, else in the image."""
        by_flavor, by_image = self.values(key, prefix)
        in_flavor = by_flavor or by_image is None
        return of_flavor(key, prefix) if in_flavor else of_image(key, prefix)

    def conflict(self, key: str, why: str, prefix: str = "hw") -> Invalid:
        """Return the error of two values that contradict each other; ``why`` is the rule."""
        by_flavor, by_image = self.values(key, prefix)
        return Invalid(
            f"{of_flavor(key, prefix)} is {by_flavor!r}, {of_image(key, prefix)} is "
            f"{by_image!r}: {why}"
        )

    def agreed(
        self, key: str, known: Collection[str] | None = None, prefix: str = "hw"
    ) -> str | None:
        """Return the value of flavor or image, None where neither sets one.

        Raises :class:`Invalid` for two values, and for one that is not among the ``known``.
        """
        by_flavor, by_image = self.values(key, prefix)
        if by_flavor and by_image and by_flavor != by_image:
            raise self.conflict(key, "they must be equal", prefix)
        value = by_flavor or by_image or None
        if value is None or known is None:
            return value
        return one_of(value, known, self.source(key, prefix))

    def agreed_flag(self, key: str) -> bool | None:
        """Return the boolean of flavor or image, if any; an extra spec that is not one is false."""
        by_flavor, by_image = self.values(key)
        if by_flavor is None:
            return None if by_image is None else bool(by_image)
        flag = bool(bool_from_string(by_flavor))
        if by_image is not None and bool(by_image) != flag:
            raise self.conflict(key, "they must be equal")
        return flag


def agreed(
    key: str, known: Collection[str] | None = None, prefix: str = "hw"
) -> "cached_property[str | None]":
    """Return a property of a :class:`FlavorImage`: a value that the two agree on, read once."""
    return cached_property(lambda both: both.agreed(key, known, prefix))


def agreed_flag(key: str) -> "cached_property[bool]":
    """Return a property of a :class:`FlavorImage`: whether one of the two requests it."""
    return cached_property(lambda both: bool(both.agreed_flag(key)))


DEDICATED, SHARED, MIXED = "dedicated", "shared", "mixed"
PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
_POLICIES = (DEDICATED, SHARED, MIXED)
_THREAD_POLICIES = (PREFER, ISOLATE, REQUIRE)
#: Policies that an image may not request, by the policy of the flavor.
_NOT_BESIDE = {SHARED: (DEDICATED, MIXED), MIXED: (DEDICATED,)}

#: What is requested for the flavor as a whole or for a numbered group.
_AMOUNT = re.compile(r"resources(?:[1-9][0-9]*)?:(?P<name>VCPU|PCPU)")
_HYPERTHREADING = "HW_CPU_HYPERTHREADING"
_TRAIT = re.compile(rf"trait(?:[1-9][0-9]*)?:{_HYPERTHREADING}")

_MASK, _REALTIME = of_flavor("cpu_dedicated_mask"), of_flavor("cpu_realtime")
_EMULATOR = of_flavor("emulator_threads_policy")
_POLICY = f"{of_flavor('cpu_policy')} or {of_image('cpu_policy')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """The CPUs that are pinned, and the policies for them; None where none is set."""

    cpu_policy: str | None
    thread_policy: str | None
    emulator_threads: str | None
    pinned: frozenset[int]

    @property
    def is_requested(self) -> bool:
        """Return whether any CPU is to be pinned."""
        return self.cpu_policy in (DEDICATED, MIXED)


class RequestedCPUs(FlavorImage):
    """What flavor and image request of CPUs, each value read once."""

    @cached_property
    def policy(self) -> str | None:
        """Return ``dedicated``, ``shared`` or ``mixed``; None where no policy is set.

        The flavor's policy wins; an image may not pin more than the flavor does.
        """
        by_flavor, by_image = self._policies("cpu_policy", _POLICIES)
        if by_flavor and by_image in _NOT_BESIDE.get(by_flavor, ()):
            raise self.conflict("cpu_policy", "an image may not pin what its flavor does not")
        return by_flavor or by_image or None

    @cached_property
    def thread_policy(self) -> str | None:
        """Return ``prefer``, ``isolate`` or ``require``; None where no policy is set.

        A flavor's ``prefer`` wins over any policy of the image; otherwise the two must be equal.
        """
        by_flavor, by_image = self._policies("cpu_thread_policy", _THREAD_POLICIES)
        if by_flavor not in (None, PREFER) and by_image and by_image != by_flavor:
            raise self.conflict("cpu_thread_policy", "they must be equal")
        return by_flavor or by_image or None

    @cached_property
    def emulator_threads(self) -> str | None:
        """Return where the emulator's threads run, ``isolate`` or ``share``; None if not set."""
        policy = self.flavor.extra_specs.get("hw:emulator_threads_policy")
        return one_of(policy, (ISOLATE, "share"), _EMULATOR) if policy else None

    @cached_property
    def dedicated(self) -> frozenset[int] | None:
        """Return the CPUs that ``hw:cpu_dedicated_mask`` pins, some but not all; None without."""
        flavor = self.flavor
        mask = flavor.extra_specs.get("hw:cpu_dedicated_mask")
        if not mask:
            return None
        pinned = masked_cpus(flavor, mask, _MASK)
        if not pinned < all_cpus(flavor) or not pinned:
            raise Invalid(
                f"{_MASK} is {mask!r}: it must name some, and not all, of the flavor's "
                f"{flavor.vcpus} vcpus, and no others"
            )
        return pinned

    @cached_property
    def realtime(self) -> frozenset[int] | None:
        """Return the CPUs that run in real time; None unless ``hw:cpu_realtime`` is true.

        The image's mask wins over the flavor's; without one it is every CPU. They cannot be all
        CPUs unless it is set where the emulator's threads run.
        """
        flavor = self.flavor
        if not bool_from_string(flavor.extra_specs.get("hw:cpu_realtime")):
            return None
        by_flavor, by_image = self.values("cpu_realtime_mask")
        where = of_image("cpu_realtime_mask") if by_image else of_flavor("cpu_realtime_mask")
        every, mask = all_cpus(flavor), by_image or by_flavor
        chosen = masked_cpus(flavor, mask, where) if mask else every
        if not chosen or not chosen <= every:
            raise Invalid(
                f"{where} is {mask!r} with {_REALTIME}: it must name at least one of the flavor's "
                f"{flavor.vcpus} vcpus, and no others"
            )
        if not self.emulator_threads and chosen == every:
            raise Invalid(
                f"{_REALTIME}: {where} must leave a CPU to the emulator's threads, unless "
                f"{_EMULATOR} is set"
            )
        return chosen

    @cached_property
    def pinning(self) -> Pinning:
        """Return which CPUs are pinned, with all that is requested of CPUs checked.

        ``resources:PCPU`` stands for the policy ``dedicated``, ``resources:VCPU`` for ``shared``,
        the trait of hyperthreading for a thread policy.
        """
        policy, threads = self._resulting_policy(), self._resulting_thread_policy()
        emulator, masked, realtime = self.emulator_threads, self.dedicated, self.realtime
        pins = policy in (DEDICATED, MIXED)
        if threads and not pins:
            where = self.source("cpu_thread_policy")
            raise Invalid(f"{where}, or the trait for it, needs pinned CPUs: set {_POLICY}")
        if emulator == ISOLATE and not pins:
            raise Invalid(f"{_EMULATOR} is 'isolate', which needs pinned CPUs: set {_POLICY}")
        if masked and policy != MIXED:
            raise Invalid(f"{_MASK} needs the policy 'mixed' in {_POLICY}")
        if realtime and not pins:
            raise Invalid(f"{_REALTIME} needs the policy 'dedicated' or 'mixed' in {_POLICY}")
        if policy == MIXED and bool(masked) == bool(realtime):
            where = self.source("cpu_policy")
            raise Invalid(f"{where} is 'mixed', which needs either {_MASK} or {_REALTIME}")
        pinned = masked or realtime if policy == MIXED else None
        return Pinning(
            cpu_policy=policy,
            thread_policy=threads,
            emulator_threads=emulator,
            pinned=all_cpus(self.flavor) if policy == DEDICATED else pinned or frozenset(),
        )

    @property
    def needs_sibling_threads(self) -> bool:
        """Return whether CPUs are pinned and on sibling threads, be it by flavor or by image."""
        threads = self.values("cpu_thread_policy")
        return DEDICATED in self.values("cpu_policy") and REQUIRE in threads

    def _policies(self, key: str, known: tuple[str, ...]) -> tuple[str | None, str | None]:
        by_flavor, by_image = self.values(key)
        for value, where in ((by_flavor, of_flavor(key)), (by_image, of_image(key))):
            if value:
                one_of(value, known, where)
        return by_flavor, by_image

    def _resulting_policy(self) -> str | None:
        policy = self.policy
        (shared, vcpu), (pinned, pcpu) = self._amount("VCPU"), self._amount("PCPU")
        if not shared and not pinned:
            return policy
        if policy:
            raise _twice(self.source("cpu_policy"), pcpu if pinned else vcpu)
        if shared and pinned:
            raise Invalid(f"{vcpu} and {pcpu} cannot both be set")
        if not pinned:
            return SHARED
        isolated = self.emulator_threads == ISOLATE
        wanted = self.flavor.vcpus + isolated
        if pinned != wanted:
            why = f", and one for {_EMULATOR}" if isolated else ""
            raise Invalid(
                f"{pcpu} requests {pinned}: expected {wanted}, one for each of the flavor's "
                f"vcpus{why}"
            )
        return DEDICATED

    def _resulting_thread_policy(self) -> str | None:
        wanted = "required" if _HYPERTHREADING in self.image.required_traits else ""
        where = f"image property 'trait:{_HYPERTHREADING}'"
        if key := next(filter(_TRAIT.fullmatch, self.flavor.extra_specs), None):
            wanted, where = self.flavor.extra_specs[key], f"flavor extra spec {key!r}"
        if self.thread_policy and wanted:
            raise _twice(self.source("cpu_thread_policy"), where)
        return {"forbidden": ISOLATE, "required": REQUIRE}.get(wanted, self.thread_policy)

    def _amount(self, name: str) -> tuple[int, str]:
        """Return the amount of a class in all groups and where it is set; others check values."""
        total, keys = 0, []
        for key, value in self.flavor.extra_specs.items():
            match = _AMOUNT.fullmatch(key)
            if match and match["name"] == name:
                keys.append(f"flavor extra spec {key!r}")
                with suppress(ValueError):
                    total += int(value)
        return total, " and ".join(keys)


def _twice(one: str, other: str) -> Invalid:
    return Invalid(f"{one} and {other} request the same thing: use one of them")
