# SPDX-License-Identifier: Apache-2.0
"""Labels that replace names, and the file that translates them.

A label is a keyed digest (HMAC-SHA256) with a readable prefix, such as ``host-3fa9c1d2``. Labels of
a kind have the order of their names, because the scheduler sorts hosts of equal weight, and the
names in reasons, by name. Equal clouds therefore have equal answers. The file of names has the key
and the labels of all names so far, so that a name has the same label in each cloud of the file.
"""

import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import count
from pathlib import Path
from typing import Any, Self

from placement_sched.errors import Invalid
from placement_sched.extensions.fleet.replaced_file import replace_file

#: Kinds of names whose labels have a prefix of their own.
HOST, CHILD, PROVIDER, CELL, PROJECT, USER = "host", "child", "provider", "cell", "project", "user"
SERVER, AGGREGATE, GROUP, IMAGE, FLAVOR = "server", "aggregate", "group", "image", "flavor"
NETWORK, KEY, VALUE, REASON = "network", "key", "value", "reason"
#: The name of the cloud in clouds.yaml.
CLOUD = "cloud"
_PREFIXES = {
    **{
        kind: f"{kind}-"
        for kind in (
            *(HOST, PROVIDER, CELL, PROJECT, USER, SERVER, AGGREGATE, GROUP, IMAGE, FLAVOR),
            *(NETWORK, KEY, VALUE, REASON, CLOUD),
        )
    },
    # The rest of a provider's name after the name of its root.
    CHILD: "_child-",
}
#: Kinds whose labels are valid names of the kind: traits and resource classes, availability zones,
#: uuids and IP addresses.
CUSTOM, ZONE, UUID, ADDRESS = "custom", "zone", "uuid", "address"
#: Prefix of the traits that name the physical network of a port.
_PHYSNET = "CUSTOM_PHYSNET_"

#: Returns the label of a kind and name.
Label = Callable[[str, str], str]

_VERSION = 1
_KEY_BYTES = 32
#: Hexadecimal digits of the position of a label among the labels of its kind.
_DIGITS, _UUID_DIGITS = 8, 12
UUID_PATTERN = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_DIGEST = re.compile(
    rf"CUSTOM_(?:PHYSNET_)?[0-9A-F]{{{_DIGITS}}}(?![0-9A-Z_])"
    rf"|(?:{'|'.join(_PREFIXES.values())})[0-9a-f]{{{_DIGITS}}}(?![0-9a-z])"
)
_LABEL = re.compile(
    rf"{UUID_PATTERN}|{_DIGEST.pattern}|\baz[0-9]+\b"
    r"|(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?:/[0-9]+)?"
    r"|(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?:/[0-9]+)?"
)


