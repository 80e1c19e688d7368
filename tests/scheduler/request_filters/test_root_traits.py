# SPDX-License-Identifier: Apache-2.0
"""Request filters that require or forbid traits of the root provider."""

import pytest

from placement_sched.scheduler.request_filters.root_traits import (
    AcceleratorsFilter,
    ComputeStatusFilter,
    EphemeralEncryptionFilter,
    PackedVirtqueueFilter,
    RemoteManagedPortsFilter,
    RequireImageTypeSupport,
    TPMSecretSecurityFilter,
    VirtioSoundFilter,
)
from tests.scheduler.explanations import explain_request, put_hosts
from tests.scheduler.fake_cloud import find_added_root_traits, run_request_filter
from tests.support.api_clouds import disable_host
from tests.support.scheduling import make_flavor, make_spec
from tests.support.states import build_spec

ACCELERATORS_TRAIT, PACKED_RING_TRAIT = "COMPUTE_ACCELERATORS", "COMPUTE_NET_VIRTIO_PACKED"
DISABLED_TRAIT, VIRTIO_SOUND_TRAIT = "COMPUTE_STATUS_DISABLED", "COMPUTE_SOUND_MODEL_VIRTIO"
ENCRYPTION_TRAIT, REMOTE_PORTS_TRAIT = (
    "COMPUTE_EPHEMERAL_ENCRYPTION",
    "COMPUTE_REMOTE_MANAGED_PORTS",
)
LUKS_TRAITS = [ENCRYPTION_TRAIT, f"{ENCRYPTION_TRAIT}_LUKS"]
TPM_SECURITY_TRAIT = "COMPUTE_SECURITY_TPM_SECRET_SECURITY"
DEVICE_PROFILE_SPEC = {"accel:device_profile": "fpga"}
ENCRYPTION_SPEC = {"hw:ephemeral_encryption": "true"}
ENCRYPTION_FORMAT_KEY, IMAGE_ENCRYPTION_FORMAT_KEY = (
    "hw:ephemeral_encryption_format",
    "hw_ephemeral_encryption_format",
)
PACKED_RING_KEY, IMAGE_PACKED_RING_KEY = "hw:virtio_packed_ring", "hw_virtio_packed_ring"
SOUND_MODEL_KEY, IMAGE_SOUND_MODEL_KEY = "hw:sound_model", "hw_sound_model"
TPM_EXTRA_SPEC, TPM_SECURITY_KEY = {"hw:tpm_version": "2.0"}, "hw:tpm_secret_security"
IMAGE_TYPE_OPTION = "scheduler__query_placement_for_image_type_support"
PORT_ID = "aaaaaaaa-0000-4000-8000-000000000001"
REMOTE_MANAGED_PORT = {"port_id": PORT_ID, "vnic_type": "remote-managed"}
NORMAL_PORT = {"port_id": PORT_ID, "vnic_type": "normal"}


