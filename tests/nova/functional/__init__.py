# SPDX-License-Identifier: Apache-2.0
"""nova's own functional tests, with this service in placement's place.

They are those that nova installs with itself, unchanged; ``nova_tests.py`` gives them a server over
HTTP in place of openstack-placement in process. ``make test-only WHAT=nova-functional`` runs all
that exercise placement, and ``test_sound_selection.py`` a selection that sends each request at
least once.
"""
