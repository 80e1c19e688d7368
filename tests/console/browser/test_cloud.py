# SPDX-License-Identifier: Apache-2.0
"""The page Cloud in a real browser: the map, its keys and pointer, the panel, the address."""

import json
import logging
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.conftest import PHONE, find_accessibility_faults
from tests.support.clouds import uuid_of

pytestmark = pytest.mark.exhaustive

LOG = logging.getLogger(__name__)

HOSTS = "**/console/api/scheduler/v1/hosts"
ATTACK = "<img src=x onerror=alert(1)>\"'&</script>"
#: Counts long tasks, by the browser's own performance API.
WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longTasks.push(Math.round(entry.duration));
}).observe({ type: "longtask", buffered: true });
"""
#: Draws two hosts on a canvas of its own and returns the colours at the middles of their cells.
DRAWN = """async (dimming) => {
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


def wait_until_drawn(page: Page) -> Page:
    expect(page.locator("#legend li").first).to_be_visible()
    return page


def find_canvas(page: Page):
    return page.get_by_label("Map of hosts")


def read_query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def serve_hosts(page: Page, document: dict[str, object]) -> None:
    """Let the map be of other hosts than those of the server, and open the page again."""
    page.route(HOSTS, lambda route: route.fulfill(json=document))
    page.reload()


def build_host(name: str, **changes: object) -> dict[str, object]:
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


def test_map_shows_every_host_and_a_legend(visit):
    page = wait_until_drawn(visit("/console/"))
    expect(page.locator("#counted")).to_have_text("300 hosts")
    words = page.locator("#legend").inner_text()
    counts = [int(number) for number in re.findall(r"free: (\d+)", words)]
    assert sum(counts) == 300
    assert "down: 1" in words
    assert "disabled: 1" in words


@pytest.mark.parametrize(
    ("colour", "words"),
    [("state", "up: 298"), ("policy", "default: 300"), ("instances", "instances: ")],
)
def test_map_colour_choice_is_kept_in_the_url(visit, colour, words):
    page = wait_until_drawn(visit("/console/"))
    page.get_by_label("Coloured by").select_option(colour)
    expect(page.locator("#legend")).to_contain_text(words)
    page.wait_for_url(f"**colour={colour}**")
    again = wait_until_drawn(visit(urlsplit(page.url).path + "?" + urlsplit(page.url).query))
    expect(again.get_by_label("Coloured by")).to_have_value(colour)
    expect(again.locator("#legend")).to_contain_text(words)


def test_search_filters_map_and_table_and_is_kept_in_the_url(visit):
    page = wait_until_drawn(visit("/console/"))
    page.get_by_label("Name contains").fill("az2-r03")
    expect(page.locator("#counted")).to_have_text("16 of 300 hosts, the rest is dimmed")
    expect(page.locator(".host-table tbody tr")).to_have_count(16)
    assert read_query(page)["search"] == ["az2-r03"]
    again = wait_until_drawn(visit(f"/console/?{urlsplit(page.url).query}"))
    expect(again.locator("#counted")).to_contain_text("16 of 300 hosts")


def test_trait_aggregate_and_state_filter_the_map(visit):
    page = wait_until_drawn(visit("/console/?state=disabled"))
    expect(page.locator("#counted")).to_contain_text("1 of 300 hosts")
    page.locator("select[name=state]").select_option("")
    page.locator("[name=trait]").fill("COMPUTE_STATUS_DISABLED")
    expect(page.locator("#counted")).to_contain_text("1 of 300 hosts")
    page.locator("[name=trait]").fill("")
    page.locator("[name=aggregate]").fill("az1")
    expect(page.locator("#counted")).to_contain_text("100 of 300 hosts")


def test_keyboard_moves_on_the_map_and_opens_a_host(visit):
    page = wait_until_drawn(visit("/console/?group=name"))
    find_canvas(page).focus()
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
    assert read_query(page)["open"] == ["az1-r01-hdd01"]
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(find_canvas(page)).to_be_focused()
    assert "open" not in read_query(page)


def test_selection_spans_several_table_pages(visit):
    page = wait_until_drawn(visit("/console/"))
    table = page.locator("#hosts")
    table.get_by_role("button", name="What if more like them are added?").click()
    expect(page.locator("#progress")).to_contain_text("Select hosts first")
    first = table.get_by_role("checkbox").first
    first.check()
    names = [first.get_attribute("value")]
    table.get_by_role("link", name="Next hosts").click()
    expect(table.get_by_role("link", name="First hosts")).to_be_visible()
    expect(table.get_by_role("heading", name="Hosts")).to_be_focused()
    assert "marker" in read_query(page)
    first = table.get_by_role("checkbox").first
    first.check()
    names.append(first.get_attribute("value"))
    expect(page.locator("#chosen")).to_contain_text("2 hosts selected")
    table.get_by_label("More of each").fill("2")
    table.get_by_role("button", name="What if more like them are added?").click()
    page.wait_for_url("**/capacity?**")
    assert read_query(page) == {"add": [f"{name}:2" for name in sorted(names)]}
    expect(page.get_by_label("What if: changes")).to_have_value(
        "\n".join(f"add={name}*2" for name in sorted(names))
    )


def test_keyboard_selection_links_to_drain_or_add_hosts(visit):
    page = wait_until_drawn(visit("/console/?group=name"))
    find_canvas(page).focus()
    page.keyboard.press(" ")
    page.keyboard.press("Shift+ArrowRight")
    chosen = page.locator("#chosen")
    expect(chosen).to_contain_text("2 hosts selected: az1-r01-hdd01, az1-r01-hdd02.")
    expect(page.get_by_label("Select az1-r01-hdd02")).to_be_checked()
    drained, added = chosen.get_by_role("link").all()
    query = urlsplit(drained.get_attribute("href")).query
    assert query == "drain=az1-r01-hdd01&drain=az1-r01-hdd02"
    chosen.get_by_label("More of each").fill("3")
    query = parse_qs(urlsplit(added.get_attribute("href")).query)
    assert query == {"add": ["az1-r01-hdd01:3", "az1-r01-hdd02:3"]}
    find_canvas(page).focus()
    page.keyboard.press("Escape")
    expect(chosen).to_be_hidden()
    page.get_by_label("Select az1-r01-hdd05").check()
    expect(chosen).to_contain_text("1 host selected: az1-r01-hdd05.")


def test_link_opens_a_host_next_to_the_map(visit):
    page = wait_until_drawn(visit("/console/?open=az2-r03-ssd07"))
    expect(page.locator("#panel-title")).to_have_text("az2-r03-ssd07")
    assert find_accessibility_faults(page) == []
    page.get_by_role("link", name="Own page").click()
    expect(page.locator("h1")).to_have_text("az2-r03-ssd07")
    assert find_accessibility_faults(page) == []


def test_a_click_opens_the_host_under_the_pointer(visit):
    page = wait_until_drawn(visit("/console/"))
    box = find_canvas(page).bounding_box()
    pointed = page.locator("#pointed")
    for step in range(20, 200, 5):
        page.mouse.move(box["x"] + step, box["y"] + step)
        if pointed.inner_text():
            break
    name = pointed.inner_text().partition(":")[0]
    assert name.startswith("az1-")
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#panel-title")).to_have_text(name)


def test_dragging_moves_the_map_and_with_shift_selects(visit):
    page = wait_until_drawn(visit("/console/"))
    box = find_canvas(page).bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.wheel(0, -600)
    page.mouse.down()
    page.mouse.move(middle[0] + 90, middle[1] + 60, steps=5)
    page.mouse.up()
    expect(page.locator("#panel")).to_be_hidden()
    page.get_by_role("button", name="All").click()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator("#chosen")).to_contain_text("300 hosts selected")


