# SPDX-License-Identifier: Apache-2.0
"""Labels of names keep the order of the names, and are translated back."""

import json
import re
import stat
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.extensions.fleet.names import (
    ADDRESS,
    CHILD,
    CUSTOM,
    HOST,
    PROVIDER,
    UUID,
    ZONE,
    Names,
)

_RANDOM_NAMES = st.sets(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), max_size=30)


def label_all(names: Names, kind: str, *texts: str) -> list[str]:
    return [names.get_label(kind, text) for text in texts]


@given(first=_RANDOM_NAMES, second=_RANDOM_NAMES)
def test_labels_have_the_order_of_names_also_if_names_are_added(first, second):
    names = Names().extend((HOST, name) for name in first)
    extended = names.extend((HOST, name) for name in second)
    every = sorted(first | second)
    labels = label_all(extended, HOST, *every)
    assert labels == sorted(set(labels))
    assert all(re.fullmatch("host-[0-9a-f]{8}", label) for label in labels)
    assert label_all(names, HOST, *first) == label_all(extended, HOST, *first)
    assert extended.restore(labels) == every
    assert extended.restore({label: f"{label}: no" for label in labels}) == {
        name: f"{name}: no" for name in every
    }


@given(st.sets(st.uuids(version=4).map(str), min_size=1, max_size=20))
def test_uuids_stay_uuids_in_their_order(uuids):
    names = Names().extend((UUID, uuid) for uuid in uuids)
    labels = label_all(names, UUID, *sorted(uuids))
    assert labels == sorted(set(labels))
    assert all(re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", each) for each in labels)
    assert not uuids & set(labels)
    assert names.restore(",".join(labels)) == ",".join(sorted(uuids))


def test_a_label_depends_on_the_key_and_the_name():
    names = Names(b"k" * 32)
    assert names.extend([(HOST, "cn1")]) == names.extend([(HOST, "cn1")])
    labels = {Names().extend([(HOST, "cn1")]).get_label(HOST, "cn1") for _ in range(3)}
    assert len(labels) == 3


def test_custom_names_stay_valid_and_keep_the_prefix_of_physical_networks():
    names = Names().extend([(CUSTOM, "CUSTOM_GOLD"), (CUSTOM, "CUSTOM_PHYSNET_ACME")])
    gold, network = label_all(names, CUSTOM, "CUSTOM_GOLD", "CUSTOM_PHYSNET_ACME")
    assert re.fullmatch("CUSTOM_[0-9A-F]{8}", gold)
    assert re.fullmatch("CUSTOM_PHYSNET_[0-9A-F]{8}", network)
    query = f"required={gold}%2C%21{network}&resources={gold}%3A1"
    restored = "required=CUSTOM_GOLD%2C%21CUSTOM_PHYSNET_ACME&resources=CUSTOM_GOLD%3A1"
    assert names.restore(query) == restored


def test_zones_are_numbered_in_the_order_of_their_names():
    names = Names().extend([(ZONE, "paris"), (ZONE, "lima")])
    assert label_all(names, ZONE, "lima", "paris") == ["az1", "az2"]
    # A new zone gets the next number.
    assert names.extend([(ZONE, "berlin")]).get_label(ZONE, "berlin") == "az3"
    assert names.restore("az1,az2: no az12") == "lima,paris: no az12"
    ten = Names().extend((ZONE, letter) for letter in "abcdefghij")
    assert label_all(ten, ZONE, "a", "j") == ["az01", "az10"]


@pytest.mark.parametrize(
    ("address", "neighbour", "prefix"),
    [("10.1.2.3", "10.1.2.200", 24), ("2001:db8::1", "2001:db8::ffff:1", 64)],
)
def test_addresses_of_a_subnet_stay_in_a_subnet(address, neighbour, prefix):
    names = Names(b"k" * 32).extend([(ADDRESS, address), (ADDRESS, neighbour)])
    labels = label_all(names, ADDRESS, address, neighbour)
    subnet = ip_network(f"{labels[0]}/{prefix}", strict=False)
    assert ip_address(labels[1]) in subnet
    assert address not in labels
    original = ip_network(f"{address}/{prefix}", strict=False)
    text = f"{labels[0]} in {subnet}, not {labels[1]}"
    assert names.restore(text) == f"{address} in {original}, not {neighbour}"


def test_a_request_may_name_a_provider_in_the_place_of_a_host():
    names = Names().extend([(HOST, "cn1"), (CHILD, "_gpu0"), (PROVIDER, "pool")])
    labels = [names.find_label(HOST, name) for name in ("cn1", "cn1_gpu0", "pool", "cn2", "c_gpu0")]
    assert re.fullmatch("host-[0-9a-f]{8}_child-[0-9a-f]{8}", labels[1])
    assert labels[2].startswith("provider-")
    assert labels[3:] == ["cn2", "c_gpu0"]
    assert names.restore(labels) == ["cn1", "cn1_gpu0", "pool", "cn2", "c_gpu0"]


def test_label_of_another_file_of_names_is_rejected():
    label = Names().extend([(HOST, "cn1")]).get_label(HOST, "cn1")
    with pytest.raises(Invalid, match=f"the file of names has no {label}: use the file of this"):
        Names().restore({"host": label})


def test_names_without_room_between_two_labels_are_rejected():
    names = Names(labels={HOST: {"a": "host-00000000", "d": "host-00000003"}})
    with pytest.raises(Invalid, match="no labels are left for the host b: write a new file"):
        names.extend([(HOST, "b"), (HOST, "c")])
    assert names.extend([(HOST, "b")]).labels[HOST]["b"] in {"host-00000001", "host-00000002"}


def test_the_file_of_names_is_only_for_its_owner_and_replaced_at_once(tmp_path):
    file = tmp_path / "names.json"
    file.write_text("{}")
    file.chmod(0o644)
    names = Names().extend([(HOST, "cn1"), (ZONE, "é")])
    names.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Names.read(file) == names
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_write_leaves_the_file_of_names_as_it_was(tmp_path):
    folder = tmp_path / "names.json"
    folder.mkdir()
    with pytest.raises(Invalid, match=r"names\.json: Is a directory"):
        Names().write(folder)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "content",
    [
        "no JSON",
        "[]",
        "{}",
        '{"version": 1, "key": "00", "names": {}}',
        '{"version": 1, "key": "no digits", "names": {}}',
        json.dumps({"version": 1, "key": "00" * 32, "names": []}),
        json.dumps({"version": 1, "key": "00" * 32, "names": {"host": ["cn1"]}}),
        json.dumps({"version": 1, "key": "00" * 32, "names": {"host": {"cn1": 5}}}),
    ],
)
def test_other_files_are_rejected(tmp_path, content):
    (tmp_path / "f").write_text(content)
    with pytest.raises(Invalid, match="f is not a file of names, as written by --anonymize"):
        Names.read(tmp_path / "f")


def test_a_file_of_names_of_a_newer_version_is_rejected(tmp_path):
    (tmp_path / "f").write_text('{"version": 2}')
    with pytest.raises(Invalid, match="f has version 2, expected 1"):
        Names.read(tmp_path / "f")
