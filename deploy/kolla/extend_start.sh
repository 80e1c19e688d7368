#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Upgrades the database for OpenStack placement and for this service. The start script of the image sources this file;
# kolla-ansible sets one of the variables, with an empty value, in a container that only upgrades the database.
for step in KOLLA_BOOTSTRAP KOLLA_UPGRADE KOLLA_OSM; do
    if [[ -v $step ]]; then
        placement-manage db sync || exit
        placement-manage db online_data_migrations || exit
        placement-sched db adopt --config-file /etc/placement/placement.conf
        exit
    fi
done
