# SPDX-License-Identifier: Apache-2.0
"""A reader who follows a request enters few modules.

``python -m tests.house.entered_modules`` shows the modules.
"""

import pytest

from tests.house.entered_modules import trace_candidates, trace_selection

pytestmark = pytest.mark.slow


#: The most modules that a request enters, plugins not counted. Only lower these numbers.
@pytest.mark.parametrize(("trace", "max_modules"), [(trace_candidates, 38), (trace_selection, 87)])
def test_request_enters_few_modules(tmp_path, trace, max_modules):
    modules = trace(tmp_path)
    assert len(modules) <= max_modules, modules