@dataclass(frozen=True)
class Names:
    """A key, and the labels of names by kind."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES), repr=False)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read the file of names.

        Raises :class:`Invalid` if it is absent, unreadable or no file of names.
        """
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            if document["version"] != _VERSION:
                raise Invalid(f"{file} has version {document['version']}, expected {_VERSION}")
            names = cls(bytes.fromhex(document["key"]), document["names"])
            are_texts = all(isinstance(label, str) for label in names._names_by_label)
            is_valid = are_texts and len(names.key) == _KEY_BYTES
        except OSError as failure:
            raise Invalid(f"{file}: {failure.strerror}") from None
        except (ValueError, TypeError, LookupError, AttributeError):
            is_valid = False
        if not is_valid:
            raise Invalid(f"{file} is not a file of names, as written by --anonymize --names")
        return names

    def write(self, file: Path) -> None:
        """Write the file of names, which only its owner may read."""
        document = {"version": _VERSION, "key": self.key.hex(), "names": self.labels}
        with replace_file(file, mode=0o600) as output:
            json.dump(document, output, indent=1)

    def get_label(self, kind: str, name: str) -> str:
        """Return the label of a name, or the name if it has no label."""
        return self.labels.get(kind, {}).get(name, name)

    def find_label(self, kind: str, name: str) -> str:
        """Return the label of a name in a request.

        A request may name a provider in the place of a host, and any address.
        """
        if kind == ADDRESS:
            return self._label_address(name)
        label = self.get_label(kind, name)
        if kind != HOST or label != name:
            return label
        for place in range(1, len(name)):
            root, child = name[:place], self.labels.get(CHILD, {}).get(name[place:])
            if child and (label := self._find_root_label(root)) != root:
                return label + child
        return self._find_root_label(name)

    def _find_root_label(self, name: str) -> str:
        return self.get_label(HOST, self.get_label(PROVIDER, name))

    def extend(self, names: Iterable[tuple[str, str]]) -> Self:
        """Return a copy that also has labels for these kinds and names.

        Raises :class:`Invalid` if there are too many new names between two names.
        """
        labels = {kind: dict(existing) for kind, existing in self.labels.items()}
        for kind, name in names:
            labels.setdefault(kind, {}).setdefault(name, "")
        for kind, of_kind in labels.items():
            new = sorted(name for name, label in of_kind.items() if not label)
            if kind == ZONE:
                of_kind.update(_number_zones(new, of_kind))
            elif kind == ADDRESS:
                of_kind.update({name: self._label_address(name) for name in new})
            elif new:
                of_kind.update(dict(self._label_in_order(kind, of_kind)))
        return type(self)(self.key, labels)

    def _label_in_order(self, kind: str, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the new names of a kind with labels in the order of the names."""
        digits = _UUID_DIGITS if kind == UUID else _DIGITS
        low, new = -1, list[str]()
        for name in sorted(labels):
            if label := labels[name]:
                high = int(label.replace("-", "")[:digits] if kind == UUID else label[-digits:], 16)
                yield from self._label_between(kind, new, low, high)
                low, new = high, []
            else:
                new.append(name)
        yield from self._label_between(kind, new, low, 16**digits)

    def _label_between(
        self, kind: str, names: Sequence[str], low: int, high: int
    ) -> Iterator[tuple[str, str]]:
        """Yield labels between two positions, which are taken from the digests."""
        free = high - low - 1
        if free < 2 * len(names):
            raise Invalid(
                f"no labels are left for the {kind} {names[0]}: write a new file of names"
            )
        positions: set[int] = set()
        for name in names:
            # A digest that another name has is replaced by the next digest of the name.
            digests = (self._digest(kind, name, str(attempt)) for attempt in count())
            positions.add(
                next(
                    position
                    for digest in digests
                    if (position := low + 1 + int(digest, 16) % free) not in positions
                )
            )
        for name, position in zip(names, sorted(positions), strict=True):
            yield name, self._format_label(kind, name, position)

    def _format_label(self, kind: str, name: str, position: int) -> str:
        if kind == UUID:
            digest = self._digest(kind, name)
            first = f"{position:0{_UUID_DIGITS}x}"
            return f"{first[:8]}-{first[8:]}-4{digest[:3]}-8{digest[3:6]}-{digest[6:18]}"
        if kind == CUSTOM:
            prefix = _PHYSNET if name.startswith(_PHYSNET) else "CUSTOM_"
            return f"{prefix}{position:0{_DIGITS}X}"
        return f"{_PREFIXES[kind]}{position:0{_DIGITS}x}"

    def _label_address(self, text: str) -> str:
        """Return another address, in a subnet of the same size."""
        address = ip_address(text)
        return str(type(address)(self._flip_bits(address, address.max_prefixlen)))

    def _flip_bits(
        self, address: IPv4Address | IPv6Address, length: int, *, is_label: bool = False
    ) -> int:
        """Flip leading bits, each by a digest of the original bits before it."""
        original = number = ""
        for bit in f"{int(address):0{address.max_prefixlen}b}"[:length]:
            digest = self._digest(ADDRESS, str(address.version), original)
            flipped = str(int(bit) ^ int(digest, 16) & 1)
            original += flipped if is_label else bit
            number += flipped
        return int(number.ljust(address.max_prefixlen, "0"), 2)

    def _digest(self, *parts: str) -> str:
        return hmac.digest(self.key, "\0".join(parts).encode(), "sha256").hex()

    @cached_property
    def _names_by_label(self) -> Mapping[str, str]:
        return {label: name for of_kind in self.labels.values() for name, label in of_kind.items()}

    def restore(self, document: Any) -> Any:
        """Return a JSON document with names instead of labels.

        Raises :class:`Invalid` for a label that is not in the file of names.
        """
        if isinstance(document, str):
            return _LABEL.sub(self._restore_label, document)
        if isinstance(document, Mapping):
            return {self.restore(key): self.restore(value) for key, value in document.items()}
        if isinstance(document, list | tuple):
            return [self.restore(value) for value in document]
        return document

    def _restore_label(self, match: re.Match[str]) -> str:
        label = match[0]
        if (name := self._names_by_label.get(label)) is not None:
            return name
        if _DIGEST.fullmatch(label):
            raise Invalid(f"the file of names has no {label}: use the file of this cloud")
        if "/" in label:
            return self._restore_subnet(label)
        return label

    def _restore_subnet(self, label: str) -> str:
        """Restore the leading bits of a subnet. Its other bits are 0."""
        with suppress(ValueError):
            subnet = ip_network(label)
            number = self._flip_bits(subnet.network_address, subnet.prefixlen, is_label=True)
            return f"{type(subnet.network_address)(number)}/{subnet.prefixlen}"
        return label


def _number_zones(new: Sequence[str], labels: Mapping[str, str]) -> dict[str, str]:
    """Build labels of new zones in the order of their names: az1, az2."""
    numbers = [label.removeprefix("az") for label in labels.values() if label]
    # With ten zones, az01 is before az10.
    width = max(map(len, [*numbers, str(len(labels))]))
    first = max(map(int, numbers), default=0) + 1
    return {name: f"az{number:0{width}}" for number, name in enumerate(new, first)}


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    with suppress(ValueError):
        return bool(ip_address(text))
    return False
