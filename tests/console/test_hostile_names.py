# SPDX-License-Identifier: Apache-2.0
"""Names from users are shown as text on every page."""

import orjson
import pytest
from webtest import TestApp

from tests.console.hostile import ATTACKS, create_hostile_cloud, list_pages


@pytest.fixture
def hostile_app(sqlite_app):
    def send(method, path, body):
        answer = sqlite_app.request(
            path,
            method=method,
            body=orjson.dumps(body),
            headers={"Content-Type": "application/json"},
            status="*",
        )
        is_rejected = answer.status_int >= 400 and "no_valid_host" not in answer
        assert not is_rejected, (path, body, answer.text)
        return answer.json_body if answer.body else {}

    create_hostile_cloud(send)
    return sqlite_app


@pytest.mark.slow
def test_hostile_names_add_no_element_or_attribute(hostile_app):
    hosts = hostile_app.get("/scheduler/v1/hosts").json["hosts"]
    assert len(hosts) == 2 * len(ATTACKS)
    browser = TestApp(hostile_app.app)
    seen = 0
    for path in list_pages(lambda address: hostile_app.get(address).json):
        page = browser.get(path, headers={"Accept": "text/html"}, status="*")
        if page.content_type != "text/html":
            continue
        seen += 1
        html = page.html
        assert page.status_int < 500, (path, page.text[-500:])
        assert list(html.find_all("img")) == [], path
        assert all(tag.get("src", "").startswith("/console/") for tag in html.find_all("script"))
        assert all(not tag.text for tag in html.find_all("script")), path
        for tag in html.find_all(True):
            assert [name for name in tag.attrs if name.startswith("on") or name == "style"] == []
            for name in ("href", "src", "action", "formaction"):
                address = tag.get(name, "/")
                assert address.startswith(("/", "#", "?")), (path, tag)
                assert not address.startswith("//"), (path, tag)
        # The product of the numbers in the attack, which has more digits than a uuid.
        assert "7777622223" not in page.text, path
    assert seen > 40
