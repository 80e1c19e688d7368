# SPDX-License-Identifier: Apache-2.0
"""The page Cloud in a real browser: the map, keyboard and pointer, the panel, the URL."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.extensions.console.browser.conftest import (
    PHONE_SIZE,
    continue_held_requests,
    move_pointer_to_a_host,
)
from tests.support.clouds import uuid_of

pytestmark = pytest.mark.exhaustive

HOSTS_API_PATTERN = "**/console/api/scheduler/v1/hosts"
HTML_IMAGE_TAG = "<img src=x onerror=alert(1)>\"'&</script>"
#: Draws two hosts on a new canvas, and returns the colours in the middle of their cells.
DRAWN_COLOURS_SCRIPT = """async (dimming) => {
  const { HostMap } = await import("/console/static/map.js");
  const canvas = document.createElement("canvas");
  Object.assign(canvas.style, { display: "block", width: "400px", height: "200px" });
  document.querySelector("main").prepend(canvas);
  const hosts = ["a", "b"].map((host) => ({ host, node: host, uuid: host, zone: "", state: "up" }));
  const map = new HostMap(canvas, { hosts });
  map.colourBy(() => ({ colour: "#00ff00", mark: "" }));
  if (dimming) map.dim(new Map([["b", { stage: "ram", colour: "#0000ff", mark: "" }]]));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const context = canvas.getContext("2d");
  const found = new Set();
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue, alpha] = data.slice(at, at + 4);
    if (alpha < 100 || red > 10) continue;
    if (green > 200) found.add("green");
    else if (blue > 200) found.add("blue");
  }
  return [...found].sort();
}"""


def wait_for_legend(page: Page) -> Page:
    expect(page.locator("#legend li").first).to_be_visible()
    return page


def reopen_page_in_new_browser(open_page, page: Page) -> Page:
    """Open the address of a page in another browser."""
    return wait_for_legend(open_page(f"/console/cloud?{urlsplit(page.url).query}"))


@pytest.fixture
def page(open_page) -> Page:
    """Return the page with its map."""
    return wait_for_legend(open_page("/console/cloud"))


def locate_map_canvas(page: Page):
    return page.get_by_label("Map of hosts")


def read_query_of_url(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def replace_hosts_of_map(page: Page, document: dict[str, object]) -> None:
    """Replace the hosts of the map, and reload the page."""
    page.route(HOSTS_API_PATTERN, lambda route: route.fulfill(json=document))
    page.reload()


def build_host_document(name: str, **changes: object) -> dict[str, object]:
    return {
        "host": name,
        "node": name,
        "uuid": uuid_of(name),
        "zone": "az1",
        "state": "up",
        "policy": "default",
        "aggregates": [],
        "traits": [],
        "instances": 3,
        "resources": {"VCPU": {"capacity": 64, "used": 16}},
        **changes,
    }


def test_map_legend_counts_every_host_and_a_click_shows_only_hosts_of_its_entry(open_page):
    page = wait_for_legend(open_page("/console/cloud", size={"width": 1366, "height": 768}))
    legend, counted = page.locator("#legend"), page.locator("#counted")
    expect(counted).to_have_text("300 hosts")
    words = legend.inner_text()
    assert "Of these" in words[words.index("below 10 %") : words.index("down: 1")]
    assert sum(map(int, re.findall(r"%(?: or more)?: (\d+)", words))) == 300
    assert "down: 1" in words
    expect(legend).to_be_in_viewport(ratio=1)
    expect(page.locator(".totals")).to_be_in_viewport(ratio=1)
    assert page.locator(".totals").inner_text().startswith("memory")
    assert move_pointer_to_a_host(page).startswith("az1-r01-hdd")
    tip = page.locator(".tip")
    expect(tip).to_contain_text("memory")
    expect(tip).to_be_in_viewport(ratio=1)
    legend.get_by_role("button", name="95 % or more: 16").click()
    expect(counted).to_have_text("16 of 300 hosts match")
    expect(page.locator("#hosts tbody tr")).to_have_count(16)
    page.wait_for_url("**only=95**")
    expect(reopen_page_in_new_browser(open_page, page).locator("#counted")).to_have_text(
        "16 of 300 hosts match"
    )
    legend.get_by_role("button", name="95 % or more: 16").click()
    expect(counted).to_have_text("300 hosts")
    legend.get_by_role("button", name="disabled: 1").click()
    expect(page.locator("#hosts tbody tr")).to_have_count(1)


def test_map_colour_choice_is_kept_in_the_url(open_page, page):
    for colour, words in (
        ("state", "up: 298"),
        ("policy", "default: 300"),
        ("instances", "instances: "),
    ):
        page.get_by_label("Coloured by").select_option(colour)
        page.wait_for_url(f"**colour={colour}**")
        for shown in (page, reopen_page_in_new_browser(open_page, page)):
            expect(shown.get_by_label("Coloured by")).to_have_value(colour)
            expect(shown.locator("#legend")).to_contain_text(words)


def test_filters_apply_to_map_and_table_and_are_kept_in_the_url(open_page):
    page = wait_for_legend(open_page("/console/cloud?state=disabled"))
    expect(page.locator("#counted")).to_contain_text("1 of 300 hosts")
    page.locator("select[name=state]").select_option("")
    for name, text, count in (
        ("trait", "COMPUTE_STATUS_DISABLED", 1),
        ("aggregate", "az1", 100),
        ("search", "az2-r03", 16),
    ):
        page.locator(f"#view [name={name}]").fill(text)
        expect(page.locator("#counted")).to_have_text(f"{count} of 300 hosts match")
        expect(page.locator(".host-table tbody tr")).to_have_count(min(count, 50))
        page.wait_for_url(f"**{name}={text}**")
        again = reopen_page_in_new_browser(open_page, page)
        expect(again.locator("#counted")).to_have_text(f"{count} of 300 hosts match")
        page.locator(f"#view [name={name}]").fill("")
    page.locator("#panel").get_by_role("button", name="licensed-windows").click()
    expect(page.locator("#counted")).to_have_text("36 of 300 hosts match")
    expect(page.locator("#panel-title")).to_have_text("Hosts that match")
    page.locator("#panel").get_by_role("link", name="All hosts").click()
    expect(page.locator("#counted")).to_have_text("300 hosts")


def test_arrow_keys_move_on_the_map_and_enter_opens_a_host(open_page):
    page = wait_for_legend(open_page("/console/cloud?group=name"))
    locate_map_canvas(page).focus()
    live = page.locator("#live")
    expect(live).to_contain_text("az1-r01-hdd01: up, zone az1")
    page.keyboard.press("ArrowRight")
    expect(live).to_contain_text("az1-r01-hdd02")
    page.keyboard.press("PageDown")
    expect(live).to_contain_text("az1-r02-hdd01")
    page.keyboard.press("End")
    expect(live).to_contain_text("az3-")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    expect(page.locator("#panel")).to_contain_text("VCPU")
    assert read_query_of_url(page)["open"] == ["az1-r01-hdd01"]
    page.keyboard.press("Escape")
    expect(page.locator("#panel-title")).to_have_text("All hosts")
    expect(locate_map_canvas(page)).to_be_focused()
    assert "open" not in read_query_of_url(page)


def test_hosts_selected_in_the_table_are_selected_on_the_map(page):
    table = page.locator("#hosts")
    expect(table.get_by_role("button", name="What if")).to_have_count(0)
    table.get_by_label("Select az1-r01-hdd05").check()
    table.get_by_role("button", name="50 more of 250").click()
    expect(table.locator("tbody tr")).to_have_count(100)
    table.get_by_label("Select az1-r07-gpu04").check()
    chosen = page.locator("#panel")
    expect(chosen).to_contain_text("2 hosts selected")
    chosen.get_by_label("More of each").fill("2")
    chosen.get_by_role("link", name="What if more like them are added?").click()
    expect(page.get_by_label("What if: changes")).to_have_value(
        "add=az1-r01-hdd05*2\nadd=az1-r07-gpu04*2"
    )


def test_selection_on_the_map_remains_after_a_simulation_and_the_back_button(page):
    page.get_by_label("Name contains").fill("az1-r03")
    page.get_by_role("button", name="Select all 16").click()
    page.wait_for_url("**search=az1-r03**")
    page.get_by_role("link", name="What if they are drained?").click()
    page.wait_for_url("**/capacity?*")
    page.go_back()
    expect(page.get_by_role("heading", name="16 hosts selected")).to_be_visible()


def test_entry_of_the_legend_keeps_the_focus_after_the_enter_key(page):
    entry = page.locator("#legend button").nth(1)
    entry.focus()
    page.keyboard.press("Enter")
    expect(entry).to_have_attribute("aria-pressed", "true")
    expect(entry).to_be_focused()


def test_nothing_moves_while_the_map_is_read(open_page):
    page = open_page("/console/policies", size={"width": 1440, "height": 900})
    page.add_init_script(
        """window.moved = 0;
        new PerformanceObserver((list) => {
          for (const { value, hadRecentInput } of list.getEntries())
            if (!hadRecentInput) window.moved += value;
        }).observe({ type: "layout-shift", buffered: true });"""
    )
    page.goto("/console/cloud")
    wait_for_legend(page)
    page.wait_for_timeout(500)
    assert page.evaluate("window.moved") <= 0.1


def test_hosts_that_a_running_plan_empties_are_marked_on_the_map(open_page):
    page = open_page("/console/cloud")
    plan = {"uuid": uuid_of("run"), "kind": "drain", "hosts": ["az1-r01-hdd01"]}
    plan |= {"done": 1, "failed": 0, "total": 3, "updated_at": "2026-12-01T12:00:00"}
    page.route("**/console/cloud/running", lambda route: route.fulfill(json={"running": [plan]}))
    page.reload()
    wait_for_legend(page).get_by_role("button", name="instances are moved away: 1").click()
    expect(page.locator("#counted")).to_have_text("1 of 300 hosts match")
    locate_map_canvas(page).focus()
    expect(page.locator("#live")).to_contain_text("drain: 1 of 3 moves done")


def test_host_table_is_sorted_by_the_used_share(page):
    page.locator("#hosts").get_by_role("button", name="Used memory").click()
    first = page.locator("#hosts tbody tr").first
    expect(first).to_contain_text("az2-r03-ssd01")
    expect(first).to_contain_text("504 of 504 GiB")
    expect(page.locator("#hosts th[aria-sort=descending]")).to_have_text("Used memory")


def test_keyboard_selection_links_to_drain_or_add_hosts(open_page):
    page = wait_for_legend(open_page("/console/cloud?group=name"))
    locate_map_canvas(page).focus()
    page.keyboard.press(" ")
    page.keyboard.press("Shift+ArrowRight")
    panel = page.locator("#panel")
    expect(panel.get_by_role("heading", name="2 hosts selected")).to_be_visible()
    expect(panel).to_contain_text("az1-r01-hdd01, az1-r01-hdd02")
    expect(page.get_by_label("Select az1-r01-hdd02")).to_be_checked()
    drained, added = page.locator("#chosen").get_by_role("link").all()
    query = urlsplit(drained.get_attribute("href")).query
    assert query == "drain=az1-r01-hdd01&drain=az1-r01-hdd02"
    panel.get_by_label("More of each").fill("3")
    query = parse_qs(urlsplit(added.get_attribute("href")).query)
    assert query == {"add": ["az1-r01-hdd01:3", "az1-r01-hdd02:3"]}
    locate_map_canvas(page).focus()
    page.keyboard.press("Escape")
    expect(panel.get_by_role("heading", name="All hosts")).to_be_visible()
    page.get_by_label("Select az1-r01-hdd05").check()
    expect(panel).to_contain_text("1 host selected")


def test_links_for_all_matching_hosts_contain_filters_instead_of_names(page):
    """Thousands of names make a link that servers reject."""
    page.get_by_label("Name contains").fill("r01")
    page.get_by_role("button", name="Select all 48").click()
    expect(page.locator("#panel")).to_contain_text("48 hosts selected")
    drained, added = page.locator("#chosen").get_by_role("link").all()
    assert parse_qs(urlsplit(drained.get_attribute("href")).query) == {"drain": ["search:r01"]}
    page.get_by_label("Name contains").fill("-ssd")
    page.locator("[name=zone]").fill("az1")
    page.get_by_role("button", name="Select all 32").click()
    both = {"drain": ["search:-ssd&zone:az1"]}
    assert parse_qs(urlsplit(drained.get_attribute("href")).query) == both
    page.locator("[name=zone]").fill("")
    page.get_by_label("Name contains").fill("")
    page.locator("[name=aggregate]").fill("gpu")
    page.get_by_role("button", name="Select all 12").click()
    page.locator("[name=aggregate]").fill("")
    page.get_by_role("button", name="Select all 300").click()
    expect(page.locator("#chosen .warning")).to_contain_text("can name 200 hosts")
    page.locator("[name=zone]").fill("az2")
    page.get_by_role("button", name="Select all 100").click()
    assert parse_qs(urlsplit(drained.get_attribute("href")).query) == {"drain": ["zone:az2"]}
    assert parse_qs(urlsplit(added.get_attribute("href")).query) == {"add": ["zone:az2:1"]}


def test_map_grouped_by_aggregate_shows_a_host_in_each_of_its_aggregates(open_page):
    """An aggregate after a host's first, or with a zone and a policy, was not shown."""
    page = open_page("/console/cloud")
    names = ("racks", "gpu", "batchers", "az1")
    aggregates = [
        {"id": at, "uuid": uuid_of(name), "name": name, "metadata": {"rack": "r1"}}
        for at, name in enumerate(names)
    ]
    aggregates[2]["metadata"] = {"availability_zone": "az1", "policy": "packed"}
    aggregates[3]["metadata"] = {"availability_zone": "az1"}
    hosts = [build_host_document(f"cn{number}", aggregates=[0, 1, 2, 3]) for number in range(60)]
    replace_hosts_of_map(
        page, {"hosts": hosts, "aggregates": aggregates, "traits": [], "cells": []}
    )
    wait_for_legend(page)
    page.evaluate(
        """() => {
          const drawn = (window.drawn = []);
          const { fillText } = CanvasRenderingContext2D.prototype;
          CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
            drawn.push(text);
            return fillText.call(this, text, ...place);
          };
        }"""
    )
    page.get_by_label("Grouped by").select_option("aggregate")
    page.wait_for_timeout(300)
    drawn = page.evaluate("window.drawn")
    assert "batchers + gpu + racks" in drawn