@pytest.mark.parametrize(
    ("kind", "extra_specs", "properties", "traits"),
    [
        (AcceleratorsFilter, DEVICE_PROFILE_SPEC, {}, [ACCELERATORS_TRAIT]),
        (AcceleratorsFilter, {"accel:device_profile": ""}, {}, []),
        (AcceleratorsFilter, {"device_profile": "fpga"}, DEVICE_PROFILE_SPEC, []),
        (EphemeralEncryptionFilter, ENCRYPTION_SPEC, {}, [ENCRYPTION_TRAIT]),
        (
            EphemeralEncryptionFilter,
            ENCRYPTION_SPEC,
            {IMAGE_ENCRYPTION_FORMAT_KEY: "luks"},
            LUKS_TRAITS,
        ),
        (
            EphemeralEncryptionFilter,
            ENCRYPTION_SPEC | {ENCRYPTION_FORMAT_KEY: "luksv2"},
            {},
            [ENCRYPTION_TRAIT, f"{LUKS_TRAITS[1]}V2"],
        ),
        (
            EphemeralEncryptionFilter,
            {ENCRYPTION_FORMAT_KEY: "luks"},
            {"hw_ephemeral_encryption": "false"},
            [],
        ),
        (PackedVirtqueueFilter, {PACKED_RING_KEY: "true"}, {}, [PACKED_RING_TRAIT]),
        (PackedVirtqueueFilter, {}, {IMAGE_PACKED_RING_KEY: True}, [PACKED_RING_TRAIT]),
        (PackedVirtqueueFilter, {PACKED_RING_KEY: "off"}, {IMAGE_PACKED_RING_KEY: "0"}, []),
        (TPMSecretSecurityFilter, TPM_EXTRA_SPEC, {}, [f"{TPM_SECURITY_TRAIT}_USER"]),
        (
            TPMSecretSecurityFilter,
            TPM_EXTRA_SPEC | {TPM_SECURITY_KEY: "deployment"},
            {},
            [f"{TPM_SECURITY_TRAIT}_DEPLOYMENT"],
        ),
        (
            TPMSecretSecurityFilter,
            {TPM_SECURITY_KEY: "host"},
            {"hw_tpm_version": "1.2"},
            [f"{TPM_SECURITY_TRAIT}_HOST"],
        ),
        (TPMSecretSecurityFilter, {"hw:tpm_model": "tpm-tis", TPM_SECURITY_KEY: "host"}, {}, []),
        (VirtioSoundFilter, {}, {IMAGE_SOUND_MODEL_KEY: "virtio"}, [VIRTIO_SOUND_TRAIT]),
        (VirtioSoundFilter, {SOUND_MODEL_KEY: "usb"}, {}, []),
        *(
            (kind, {}, {}, [])
            for kind in (
                AcceleratorsFilter,
                EphemeralEncryptionFilter,
                PackedVirtqueueFilter,
                TPMSecretSecurityFilter,
                VirtioSoundFilter,
            )
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_traits_for_options_of_flavor_and_image_are_required_of_the_root(
    kind, extra_specs, properties, traits
):
    request = build_spec(extra_specs, properties)
    assert find_added_root_traits(kind, request) == traits
    assert bool(run_request_filter(kind, request)) is bool(traits)


DISK_FORMATS = ("aki", "ami", "ari", "iso", "ploop", "qcow2", "raw", "vdi", "vhd", "vhdx", "vmdk")


def build_image_request(disk_format, **fields):
    return build_spec(image={"disk_format": disk_format}, **fields)


@pytest.mark.parametrize(
    ("request_spec", "traits"),
    [
        *(
            (build_image_request(name), [f"COMPUTE_IMAGE_TYPE_{name.upper()}"])
            for name in DISK_FORMATS
        ),
        (build_image_request("qcow2", is_bfv=True), []),
        (build_image_request("parchment"), []),
        (build_image_request(""), []),
        (build_image_request(None), []),
        (build_spec(image=None), []),
    ],
)
def test_disk_format_of_the_image_requires_its_trait(request_spec, traits):
    assert find_added_root_traits(RequireImageTypeSupport, request_spec) == traits
    assert bool(run_request_filter(RequireImageTypeSupport, request_spec)) is bool(traits)


@pytest.mark.parametrize(
    ("networks", "traits"),
    [
        ([REMOTE_MANAGED_PORT], [REMOTE_PORTS_TRAIT]),
        ([{"port_id": PORT_ID, "binding:vnic_type": "remote-managed"}], [REMOTE_PORTS_TRAIT]),
        ([NORMAL_PORT, {"network_id": "net"}, REMOTE_MANAGED_PORT], [REMOTE_PORTS_TRAIT]),
        ([REMOTE_MANAGED_PORT, REMOTE_MANAGED_PORT], [REMOTE_PORTS_TRAIT]),
        ([], []),
        ([{"network_id": "net"}], []),
        ([{"port_id": PORT_ID}], []),
        ([NORMAL_PORT], []),
        ([{"port_id": PORT_ID, "vnic_type": None, "binding:vnic_type": None}], []),
        *(([NORMAL_PORT | {"vnic_type": kind}], []) for kind in ("direct", "macvtap", "vdpa", "x")),
    ],
)
def test_remote_managed_port_requires_its_trait(networks, traits):
    assert (
        find_added_root_traits(RemoteManagedPortsFilter, build_spec(requested_networks=networks))
        == traits
    )


def test_hosts_without_the_required_root_traits_are_no_candidates(sqlite_app):
    names = {
        "accelerators_filter": ACCELERATORS_TRAIT,
        "ephemeral_encryption_filter": ENCRYPTION_TRAIT,
        "packed_virtqueue_filter": PACKED_RING_TRAIT,
        "require_image_type_support": "COMPUTE_IMAGE_TYPE_QCOW2",
        "virtio_sound_filter": VIRTIO_SOUND_TRAIT,
        "tpm_secret_security_filter": f"{TPM_SECURITY_TRAIT}_HOST",
    }
    tpm = ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]
    # Each host but the first lacks a trait.
    hosts = {
        f"cn{number}": [*tpm, *(trait for trait in names.values() if trait != missing)]
        for number, missing in enumerate([None, *names.values()])
    }
    put_hosts(sqlite_app, **hosts)
    extra_specs = (
        DEVICE_PROFILE_SPEC
        | ENCRYPTION_SPEC
        | {PACKED_RING_KEY: "true"}
        | TPM_EXTRA_SPEC
        | {TPM_SECURITY_KEY: "host"}
    )
    image = {"disk_format": "qcow2", "properties": {IMAGE_SOUND_MODEL_KEY: "virtio"}}
    options = {IMAGE_TYPE_OPTION: True}
    request = make_spec(flavor=make_flavor(extra_specs=extra_specs), image=image)
    response = explain_request(sqlite_app, request, **options)
    for name, trait in names.items():
        result = response.get_request_filter_report(name)
        assert result == {"applied": True, "changes": {"root_required": [trait]}}
        assert trait in response.query["root_required"][0].split(",")
    assert response.hosts == ["cn0"]
    response = explain_request(sqlite_app, make_spec(), **options)
    results = {str(response.get_request_filter_report(name)) for name in names}
    assert results == {str({"applied": False, "changes": {}})}
    assert response.hosts == list(hosts)


@pytest.mark.parametrize(
    ("forbidden", "expected"),
    [
        ([], {DISABLED_TRAIT}),
        (["CUSTOM_OLD"], {DISABLED_TRAIT, "CUSTOM_OLD"}),
        ([DISABLED_TRAIT], {DISABLED_TRAIT}),
    ],
)
def test_trait_of_disabled_hosts_is_forbidden(forbidden, expected):
    request = build_spec(request_level_params={"root_forbidden": forbidden})
    outcome = run_request_filter(ComputeStatusFilter, request)
    assert outcome.spec.root_forbidden == expected
    assert outcome.changes == (
        {} if DISABLED_TRAIT in forbidden else {"root_forbidden": [DISABLED_TRAIT]}
    )


def test_disabled_host_is_rejected_by_the_candidates_query(app):
    put_hosts(app, cn1=[], cn2=[])
    disable_host(app, "cn1")
    response = explain_request(app, make_spec())
    result = response.get_request_filter_report("compute_status_filter")
    assert result == {"applied": True, "changes": {"root_forbidden": [DISABLED_TRAIT]}}
    assert response.query["root_required"] == [f"!{DISABLED_TRAIT}"]
    assert response.hosts == ["cn2"]
    steps = response.result["funnel"]["allocation_candidates"]["steps"]
    (step,) = (step for step in steps if step["rejected"])
    assert [rejection["host"] for rejection in step["rejected"]] == ["cn1"]


def test_error_for_a_required_trait_of_disabled_hosts_names_parameter_and_filter(sqlite_app):
    put_hosts(sqlite_app, cn1=[])
    request = make_spec(request_level_params={"root_required": [DISABLED_TRAIT]})
    response = sqlite_app.post_json("/scheduler/v1/explain", {"request_spec": request}, status=400)
    (error,) = response.json["errors"]
    assert "request_level_params.root_required" in error["detail"]
    assert "request filter compute_status_filter" in error["detail"]
