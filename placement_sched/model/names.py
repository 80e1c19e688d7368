# SPDX-License-Identifier: Apache-2.0
"""Rules for names and UUIDs, and suggestions for unknown names.

Sources: compute API reference ("Host aggregates", "Flavors", "Flavors extra-specs", "Compute
services"). Names have no blank at either end, because MariaDB treats ``a`` and ``a `` as equal.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from unicodedata import category

from placement_sched.limits import MAX_LISTED_NAMES

HOST = r"^[a-zA-Z0-9._-]*$(?!\n)"
#: An availability zone, without a colon because of the form ``zone:host:node``.
ZONE = "^[^:]*$"
#: A key of aggregate metadata or of a flavor's extra specs.
KEY = r"^(?! )[a-zA-Z0-9:_. -]{1,255}(?<! )$(?!\n)"
FLAVOR_ID = r"^(?! )[a-zA-Z0-9. _-]+(?<! )$(?!\n)"
#: A consumer uuid in the Placement API. It need not be a valid UUID.
LIKE_UUID = "^[0-9a-fA-F-]{36}$"
#: An image id in an image property.
UUID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"

#: Maximum work of a search for similar names. The work of a comparison is the product of the
#: lengths of both names: the limit allows about 17,000 comparisons of names of fifteen letters.
_MAX_COMPARISON_WORK = 4_000_000
_CANONICAL = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_printable(text: str) -> bool:
    """Return whether all characters of ``text`` are printable or spaces."""
    return all(letter.isprintable() or category(letter) == "Zs" for letter in text)


def is_printable_name(text: str) -> bool:
    """Return whether ``text`` is printable without white space at its ends."""
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
#: The metrics that nova-compute stores as fractions and nova's scheduler reads as percent.
PERCENT_METRICS = frozenset(name for name in MONITOR_METRICS if name.endswith("percent"))


def read_uuid(value: object) -> str | None:
    """Return a UUID in lower case with hyphens, or None for an invalid UUID.

    The UUID may be in upper case, without hyphens, in braces or after ``urn:uuid:``.
    """
    if isinstance(value, str) and _CANONICAL.fullmatch(value):  # the most frequent form
        return value
    try:
        parsed = uuid.UUID(value)  # type: ignore[arg-type]
        # Python parses UUIDs as integers, and so accepts underscores and 0x.
        is_literal = parsed.hex in value.replace("-", "").lower()  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return None
    return str(parsed) if is_literal else None


def canonicalize_uuid(uuid: str) -> str:
    """Return the stored spelling of a consumer or provider uuid.

    A valid UUID is in lower case with hyphens, any other text only in lower case.
    """
    return read_uuid(uuid) or uuid.lower()


def find_nearest(
    name: str, names: Iterable[str], limit: int = 1, *, alike: float = 0.6
) -> tuple[str, ...]:
    """Return at most ``limit`` names similar to ``name``, best first.

    ``alike`` is the minimum similarity, from 0 to 1, ignoring case. Names of similar length are
    compared first, until :data:`_MAX_COMPARISON_WORK` is used up.
    """
    by_length = sorted(set(names), key=lambda text: (abs(len(text) - len(name)), text))
    remaining = _MAX_COMPARISON_WORK
    folded, exact = SequenceMatcher(b=name.lower()), SequenceMatcher(b=name)
    matches = []
    for candidate in by_length:
        remaining -= len(candidate) * len(name)
        if remaining < 0:
            break
        folded.set_seq1(candidate.lower())
        # Each ratio is an upper bound of the next ratio, and cheaper to compute.
        bounds = (folded.real_quick_ratio, folded.quick_ratio, folded.ratio)
        if all(bound() >= alike for bound in bounds):
            ratio = folded.ratio()
            likeness = 2 * ratio
            if ratio < 1 and f"{candidate}{name}" != f"{candidate}{name}".lower():
                exact.set_seq1(candidate)  # prefer the same case
                likeness = ratio + exact.ratio()
            matches.append((-likeness, candidate))
    return tuple(match for _, match in sorted(matches)[:limit])


def format_suggestion(names: Iterable[str], shown: Callable[[str], str] = repr) -> str:
    """Return the end of a message that suggests names, empty without names."""
    all_shown = " or ".join(map(shown, names))
    return f". Did you mean {all_shown}?" if all_shown else ""


_ROUTES = {
    "aggregate": "GET /compute/v2.1/os-aggregates",
    "flavor": "GET /compute/v2.1/flavors",
    "host": "placement-sched host list (GET /scheduler/v1/hosts)",
    "image": "GET /image/v2/images",
    "node": "placement-sched host list (GET /scheduler/v1/hosts)",
    "option": "placement-sched config sample",
    "plugin": "The page Plugins of the documentation",
    "policy": "placement-sched policy list (GET /scheduler/v1/policies)",
    "provider": "GET /placement/resource_providers",
    "resource class": "GET /placement/resource_classes",
    "zone": "GET /compute/v2.1/os-availability-zone",
}


def list_if_few(existing: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names, or () above :data:`MAX_LISTED_NAMES` names."""
    names = sorted(set(existing))
    return tuple(names) if len(names) <= MAX_LISTED_NAMES else ()


def suggest_names(
    noun: str,
    near: Iterable[str],
    all_names: Iterable[str] = (),
    shown: Callable[[str], str] = repr,
) -> str:
    """Return the end of a message about an unknown name.

    The text suggests the similar names in ``near``. If ``near`` is empty, the text lists the names
    in ``all_names``. If both are empty, it refers to a command or route that lists all names.
    """
    if suggestion := format_suggestion(near, shown):
        return suggestion
    if listing := ", ".join(all_names):
        return f". There are: {listing}"
    return f". {_ROUTES[noun]} lists them" if noun in _ROUTES else ""


def suggest_name(
    noun: str,
    name: str,
    existing: Iterable[str],
    *,
    alike: float = 0.6,
    shown: Callable[[str], str] = repr,
) -> str:
    """Return the end of a message about a name that is not in ``existing``.

    ``noun`` is the kind of the name, in the singular. :func:`find_nearest` describes ``alike``.
    """
    names = set(existing)
    if not names:
        return ". There are none"
    return suggest_names(noun, find_nearest(name, names, alike=alike), list_if_few(names), shown)


def format_count(number: object, noun: str) -> str:
    """Join a number with its noun, as ``1 host`` or ``2 hosts``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def join_words(words: Iterable[str]) -> str:
    """Join words for a sentence: ``a``, ``a and b``, ``a, b and c``."""
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last


def shorten_names(names: Sequence[str], limit: int = 5) -> str:
    """List the first ``limit`` names, and count the others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def find_similar_plugins(
    name: str, existing: Iterable[str], alike: float | None = None
) -> tuple[str, ...]:
    """Return the most similar name, without regard to a common ending."""
    ending = next(filter(name.endswith, ("Filter", "Weigher")), "")
    stems = {each.removesuffix(ending): each for each in existing}
    near = find_nearest(name.removesuffix(ending), stems, alike=alike or (0.6 if ending else 0.4))
    return tuple(stems[stem] for stem in near)


def suggest_plugin(name: str, existing: Iterable[str]) -> str:
    """Return the end of a sentence that suggests plugins with similar names."""
    names = tuple(existing)
    return suggest_names("plugin", find_similar_plugins(name, names), list_if_few(names))