def test_map_of_ten_thousand_hosts_shows_their_count_and_opens_the_last_one(open_page):
    page = open_page("/console/cloud")
    hosts = [build_host_document(f"cn{n:05}", zone=f"az{n % 5}") for n in range(10_000)]
    replace_hosts_of_map(page, {"hosts": hosts, "aggregates": [], "traits": [], "cells": []})
    wait_for_legend(page)
    expect(page.locator("#counted")).to_have_text("10,000 hosts")
    locate_map_canvas(page).focus()
    page.keyboard.press("End")
    expect(page.locator("#live")).to_contain_text("cn09999")


def test_click_or_link_opens_a_host_next_to_the_map(open_page, page):
    before = locate_map_canvas(page).screenshot()
    name = move_pointer_to_a_host(page)
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#panel-title")).to_have_text(name)
    page.wait_for_timeout(300)
    assert locate_map_canvas(page).screenshot() != before
    page = wait_for_legend(open_page("/console/cloud?open=az2-r03-ssd07"))
    expect(page.locator("#panel-title")).to_have_text("az2-r03-ssd07")
    page.get_by_role("link", name="Own page").click()
    expect(page.locator("h1")).to_have_text("az2-r03-ssd07")


def test_drag_moves_the_map_and_drag_with_shift_selects_hosts(page):
    box = locate_map_canvas(page).bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -600)
    page.keyboard.up("Control")
    page.mouse.down()
    page.mouse.move(middle[0] + 90, middle[1] + 60, steps=5)
    page.mouse.up()
    expect(page.locator("#panel-title")).to_have_text("All hosts")
    page.get_by_role("button", name="Whole map").click()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator("#panel")).to_contain_text("300 hosts selected")


