# SPDX-License-Identifier: Apache-2.0
"""The page Ask in a real browser: the request, its stages and its hosts."""

import pytest
from playwright.sync_api import expect

from tests.extensions.console.ask_page import ASK_PATH, RAM_WEIGHT
from tests.extensions.console.browser.ask_page import (
    ASK_URL,
    ASK_URL_WITHOUT_VALID_HOST,
    fill_ask_form,
    wait_for_map,
)
from tests.extensions.console.browser.conftest import (
    PHONE_SIZE,
    continue_held_requests,
    move_pointer_to_a_host,
)

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def page(open_page):
    """Return the page with a response and its map."""
    return wait_for_map(open_page(ASK_URL))


def test_chosen_flavor_replaces_the_sizes_of_the_form(open_page, sample_server):
    created = {"name": "m1.small", "vcpus": 2, "ram": 2048, "disk": 5, "id": "7"}
    sample_server.request_json("POST", "/compute/v2.1/flavors", {"flavor": created})
    try:
        page = open_page(f"{ASK_PATH}?vcpus=3")
        page.locator("#request-form [name=flavor]").select_option("m1.small")
        expect(page.locator("#request-form [name=vcpus]")).to_be_disabled()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.wait_for_url("**flavor=m1.small")
        assert "vcpus" not in page.url
        expect(page.locator(".why-not")).to_contain_text("MEMORY_MB:2048")
        wait_for_map(page)
    finally:
        sample_server.send("DELETE", "/compute/v2.1/flavors/7", None)


#: Records the texts that are drawn on canvases in ``window.drawn``.
RECORD_DRAWN_TEXTS = """() => {
  window.drawn = [];
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.drawn.push(text);
    return fillText.call(this, text, ...place);
  };
}"""


def test_hosts_beyond_the_candidate_limit_are_counted_as_fitting_in_each_zone(open_page):
    """Zones whose hosts were cut by the limit had the title "0 of 100 fit"."""
    page = open_page(ASK_PATH)
    page.add_init_script(f"({RECORD_DRAWN_TEXTS})()")
    page.goto("/console/ask?vcpus=1&ram=64&disk=1&override=scheduler.max_placement_results=5")
    wait_for_map(page)
    page.wait_for_timeout(300)
    titles = [text for text in page.evaluate("window.drawn") if " fit" in text]
    assert any(title.endswith(", 5 weighed") for title in titles)
    assert any(title.endswith(", none weighed") for title in titles)
    assert not [title for title in titles if title.startswith("0 of")]


def test_hosts_beyond_the_candidate_limit_have_the_letter_of_the_limit_on_the_map(open_page):
    page = wait_for_map(open_page(f"{ASK_URL}&override=scheduler.max_placement_results=5"))
    letter = page.locator(".why-not tr", has_text="limit 5").locator(".sign").inner_text().strip()
    page.locator(".map canvas").focus()
    seen = set()
    for _ in range(100):
        page.keyboard.press("ArrowRight")
        seen.add(page.locator(".map .pointed").inner_text().partition(": ")[2])
    assert f"{letter}, cut by the limit of hosts, not weighed" in seen
    assert "not reached" not in seen
    expect(page.locator(".why-not")).to_contain_text("cut by the limit and not weighed")
    page.get_by_role("link", name="limit 5").click()
    expect(page.locator(".empty")).to_contain_text("hosts are counted and not listed")


def test_click_and_enter_key_on_the_map_show_why_the_host_is_rejected(open_page):
    page = wait_for_map(open_page(ASK_URL_WITHOUT_VALID_HOST))
    named = move_pointer_to_a_host(page)
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#why-title")).to_have_text(named)
    expect(page.locator("#why")).to_contain_text("rejected")
    assert f"host={named}" in page.url
    canvas = page.locator(".map canvas")
    canvas.focus()
    canvas.press("ArrowRight")
    expect(page.locator(".map .pointed")).to_contain_text("rejected at ")
    named = page.locator(".map .pointed").inner_text().split(",")[0]
    canvas.press("Enter")
    expect(page.locator("#why-title")).to_have_text(named)
    expect(page.locator("#why-title")).to_be_focused()


