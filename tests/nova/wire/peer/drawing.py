# SPDX-License-Identifier: Apache-2.0
"""Random objects of nova as its API and conductor make them, for nova's environment."""

import uuid
from datetime import UTC, datetime

from nova import objects, utils

_HOST_NAMES = ["cn1", "cn2", "cn3"]
_TRAITS = ["HW_CPU_X86_AVX2", "CUSTOM_A", "CUSTOM_B", "COMPUTE_STATUS_DISABLED"]
_RESOURCE_CLASSES = ["VCPU", "NET_BW_EGR_KILOBIT_PER_SEC", "CUSTOM_FPGA", "PGPU"]
_BOOLEAN_VALUES = ["true", "False", "yes", "0", True, False, "perhaps"]
#: Raw image properties of glance with their possible values.
IMAGE_PROPERTY_VALUES = {
    "hw_architecture": ["x86_64", "aarch64", "AMD64", "i386"],
    "architecture": ["ppc64le"],
    "hw_vm_mode": ["hvm", "pv", "HV", "xen"],
    "vm_mode": ["exe"],
    "img_hv_type": ["kvm", "QEMU", "xapi"],
    "hypervisor_type": ["lxc"],
    "img_hv_requested_version": [">=2.6", ">=1.0,<4"],
    "hypervisor_version_requires": [">3"],
    "hw_cpu_policy": ["dedicated", "shared", "mixed"],
    "hw_cpu_thread_policy": ["prefer", "isolate", "require"],
    "hw_cpu_sockets": ["1", 2],
    "hw_cpu_cores": ["4"],
    "hw_cpu_threads": ["2"],
    "hw_cpu_realtime_mask": ["^0-1", "2-3"],
    "hw_mem_page_size": ["large", "2048", "any"],
    "hw_numa_nodes": ["2", 3],
    "hw_pci_numa_affinity_policy": ["required", "socket"],
    "hw_disk_bus": ["virtio", "scsi"],
    "vmware_adaptertype": ["ide", "lsiLogic", "paraVirtual"],
    "vmware_ostype": ["ubuntu64Guest"],
    "hw_scsi_model": ["virtio-scsi", "LsiLogicSAS"],
    "hw_vif_model": ["virtio", "VirtualE1000", "igb"],
    "hw_video_model": ["qxl", "bochs", "none"],
    "hw_video_ram": ["64"],
    "hw_tpm_version": ["2.0"],
    "hw_tpm_model": ["tpm-crb"],
    "hw_firmware_type": ["uefi", "bios"],
    "hw_mem_encryption": _BOOLEAN_VALUES,
    "hw_mem_encryption_model": ["amd-sev", "intel-tdx"],
    "hw_vif_multiqueue_enabled": _BOOLEAN_VALUES,
    "hw_qemu_guest_agent": _BOOLEAN_VALUES,
    "hw_pmu": _BOOLEAN_VALUES,
    "hw_ipxe_boot": _BOOLEAN_VALUES,
    "img_bdm_v2": _BOOLEAN_VALUES,
    "bdm_v2": ["true"],
    "img_root_device_name": ["/dev/vda"],
    "root_device_name": ["/dev/sda"],
    "img_block_device_mapping": [[], [{"source_type": "image", "boot_index": "0"}]],
    "mappings": [[{"virtual": "ephemeral0", "device": "sdb"}]],
    "img_config_drive": ["optional", "mandatory"],
    "img_signature_hash_method": ["SHA-256"],
    "img_version": ["1"],
    "os_type": ["linux", "Windows"],
    "os_distro": ["fedora"],
    "os_require_quiesce": _BOOLEAN_VALUES,
    "os_secure_boot": ["required"],
    "hw_rescue_bus": ["usb"],
    "hw_watchdog_action": ["reset", "disabled"],
    "hw_machine_type": ["q35"],
    "hw_ephemeral_encryption_format": ["luks"],
    "hw_maxphysaddr_bits": ["42"],
    "hw_maxphysaddr_mode": ["emulate"],
    "hw_sound_model": ["ich9"],
    "hw_usb_model": ["qemu-xhci"],
    "hw_viommu_model": ["auto"],
    "hw_virtio_packed_ring": _BOOLEAN_VALUES,
    "hw_locked_memory": _BOOLEAN_VALUES,
    "trait:HW_CPU_X86_AVX2": ["required", "maybe"],
    "trait:CUSTOM_LICENSED": ["required"],
    "of_the_user": ["whatever"],
}


