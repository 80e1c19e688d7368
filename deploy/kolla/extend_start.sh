#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Upgrades the database for OpenStack placement and for this service. The start script of the image sources this file.
# In a container that only upgrades the database, kolla-ansible sets a variable with an empty value.
for step in KOLLA_BOOTSTRAP KOLLA_UPGRADE KOLLA_OSM; do
    if [[ -v $step ]]; then
        placement-manage db sync || exit
        placement-manage db online_data_migrations || exit
        placement-sched db adopt --config-file /etc/placement/placement.conf
        exit
    fi
done
