# SPDX-License-Identifier: Apache-2.0
"""Devices and firmware that a flavor and an image request (nova 34 observed)."""

import pytest

from tests.model.hardware.asked import hardware_of, refused

TIS, CRB = "COMPUTE_SECURITY_TPM_TIS", "COMPUTE_SECURITY_TPM_CRB"
OLD, NEW = "COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0"
KEEPER = "hw:tpm_secret_security"
#: A property, its key, two of its values, and what flavor or image may set it to.
AGREED = [
    ("address_mode", "hw:maxphysaddr_mode", "emulate", "passthrough"),
    ("ephemeral_encryption_format", "hw:ephemeral_encryption_format", "plain", "luksv2"),
    ("pci_affinity_policy", "hw:pci_numa_affinity_policy", "socket", "preferred"),
    ("secure_boot", "os:secure_boot", "required", "optional"),
    ("sound_model", "hw:sound_model", "virtio", "ich9"),
]
FLAGS = [
    ("has_ephemeral_encryption", "hw:ephemeral_encryption"),
    ("has_packed_ring", "hw:virtio_packed_ring"),
]


def of(name, extra_specs, properties=()):
    return getattr(hardware_of(extra_specs, properties).devices, name)


@pytest.mark.parametrize(("name", "key", "value", "other"), AGREED)
def test_value_is_that_of_flavor_or_image_and_one_that_is_known(name, key, value, other):
    image_key = key.replace(":", "_")
    assert of(name, {}) is None
    assert of(name, {key: value}) == of(name, {}, {image_key: value}) == value
    assert of(name, {key: value}, {image_key: value}) == value
    refused(lambda: of(name, {key: value}, {image_key: other}), key, image_key)
    assert "expected" in refused(lambda: of(name, {key: "junk"}), key)


def test_error_names_the_values_that_are_known():
    why = refused(lambda: of("secure_boot", {"os:secure_boot": "yes"}))
    assert why == (
        "flavor extra spec 'os:secure_boot': expected required or disabled or optional, got 'yes'"
    )


@pytest.mark.parametrize(("name", "key"), FLAGS)
def test_flag_is_that_of_flavor_or_image(name, key):
    image_key = key.replace(":", "_")
    assert of(name, {}) is of(name, {key: "false"}, {image_key: "no"}) is False
    assert of(name, {key: "true"}) is of(name, {}, {image_key: "yes"}) is True
    refused(lambda: of(name, {key: "no"}, {image_key: "yes"}), key, image_key)


@pytest.mark.parametrize(
    ("extra_specs", "amounts"),
    [
        ({}, {}),
        ({"hw:pmem": ""}, {}),
        ({"hw:pmem": " , "}, {}),
        ({"hw:pmem": "6gb"}, {"CUSTOM_PMEM_NAMESPACE_6GB": 1}),
        (
            {"hw:pmem": "6GB, a-b,6gb,"},
            {"CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_A_B": 1},
        ),
    ],
)
def test_pmem_namespaces_are_counted_by_class(extra_specs, amounts):
    assert of("pmem_namespaces", extra_specs) == amounts


@pytest.mark.parametrize(
    ("extra_specs", "properties", "traits", "keeper"),
    [
        ({}, {}, (), None),
        ({"hw:tpm_model": "junk", KEEPER: "junk"}, {"hw_tpm_model": "tpm-crb"}, (), None),
        ({"hw:tpm_version": "1.2"}, {}, (TIS, OLD), "user"),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {}, (CRB, NEW), "user"),
        ({KEEPER: "host"}, {"hw_tpm_version": "2.0"}, (TIS, NEW), "host"),
        ({"hw:tpm_version": "2.0", KEEPER: ""}, {"hw_tpm_model": "tpm-crb"}, (CRB, NEW), "user"),
        ({"hw:tpm_version": "2.0", KEEPER: "deployment"}, {}, (TIS, NEW), "deployment"),
    ],
)
def test_tpm_traits_and_secret_security_are_those_of_the_version(
    extra_specs, properties, traits, keeper
):
    assert of("tpm_traits", extra_specs, properties) == traits
    assert of("tpm_secret_security", extra_specs, properties) == keeper


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({"hw:tpm_version": "3"}, {}, ["hw:tpm_version"]),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "x"}, {}, ["hw:tpm_model"]),
        (
            {"hw:tpm_version": "1.2"},
            {"hw_tpm_version": "2.0"},
            ["hw:tpm_version", "hw_tpm_version"],
        ),
        (
            {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-tis"},
            {"hw_tpm_model": "tpm-crb"},
            ["hw:tpm_model", "hw_tpm_model"],
        ),
        (
            {"hw:tpm_version": "1.2"},
            {"hw_tpm_model": "tpm-crb"},
            ["hw:tpm_version", "hw_tpm_model"],
        ),
        ({"hw:tpm_version": "2.0", KEEPER: "moon"}, {}, [KEEPER]),
    ],
)
def test_tpm_with_unknown_or_different_values_is_refused(extra_specs, properties, named):
    refused(lambda: of("tpm_secret_security", extra_specs, properties), *named)
