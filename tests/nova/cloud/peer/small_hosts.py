# SPDX-License-Identifier: Apache-2.0
"""A virtualization driver: nova's fake driver with the size of a small host."""

from pathlib import Path

from nova import exception
from nova.conf import CONF
from nova.virt import fake


class SmallHost(fake.FakeDriverWithoutFakeNodes):
    """8 CPUs, 16 GB of memory and 200 GB of disk."""

    vcpus = 8
    memory_mb = 16384
    local_gb = 200

    def spawn(self, context, instance, *arguments, **more):
        if _is_start_to_fail():
            raise exception.ComputeResourcesUnavailable(reason="the host is out of order")
        return super().spawn(context, instance, *arguments, **more)

    def check_can_live_migrate_destination(self, context, instance, *arguments, **more):
        if _is_start_to_fail():
            raise exception.MigrationPreCheckError(reason="the host is out of order")
        return super().check_can_live_migrate_destination(context, instance, *arguments, **more)

    def post_live_migration(self, context, instance, block_device_info, migrate_data=None):
        self.destroy(context, instance, network_info=None, block_device_info=block_device_info)


def _is_start_to_fail():
    return (Path(CONF.state_path) / "out_of_order").exists()
