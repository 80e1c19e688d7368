# SPDX-License-Identifier: Apache-2.0
def list_filters():
    from nova.scheduler import filters
    from nova.scheduler.client import report

    class TraitFilter(filters.BaseHostFilter):
        def host_passes(self, host_state, spec_obj):
            client = report.report_client_singleton()
            info = client.get_provider_traits(spec_obj._context, host_state.uuid)
            return "CUSTOM_GOLD" in info.traits and info.generation >= 0

    return [TraitFilter]
