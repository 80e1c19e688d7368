"""CPUs that a flavor asks of placement itself, beside policies that say the same in other words.

Source: nova's documentation, "CPU topologies", and the placement API's "Resource classes".
"""

import re

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import of_flavor, place
from placement_sched.scheduler.hardware.cpus import (
    DEDICATED,
    ISOLATE,
    REQUIRE,
    SHARED,
    cpu_policy,
    cpu_thread_policy,
    emulator_threads_policy,
)

#: What is asked of the flavor as a whole or of a numbered group.
_AMOUNT = re.compile(r"resources(?:[1-9][0-9]*)?:(?P<name>VCPU|PCPU)")
_HYPERTHREADING = "HW_CPU_HYPERTHREADING"
_TRAIT = re.compile(rf"trait(?:[1-9][0-9]*)?:{_HYPERTHREADING}")


def resulting_cpu_policy(flavor: Flavor, image: Image) -> str | None:
    """Return the CPU policy, where ``resources:PCPU`` means ``dedicated``, ``:VCPU`` ``shared``.

    Raises :class:`Invalid` where both ways, or both classes, are used, and where the amount of
    PCPU is not that of the flavor's vcpus, and one more for isolated threads of the emulator.
    """
    policy = cpu_policy(flavor, image)
    shared, pinned = _amount(flavor, "VCPU"), _amount(flavor, "PCPU")
    if not shared and not pinned:
        return policy
    if policy:
        where = place(flavor, image, "cpu_policy")
        asked = _asking(flavor, "PCPU" if pinned else "VCPU")
        raise Invalid(f"{where} and {asked} say the same thing twice: use one of them")
    if shared and pinned:
        raise Invalid(f"{_asking(flavor, 'VCPU')} and {_asking(flavor, 'PCPU')} cannot both be")
    if pinned:
        _check_pinned(flavor, pinned)
        return DEDICATED
    return SHARED


def resulting_thread_policy(flavor: Flavor, image: Image) -> str | None:
    """Return the thread policy, which the trait of hyperthreading may stand for.

    Required it means ``require``, forbidden ``isolate``. Raises :class:`Invalid` where both ways
    are used.
    """
    policy = cpu_thread_policy(flavor, image)
    said, told = _hyperthreading(flavor, image)
    if policy and said:
        where = place(flavor, image, "cpu_thread_policy")
        raise Invalid(f"{where} and {told} say the same thing twice: use one of them")
    return {"forbidden": ISOLATE, "required": REQUIRE}.get(said or "", policy)


def _asking(flavor: Flavor, name: str) -> str:
    """Return which extra specs ask for a class, whatever group they are of."""
    asking = (
        key
        for key in flavor.extra_specs
        if (match := _AMOUNT.fullmatch(key)) and match["name"] == name
    )
    return " and ".join(map(_extra_spec, asking))


def _amount(flavor: Flavor, name: str) -> int:
    """Return how many of a class are asked for; what is no number is told of elsewhere."""
    total = 0
    for key, value in flavor.extra_specs.items():
        match = _AMOUNT.fullmatch(key)
        if match and match["name"] == name:
            try:
                total += int(value)
            except ValueError:
                continue
    return total


def _check_pinned(flavor: Flavor, pinned: int) -> None:
    isolated = emulator_threads_policy(flavor) == ISOLATE
    wanted = flavor.vcpus + isolated
    if pinned != wanted:
        why = f", and one for {of_flavor('emulator_threads_policy')}" if isolated else ""
        raise Invalid(
            f"{_asking(flavor, 'PCPU')} asks for {pinned}: expected {wanted}, as many as "
            f"the flavor has vcpus{why}"
        )


def _hyperthreading(flavor: Flavor, image: Image) -> tuple[str | None, str]:
    """Return what is said of the trait, and where; the flavor's first word on it counts."""
    for key, value in flavor.extra_specs.items():
        if _TRAIT.fullmatch(key):
            return value, _extra_spec(key)
    said = "required" if _HYPERTHREADING in image.required_traits else None
    return said, f"image property {f'trait:{_HYPERTHREADING}'!r}"


def _extra_spec(key: str) -> str:
    return f"flavor extra spec {key!r}"
