# SPDX-License-Identifier: Apache-2.0
"""Random requests and host aggregates."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.scheduler.fake_cloud import FakeCloud
from tests.support.clouds import uuid_of
from tests.support.states import build_aggregate, build_spec

#: The numbers of the host aggregates.
AGGREGATE_NUMBERS = range(1, 6)
CUSTOM_TRAITS = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C")
_AGGREGATE_UUIDS = st.sampled_from([uuid_of(f"agg{number}") for number in AGGREGATE_NUMBERS])
_TRAIT_LISTS = st.lists(st.sampled_from(CUSTOM_TRAITS), max_size=2, unique=True)


def build_subset_strategy(*items: tuple[str, object]) -> st.SearchStrategy[dict[str, object]]:
    """Return any of these items, as a dictionary."""
    return st.lists(st.sampled_from(items), max_size=4, unique_by=lambda item: item[0]).map(dict)


EXTRA_SPECS = build_subset_strategy(
    ("trait:CUSTOM_A", "required"),
    ("trait:CUSTOM_B", "required"),
    ("trait:CUSTOM_B", "forbidden"),
    ("trait1:CUSTOM_C", "required"),
    ("resources1:PGPU", "1"),
    ("hw:tpm_version", "2.0"),
    ("hw:tpm_secret_security", "host"),
    ("hw:virtio_packed_ring", "true"),
    ("hw:ephemeral_encryption", "true"),
    ("hw:sound_model", "virtio"),
    ("accel:device_profile", "fpga"),
)
IMAGE_PROPERTIES = build_subset_strategy(
    ("trait:CUSTOM_A", "required"),
    ("trait:CUSTOM_B", "required"),
    ("trait9:CUSTOM_C", "required"),
    ("hw_tpm_version", "2.0"),
    ("hw_disk_bus", "virtio"),
    ("hw_sound_model", "virtio"),
    ("hw_ephemeral_encryption", "true"),
    ("hw_virtio_packed_ring", "true"),
)
REQUESTED_DESTINATIONS = st.none() | st.fixed_dictionaries(
    {
        "aggregates": st.lists(
            st.lists(_AGGREGATE_UUIDS, min_size=1, max_size=3, unique=True).map(",".join),
            max_size=2,
        ),
        "forbidden_aggregates": st.lists(_AGGREGATE_UUIDS, max_size=2, unique=True),
    }
)
REQUESTED_RESOURCES = st.lists(
    st.fixed_dictionaries(
        {
            "requester_id": st.just("port"),
            "resources": st.just({"PGPU": 1}),
            "required_traits": _TRAIT_LISTS,
            "aggregates": st.lists(_AGGREGATE_UUIDS, max_size=1),
        }
    ),
    max_size=1,
)
#: Segments of networks, and the aggregates of the hosts that they reach.
AGGREGATES_BY_SEGMENT = {
    uuid_of("seg1"): frozenset({uuid_of("agg1"), uuid_of("agg2")}),
    uuid_of("seg2"): frozenset({uuid_of("agg3")}),
}
REQUESTED_NETWORKS = st.lists(
    st.fixed_dictionaries(
        {
            "port_id": st.just(uuid_of("port")),
            "segments": st.lists(
                st.sampled_from(sorted(AGGREGATES_BY_SEGMENT)), max_size=2, unique=True
            ),
            "vnic_type": st.sampled_from(["normal", "remote-managed"]),
        }
    ),
    max_size=1,
)
REQUEST_LEVEL_PARAMS = st.fixed_dictionaries(
    {
        "root_required": st.lists(st.sampled_from(["CUSTOM_A", "OWNER_NOVA"]), max_size=1),
        "root_forbidden": st.lists(st.just("CUSTOM_C"), max_size=1),
    }
)
RANDOM_REQUEST_SPECS = st.builds(
    lambda properties, disk_format, **fields: build_spec(
        image={"disk_format": disk_format, "properties": properties}, **fields
    ),
    extra_specs=EXTRA_SPECS,
    properties=IMAGE_PROPERTIES,
    disk_format=st.sampled_from([None, "qcow2"]),
    project_id=st.sampled_from([None, "p1"]),
    availability_zone=st.sampled_from([None, None, "az1", "az1,az2", "nova"]),
    requested_destination=REQUESTED_DESTINATIONS,
    requested_networks=REQUESTED_NETWORKS,
    requested_resources=REQUESTED_RESOURCES,
    request_level_params=REQUEST_LEVEL_PARAMS,
)
AGGREGATE_METADATA = build_subset_strategy(
    ("trait:CUSTOM_A", "required"),
    ("trait:CUSTOM_B", "required"),
    ("trait:CUSTOM_C", "required"),
    ("trait:COMPUTE_SECURITY_TPM_2_0", "required"),
    ("trait:CUSTOM_A", "forbidden"),
    ("filter_tenant_id", "p1"),
    ("filter_tenant_id2", "p2"),
    ("availability_zone", "az1"),
    ("availability_zone", "az2,az3"),
)
RANDOM_CLOUDS = st.builds(
    lambda metadata, common: FakeCloud(
        tuple(
            replace(build_aggregate(number, **values), uuid=uuid_of(f"agg{number}"))
            for number, values in zip(AGGREGATE_NUMBERS, metadata, strict=True)
        ),
        memberships=AGGREGATES_BY_SEGMENT,
        common_traits=frozenset(common),
    ),
    metadata=st.tuples(*[AGGREGATE_METADATA] * len(AGGREGATE_NUMBERS)),
    common=st.sampled_from([[], ["OWNER_NOVA"]]),
)