def test_wheel_over_the_map_scrolls_the_page_up_and_down(page):
    box = locate_map_canvas(page).bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.wheel(0, 300)
    expect(page.locator("#hosts-title")).to_be_in_viewport()
    page.mouse.move(200, 100)
    page.mouse.wheel(0, -300)
    expect(page.locator("h1")).to_be_in_viewport()


def test_slow_response_about_a_host_does_not_replace_the_host_opened_later(page):
    """A slow response about an earlier host replaced the later host."""
    held = []
    page.route("**/hosts/az1-r01-hdd05", lambda route: held.append(route))  # noqa: PLW0108
    table = page.locator("#hosts")
    table.get_by_role("link", name="az1-r01-hdd05").click()
    expect(page.locator("#progress")).to_contain_text("Reading the host")
    table.get_by_role("link", name="az1-r01-hdd07").click()
    expect(page.locator("#panel-title")).to_have_text("az1-r01-hdd07")
    table.get_by_role("link", name="az1-r01-hdd05").click()
    page.locator("#panel").get_by_role("button", name="Close").click()
    continue_held_requests(held)
    expect(page.locator("#panel-title")).to_have_text("All hosts")
    assert "open" not in read_query_of_url(page)


def test_map_and_table_show_changes_of_the_cloud_without_a_reload(open_page, sample_server):
    """The map was read once, so that it contradicted the table."""
    page = open_page("/console/cloud?state=disabled")
    page.clock.install()
    page.reload()
    wait_for_legend(page)
    expect(page.locator("#counted")).to_have_text("1 of 300 hosts match")
    service = {"host": "az1-r01-hdd05", "binary": "nova-compute"}
    sample_server.request_json("PUT", "/compute/v2.1/os-services/disable", service)
    try:
        page.clock.run_for(60_000)
        expect(page.locator("#counted")).to_have_text("2 of 300 hosts match")
        expect(page.locator("#hosts tbody tr")).to_have_count(2)
        as_of = re.compile(r"as of \d\d:\d\d UTC, next in \d+ s")
        expect(page.locator("#as-of")).to_have_text(as_of)
    finally:
        sample_server.request_json("PUT", "/compute/v2.1/os-services/enable", service)


