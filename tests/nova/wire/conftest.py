# SPDX-License-Identifier: Apache-2.0
"""Nova's objects and serializer, from nova's environment."""

from pathlib import Path

import pytest

from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.differential.lines import JsonLineProgram

#: Release that has exactly the supported fields. Other tests run with older releases, too.
NEWEST_RELEASE = 34
NOVA_OBJECTS_PROGRAM = Path(__file__).parent / "peer" / "serve.py"


@pytest.fixture(scope="module")
def call_nova():
    skip_without_peer()
    peer = JsonLineProgram(PEER_PYTHON, NOVA_OBJECTS_PROGRAM)
    yield lambda name, *arguments: peer.exchange_json_line([name, arguments])
    peer.close()


@pytest.fixture
def call_newest_nova(call_nova):
    release = call_nova("get_nova_release")
    if release < NEWEST_RELEASE:
        pytest.skip(f"this is nova {release}")
    return call_nova