def list_accepted_properties():
    values_by_name = {
        name: [one for one in values if _is_accepted(name, one)]
        for name, values in IMAGE_PROPERTY_VALUES.items()
    }
    fields = objects.ImageMetaProps.fields
    newer = {name for name in values_by_name if name.startswith("hw_") and name not in fields}
    return {name: values for name, values in values_by_name.items() if values and name not in newer}


def _is_accepted(name, value):
    try:
        objects.ImageMeta.from_dict({"properties": {name: value}})
    except ValueError:
        return False
    return True


class ObjectGenerator:
    def __init__(self, random):
        self.random = random
        self.properties = list_accepted_properties()

    def draw_uuid(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def sample(self, values, most=3):
        return self.random.sample(values, self.random.randint(0, min(most, len(values))))

    def choice(self, *values):
        return self.random.choice(values)

    def draw_raw_image(self):
        number = self.choice(0, 2, 5, len(self.properties))
        named = self.random.sample(sorted(self.properties), number)
        properties = {name: self.choice(*self.properties[name]) for name in named}
        for node in range(self.choice(0, 0, 1, 3)):
            properties[f"hw_numa_cpus.{node}"] = self.choice(
                "0-1", f"{2 * node},{2 * node + 1}", "0-3,^2"
            )
            properties[f"hw_numa_mem.{node}"] = self.choice("512", 1024)
        image = {
            "name": self.choice("cirros", None),
            "status": "active",
            "disk_format": self.choice("qcow2", "raw", None),
            "container_format": self.choice("bare", None),
            "min_ram": self.choice(0, 512),
            "min_disk": self.choice(0, 1),
            "size": self.choice(None, 4096),
            "properties": properties,
        }
        if self.choice(True, False):
            image |= {
                "id": self.draw_uuid(),
                "visibility": "public",
                "owner": "admin",
                "tags": ["a", "b"],
            }
        return image

    def draw_flavor(self):
        return objects.Flavor(
            id=self.choice(1, 77),
            name=self.choice("m1.tiny", "gpu"),
            flavorid=self.choice("1", "gpu-large"),
            vcpus=self.choice(1, 8),
            memory_mb=self.choice(512, 8192),
            root_gb=self.choice(0, 20),
            ephemeral_gb=self.choice(0, 5),
            swap=self.choice(0, 512),
            rxtx_factor=self.choice(1.0, 2.5),
            vcpu_weight=self.choice(None, 0, 10),
            disabled=False,
            is_public=self.choice(True, False),
            description=self.choice(None, "small"),
            extra_specs=self.choice(
                {}, {"hw:cpu_policy": "dedicated"}, {"trait:CUSTOM_A": "required", "a": "b"}
            ),
        )

    def draw_numa_topology(self):
        cells = []
        for number in range(self.choice(1, 2)):
            policy = self.choice(None, "shared", "dedicated", "mixed")
            cpus = {2 * number, 2 * number + 1}
            pinned = {"dedicated": cpus, "mixed": {2 * number}}.get(policy, set())
            cells.append(
                objects.InstanceNUMACell(
                    id=number,
                    cpuset=cpus - pinned,
                    pcpuset=pinned,
                    memory=self.choice(512, 1024),
                    pagesize=self.choice(None, 4, 2048, -1),
                    cpu_policy=policy,
                    cpu_thread_policy=self.choice(None, "prefer", "isolate"),
                )
            )
        topology = objects.InstanceNUMATopology(cells=cells)
        if self.choice(True, False):
            topology.emulator_threads_policy = self.choice(None, "isolate", "share")
        return topology

    def draw_pci_requests(self):
        requests = []
        for _ in range(self.choice(0, 1, 2)):
            request = objects.InstancePCIRequest(
                count=self.choice(1, 2),
                spec=self.choice(
                    [{"vendor_id": "8086", "product_id": "1572", "dev_type": "type-VF"}],
                    [{"resource_class": "CUSTOM_GPU", "traits": None}, {"vendor_id": "10de"}],
                ),
                alias_name=self.choice("gpu", None),
                request_id=self.choice(self.draw_uuid(), None),
                requester_id=self.choice(self.draw_uuid(), None),
            )
            if self.choice(True, False):
                request.numa_policy = self.choice(None, "legacy", "socket")
            requests.append(request)
        return objects.InstancePCIRequests(instance_uuid=self.draw_uuid(), requests=requests)

    def draw_limits(self):
        limits = objects.SchedulerLimits(
            vcpu=self.choice(None, 8), memory_mb=self.choice(None, 4096), disk_gb=None
        )
        limits.numa_topology = self.choice(None, self.draw_numa_limits())
        return limits

    def draw_numa_limits(self):
        limits = objects.NUMATopologyLimits(cpu_allocation_ratio=16.0, ram_allocation_ratio=1.5)
        if self.choice(True, False):
            limits.network_metadata = self.draw_network_metadata()
        return limits

    def draw_network_metadata(self):
        physnets = set(self.sample(["physnet0", "physnet1", "physnet2"]))
        return objects.NetworkMetadata(physnets=physnets, tunneled=self.choice(True, False))

    def draw_instance_group(self):
        group = objects.InstanceGroup(
            policy=self.choice("affinity", "anti-affinity", "soft-affinity"),
            members=self.choice(None, [self.draw_uuid(), self.draw_uuid()]),
            hosts=self.choice(None, self.sample(_HOST_NAMES)),
        )
        if self.choice(True, True, False):
            group.uuid, group.name, group.project_id = self.draw_uuid(), "together", "p"
            group._rules = self.choice({}, {"max_server_per_host": "2"})
        return group

    def draw_destination(self):
        destination = objects.Destination(
            aggregates=self.choice(
                None, [f"{self.draw_uuid()},{self.draw_uuid()}", self.draw_uuid()]
            ),
            forbidden_aggregates=self.choice(None, {self.draw_uuid(), self.draw_uuid()}),
            allow_cross_cell_move=self.choice(True, False),
        )
        if self.choice(True, False):
            destination.host, destination.node = "cn1", self.choice(None, "node1")
        if self.choice(True, False):
            destination.cell = objects.CellMapping(
                uuid=self.draw_uuid(),
                name="cell1",
                database_connection="mysql+pymysql://root:SECRET@db/nova_cell1",
                transport_url="rabbit://guest:SECRET@mq/",
            )
        return destination

    def draw_request_group(self):
        return objects.RequestGroup(
            requester_id=self.choice(None, self.draw_uuid(), "gpu1"),
            resources={name: self.choice(1, 1000) for name in self.sample(_RESOURCE_CLASSES)},
            required_traits=set(self.sample(_TRAITS)),
            forbidden_traits=set(self.sample(_TRAITS)),
            aggregates=self.choice([], [[self.draw_uuid()], [self.draw_uuid(), self.draw_uuid()]]),
            forbidden_aggregates=self.choice(set(), {self.draw_uuid()}),
            in_tree=self.choice(None, self.draw_uuid()),
            use_same_provider=self.choice(True, False),
        )

    def draw_request_level_params(self):
        required = set(self.sample(_TRAITS, 2))
        return objects.RequestLevelParams(
            root_required=required,
            root_forbidden=set(self.sample(_TRAITS)) - required,
            same_subtree=self.choice([], [["a", "b"], ["c", "d"]]),
        )

    def draw_requested_network(self):
        return objects.NetworkRequest(
            network_id=self.choice(None, self.draw_uuid()),
            port_id=self.choice(None, self.draw_uuid()),
            address=self.choice(None, "10.0.0.5"),
            tag=self.choice(None, "nic1"),
            device_profile=self.choice(None, "fpga"),
            arq_uuid=self.choice(None, self.draw_uuid()),
            pci_request_id=self.choice(None, self.draw_uuid()),
        )

    def draw_retry(self):
        tried = [
            objects.ComputeNode(host=host, hypervisor_hostname=f"{host}.local")
            for host in self.sample(_HOST_NAMES)
        ]
        return objects.SchedulerRetries(
            num_attempts=self.choice(1, 2), hosts=objects.ComputeNodeList(objects=tried)
        )

    def draw_request_spec(self):
        image = objects.ImageMeta.from_dict(self.draw_raw_image())
        spec = objects.RequestSpec(
            flavor=self.draw_flavor(),
            num_instances=self.choice(1, 1, 3),
            instance_uuid=self.draw_uuid(),
        )
        hints = {
            "group": [self.draw_uuid()],
            "different_host": [self.draw_uuid(), self.draw_uuid()],
            "query": ["[]"],
        }
        groups = objects.SecurityGroupList(
            objects=[
                objects.SecurityGroup(name="default"),
                objects.SecurityGroup(uuid=self.draw_uuid()),
            ]
        )
        drawn = {
            "image": self.choice(None, image, image),
            "project_id": self.choice(None, "p"),
            "user_id": self.choice(None, "u"),
            "availability_zone": self.choice(None, "az1"),
            "is_bfv": self.choice(True, False),
            **{
                name: self.choice(None, [], self.sample(_HOST_NAMES))
                for name in ("ignore_hosts", "force_hosts", "force_nodes")
            },
            "requested_destination": self.choice(None, self.draw_destination()),
            "retry": self.choice(None, self.draw_retry()),
            "limits": self.choice(None, self.draw_limits()),
            "instance_group": self.choice(None, self.draw_instance_group()),
            "scheduler_hints": self.choice(
                None, {}, {name: hints[name] for name in self.sample(sorted(hints))}
            ),
            "requested_resources": self.choice(
                None, [], [self.draw_request_group(), self.draw_request_group()]
            ),
            "request_level_params": self.draw_request_level_params(),
            "requested_networks": objects.NetworkRequestList(
                objects=[self.draw_requested_network(), self.draw_requested_network()]
            ),
            "security_groups": groups,
            "network_metadata": self.draw_network_metadata(),
            "numa_topology": self.choice(None, self.draw_numa_topology()),
            "pci_requests": self.choice(None, self.draw_pci_requests()),
        }
        for name, value in drawn.items():
            if self.random.random() < 0.8:
                setattr(spec, name, value)
        return spec

    def draw_instance(self):
        raw = self.draw_raw_image()
        instance = objects.Instance(
            uuid=self.draw_uuid(),
            host="cn1",
            node="node1",
            vm_state=self.choice("active", "stopped"),
        )
        drawn = {
            "id": 12,
            "project_id": "p",
            "user_id": self.choice("u", None),
            "display_name": self.choice("vm", None),
            "task_state": self.choice(None, "migrating"),
            "image_ref": self.choice(self.draw_uuid(), ""),
            "flavor": self.draw_flavor(),
            "old_flavor": None,
            "new_flavor": self.draw_flavor(),
            "instance_type_id": 3,
            "vcpus": 2,
            "memory_mb": 1024,
            "root_gb": 20,
            "ephemeral_gb": 0,
            "system_metadata": {
                **utils.get_system_metadata_from_image(raw),
                "boot_roles": "admin",
                "owner_project_name": "demo",
            },
            "metadata": {"of": "user"},
            "created_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            "updated_at": self.choice(None, datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)),
            "deleted": False,
            "numa_topology": self.choice(None, self.draw_numa_topology()),
            "pci_requests": self.draw_pci_requests(),
            "info_cache": objects.InstanceInfoCache(instance_uuid=self.draw_uuid()),
            "security_groups": objects.SecurityGroupList(objects=[]),
            "access_ip_v4": "10.0.0.1",
            "power_state": 1,
        }
        for name, value in drawn.items():
            if self.random.random() < 0.8:
                setattr(instance, name, value)
        return instance

    def draw_aggregate(self):
        return objects.Aggregate(
            id=self.choice(1, 12),
            uuid=self.draw_uuid(),
            name="gpus",
            hosts=self.sample(_HOST_NAMES),
            metadata=self.choice({}, {"availability_zone": "az1", "trait:CUSTOM_A": "required"}),
        )