def test_explain_request_contains_only_the_options_of_moved_sliders(open_page):
    page = open_page(ASK_URL)
    page.locator("#option-fields > summary").click()
    slider = page.get_by_label("ram, slider")
    expect(slider).to_have_value("1")
    slider.fill("-5")
    assert page.locator(f"#request-form [name='{RAM_WEIGHT}']").input_value() == "-5"
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(f"**{RAM_WEIGHT}=-5")
    assert "cpu_weight" not in page.url
    assert f'"{RAM_WEIGHT}": -5' in page.locator("#share-curl").input_value()
    expect(page.get_by_label("ram, slider")).to_have_value("-5")
    page.get_by_role("button", name="ram as configured").click()
    assert page.locator(f"#request-form [name='{RAM_WEIGHT}']").input_value() == ""


def test_explanation_and_hosts_are_requested_only_once(open_page):
    page = open_page(ASK_PATH)
    requests = []
    page.on("request", lambda request: requests.append((request.method, request.url)))
    page.goto(ASK_URL)
    wait_for_map(page)
    assert not [method for method, _ in requests if method != "GET"]
    assert len([url for _, url in requests if "/hosts" in url]) == 1


def test_funnel_stages_and_map_are_side_by_side_without_scrolling(open_page):
    page = wait_for_map(open_page(ASK_URL, size={"width": 1440, "height": 900}))
    stages, canvas = page.locator(".why-not").bounding_box(), page.locator(".map canvas")
    expect(canvas).to_be_in_viewport(ratio=1)
    box = canvas.bounding_box()
    assert stages["x"] + stages["width"] <= box["x"]
    assert abs(stages["y"] - box["y"]) < 60
    expect(page.get_by_label("Why not, or why, this host?")).to_be_in_viewport()


def test_pointer_on_a_funnel_stage_highlights_its_hosts_and_vice_versa(open_page):
    page = wait_for_map(open_page(ASK_URL_WITHOUT_VALID_HOST))
    canvas = page.locator(".map canvas")
    plain = canvas.screenshot()
    row = page.locator(".why-not tr[data-stage]").first
    row.locator(".picture").hover()
    expect(row).to_have_class("lit")
    page.wait_for_timeout(300)
    assert canvas.screenshot() != plain
    page.mouse.move(0, 0)
    expect(row).not_to_have_class("lit")
    move_pointer_to_a_host(page)
    letter = page.locator(".map .tip div").nth(1).inner_text()[0]
    lit = page.locator(".why-not tr.lit .sign")
    expect(lit).to_have_text(letter)


def test_funnel_stage_selected_by_enter_key_stays_selected_until_a_click(open_page):
    page = wait_for_map(open_page(ASK_URL_WITHOUT_VALID_HOST))
    sign = page.locator(".why-not .sign").first
    sign.focus()
    page.keyboard.press("Enter")
    expect(sign).to_have_attribute("aria-pressed", "true")
    page.mouse.move(0, 0)
    expect(page.locator(".why-not tr.lit").first).to_be_visible()
    page.locator(".why-not tr.lit .picture").first.click()
    expect(sign).to_have_attribute("aria-pressed", "false")