def test_opened_host_shows_its_changes_without_a_reload(open_page, sample_server):
    page = open_page("/console/cloud?open=az1-r01-hdd05")
    page.clock.install()
    page.reload()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("✓ up, zone az1")
    panel.locator("summary").last.click()
    service = {"host": "az1-r01-hdd05", "binary": "nova-compute"}
    sample_server.request_json("PUT", "/compute/v2.1/os-services/disable", service)
    try:
        page.clock.run_for(60_000)
        expect(panel).to_contain_text("■ disabled, zone az1")
        expect(panel.locator("details").last).to_have_attribute("open", "")
    finally:
        sample_server.request_json("PUT", "/compute/v2.1/os-services/enable", service)


def test_back_button_keeps_the_map_without_new_requests(page):
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.locator("#hosts").get_by_role("link", name="az1-r01-hdd05").click()
    expect(page.locator("#panel-title")).to_have_text("az1-r01-hdd05")
    requests.clear()
    page.go_back()
    expect(page.locator("#panel-title")).to_have_text("All hosts")
    assert not [url for url in requests if "/cloud" in url]


def test_tap_on_the_map_selects_a_host_or_the_hosts_of_its_zone(open_page):
    page = wait_for_legend(open_page("/console/cloud", size=PHONE_SIZE))
    page.get_by_role("button", name="Select on the map").click()
    box = locate_map_canvas(page).bounding_box()
    page.mouse.click(box["x"] + 15, box["y"] + 36)
    expect(page.locator("#panel")).to_contain_text("1 host selected")
    page.mouse.click(box["x"] + 15, box["y"] + 8)
    expect(page.locator("#panel")).to_contain_text("100 hosts selected")
    page.get_by_role("button", name="Select on the map").click()
    page.mouse.click(box["x"] + 15, box["y"] + 36)
    expect(page.locator("#panel-title")).to_have_text("az1-r01-hdd01")


