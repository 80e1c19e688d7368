# SPDX-License-Identifier: Apache-2.0
"""Properties of flavors, images, aggregates, services, groups and providers in requests.

Sources: compute, image and placement API references.
"""

from placement_sched.model import names
from placement_sched.model.aggregates import POLICIES
from placement_sched.model.document import Json
from placement_sched.model.image import CONTAINER_FORMATS, DISK_FORMATS, STATUSES, VISIBILITIES
from placement_sched.model.provider import MAX_FLOAT
from placement_sched.schemas.parts import AMOUNT, COUNT

_TEXT: Json = {"type": "string", "maxLength": 255}
_NAMED: Json = {"type": "string", "minLength": 1, "maxLength": 255}

#: A name given by users: printable, without leading or trailing blanks, which databases ignore.
NAME: Json = {**_NAMED, "format": "printable-name"}
#: A name of a trait, resource class or consumer type.
SYMBOL: Json = {"type": "string", "pattern": "^[A-Z0-9_]+$", "maxLength": 255}

DESCRIPTION: Json = {"type": ["string", "null"], "maxLength": 65535, "format": "printable"}
FLAVOR_ID: Json = {**_NAMED, "pattern": names.FLAVOR_ID}
#: Bandwidth multiplier of a flavor.
RXTX_FACTOR: Json = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_FLOAT}
#: A key and a value of extra specs and metadata.
KEY: Json = {"pattern": names.KEY}
VALUE: Json = _TEXT

HOST: Json = {**_NAMED, "pattern": names.HOST}
ZONE: Json = {**NAME, "pattern": names.ZONE}
DISABLED_REASON: Json = _NAMED
SERVICE_STATUS: Json = {"type": "string", "enum": ["enabled", "disabled"]}
GROUP_POLICY: Json = {"type": "string", "enum": list(POLICIES)}

#: A tag of an image.
TAG: Json = {**_TEXT, "format": "printable-name"}
PROPERTY_NAME: Json = NAME
#: As long as in glance's own table on MariaDB.
PROPERTY: Json = {"type": "string", "maxLength": 65535}
_IMAGE_ID: Json = {"type": ["null", "string"], "pattern": names.UUID}
#: Properties that refer to other images.
IMAGE_IDS: Json = {"kernel_id": _IMAGE_ID, "ramdisk_id": _IMAGE_ID}
IMAGE: Json = {
    "name": {"type": ["null", "string"], "maxLength": 255},
    "status": {"type": "string", "enum": list(STATUSES)},
    "visibility": {"type": "string", "enum": list(VISIBILITIES)},
    "owner": {"type": ["null", "string"], "maxLength": 255},
    "protected": {"type": "boolean"},
    "os_hidden": {"type": "boolean"},
    "disk_format": {"type": ["null", "string"], "enum": [None, *DISK_FORMATS]},
    "container_format": {"type": ["null", "string"], "enum": [None, *CONTAINER_FORMATS]},
    "min_ram": AMOUNT,
    "min_disk": AMOUNT,
}

#: An inventory without its allocation ratio.
INVENTORY: Json = {
    "total": COUNT,
    "reserved": AMOUNT,
    "min_unit": COUNT,
    "max_unit": COUNT,
    "step_size": COUNT,
}
PROVIDER_NAME: Json = {"type": "string", "maxLength": 200}
#: A project or user of a consumer.
OWNER: Json = _NAMED
