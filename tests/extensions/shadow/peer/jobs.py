# SPDX-License-Identifier: Apache-2.0
"""Jobs in nova's environment: ``jobs.py tables API_URL CELL_URL...``, ``jobs.py specs``."""

import json
import sys
import warnings
from types import SimpleNamespace

warnings.simplefilter("ignore")

from nova import context, objects  # noqa: E402
from nova.db.api import models as api_models  # noqa: E402
from nova.db.main import models as cell_models  # noqa: E402
from nova.objects import base  # noqa: E402
from oslo_serialization import jsonutils  # noqa: E402
from sqlalchemy import create_engine  # noqa: E402


def create_tables(api, *cells):
    api_models.BASE.metadata.create_all(create_engine(api))
    # nova's migrations shorten these indexes for MariaDB.
    cell_models.BASE.metadata.tables["migrations"].indexes.clear()
    for cell in cells:
        cell_models.BASE.metadata.create_all(create_engine(cell))


def build_request_spec(described):
    group, destination = described.get("group"), described.get("destination")
    properties = {
        name: described.get(name) for name in ("ignore_hosts", "force_hosts", "scheduler_hints")
    }
    properties["force_nodes"] = None
    properties["scheduler_hints"] = properties["scheduler_hints"] or {}
    if destination:
        properties["requested_destination"] = objects.Destination(host=destination)
    spec = objects.RequestSpec.from_components(
        SimpleNamespace(project_id="demo", user_id="ann"),
        described["uuids"][0],
        described["image"],
        objects.Flavor(**described["flavor"]),
        None,
        objects.InstancePCIRequests(requests=[]),
        properties,
        objects.InstanceGroup(**group, policies=[group["policy"]], _rules={}) if group else None,
        described.get("availability_zone"),
        objects.SecurityGroupList(objects=[]),
    )
    spec.num_instances = len(described["uuids"])
    spec.is_bfv = False
    spec.network_metadata = objects.NetworkMetadata(physnets=set(), tunneled=False)
    spec.requested_networks = objects.NetworkRequestList(objects=[])
    return json.loads(jsonutils.dumps(base.NovaObjectSerializer().serialize_entity(None, spec)))


if __name__ == "__main__":
    job, *arguments = sys.argv[1:]
    objects.register_all()
    if job == "tables":
        create_tables(*arguments)
    else:
        context.get_admin_context()
        json.dump([build_request_spec(one) for one in json.load(sys.stdin)], sys.stdout)
