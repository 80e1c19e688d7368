"""Queries of server requests (compute API reference, "Servers")."""

from placement_sched.api.compute.schemas.parts import PAGE, Json, an_object
from placement_sched.api.schema import Schemas
from placement_sched.store.server_list import SORT_KEYS

_TEXT: Json = {"type": "string"}
_PLAIN = (
    "access_ip_v4",
    "access_ip_v6",
    "all_tenants",
    "auto_disk_config",
    "availability_zone",
    "changes-since",
    "config_drive",
    "created_at",
    "deleted",
    "description",
    "display_description",
    "display_name",
    "flavor",
    "host",
    "hostname",
    "image",
    "image_ref",
    "instance_name",
    "ip",
    "ip6",
    "is_public",
    "kernel_id",
    "key_name",
    "launch_index",
    "launched_at",
    "locked_by",
    "marker",
    "name",
    "node",
    "power_state",
    "progress",
    "project_id",
    "ramdisk_id",
    "reservation_id",
    "root_device_name",
    "soft_deleted",
    "status",
    "task_state",
    "tenant_id",
    "terminated_at",
    "user_id",
    "uuid",
    "vm_state",
)
_QUERY: Json = {
    **dict.fromkeys(_PLAIN, _TEXT),
    "limit": PAGE,
    # Either may be given several times; the first key orders, the next what it leaves equal.
    "sort_key": {"type": "string", "enum": sorted(SORT_KEYS)},
    "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
}
_TAGGED: Json = _QUERY | dict.fromkeys(("tags", "tags-any", "not-tags", "not-tags-any"), _TEXT)
_BEFORE: Json = {**_TAGGED, "changes-before": _TEXT}
_LOCKED: Json = {**_BEFORE, "locked": _TEXT}

LIST = Schemas(
    ((2, 1), {"type": "object", "properties": _QUERY}),
    ((2, 26), {"type": "object", "properties": _TAGGED}),
    ((2, 66), {"type": "object", "properties": _BEFORE}),
    ((2, 73), {"type": "object", "properties": _LOCKED}),
    ((2, 75), an_object(_LOCKED)),
    ((2, 96), an_object({**_LOCKED, "pinned_availability_zone": _TEXT})),
)
