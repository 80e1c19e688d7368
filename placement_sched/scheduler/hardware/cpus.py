"""How an instance's virtual CPUs share those of the host.

Sources: nova's documentation, "CPU topologies" and "Real Time"; "Extra Specs" (``hw:cpu_*``,
``hw:emulator_threads_policy``).
"""

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import (
    conflict,
    of_flavor,
    of_image,
    one_of,
    said,
)
from placement_sched.scheduler.hardware.cpu_set import all_cpus, masked_cpus

DEDICATED, SHARED, MIXED = "dedicated", "shared", "mixed"
PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
_POLICIES = (DEDICATED, SHARED, MIXED)
_THREAD_POLICIES = (PREFER, ISOLATE, REQUIRE)
#: Policies that an image may not ask for, by the policy of the flavor.
_NOT_BESIDE = {SHARED: (DEDICATED, MIXED), MIXED: (DEDICATED,)}


def cpu_policy(flavor: Flavor, image: Image) -> str | None:
    """Return ``dedicated``, ``shared`` or ``mixed``; None where neither asks for one.

    A flavor's policy wins; an image may not ask for more than it gives. Raises :class:`Invalid`
    for a policy that is none, or if it does.
    """
    by_flavor, by_image = _policies(flavor, image, "cpu_policy", _POLICIES)
    if by_flavor and by_image in _NOT_BESIDE.get(by_flavor, ()):
        raise conflict(flavor, image, "cpu_policy", "an image may not pin what its flavor does not")
    return by_flavor or by_image or None


def cpu_thread_policy(flavor: Flavor, image: Image) -> str | None:
    """Return ``prefer``, ``isolate`` or ``require``; None where neither asks for one.

    Beside a flavor's ``prefer`` an image may say what it likes, and the flavor's counts. Raises
    :class:`Invalid` for a policy that is none, or where they differ otherwise.
    """
    by_flavor, by_image = _policies(flavor, image, "cpu_thread_policy", _THREAD_POLICIES)
    if by_flavor not in (None, PREFER) and by_image and by_image != by_flavor:
        raise conflict(flavor, image, "cpu_thread_policy", "they must say the same")
    return by_flavor or by_image or None


def emulator_threads_policy(flavor: Flavor) -> str | None:
    """Return ``isolate`` or ``share``, where the emulator's own threads run; None if not said.

    Raises :class:`Invalid` for another policy.
    """
    policy = flavor.extra_specs.get("hw:emulator_threads_policy")
    if not policy:
        return None
    return one_of(policy, (ISOLATE, "share"), of_flavor("emulator_threads_policy"))


def dedicated_cpus(flavor: Flavor) -> frozenset[int] | None:
    """Return the CPUs that ``hw:cpu_dedicated_mask`` pins; None without a mask.

    Raises :class:`Invalid` for a mask that pins none or all, or CPUs that the flavor has not.
    """
    mask = flavor.extra_specs.get("hw:cpu_dedicated_mask")
    if not mask:
        return None
    where = of_flavor("cpu_dedicated_mask")
    pinned, every = masked_cpus(flavor, mask, where), all_cpus(flavor)
    if not pinned < every or not pinned:
        raise Invalid(
            f"{where} is {mask!r}: it must name some, and not all, of the flavor's "
            f"{flavor.vcpus} vcpus, and no others"
        )
    return pinned


def realtime_cpus(flavor: Flavor, image: Image) -> frozenset[int] | None:
    """Return the CPUs that run in real time; None unless ``hw:cpu_realtime`` is a yes.

    The image's mask counts before the flavor's; without one it is every CPU. Raises
    :class:`Invalid` for a mask of no CPU or of CPUs that the flavor has not, and for one of all
    CPUs where nothing says where the emulator's threads run; and for a policy of these that is
    none.
    """
    if not bool_from_string(flavor.extra_specs.get("hw:cpu_realtime")):
        return None
    by_flavor, by_image = said(flavor, image, "cpu_realtime_mask")
    where = of_image("cpu_realtime_mask") if by_image else of_flavor("cpu_realtime_mask")
    every, mask = all_cpus(flavor), by_image or by_flavor
    chosen = masked_cpus(flavor, mask, where) if mask else every
    if not chosen or not chosen <= every:
        raise Invalid(
            f"{where} is {mask!r} with {of_flavor('cpu_realtime')}: it must name at least one of "
            f"the flavor's {flavor.vcpus} vcpus, and no others"
        )
    emulator = emulator_threads_policy(flavor)
    if chosen == every and not emulator:
        raise Invalid(
            f"{of_flavor('cpu_realtime')}: {where} must leave a CPU to the emulator's threads, or "
            f"{of_flavor('emulator_threads_policy')} say where they run"
        )
    return chosen


def _policies(
    flavor: Flavor, image: Image, key: str, known: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """Return what flavor and image say, each one of the known policies."""
    by_flavor, by_image = said(flavor, image, key)
    for value, where in ((by_flavor, of_flavor(key)), (by_image, of_image(key))):
        if value:
            one_of(value, known, where)
    return by_flavor, by_image
