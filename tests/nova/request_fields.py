# SPDX-License-Identifier: Apache-2.0
"""Fields of a request spec that nova stores."""

from uuid import UUID

from tests.support.nova_clouds import build_nova_object

REQUEST_FIELDS = {
    "availability_zone": "az1",
    "scheduler_hints": {"different_host": [str(UUID(int=3))], "group": [str(UUID(int=4))]},
    "is_bfv": False,
    # Nova stores null instead.
    **dict.fromkeys(("requested_resources", "requested_destination", "ignore_hosts", "retry")),
    "numa_topology": None,
    "pci_requests": build_nova_object("InstancePCIRequests", "1.1", {"requests": []}),
    "image": build_nova_object(
        "ImageMeta",
        "1.8",
        {
            "id": str(UUID(int=7)),
            "min_ram": 0,
            "properties": build_nova_object(
                "ImageMetaProps", "1.37", {"traits_required": ["CUSTOM_LICENSED"]}
            ),
        },
    ),
}