@pytest.mark.parametrize(
    ("dimming", "colours"), [(False, ["green"]), (True, ["blue", "green"])], ids=["all", "dimmed"]
)
def test_rejected_hosts_on_the_map_have_the_colour_of_their_stage(dimming, colours, page):
    assert page.evaluate(DRAWN_COLOURS_SCRIPT, dimming) == colours


def test_host_names_on_the_map_are_escaped(open_page):
    page = open_page("/console/cloud")
    hosts = [
        build_host_document(f"{HTML_IMAGE_TAG}{number}", zone=HTML_IMAGE_TAG, policy=HTML_IMAGE_TAG)
        for number in range(3)
    ]
    aggregate = {
        "id": 1,
        "uuid": uuid_of("a"),
        "name": HTML_IMAGE_TAG,
        "metadata": {HTML_IMAGE_TAG: HTML_IMAGE_TAG},
    }
    document = {"hosts": hosts, "aggregates": [aggregate], "traits": [HTML_IMAGE_TAG], "cells": []}
    replace_hosts_of_map(page, document)
    wait_for_legend(page)
    page.get_by_label("Coloured by").select_option("policy")
    locate_map_canvas(page).focus()
    page.keyboard.press(" ")
    expect(page.locator("#live")).to_contain_text(HTML_IMAGE_TAG)
    expect(page.locator("#panel")).to_contain_text(HTML_IMAGE_TAG)
    expect(page.locator("#legend")).to_contain_text(HTML_IMAGE_TAG)
    assert page.locator("main img").count() == 0


