# SPDX-License-Identifier: Apache-2.0
"""CPU policies, masks and resource classes of instances.

Sources: nova's documentation, "CPU topologies", "Real Time" and "Extra Specs" (``hw:cpu_*``,
``hw:emulator_threads_policy``), and the placement API's "Resource classes".
"""

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor, list_cpus, parse_cpu_mask
from placement_sched.model.image import CHOICES, Image


def format_flavor_source(key: str, prefix: str = "hw") -> str:
    """Return the name of an extra spec for errors."""
    return f"flavor extra spec '{prefix}:{key}'"


def format_image_source(key: str, prefix: str = "hw") -> str:
    """Return the name of an image property for errors."""
    return f"image property '{prefix}_{key}'"


def check_allowed(value: str, allowed: Collection[str], source: str) -> str:
    """Return ``value`` if it is in ``allowed``.

    Raises :class:`Invalid` for any other value. The error names the ``source`` of the value.
    """
    if value not in allowed:
        raise Invalid(f"{source}: expected {' or '.join(allowed)}, got {value!r}")
    return value


@dataclass(frozen=True)
class FlavorImage:
    """Base class of hardware requests, with a flavor and an image.

    Methods, and properties of subclasses, raise :class:`Invalid` for an invalid value and for
    values that contradict each other. The error names the extra specs and image properties.
    """

    flavor: Flavor
    image: Image

    @property
    def has_stateless_firmware(self) -> bool:
        """Return whether stateless firmware is requested, which requires UEFI."""
        get = self.image.properties.get
        return get("hw_firmware_type") == "uefi" and bool(get("hw_firmware_stateless"))

    def get_values(self, key: str, prefix: str = "hw") -> tuple[str | None, Any]:
        """Return the values of a key in flavor and image (None: not set)."""
        by_flavor = self.flavor.extra_specs.get(f"{prefix}:{key}")
        return by_flavor, self.image.properties.get(f"{prefix}_{key}")

    def find_source(self, key: str, prefix: str = "hw") -> str:
        """Return the name of the extra spec or image property that is used."""
        by_flavor, by_image = self.get_values(key, prefix)
        in_flavor = by_flavor or by_image is None
        return format_flavor_source(key, prefix) if in_flavor else format_image_source(key, prefix)

    def build_conflict(self, key: str, rule: str, prefix: str = "hw") -> Invalid:
        """Build the error for contradicting values in flavor and image.

        ``rule`` is the end of the message: the rule that the values violate.
        """
        by_flavor, by_image = self.get_values(key, prefix)
        return Invalid(
            f"{format_flavor_source(key, prefix)} is {by_flavor!r}, "
            f"{format_image_source(key, prefix)} is {by_image!r}: {rule}"
        )

    def find_agreed_value(self, key: str, prefix: str = "hw") -> str | None:
        """Return the value in flavor, image or both, or None without a value.

        Raises :class:`Invalid` if flavor and image have different values, and for a value that the
        image property cannot have.
        """
        by_flavor, by_image = self.get_values(key, prefix)
        if by_flavor and by_image and by_flavor != by_image:
            raise self.build_conflict(key, "they must be equal", prefix)
        if not (value := by_flavor or by_image):
            return None
        return check_allowed(value, CHOICES[f"{prefix}_{key}"], self.find_source(key, prefix))

    def find_agreed_flag(self, key: str) -> bool | None:
        """Return the boolean in flavor, image or both, or None without a value.

        An extra spec that is not a boolean is false.
        """
        by_flavor, by_image = self.get_values(key)
        if by_flavor is None:
            return None if by_image is None else bool(by_image)
        flag = bool(bool_from_string(by_flavor))
        if by_image is not None and bool(by_image) != flag:
            raise self.build_conflict(key, "they must be equal")
        return flag


def define_agreed_value(key: str, prefix: str = "hw") -> "cached_property[str | None]":
    """Define a cached property for :meth:`FlavorImage.find_agreed_value`."""
    return cached_property(lambda request: request.find_agreed_value(key, prefix))


def define_agreed_flag(key: str) -> "cached_property[bool]":
    """Define a cached property for a boolean, False if it is not set."""
    return cached_property(lambda request: bool(request.find_agreed_flag(key)))


DEDICATED, SHARED, MIXED = "dedicated", "shared", "mixed"
PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
EMULATOR_THREADS_POLICIES = (ISOLATE, "share")
#: The CPU policies of an image that contradict the CPU policy of the flavor.
_FORBIDDEN_IMAGE_POLICIES = {SHARED: (DEDICATED, MIXED), MIXED: (DEDICATED,)}

