"""[pci]: the devices that flavors may name."""

from oslo_config import cfg

GROUP = "pci"

OPTIONS = (
    cfg.MultiStrOpt(
        "alias",
        default=[],
        deprecated_name="pci_alias",
        deprecated_group="DEFAULT",
        help="A name for PCI devices, by which the extra spec pci_passthrough:alias asks for them: "
        "a JSON object with the keys name, vendor_id, product_id, device_type (type-PCI, type-PF "
        "or type-VF), numa_policy (required, legacy, preferred or socket), resource_class, traits "
        "and live_migratable; repeatable. Lines of one name are alternatives. Example: "
        '{"name": "nic", "vendor_id": "8086", "product_id": "1520", "device_type": "type-VF"}.',
    ),
)
