# SPDX-License-Identifier: Apache-2.0
"""A small fleet file for the commands of the extension."""

FLEET_FILE_TEXT = """\
flavors: [{name: small, vcpus: 1, memory_mb: 512}]
hosts: [{host: "cn[1-3]", vcpus: 8, memory_mb: 4096}]
instances: [{name: web, host: cn1, flavor: small}]
"""
