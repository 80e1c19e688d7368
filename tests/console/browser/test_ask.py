# SPDX-License-Identifier: Apache-2.0
"""The page Ask in a real browser: the flows from a question to its stages and hosts."""

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import PHONE, find_accessibility_faults

pytestmark = pytest.mark.exhaustive

ASK = "/console/ask"
IN_ZONE = f"{ASK}?vcpus=32&ram=16384&disk=100&zone=az1"
REFUSED = f"{IN_ZONE}&property=trait:HW_CPU_X86_AMD_SEV_ES%3Drequired"
RAM = "filter_scheduler.ram_weight_multiplier"
VIEWS = {
    "form": ASK,
    "answer": IN_ZONE,
    "refused": REFUSED,
    "stage": f"{IN_ZONE}&stage=ComputeFilter",
    "host": f"{IN_ZONE}&host=az2-r01-hdd01",
    "beside": f"{IN_ZONE}&{RAM}=-3&beside=default&beside_as_configured=1",
}


def fill_form(page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"[name={name}]").fill(value)


def wait_until_drawn(page) -> None:
    """Wait until the map has been drawn."""
    expect(page.locator(".map .pointed")).not_to_have_text("Reading hosts")
    assert page.locator(".map canvas").is_visible()


def test_chosen_flavor_replaces_sizes(visit, sample_server):
    made = {"name": "m1.small", "vcpus": 2, "ram": 2048, "disk": 5, "id": "7"}
    sample_server.ask("POST", "/compute/v2.1/flavors", {"flavor": made})
    try:
        page = visit(f"{ASK}?vcpus=3")
        page.locator("#question > summary").click()
        page.locator("[name=flavor]").select_option("m1.small")
        expect(page.locator("[name=vcpus]")).to_be_disabled()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.wait_for_url("**flavor=m1.small")
        assert "vcpus" not in page.url
        expect(page.locator(".funnel")).to_contain_text("MEMORY_MB:2048")
        # The map asks for the flavor once more, which is still to be there.
        page.wait_for_load_state("networkidle")
        wait_until_drawn(page)
    finally:
        sample_server.send("DELETE", "/compute/v2.1/flavors/7", None)


def test_hosts_beyond_the_limit_are_on_the_map_only(visit):
    page = visit(f"{IN_ZONE}&override=scheduler.max_placement_results=5")
    wait_until_drawn(page)
    cut = page.locator(".legend li", has_text="limit 5")
    letter = cut.locator("b").inner_text()
    page.locator(".map canvas").focus()
    seen = set()
    for _ in range(100):
        page.keyboard.press("ArrowRight")
        seen.add(page.locator(".map .pointed").inner_text().partition(": ")[2])
    assert any(words.startswith(f"rejected at {letter}, limit 5") for words in seen)
    assert "not reached" not in seen
    expect(page.locator(".funnel")).to_contain_text("not listed in the answer")
    page.get_by_role("link", name="limit 5").click()
    expect(page.locator(".empty")).to_contain_text("hosts are counted and not listed")


def test_a_click_on_the_map_shows_the_path_of_the_host(visit):
    page = visit(REFUSED)
    wait_until_drawn(page)
    box = page.locator(".map canvas").bounding_box()
    pointed = page.locator(".map .pointed")
    for step in range(20, 120, 3):
        page.mouse.move(box["x"] + step, box["y"] + step)
        if ": rejected at " in pointed.inner_text():
            break
    named = pointed.inner_text().split(",")[0]
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("heading", name=f"Path of {named}")).to_be_visible()


def test_enter_on_the_map_shows_the_path_of_the_host(visit):
    page = visit(REFUSED)
    wait_until_drawn(page)
    canvas = page.locator(".map canvas")
    canvas.focus()
    canvas.press("ArrowRight")
    expect(page.locator(".map .pointed")).to_contain_text("rejected at ")
    named = page.locator(".map .pointed").inner_text().split(",")[0]
    canvas.press("Enter")
    expect(page.get_by_role("heading", name=f"Path of {named}")).to_be_visible()


