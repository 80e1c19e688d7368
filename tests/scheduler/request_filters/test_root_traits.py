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
from tests.support.scheduling import flavor, spec
from tests.support.states import build_spec

ACCELERATORS, PACKED = "COMPUTE_ACCELERATORS", "COMPUTE_NET_VIRTIO_PACKED"
DISABLED, SOUND = "COMPUTE_STATUS_DISABLED", "COMPUTE_SOUND_MODEL_VIRTIO"
ENCRYPTION, REMOTE_PORTS = "COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_REMOTE_MANAGED_PORTS"
LUKS = [ENCRYPTION, f"{ENCRYPTION}_LUKS"]
SECRET = "COMPUTE_SECURITY_TPM_SECRET_SECURITY"  # noqa: S105 - the prefix of traits
PROFILE = {"accel:device_profile": "fpga"}
ENCRYPT = {"hw:ephemeral_encryption": "true"}
FORMAT, IMAGE_FORMAT = "hw:ephemeral_encryption_format", "hw_ephemeral_encryption_format"
RING, IMAGE_RING = "hw:virtio_packed_ring", "hw_virtio_packed_ring"
MODEL, IMAGE_MODEL = "hw:sound_model", "hw_sound_model"
TPM, KEEPER = {"hw:tpm_version": "2.0"}, "hw:tpm_secret_security"
IMAGE_TYPE_OPTION = "scheduler__query_placement_for_image_type_support"
PORT = "aaaaaaaa-0000-4000-8000-000000000001"
REMOTE = {"port_id": PORT, "vnic_type": "remote-managed"}
NORMAL = {"port_id": PORT, "vnic_type": "normal"}
COMPUTE = {"OpenStack-API-Version": "compute 2.96"}


@pytest.mark.parametrize(
    ("kind", "extra_specs", "properties", "traits"),
    [
        (AcceleratorsFilter, PROFILE, {}, [ACCELERATORS]),
        (AcceleratorsFilter, {"accel:device_profile": ""}, {}, []),
        (AcceleratorsFilter, {"device_profile": "fpga"}, PROFILE, []),
        (EphemeralEncryptionFilter, ENCRYPT, {}, [ENCRYPTION]),
        (EphemeralEncryptionFilter, ENCRYPT, {IMAGE_FORMAT: "luks"}, LUKS),
        (EphemeralEncryptionFilter, ENCRYPT | {FORMAT: "luksv2"}, {}, [ENCRYPTION, f"{LUKS[1]}V2"]),
        (EphemeralEncryptionFilter, {FORMAT: "luks"}, {"hw_ephemeral_encryption": "false"}, []),
        (PackedVirtqueueFilter, {RING: "true"}, {}, [PACKED]),
        (PackedVirtqueueFilter, {}, {IMAGE_RING: True}, [PACKED]),
        (PackedVirtqueueFilter, {RING: "off"}, {IMAGE_RING: "0"}, []),
        (TPMSecretSecurityFilter, TPM, {}, [f"{SECRET}_USER"]),
        (TPMSecretSecurityFilter, TPM | {KEEPER: "deployment"}, {}, [f"{SECRET}_DEPLOYMENT"]),
        (TPMSecretSecurityFilter, {KEEPER: "host"}, {"hw_tpm_version": "1.2"}, [f"{SECRET}_HOST"]),
        (TPMSecretSecurityFilter, {"hw:tpm_model": "tpm-tis", KEEPER: "host"}, {}, []),
        (VirtioSoundFilter, {}, {IMAGE_MODEL: "virtio"}, [SOUND]),
        (VirtioSoundFilter, {MODEL: "usb"}, {}, []),
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
        ([REMOTE], [REMOTE_PORTS]),
        ([{"port_id": PORT, "binding:vnic_type": "remote-managed"}], [REMOTE_PORTS]),
        ([NORMAL, {"network_id": "net"}, REMOTE], [REMOTE_PORTS]),
        ([REMOTE, REMOTE], [REMOTE_PORTS]),
        ([], []),
        ([{"network_id": "net"}], []),
        ([{"port_id": PORT}], []),
        ([NORMAL], []),
        ([{"port_id": PORT, "vnic_type": None, "binding:vnic_type": None}], []),
        *(([NORMAL | {"vnic_type": kind}], []) for kind in ("direct", "macvtap", "vdpa", "x")),
    ],
)
def test_remote_managed_port_requires_the_trait(networks, traits):
    assert (
        find_added_root_traits(RemoteManagedPortsFilter, build_spec(requested_networks=networks))
        == traits
    )


