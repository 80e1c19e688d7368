#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs nova-shadow or nova-scheduler on this host, in a container of the image: run.sh SERVICE IMAGE [OPTION...]. The
# options are passed to "docker run". kolla_start in the image reads the command from the JSON file of the service, and
# copies the configuration that kolla-ansible wrote for the containers nova_scheduler and placement_api.
set -o errexit -o nounset
service=$1 image=$2
shift 2
kolla=${NODE_CONFIG:-/etc/kolla}
files=/var/lib/kolla/config_files
install -D --mode=644 "$(dirname "$0")/$service.json" "$kolla/placement-sched/$service.json"
# A stopped nova-scheduler finishes its requests, for [DEFAULT] graceful_shutdown_timeout (180 seconds).
exec docker run --name "placement_sched_${service//-/_}" --network host --stop-timeout 200 \
    --env KOLLA_CONFIG_STRATEGY=COPY_ALWAYS \
    --volume "$kolla/placement-sched/$service.json:$files/config.json:ro" \
    --volume "$kolla/nova-scheduler:$files/nova:ro" \
    --volume "$kolla/placement-api:$files/placement:ro" \
    "$@" "$image"