def test_host_field_shows_why_the_host_is_rejected_until_the_back_button_is_pressed(
    open_page, page
):
    canvas = page.locator(".map canvas")
    field = page.get_by_label("Why not, or why, this host?")
    field.press_sequentially("az1-r03-ssd0")
    assert page.locator("#host-names option").count() == 9
    plain = canvas.screenshot()
    field.fill("az1-r03-ssd07")
    field.press("Enter")
    why = page.locator("#why")
    expect(why).to_contain_text("no heartbeat for 30 days")
    expect(why).to_contain_text("to pass: make it report again")
    expect(page.locator("#why-title")).to_be_focused()
    page.wait_for_timeout(300)
    assert canvas.screenshot() != plain
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.go_back()
    expect(why).to_have_count(0)
    assert not [url for url in requests if "/console/ask" in url]
    page.go_forward()
    expect(why).to_contain_text("no heartbeat")
    again = open_page(page.url)
    expect(again.locator("#why")).to_contain_text("no heartbeat")
    wait_for_map(again)


def test_slow_response_about_a_host_does_not_replace_the_response_about_a_later_host(page):
    held = []
    page.route("**host=az1-r01-hdd05**", lambda route: held.append(route))  # noqa: PLW0108
    field = page.get_by_label("Why not, or why, this host?")
    for name in ("az1-r01-hdd05", "az1-r01-hdd07"):
        field.fill(name)
        field.press("Enter")
    expect(page.locator("#why-title")).to_have_text("az1-r01-hdd07")
    continue_held_requests(held)
    page.wait_for_timeout(300)
    expect(page.locator("#why-title")).to_have_text("az1-r01-hdd07")


def test_slow_explain_request_shows_progress_and_can_be_cancelled(open_page):
    page = open_page(ASK_PATH)
    held = []

    def hold_response(route) -> None:
        held.append(route)

    page.route("**/console/ask?*", hold_response)
    fill_ask_form(page, vcpus="2", ram="1024", disk="1")
    ask = page.get_by_role("button", name="Ask", exact=True)
    ask.focus()
    page.keyboard.press("Enter")
    progress = page.locator("#progress")
    expect(progress).to_contain_text("Evaluating the request … 1 s")
    progress.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(progress).to_be_hidden()
    expect(ask).to_be_focused()
    assert page.url.endswith(ASK_PATH)
    page.unroute("**/console/ask?*")
    assert len(held) == 1
    ask.click()
    expect(page.locator(".conclusion")).to_contain_text("Selected.")


def test_error_of_the_ask_form_is_an_alert_until_a_corrected_request(open_page):
    page = open_page(ASK_PATH, expected_errors=("zone=az1",))
    fill_ask_form(page, zone="az1")
    page.locator("#option-fields > summary").click()
    page.get_by_label("Other options").fill("filter_scheduler.ram_weight=1")
    page.get_by_role("button", name="Ask", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Did you mean")
    expect(alert).to_be_focused()
    page.get_by_label("Other options").fill("")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".conclusion")).to_contain_text("Selected.")


def test_ask_form_can_be_filled_and_sent_by_keyboard_which_focuses_the_result(open_page):
    page = open_page(ASK_PATH)
    page.locator("#more-fields > summary").press("Enter")
    page.locator("#request-form [name=vcpus]").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("32")
    page.keyboard.press("Enter")
    expect(page.locator("[data-result]")).to_be_focused()
    wait_for_map(page)
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        words = page.evaluate("document.activeElement.textContent.trim()")
        seen.append(words)
        if words == "ComputeFilter":
            break
    assert "How many more instances fit" in seen
    assert seen[-1] == "ComputeFilter"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="ComputeFilter")).to_be_visible()


def test_phone_shows_the_result_without_scrolling_above_a_folded_form(open_page):
    page = wait_for_map(open_page(ASK_URL, size=PHONE_SIZE))
    expect(page.locator(".conclusion")).to_be_in_viewport(ratio=1)
    expect(page.locator(".why-not h2")).to_be_in_viewport(ratio=1)
    field = page.locator("#request-form [name=zone]")
    expect(field).to_be_hidden()
    page.get_by_text("Change the request: flavor typed; 32 VCPUs").click()
    field.fill("az2")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**zone=az2&**")
    expect(page.locator("#request-form [name=zone]")).to_be_hidden()