@pytest.mark.parametrize(
    ("dimming", "colours"), [(False, ["green"]), (True, ["blue", "green"])], ids=["all", "dimmed"]
)
def test_rejected_hosts_have_the_colour_of_their_stage(visit, dimming, colours):
    page = wait_until_drawn(visit("/console/"))
    assert page.evaluate(DRAWN, dimming) == colours


def test_names_are_escaped(visit):
    page = visit("/console/")
    hosts = [build_host(f"{ATTACK}{number}", zone=ATTACK, policy=ATTACK) for number in range(3)]
    aggregate = {"id": 1, "uuid": uuid_of("a"), "name": ATTACK, "metadata": {ATTACK: ATTACK}}
    document = {"hosts": hosts, "aggregates": [aggregate], "traits": [ATTACK], "cells": []}
    serve_hosts(page, document)
    wait_until_drawn(page)
    page.get_by_label("Coloured by").select_option("policy")
    find_canvas(page).focus()
    page.keyboard.press(" ")
    expect(page.locator("#live")).to_contain_text(ATTACK)
    expect(page.locator("#chosen")).to_contain_text(ATTACK)
    expect(page.locator("#legend")).to_contain_text(ATTACK)
    assert page.locator("main img").count() == 0


def test_empty_cloud_shows_instructions_instead_of_a_map(visit):
    page = visit("/console/")
    empty = {"hosts": [], "aggregates": [], "traits": [], "cells": []}
    with page.expect_response(HOSTS):
        serve_hosts(page, empty)
    expect(find_canvas(page)).to_be_hidden()
    expect(page.get_by_role("heading", name="Hosts")).to_be_in_viewport()