#: Extra specs with an amount of CPUs, for the request as a whole or for a numbered group.
_AMOUNT = re.compile(r"resources(?:[1-9][0-9]*)?:(?P<name>VCPU|PCPU)")
_HYPERTHREADING = "HW_CPU_HYPERTHREADING"
_TRAIT = re.compile(rf"trait(?:[1-9][0-9]*)?:{_HYPERTHREADING}\s*")

_MASK, _REALTIME = format_flavor_source("cpu_dedicated_mask"), format_flavor_source("cpu_realtime")
_EMULATOR = format_flavor_source("emulator_threads_policy")
_POLICY = f"{format_flavor_source('cpu_policy')} or {format_image_source('cpu_policy')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """The virtual CPUs to pin, and the CPU policies (None: not set)."""

    cpu_policy: str | None
    thread_policy: str | None
    emulator_threads: str | None
    pinned: frozenset[int]

    @property
    def is_requested(self) -> bool:
        """Return whether the CPU policy pins any virtual CPU."""
        return self.cpu_policy in (DEDICATED, MIXED)


class RequestedCPUs(FlavorImage):
    """The CPU requests of flavor and image, cached after the first access."""

    @cached_property
    def policy(self) -> str | None:
        """Return the CPU policy: ``dedicated``, ``shared``, ``mixed`` or None.

        The flavor's policy overrides the image's policy, which may not pin more CPUs.
        """
        by_flavor, by_image = self._read_policies("cpu_policy")
        if by_flavor and by_image in _FORBIDDEN_IMAGE_POLICIES.get(by_flavor, ()):
            raise self.build_conflict(
                "cpu_policy", "an image may not pin CPUs that its flavor shares"
            )
        return by_flavor or by_image or None

    @cached_property
    def thread_policy(self) -> str | None:
        """Return the CPU thread policy: prefer, isolate, require or None.

        A flavor's ``prefer`` overrides the image's policy. Otherwise, if flavor and image
        both have a policy, the policies must be equal.
        """
        by_flavor, by_image = self._read_policies("cpu_thread_policy")
        if by_flavor not in (None, PREFER) and by_image and by_image != by_flavor:
            raise self.build_conflict("cpu_thread_policy", "they must be equal")
        return by_flavor or by_image or None

    @cached_property
    def emulator_threads(self) -> str | None:
        """Return the emulator threads policy: ``isolate``, ``share`` or None."""
        policy = self.flavor.extra_specs.get("hw:emulator_threads_policy")
        return check_allowed(policy, EMULATOR_THREADS_POLICIES, _EMULATOR) if policy else None

    @cached_property
    def dedicated(self) -> frozenset[int] | None:
        """Return the CPUs of ``hw:cpu_dedicated_mask``, or None without a mask.

        The mask must name some but not all CPUs.
        """
        flavor = self.flavor
        mask = flavor.extra_specs.get("hw:cpu_dedicated_mask")
        if not mask:
            return None
        pinned = parse_cpu_mask(flavor, mask, _MASK)
        if not pinned < list_cpus(flavor) or not pinned:
            raise Invalid(
                f"{_MASK} is {mask!r}: it must name some, and not all, of the flavor's "
                f"{flavor.vcpus} vcpus, and no others"
            )
        return pinned

    @cached_property
    def realtime(self) -> frozenset[int] | None:
        """Return the real-time CPUs, or None unless ``hw:cpu_realtime`` is true.

        The image's mask overrides the flavor's mask. Without a mask all CPUs are real-time CPUs,
        which requires an emulator threads policy.
        """
        flavor = self.flavor
        if not bool_from_string(flavor.extra_specs.get("hw:cpu_realtime")):
            return None
        by_flavor, by_image = self.get_values("cpu_realtime_mask")
        source = (
            format_image_source("cpu_realtime_mask")
            if by_image
            else format_flavor_source("cpu_realtime_mask")
        )
        all_vcpus, mask = list_cpus(flavor), by_image or by_flavor
        chosen = parse_cpu_mask(flavor, mask, source) if mask else all_vcpus
        if not chosen or not chosen <= all_vcpus:
            raise Invalid(
                f"{source} is {mask!r}, but with {_REALTIME} it must name at least 1 of the "
                f"{flavor.vcpus} vcpus of the flavor, and no others"
            )
        if not self.emulator_threads and chosen == all_vcpus:
            raise Invalid(
                f"{_REALTIME}: {source} must leave a CPU to the emulator's threads, unless "
                f"{_EMULATOR} is set"
            )
        return chosen

    @cached_property
    def pinning(self) -> Pinning:
        """Return the CPUs to pin, after checking all CPU requests.

        Without a policy, ``resources:PCPU`` means ``dedicated`` and ``resources:VCPU`` means
        ``shared``. Without a thread policy, the trait HW_CPU_HYPERTHREADING means
        the policy ``require`` if the trait is required, and ``isolate`` if it is forbidden.
        """
        policy, threads = self._derive_policy(), self._derive_thread_policy()
        emulator, masked, realtime = self.emulator_threads, self.dedicated, self.realtime
        is_pinned = policy in (DEDICATED, MIXED)
        if threads and not is_pinned:
            source = self.find_source("cpu_thread_policy")
            raise Invalid(f"{source} or a trait {_HYPERTHREADING} needs pinned CPUs: set {_POLICY}")
        if emulator == ISOLATE and not is_pinned:
            raise Invalid(f"{_EMULATOR} is 'isolate', which needs pinned CPUs: set {_POLICY}")
        if masked and policy != MIXED:
            raise Invalid(f"{_MASK} needs the policy 'mixed' in {_POLICY}")
        if realtime and not is_pinned:
            raise Invalid(f"{_REALTIME} needs the policy 'dedicated' or 'mixed' in {_POLICY}")
        if policy == MIXED and bool(masked) == bool(realtime):
            source = self.find_source("cpu_policy")
            raise Invalid(f"{source} is 'mixed', which needs either {_MASK} or {_REALTIME}")
        pinned = masked or realtime if policy == MIXED else None
        return Pinning(
            cpu_policy=policy,
            thread_policy=threads,
            emulator_threads=emulator,
            pinned=list_cpus(self.flavor) if policy == DEDICATED else pinned or frozenset(),
        )

    @property
    def needs_sibling_threads(self) -> bool:
        """Return whether flavor or image require sibling threads for pinning."""
        threads = self.get_values("cpu_thread_policy")
        return DEDICATED in self.get_values("cpu_policy") and REQUIRE in threads

    def _read_policies(self, key: str) -> tuple[str | None, str | None]:
        by_flavor, by_image = self.get_values(key)
        for value, source in (
            (by_flavor, format_flavor_source(key)),
            (by_image, format_image_source(key)),
        ):
            if value:
                check_allowed(value, CHOICES[f"hw_{key}"], source)
        return by_flavor, by_image

    def _derive_policy(self) -> str | None:
        policy = self.policy
        (shared, vcpu), (pinned, pcpu) = self._sum_amounts("VCPU"), self._sum_amounts("PCPU")
        if not shared and not pinned:
            return policy
        if policy:
            raise _build_redundancy_error(self.find_source("cpu_policy"), pcpu if pinned else vcpu)
        if shared and pinned:
            raise Invalid(f"{vcpu} and {pcpu} cannot both be set")
        if not pinned:
            return SHARED
        isolated = self.emulator_threads == ISOLATE
        expected = self.flavor.vcpus + isolated
        if pinned != expected:
            extra = f", and one for {_EMULATOR}" if isolated else ""
            raise Invalid(
                f"{pcpu} requests {pinned}: expected {expected}, one for each of the flavor's "
                f"vcpus{extra}"
            )
        return DEDICATED

    def _derive_thread_policy(self) -> str | None:
        # As in nova, a name with white space is a trait but no thread policy.
        image_traits = self.image.properties.get("traits_required", ())
        requirement = "required" if _HYPERTHREADING in image_traits else ""
        source = f"image property 'trait:{_HYPERTHREADING}'"
        if key := next(filter(_TRAIT.fullmatch, self.flavor.extra_specs), None):
            requirement, source = self.flavor.extra_specs[key], f"flavor extra spec {key!r}"
        if self.thread_policy and requirement:
            raise _build_redundancy_error(self.find_source("cpu_thread_policy"), source)
        return {"forbidden": ISOLATE, "required": REQUIRE}.get(requirement, self.thread_policy)

    def _sum_amounts(self, name: str) -> tuple[int, str]:
        """Sum the amounts of a resource class over all request groups.

        Returns the sum and the names of its extra specs. Invalid values are ignored.
        """
        total, keys = 0, []
        for key, value in self.flavor.extra_specs.items():
            match = _AMOUNT.fullmatch(key)
            if match and match["name"] == name:
                keys.append(f"flavor extra spec {key!r}")
                with suppress(ValueError):
                    total += int(value)
        return total, " and ".join(keys)


def _build_redundancy_error(first: str, second: str) -> Invalid:
    return Invalid(f"{first} and {second} request the same thing: use one of them")
