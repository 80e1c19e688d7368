"""PCI devices of an instance, as a request gives them."""

from placement_sched.model.pci_request import InstancePCIRequest, InstancePCIRequests

SPEC = {"vendor_id": "8086", "product_id": "1520", "live_migratable": "true"}


def test_requests_are_read_from_a_document():
    requests = InstancePCIRequests.from_document(
        {
            "requests": [
                {"count": 2, "spec": [SPEC], "alias_name": "nic", "numa_policy": "legacy"},
                {"count": 1, "spec": None, "request_id": "r", "requester_id": "p"},
            ]
        }
    )
    by_alias, by_port = requests.requests
    assert by_alias == InstancePCIRequest(
        count=2, spec=(SPEC,), alias_name="nic", numa_policy="legacy"
    )
    assert by_port == InstancePCIRequest(count=1, request_id="r", requester_id="p")


def test_request_without_an_alias_comes_from_a_port():
    assert InstancePCIRequest(count=1).source == InstancePCIRequest.NEUTRON_PORT == 1
    assert (
        InstancePCIRequest(count=1, alias_name="a").source == InstancePCIRequest.FLAVOR_ALIAS == 0
    )


def test_request_is_live_migratable_if_all_its_devices_are():
    assert InstancePCIRequest(count=1, spec=(SPEC,)).is_live_migratable()
    assert not InstancePCIRequest(count=1, spec=(SPEC, {})).is_live_migratable()


def test_requests_are_true_even_without_any():
    assert InstancePCIRequests()