def test_failed_map_request_shows_the_reason(visit):
    page = visit("/console/", expected_errors=("/console/api/scheduler/v1/hosts",))
    body = {"errors": [{"status": 403, "detail": "Policy does not allow it."}]}
    page.route(HOSTS, lambda route: route.fulfill(status=403, json=body))
    page.reload()
    expect(page.locator("#counted")).to_have_text(
        "The map cannot be drawn: Policy does not allow it."
    )


def test_map_draws_and_moves_ten_thousand_hosts(visit):
    """How long it takes is logged (--log-cli-level=INFO), not asserted: machines differ."""
    page = visit("/console/")
    page.context.add_init_script(WATCH)
    hosts = [
        build_host(f"cn{n:05}", zone=f"az{n % 5}", traits=list(range(40)), instances=n % 20)
        for n in range(10_000)
    ]
    traits = [f"CUSTOM_{n}" for n in range(40)]
    body = json.dumps({"hosts": hosts, "aggregates": [], "traits": traits, "cells": []})
    page.route(HOSTS, lambda route: route.fulfill(body=body, content_type="application/json"))
    page.reload()
    wait_until_drawn(page)
    expect(page.locator("#counted")).to_have_text("10,000 hosts")
    LOG.info("first picture: %s ms", page.evaluate("Math.round(performance.now())"))
    LOG.info("long tasks until then: %s ms", page.evaluate("window.longTasks.splice(0)"))
    box = find_canvas(page).bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.wheel(0, -800)
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 300, steps=40)
    page.mouse.up()
    LOG.info("long tasks of zooming and panning: %s ms", page.evaluate("window.longTasks"))
    find_canvas(page).focus()
    page.keyboard.press("End")
    expect(page.locator("#live")).to_contain_text("cn09999")


def test_panel_and_map_fit_a_phone_screen(visit):
    page = wait_until_drawn(visit("/console/?open=az2-r03-ssd07", size=PHONE))
    expect(page.locator("#panel-title")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.goto("/console/hosts/az2-r03-ssd07")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_table_lists_hosts_without_scripts(visit):
    page = visit("/console/?zone=az1", scripts=False)
    assert page.locator(".host-table tbody tr").count() == 50
    page.get_by_role("link", name="Next hosts").click()
    assert page.locator(".host-table tbody tr").count() == 50
    page.locator(".host-table th a").last.click()
    assert page.locator("h1").inner_text().startswith("az1-")


def test_browser_back_closes_the_host(visit):
    page = wait_until_drawn(visit("/console/"))
    find_canvas(page).focus()
    expect(page.locator("#live")).not_to_be_empty()
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_be_visible()
    page.go_back()
    expect(page.locator("#panel")).to_be_hidden()
    expect(page.locator("h1")).to_have_text("Cloud")
