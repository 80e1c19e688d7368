# SPDX-License-Identifier: Apache-2.0
"""Fleet files, which describe a whole cloud, and a sample cloud."""

from placement_sched.model.extension import Extension

EXTENSION = Extension(
    commands={
        "placement_sched.extensions.fleet.demo_command": {
            "demo": "place requests on a sample cloud of 300 hosts (needs no configuration)"
        },
        "placement_sched.extensions.fleet.fleet_command": {
            "fleet": "describe a whole cloud in a readable file"
        },
    },
    translator="placement_sched.extensions.fleet.translator",
    cloud_source="placement_sched.extensions.fleet.shown_file",
)
