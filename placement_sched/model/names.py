"""How names and UUIDs may be written, and which known name is nearest to one that is not known.

Sources: compute API reference ("Host aggregates", "Flavors", "Flavors extra-specs", "Compute
services"). Names begin and end with no blank, as MariaDB takes ``a`` and ``a `` for the same.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from unicodedata import category

#: A host, where a request names it.
HOST = r"^[a-zA-Z0-9._-]*$(?!\n)"
#: An availability zone: a server is created in ``zone:host:node``, so its name has no colon.
ZONE = "^[^:]*$"
#: A key of an aggregate's metadata or of a flavor's extra specs.
KEY = r"^(?! )[a-zA-Z0-9:_. -]{1,255}(?<! )$(?!\n)"
#: The id of a flavor.
FLAVOR_ID = r"^(?! )[a-zA-Z0-9. _-]+(?<! )$(?!\n)"
#: What the Placement API takes for the uuid of a consumer: such a text, be it a UUID or not.
LIKE_UUID = "^[0-9a-fA-F-]{36}$"
#: An image's id, in the properties that name an image.
UUID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"

#: To compare two names takes as long as their lengths multiplied. Of names of fifteen letters as
#: many as 17,000 are compared with one.
_COMPARED = 4_000_000
_CANONICAL = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_zone(text: str) -> bool:
    """Return whether ``text`` may name an availability zone."""
    return is_printable_name(text) and re.search(ZONE, text) is not None


def is_printable(text: str) -> bool:
    """Return whether ``text`` is printable, spaces of all kinds included."""
    return all(letter.isprintable() or category(letter) == "Zs" for letter in text)


def is_printable_name(text: str) -> bool:
    """Return whether ``text`` is printable, with no white space at either end (nova's names)."""
    return is_printable(text) and text == text.strip()


_ARCHITECTURES = (
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips "
    "mipsel mips64 mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x "
    "sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa xtensaeb"
)
ARCHITECTURES = frozenset(_ARCHITECTURES.split())
ARCHITECTURE_ALIASES = {"i386": "i686", "i486": "i686", "i586": "i686", "amd64": "x86_64"}
_HYPERVISOR_TYPES = (
    "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test "
    "uml vbox vz vmware xen zvm prsm"
)
HYPERVISOR_TYPES = frozenset(_HYPERVISOR_TYPES.split())
HYPERVISOR_TYPE_ALIASES = {"xapi": "xen"}
VM_MODES = frozenset({"hvm", "xen", "uml", "exe"})
VM_MODE_ALIASES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}
_MONITOR_METRICS = (
    "cpu.frequency cpu.user.time cpu.kernel.time cpu.idle.time cpu.iowait.time cpu.user.percent "
    "cpu.kernel.percent cpu.idle.percent cpu.iowait.percent cpu.percent numa.membw.max "
    "numa.membw.current"
)
MONITOR_METRICS = frozenset(_MONITOR_METRICS.split())
#: The metrics that nova-compute stores as fractions and nova's scheduler counts as percent.
PERCENT_METRICS = frozenset(name for name in MONITOR_METRICS if name.endswith("percent"))


def read_uuid(value: object) -> str | None:
    """Return a UUID in lower case with hyphens; None for what is not one.

    It is accepted in upper case, without hyphens, in braces and after ``urn:uuid:``.
    """
    if isinstance(value, str) and _CANONICAL.fullmatch(value):  # as nearly every one is
        return value
    try:
        found = uuid.UUID(value)  # type: ignore[arg-type]
        # Python accepts underscores and 0x in a number, and so in a UUID.
        written = found.hex in value.replace("-", "").lower()  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return None
    return str(found) if written else None


def canonical(uuid: str) -> str:
    """Return the one spelling under which consumers and providers are kept: lower, with hyphens.

    Of what is :data:`LIKE_UUID` and not a UUID only the case is changed.
    """
    return read_uuid(uuid) or uuid.lower()


def nearest(
    name: str, known: Iterable[str], most: int = 1, *, alike: float = 0.6
) -> tuple[str, ...]:
    """Return at most ``most`` known names in any case, nearest first; ``alike`` is from 0 to 1.

    Those of about its length are compared first, and others while :data:`_COMPARED` lasts.
    """
    by_length = sorted(set(known), key=lambda one: (abs(len(one) - len(name)), one))
    left = _COMPARED
    folded, exact = SequenceMatcher(b=name.lower()), SequenceMatcher(b=name)
    found = []
    for one in by_length:
        left -= len(one) * len(name)
        if left < 0:
            break
        folded.set_seq1(one.lower())
        # Each bounds the next from above, and takes less time.
        bounds = (folded.real_quick_ratio, folded.quick_ratio, folded.ratio)
        if all(bound() >= alike for bound in bounds):
            ratio = folded.ratio()
            likeness = 2 * ratio
            if ratio < 1 and f"{one}{name}" != f"{one}{name}".lower():  # the same case counts
                exact.set_seq1(one)
                likeness = ratio + exact.ratio()
            found.append((-likeness, one))
    return tuple(one for _, one in sorted(found)[:most])


def did_you_mean(names: Iterable[str], shown: Callable[[str], str] = repr) -> str:
    """Return the end of a sentence that names these, or nothing where there are none."""
    all_shown = " or ".join(map(shown, names))
    return f"; did you mean {all_shown}?" if all_shown else ""


#: So many known names are listed, at most, where none is near to one that is not known.
FEW = 10
_ROUTES = {
    "aggregate": "GET /compute/v2.1/os-aggregates",
    "flavor": "GET /compute/v2.1/flavors",
    "host": "placement-sched hosts list (GET /scheduler/v1/hosts)",
    "image": "GET /image/v2/images",
    "node": "placement-sched hosts list (GET /scheduler/v1/hosts)",
    "option": "placement-sched config sample",
    "plugin": "the page Plugins of the documentation",
    "policy": "placement-sched policy list (GET /scheduler/v1/policies)",
    "provider": "GET /placement/resource_providers",
    "resource class": "GET /placement/resource_classes",
    "zone": "GET /compute/v2.1/os-availability-zone",
}


def if_few(known: Iterable[str]) -> tuple[str, ...]:
    """Return known names in order, or none where they are more than :data:`FEW`."""
    names = sorted(set(known))
    return tuple(names) if len(names) <= FEW else ()


def names_instead(
    noun: str,
    near: Iterable[str],
    there_are: Iterable[str] = (),
    shown: Callable[[str], str] = repr,
) -> str:
    """Return the end of a sentence about a name that is not known: which might have been meant.

    The ``near`` ones, else all that ``there_are``, else what lists the names of this noun.
    """
    if meant := did_you_mean(near, shown):
        return meant
    if known := ", ".join(there_are):
        return f"; there are: {known}"
    return f"; {_ROUTES[noun]} lists them" if noun in _ROUTES else ""


def suggested(
    noun: str,
    name: str,
    known: Iterable[str],
    *,
    alike: float = 0.6,
    shown: Callable[[str], str] = repr,
) -> str:
    """Return :func:`names_instead` for a ``name`` that is not among those ``known``.

    ``noun`` is in the singular; ``alike`` is as :func:`nearest` has it.
    """
    names = set(known)
    if not names:
        return "; there are none"
    return names_instead(noun, nearest(name, names, alike=alike), if_few(names), shown)


def listed(words: Iterable[str]) -> str:
    """Return words as a sentence lists them: ``a``, ``a and b``, ``a, b and c``."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def in_short(names: Sequence[str], most: int = 5) -> str:
    """Return the first ``most`` names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