def test_hosts_without_the_traits_are_no_candidates(sqlite_app):
    names = {
        "accelerators_filter": ACCELERATORS,
        "ephemeral_encryption_filter": ENCRYPTION,
        "packed_virtqueue_filter": PACKED,
        "require_image_type_support": "COMPUTE_IMAGE_TYPE_QCOW2",
        "virtio_sound_filter": SOUND,
        "tpm_secret_security_filter": f"{SECRET}_HOST",
    }
    tpm = ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]
    # Each host but the first lacks a trait.
    hosts = {
        f"cn{number}": [*tpm, *(trait for trait in names.values() if trait != missing)]
        for number, missing in enumerate([None, *names.values()])
    }
    put_hosts(sqlite_app, **hosts)
    extra_specs = PROFILE | ENCRYPT | {RING: "true"} | TPM | {KEEPER: "host"}
    image = {"disk_format": "qcow2", "properties": {IMAGE_MODEL: "virtio"}}
    options = {IMAGE_TYPE_OPTION: True}
    request = spec(flavor=flavor(extra_specs=extra_specs), image=image)
    answer = explain_request(sqlite_app, request, **options)
    for name, trait in names.items():
        result = answer.get_request_filter_report(name)
        assert result == {"applied": True, "changes": {"root_required": [trait]}}
        assert trait in answer.query["root_required"][0].split(",")
    assert answer.hosts == ["cn0"]
    answer = explain_request(sqlite_app, spec(), **options)
    results = {str(answer.get_request_filter_report(name)) for name in names}
    assert results == {str({"applied": False, "changes": {}})}
    assert answer.hosts == list(hosts)


@pytest.mark.parametrize(
    ("forbidden", "expected"),
    [([], {DISABLED}), (["CUSTOM_OLD"], {DISABLED, "CUSTOM_OLD"}), ([DISABLED], {DISABLED})],
)
def test_trait_of_disabled_hosts_is_forbidden(forbidden, expected):
    request = build_spec(request_level_params={"root_forbidden": forbidden})
    outcome = run_request_filter(ComputeStatusFilter, request)
    assert outcome.spec.root_forbidden == expected
    assert outcome.changes == ({} if DISABLED in forbidden else {"root_forbidden": [DISABLED]})


def test_disabled_host_is_rejected_by_the_query(app):
    put_hosts(app, cn1=[], cn2=[])
    (service,) = app.get("/compute/v2.1/os-services?host=cn1", headers=COMPUTE).json["services"]
    path = f"/compute/v2.1/os-services/{service['id']}"
    app.put_json(path, {"status": "disabled"}, headers=COMPUTE)
    answer = explain_request(app, spec())
    result = answer.get_request_filter_report("compute_status_filter")
    assert result == {"applied": True, "changes": {"root_forbidden": [DISABLED]}}
    assert answer.query["root_required"] == [f"!{DISABLED}"]
    assert answer.hosts == ["cn2"]
    steps = answer.answer["funnel"]["allocation_candidates"]["steps"]
    (step,) = (step for step in steps if step["rejected"])
    assert [rejection["host"] for rejection in step["rejected"]] == ["cn1"]


def test_error_for_a_required_trait_of_disabled_hosts_names_both(sqlite_app):
    put_hosts(sqlite_app, cn1=[])
    request = spec(request_level_params={"root_required": [DISABLED]})
    answer = sqlite_app.post_json("/scheduler/v1/explain", {"request_spec": request}, status=400)
    (error,) = answer.json["errors"]
    assert "request_level_params.root_required" in error["detail"]
    assert "request filter compute_status_filter" in error["detail"]
