# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the programs of a cloud."""

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.differential.comparison import PEER_PYTHON

OptionsByGroup = Mapping[str, Mapping[str, str]]

_NOVA_27_AND_28_FOLDERS = PEER_PYTHON.parents[1].glob("lib/python*/site-packages/nova-2[78].*")
#: Microversion of the requests. nova 27 and 28 do not have 2.96.
COMPUTE_VERSION = "2.95" if any(_NOVA_27_AND_28_FOLDERS) else "2.96"
#: The pipeline of nova's api-paste.ini, with another filter in place of keystone's.
API_PASTE_INI_TEXT = """\
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: versions
/v2.1: version
/v2.1/+: compute

[composite:compute]
use = call:nova.api.auth:pipeline_factory_v21
keystone = req_id faultwrap users keystonecontext servers

[pipeline:versions]
pipeline = faultwrap all_versions

[pipeline:version]
pipeline = req_id faultwrap one_version

[filter:req_id]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory

[filter:faultwrap]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory

[filter:users]
paste.filter_factory = users:filter_factory

[filter:keystonecontext]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory

[app:servers]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory

[app:all_versions]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory

[app:one_version]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
"""

#: The default filters, and a filter that reads hints.
ENABLED_FILTERS = (
    "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,"
    "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,DifferentHostFilter"
)


@dataclass(frozen=True)
class CloudAddresses:
    """URLs of the databases, the message bus and the services of a cloud."""

    api_database: str
    cell_database: str
    placement_database: str
    broker: str
    compute_api: str
    placement_sched: str
    neutron: str


def write_options(file: Path, options: OptionsByGroup) -> Path:
    parser = configparser.RawConfigParser(default_section="")
    parser.read_dict(options)
    with file.open("w") as stream:
        parser.write(stream)
    return file


def build_nova_conf(addresses: CloudAddresses, folder: Path) -> OptionsByGroup:
    return {
        **build_compute_conf(addresses, folder),
        "api_database": {"connection": addresses.api_database},
        "database": {"connection": addresses.cell_database},
    }


def build_compute_conf(addresses: CloudAddresses, folder: Path) -> OptionsByGroup:
    service = {"auth_type": "admin_token", "token": "admin"}
    placement = {**service, "endpoint": f"{addresses.placement_sched}/placement"}
    network = {**service, "endpoint": addresses.neutron, "endpoint_override": addresses.neutron}
    return {
        "DEFAULT": {
            "host": "control",
            "transport_url": addresses.broker,
            "state_path": str(folder),
            "compute_driver": "small_hosts.SmallHost",
            "report_interval": "2",
            # Services stay up on a slow machine.
            "service_down_time": "120",
            "use_stderr": "true",
            "instance_name_template": "server-%08x",
            # nova's periodic tasks run at once or never.
            "shelved_offload_time": "0",
            "running_deleted_instance_poll_interval": "0",
            "sync_power_state_interval": "-1",
            "heal_instance_info_cache_interval": "-1",
            "update_resources_interval": "5",
        },
        "api": {"api_paste_config": str(folder / "api-paste.ini")},
        "placement": {**placement, "endpoint_override": f"{addresses.placement_sched}/placement"},
        "glance": {
            **service,
            "endpoint": addresses.placement_sched,
            "api_servers": f"{addresses.placement_sched}/image",
        },
        "neutron": network,
        "conductor": {"workers": "1"},
        "quota": dict.fromkeys(("cores", "instances", "ram"), "-1"),
        "scheduler": {"workers": "1"},
        "filter_scheduler": {"enabled_filters": ENABLED_FILTERS},
        "oslo_concurrency": {"lock_path": str(folder / "locks")},
        "oslo_messaging_rabbit": {"kombu_reconnect_delay": "0.5", "rabbit_retry_interval": "1"},
        "workarounds": {"skip_cpu_compare_on_dest": "true"},
    }


def build_placement_sched_conf(addresses: CloudAddresses) -> OptionsByGroup:
    return {
        "DEFAULT": {"service_down_time": "120"},
        "placement_database": {
            "connection": addresses.placement_database,
            "sync_on_startup": "true",
        },
        "api": {"auth_strategy": "noauth2"},
        "filter_scheduler": {"enabled_filters": ENABLED_FILTERS},
    }


def format_clouds_yaml(addresses: CloudAddresses) -> str:
    cloud = {
        "auth_type": "admin_token",
        "auth": {"endpoint": f"{addresses.placement_sched}/placement", "token": "admin"},
        "identity_api_version": 3,
        "identity_endpoint_override": f"{addresses.placement_sched}/identity",
        "compute_endpoint_override": addresses.compute_api,
        "compute_api_version": COMPUTE_VERSION,
        "image_endpoint_override": f"{addresses.placement_sched}/image",
        "network_endpoint_override": addresses.neutron,
    }
    return yaml.safe_dump({"clouds": {"nova-cloud": cloud}}, sort_keys=False)
