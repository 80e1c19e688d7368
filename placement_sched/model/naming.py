"""How names may be written, whoever gives them: a request of a face or a fleet file.

Sources: compute API reference ("Host aggregates", "Flavors", "Flavors extra-specs", "Compute
services"). Names begin and end with no blank, as MariaDB takes ``a`` and ``a `` for the same.
"""

import re
from unicodedata import category

#: A host, where a request names it.
HOST = r"^[a-zA-Z0-9._-]*$(?!\n)"
#: An availability zone: a server is created in ``zone:host:node``, so its name has no colon.
ZONE = "^[^:]*$"
#: A key of an aggregate's metadata or of a flavor's extra specs.
KEY = r"^(?! )[a-zA-Z0-9:_. -]{1,255}(?<! )$(?!\n)"
#: The id of a flavor.
FLAVOR_ID = r"^(?! )[a-zA-Z0-9. _-]+(?<! )$(?!\n)"

#: An image's id, in the properties that name an image.
UUID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"


def is_zone(text: str) -> bool:
    """Return whether ``text`` may name an availability zone."""
    return is_printable_name(text) and re.search(ZONE, text) is not None


def is_printable(text: str) -> bool:
    """Return whether ``text`` is printable, spaces of all kinds included."""
    return all(letter.isprintable() or category(letter) == "Zs" for letter in text)


def is_printable_name(text: str) -> bool:
    """Return whether ``text`` is printable, with no white space at either end (nova's names)."""
    return is_printable(text) and text == text.strip()
