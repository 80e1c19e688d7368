# SPDX-License-Identifier: Apache-2.0
from nova import filters


class BaseFilter(filters.BaseFilter):
    def _filter_one(self, obj, filter_properties):
        image = filter_properties["request_spec"]["image"]
        return obj.host in image["properties"]["os_distro"]
