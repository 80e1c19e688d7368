# SPDX-License-Identifier: Apache-2.0
"""Shadow mode: comparison of nova-scheduler's choices with this service."""

from placement_sched.model.extension import Extension

EXTENSION = Extension(
    commands={
        "placement_sched.extensions.shadow.shadow_command": {
            "nova-shadow": "evaluate nova's requests alongside nova-scheduler, without claims"
        }
    }
)