def test_empty_cloud_shows_instructions_instead_of_a_map(open_page):
    page = open_page("/console/cloud")
    empty = {"hosts": [], "aggregates": [], "traits": [], "cells": []}
    with page.expect_response(HOSTS_API_PATTERN):
        replace_hosts_of_map(page, empty)
    expect(locate_map_canvas(page)).to_be_hidden()
    expect(page.get_by_role("heading", name="Hosts", exact=True)).to_be_in_viewport()


def test_expired_sign_in_greys_the_map_until_a_reading_succeeds(open_page):
    page = open_page("/console/cloud", expected_errors=("/console/api/scheduler/v1/hosts",))
    page.clock.install()
    page.reload()
    wait_for_legend(page)
    expired = {"errors": [{"status": 401, "detail": "No X-Auth-Token was given."}]}
    page.route(HOSTS_API_PATTERN, lambda route: route.fulfill(status=401, json=expired))
    page.clock.run_for(60_000)
    bar = page.get_by_role("alert")
    expect(bar).to_contain_text("Your sign-in has expired")
    assert bar.get_by_role("link", name="Sign in again").evaluate("link => link.href") == page.url
    expect(page.locator("main")).to_have_class("is-stale")
    page.unroute(HOSTS_API_PATTERN)
    page.clock.run_for(60_000)
    expect(bar).to_have_count(0)
    expect(page.locator("main")).not_to_have_class("is-stale")


FORBIDDEN_ERROR_BODY = {"errors": [{"status": 403, "detail": "Policy does not allow it."}]}


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (
            lambda route: route.fulfill(status=403, json=FORBIDDEN_ERROR_BODY),
            "Policy does not allow it.",
        ),
        (lambda route: route.abort(), "the service does not answer"),
    ],
    ids=["forbidden", "no response"],
)
def test_failed_map_request_shows_the_reason(open_page, respond, reason):
    page = open_page("/console/cloud", expected_errors=("/console/api/scheduler/v1/hosts",))
    page.route(HOSTS_API_PATTERN, respond)
    page.reload()
    expect(page.locator("#counted")).to_contain_text(f"The map cannot be drawn: {reason}")
