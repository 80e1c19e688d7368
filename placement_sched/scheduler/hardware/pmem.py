"""Virtual persistent memory.

Source: nova's documentation, "Attaching virtual persistent memory to guests".
"""

from collections import Counter
from collections.abc import Mapping

import os_resource_classes

from placement_sched.model.flavor import Flavor


def pmem_amounts(flavor: Flavor) -> Mapping[str, int]:
    """Return how many namespaces ``hw:pmem`` asks for, by the resource class of their label."""
    labels = (label.strip() for label in flavor.extra_specs.get("hw:pmem", "").split(","))
    return Counter(
        os_resource_classes.normalize_name(f"PMEM_NAMESPACE_{label}") for label in labels if label
    )