def test_only_moved_sliders_are_sent(visit):
    page = visit(IN_ZONE)
    page.locator("#question > summary").click()
    page.locator("#option-fields > summary").click()
    slider = page.get_by_label("ram, slider")
    expect(slider).to_have_value("1")
    slider.fill("-5")
    assert page.locator(f"[name='{RAM}']").input_value() == "-5"
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(f"**{RAM}=-5")
    assert "cpu_weight" not in page.url
    expect(page.locator("#curl")).to_contain_text(f'"{RAM}": -5')
    expect(page.get_by_label("ram, slider")).to_have_value("-5")
    page.get_by_role("button", name="ram as configured").click()
    assert page.locator(f"[name='{RAM}']").input_value() == ""


def test_fields_stay_in_view_on_a_wide_screen(visit):
    page = visit(IN_ZONE)
    page.locator("#question > summary").click()
    page.locator("#option-fields > summary").click()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#progress")).to_be_hidden()
    assert page.get_by_label("ram, slider").is_visible()


def test_answers_of_two_policies_are_shown_side_by_side(visit):
    page = visit(IN_ZONE)
    page.locator("#question > summary").click()
    page.locator("#option-fields > summary").click()
    page.locator(f"[name='{RAM}']").fill("-5")
    page.locator("#beside-fields > summary").click()
    page.get_by_label("Compare with policy").select_option("default")
    page.get_by_label("Without the options above").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("heading", name="Side by side", exact=True)).to_be_visible()
    expect(page.locator(".beside .conclusion")).to_have_count(2)
    expect(page.locator(".compared .differs").first).to_contain_text("≠")


def test_the_command_is_copied(visit):
    page = visit(IN_ZONE)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name in ("command", "curl", "address"):
        page.locator(f"[data-copy={name}]").click()
        expect(page.locator(f"[data-copy={name}]")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.locator(f"#{name}").text_content()


def test_link_reopens_the_request_in_another_window(visit):
    first = visit(f"{REFUSED}&{RAM}=2&count=&hint=a%3Db")
    second = visit(first.locator("#address").text_content())
    assert second.locator("#command").inner_text() == first.locator("#command").inner_text()
    assert second.locator("[name=hint]").input_value() == "a=b"


def test_a_long_answer_shows_its_progress_and_can_be_cancelled(visit):
    page = visit(ASK)
    held = []

    def hold(route) -> None:
        held.append(route)

    page.route("**/console/ask?*", hold)
    fill_form(page, vcpus="2", ram="1024", disk="1")
    ask = page.get_by_role("button", name="Ask", exact=True)
    ask.focus()
    page.keyboard.press("Enter")
    progress = page.locator("#progress")
    expect(progress).to_contain_text("Asking the scheduler … 1 s")
    progress.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(progress).to_be_hidden()
    expect(ask).to_be_focused()
    assert page.url.endswith(ASK)
    page.unroute("**/console/ask?*")
    assert len(held) == 1
    ask.click()
    expect(page.locator(".conclusion")).to_contain_text("Selected.")


def test_empty_form_shows_an_error(visit):
    page = visit(ASK)
    fill_form(page, vcpus="", ram="", disk="")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#progress")).to_contain_text("Choose a flavor or enter its sizes")
    assert page.url.endswith(ASK)


def test_error_is_announced_and_fixed_in_the_form(visit):
    page = visit(ASK, expected_errors=("zone=az1",))
    fill_form(page, zone="az1")
    page.locator("#option-fields > summary").click()
    page.get_by_label("Other options").fill("filter_scheduler.ram_weight=1")
    page.get_by_role("button", name="Ask", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("did you mean")
    expect(alert).to_be_focused()
    page.get_by_label("Other options").fill("")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".conclusion")).to_contain_text("Selected.")


def test_page_is_usable_by_keyboard(visit):
    page = visit(ASK)
    page.locator("[name=vcpus]").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("32")
    page.keyboard.press("Enter")
    expect(page.locator("[data-answer]")).to_be_focused()
    wait_until_drawn(page)
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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_accessible(visit, view, dark):
    page = visit(VIEWS[view], dark=dark)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert find_accessibility_faults(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_fits_a_phone_screen(visit, view):
    page = visit(VIEWS[view], size=PHONE)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_page_works_without_scripts(visit):
    page = visit(ASK, scripts=False)
    fill_form(page, vcpus="32", zone="az1")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert "Selected." in page.locator(".conclusion").inner_text()
    assert page.locator(".map").is_hidden()
    page.get_by_role("link", name="ComputeFilter", exact=True).click()
    page.get_by_role("link", name="az1-r03-ssd07").click()
    assert "rejected" in page.locator("#verdicts ~ h3").inner_text()
