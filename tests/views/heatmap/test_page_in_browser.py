"""The page in headless Chromium: it hovers, switches, filters, finds and sorts.

Needs ``chromium`` (or ``google-chrome``) and ``chromedriver`` on the path and selenium; skipped where one is missing.
"""

import shutil
from dataclasses import replace

import pytest

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.response import Alternatives

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium and chromedriver are not installed")

wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait

NAMES = ("eu", "au", "logprob")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    switches = (
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1300,900",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    )  # fmt: skip
    for switch in switches:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def open_page(browser, tmp_path):
    def opened(responses, **options):
        path = tmp_path / "page.html"
        with path.open("w", encoding="utf-8") as file:
            write_html(file, responses, view_samples.scales_of(responses, *NAMES), **options)
        browser.get(path.as_uri())
        wait(browser, timeout=20).until(lambda page: all_of(page, ".text span"))  # painted when the observer reports
        return browser

    yield opened
    complaints = [entry for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]
    assert not complaints


def sample():
    return [view_samples.right(), view_samples.wrong(), view_samples.hard()]


def all_of(page, selector):
    return page.find_elements("css selector", selector)


def one_of(page, selector):
    return page.find_element("css selector", selector)


def hover(page, element):
    webdriver.ActionChains(page).move_to_element(element).perform()


def classes(page, card):
    return page.execute_script(
        "return [...document.querySelectorAll('article')[arguments[0]].querySelectorAll('.text span')]"
        ".map((span) => span.className)",
        card,
    )


def visible(page):
    return [card.find_element("css selector", ".id").text for card in all_of(page, "article") if card.is_displayed()]


def test_page_paints_by_the_scale_and_switches_the_quantity(open_page):
    responses = sample()
    page = open_page(responses)
    for place, scale in enumerate(view_samples.scales_of(responses, *NAMES)):
        all_of(page, "#quantities label")[place].click()
        values = responses[1].values[scale.quantity.name]
        expected = [
            {-1: "step0 outside", 8: "step7 outside"}.get(step := scale.step(value), f"step{step}") for value in values
        ]
        assert classes(page, 1) == expected
        assert one_of(page, "#legend .name").text == scale.quantity.name
        assert f"Least certain tokens by {scale.quantity.name}" in all_of(page, "aside")[1].text
    text = page.execute_script("return document.querySelectorAll('article .text')[1].textContent")
    assert text == responses[1].response.replace("\n", "↵\n") + "∎"
    assert "</script><script>alert(1)</script>" in all_of(page, "article")[2].text


def test_page_hovering_shows_every_value_and_what_else_might_have_been_written(open_page):
    response = view_samples.wrong()
    token = response.values["eu"].index(max(response.values["eu"]))
    others = Alternatives(token, (" 7", " 9", "\n"), (0.404, 0.22, 0.004), (0.35, 0.3, None), (" 9", "<b>"))
    page = open_page([replace(response, alternatives={token: others})])
    hover(page, all_of(page, ".text span")[token])
    box = one_of(page, "#values").text
    assert f"token {token + 1}" in box
    for scale in view_samples.scales_of([response], *NAMES):
        assert f"{response.values[scale.quantity.name][token]:.{scale.decimals + 2}f}" in box
    rows = [row.text.split() for row in all_of(page, "#values .others tr")[1:]]
    assert rows == [["7", "40", "%", "35", "%"], ["9", "22", "%", "30", "%"], ["↵", "<1", "%", "?"]]
    assert one_of(page, "#values .draws").text == "the draws would have written 9 · <b>"
    hover(page, one_of(page, "#count"))
    assert not one_of(page, "#values").is_displayed()


def test_page_filters_finds_and_sorts(open_page):
    responses = sample()
    page, incorrect = open_page(responses), responses[1].title
    next(one for one in all_of(page, "#filters label") if "incorrect" in one.text).click()
    assert (visible(page), one_of(page, "#count").text) == ([incorrect], "1 of 3 responses")
    all_of(page, "#filters label")[0].click()
    one_of(page, "#order option[value=uncertain]").click()
    totals = {response.title: response.sums["eu"]["sum"] for response in responses}
    assert visible(page) == sorted(totals, key=totals.get, reverse=True)
    one_of(page, "#find").send_keys("harmless")
    assert [name[:4] for name in visible(page)] == ["hard"]


def test_page_lists_lead_to_the_token_and_the_step(open_page):
    responses = sample()
    page, response = open_page(responses), responses[1]
    one_of(page, "article:nth-of-type(2) .tops button").click()
    assert one_of(page, "#values").is_displayed()
    start, end = response.spans[response.values["eu"].index(max(response.values["eu"]))]
    assert one_of(page, "article:nth-of-type(2) .at").get_attribute("textContent") == response.response[start:end]
    one_of(page, "article:nth-of-type(2) .steps .least").click()
    marked = "".join(span.get_attribute("textContent") for span in all_of(page, ".in-step"))
    step = response.steps[response.least_certain_step(view_samples.EU)]
    assert marked.replace("↵\n", "\n").rstrip("∎") == response.response[step.start : step.end]


@pytest.mark.parametrize("columns", [390, 1300])
def test_page_fits_a_phone_and_paints_what_comes_near(open_page, browser, columns):
    metrics = {"width": columns, "height": 800, "deviceScaleFactor": 1, "mobile": columns < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page = open_page([sample()[index % 2] for index in range(300)])
        assert page.execute_script("return document.documentElement.scrollWidth") <= columns
        assert 0 < len(all_of(page, ".text span")) < 5_000
        page.execute_script("scrollTo(0, document.body.scrollHeight)")
        wait(page, timeout=10).until(lambda page: "∎" in all_of(page, "article")[-1].text)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
