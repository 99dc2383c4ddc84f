"""The page in headless Chromium: it hovers, switches, filters, sorts, moves by keys, and never freezes.

Needs ``chromium`` (or ``google-chrome``) and ``chromedriver`` on the path and selenium; skipped where one is missing.
"""

import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.alternatives import Alternatives
from tokur_cli.views.heatmap.cells import cells_of
from tokur_cli.views.heatmap.colours import HEX_STEPS
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import ScaleBuilder

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


def scales(responses):
    builder = ScaleBuilder(view_samples.QUANTITIES)
    for response in responses:
        builder.add(response)
    return [builder.scale(name) for name in NAMES]


@pytest.fixture
def open_page(browser, tmp_path):
    def opened(responses, palettes=("cividis", "cividis", "cividis"), **options):
        path = tmp_path / "page.html"
        used = [replace(scale, palette=name) for scale, name in zip(scales(responses), palettes, strict=True)]
        with path.open("w", encoding="utf-8") as file:
            write_html(file, responses, used, **options)
        browser.get(path.as_uri())
        wait(browser, timeout=20).until(lambda page: all_of(page, ".text span"))  # painted when the observer reports
        return browser

    yield opened
    complaints = [entry for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]
    assert not complaints


@pytest.fixture
def page(open_page):
    return open_page([view_samples.right(), view_samples.wrong(), view_samples.hard()])


def all_of(page, selector):
    return page.find_elements("css selector", selector)


def one_of(page, selector):
    return page.find_element("css selector", selector)


def keys(page, *pressed):
    actions = webdriver.ActionChains(page)
    for key in pressed:
        actions.send_keys(key)
    actions.perform()


def classes(page, card):
    return page.execute_script(
        "return [...document.querySelectorAll('article')][arguments[0]]"
        ".querySelectorAll('.text span').values().map((span) => span.className).toArray()",
        card,
    )


def expected_classes(response, scale):
    values = response.values[scale.quantity.name]
    return [f"step{scale.step(value)}" + (" outside" if scale.clipped(value) else "") for value in values]


def visible_ids(page):
    cards = all_of(page, "article")
    return [card.find_element("css selector", ".id").text for card in cards if card.is_displayed()]


def test_tokens_have_the_colours_of_the_scale(page):
    pair = [view_samples.right(), view_samples.wrong(), view_samples.hard()]
    for card in (0, 1):
        assert classes(page, card) == expected_classes(pair[card], scales(pair)[0])


def test_the_text_is_that_of_the_response(page):
    text = page.execute_script("return document.querySelectorAll('article .text')[1].textContent")
    assert text == view_samples.WRONG.replace("\n", "↵\n") + "∎"


def test_switching_the_quantity_repaints_tokens_legend_and_lists(page):
    pair = [view_samples.right(), view_samples.wrong(), view_samples.hard()]
    one_of(page, "#quantities label:nth-of-type(3)").click()
    assert classes(page, 1) == expected_classes(pair[1], scales(pair)[2])
    assert one_of(page, "#legend .name").text == "logprob"
    assert "Least sure tokens by logprob" in one_of(page, "article:nth-of-type(2) aside").text
    keys(page, "1")
    assert classes(page, 1) == expected_classes(pair[1], scales(pair)[0])
    assert one_of(page, "#quantities input:checked").get_attribute("value") == "0"


def backgrounds(page, selector):
    """The colours behind elements as the browser draws them, ``#rrggbb``."""
    drawn = page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => getComputedStyle(one).backgroundColor)",
        selector,
    )
    return ["#" + bytes(map(int, re.findall(r"\d+", colour)[:3])).hex() for colour in drawn]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_quantity_has_its_own_colours(open_page, theme):
    response = view_samples.wrong()
    page = open_page([response], palettes=("green", "red", "cividis"))
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    token = response.values["eu"].index(max(response.values["eu"]))
    for place, (name, scale) in enumerate(zip(("green", "red", "cividis"), scales([response]), strict=True)):
        keys(page, str(place + 1))
        colours = HEX_STEPS[name][theme]
        expected = [colours[scale.step(value)] for value in response.values[scale.quantity.name]]
        assert backgrounds(page, "article .text span") == expected
        assert backgrounds(page, "#legend .scale b") == list(colours)
        webdriver.ActionChains(page).move_to_element(one_of(page, "h1, #legend")).perform()
        webdriver.ActionChains(page).move_to_element(all_of(page, "article .text span")[token]).perform()
        assert backgrounds(page, "#values td") == [
            HEX_STEPS[palette][theme][one.step(response.values[one.quantity.name][token])]
            for palette, one in zip(("green", "red", "cividis"), scales([response]), strict=True)
        ]


def test_hovering_shows_the_value_of_every_quantity(page):
    response = view_samples.wrong()
    token = response.values["eu"].index(max(response.values["eu"]))
    span = all_of(page, "article:nth-of-type(2) .text span")[token]
    webdriver.ActionChains(page).move_to_element(span).perform()
    box = one_of(page, "#values")
    assert box.is_displayed()
    for name in NAMES:
        assert name in box.text
    for scale in scales([view_samples.right(), response, view_samples.hard()]):
        assert f"{response.values[scale.quantity.name][token]:.{scale.decimals + 2}f}" in box.text
    assert f"token {token + 1}" in box.text
    webdriver.ActionChains(page).move_to_element(one_of(page, "#count")).perform()
    assert not box.is_displayed()


def with_alternatives():
    """The wrong response, with what else it might have been at its least sure token; and the token."""
    response = view_samples.wrong()
    token = response.values["eu"].index(max(response.values["eu"]))
    others = Alternatives([" 7", " 9", "\n"], [0.404, 0.22, 0.004], [0.35, 0.3, None], [" 9", "<b>"])
    return replace(response, alternatives={token: others}), token


def test_hovering_shows_what_else_might_have_been_written_with_bars(open_page):
    response, token = with_alternatives()
    page = open_page([response])
    spans = all_of(page, ".text span")
    webdriver.ActionChains(page).move_to_element(spans[token]).perform()
    head, *rows = [row.text.split("\n") for row in all_of(page, "#values .others tr")]
    assert " ".join(head).split() == ["likeliest", "p₀", "p̄"]
    assert [" ".join(row).split() for row in rows] == [
        ["7", "40", "%", "35", "%"], ["9", "22", "%", "30", "%"], ["↵", "<1", "%", "?"],
    ]  # fmt: skip
    widths = [bar.rect["width"] for bar in all_of(page, "#values .meter rect")]
    assert widths[:4] == pytest.approx([70 * share for share in (0.404, 0.35, 0.22, 0.3)], abs=0.6)
    assert one_of(page, "#values .draws").text == "the draws would have written 9 · <b>"
    webdriver.ActionChains(page).move_to_element(spans[token + 1]).perform()
    assert not all_of(page, "#values .others")


def test_a_tap_opens_the_values_of_a_token_until_another_one(open_page, browser):
    response, token = with_alternatives()
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        page = open_page([response])

        def tap(element):
            at = page.execute_script(
                "const box = arguments[0].getClientRects()[0]; return [box.x + box.width / 2, box.y + 8]", element
            )
            touch = {"x": at[0], "y": at[1]}
            page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [touch]})
            page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
            time.sleep(0.5)

        tap(all_of(page, ".text span")[token])
        assert f"token {token + 1}" in one_of(page, "#values").text
        assert all_of(page, "#values .others")
        tap(all_of(page, ".text span")[0])
        assert "token 1\n" in one_of(page, "#values").text
        tap(one_of(page, "aside h3"))
        assert not one_of(page, "#values").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_an_address_names_a_response(open_page):
    responses = [replace(view_samples.right(), id=f"q {n}", sample=n % 2, correct=None) for n in range(40)]
    page = open_page(responses)
    link = all_of(page, "h2 a")[31].get_attribute("href")
    assert link.endswith("page.html#q%2031.1")
    for address, wanted in ((link, "q 31 · sample 1"), (link.replace("31.1", "30"), "q 30 · sample 0")):
        page.get("about:blank")
        page.get(address)
        wait(page, timeout=20).until(
            lambda page: page.execute_script("return document.activeElement.tagName") == "ARTICLE"
        )
        focused = page.switch_to.active_element
        assert focused.find_element("css selector", ".id").text == wanted
        assert 0 <= page.execute_script("return arguments[0].getBoundingClientRect().y", focused) < 400
    one_of(page, "#find").send_keys("q 1")
    assert not all_of(page, "article")[5].is_displayed()
    page.execute_script("location.hash = 'q%205'")
    wait(page, timeout=20).until(lambda page: all_of(page, "article")[5].is_displayed())


def test_text_from_right_to_left_begins_on_the_right(open_page):
    text = "שלום 8 שלום."
    values = {quantity.name: [0.1, 0.2] for quantity in view_samples.QUANTITIES}
    page = open_page([HeatmapResponse("1", text, [(0, 5), (5, len(text))], values, question=text)])
    for selector in (".text", ".question"):
        assert page.execute_script("return getComputedStyle(arguments[0]).direction", one_of(page, selector)) == "rtl"
    first = all_of(page, ".text span")[0].rect
    assert first["x"] > one_of(page, ".text").rect["x"] + 40


def test_a_character_of_several_tokens_lists_them_all(open_page):
    values = {quantity.name: [0.1, 0.2, 0.3, 0.4] for quantity in view_samples.QUANTITIES}
    response = HeatmapResponse(id="1", response="a👍", spans=[(0, 1), (1, 2), (1, 2), (2, 2)], values=values)
    page = open_page([response])
    webdriver.ActionChains(page).move_to_element(all_of(page, ".text span")[1]).perform()
    head, *rows = [row.text.split() for row in all_of(page, "#values tr")]
    assert head == ["token", "2", "token", "3"]
    assert rows == [[name, "0.20000", "0.30000"] for name in NAMES]


def test_the_values_of_many_quantities_fit_their_box(open_page, browser):
    page = open_page([view_samples.wrong()])
    browser.set_window_size(400, 700)
    try:
        webdriver.ActionChains(page).move_to_element(all_of(page, ".text span")[8]).perform()
        box, table = one_of(page, "#values").rect, one_of(page, "#values table").rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
        assert table["x"] + table["width"] <= box["x"] + box["width"]
    finally:
        browser.set_window_size(1300, 900)


def test_filters_show_right_or_wrong_only_and_count(page):
    one_of(page, "#filters label:nth-of-type(3)").click()
    assert visible_ids(page) == ["trains-7 · sample 3"]
    assert one_of(page, "#count").text == "1 of 3 responses"
    one_of(page, "#filters label:nth-of-type(2)").click()
    assert visible_ids(page) == ["trains-7 · sample 0"]
    keys(page, "f", "f", "f")
    assert len(visible_ids(page)) == 3


def test_finding_by_id_or_question(page):
    keys(page, "/")
    keys(page, "harmless")
    assert [name[:4] for name in visible_ids(page)] == ["hard"]


def test_the_least_sure_response_can_come_first(page):
    one_of(page, "#order option[value=unsure]").click()
    assert visible_ids(page)[0] == "trains-7 · sample 3"
    one_of(page, "#order option[value=sure]").click()
    assert visible_ids(page)[-1] == "trains-7 · sample 3"


def test_keys_move_between_responses_and_tokens_with_a_visible_focus(page):
    keys(page, "j")
    focused = page.switch_to.active_element
    assert focused.get_attribute("class") == "text"
    arrow = webdriver.Keys.ARROW_RIGHT
    keys(page, arrow, arrow)
    assert one_of(page, ".at").text.strip() == "Step"
    assert one_of(page, "#spoken").get_attribute("textContent").startswith(" Step, token 2, eu ")
    assert page.execute_script("return getComputedStyle(document.querySelector('.at')).outlineWidth") == "2px"
    keys(page, "n")
    response = view_samples.right()
    worst = response.values["eu"].index(max(response.values["eu"]))
    assert f"token {worst + 1}\n" in one_of(page, "#values").text
    keys(page, webdriver.Keys.ESCAPE)
    assert not one_of(page, "#values").is_displayed()
    keys(page, "j")
    article = page.execute_script("return document.activeElement.closest('article').querySelector('.id').textContent")
    assert article == "trains-7 · sample 3"
    assert page.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_every_control_can_be_reached_by_tab(page):
    reached = set()
    for _ in range(12):
        keys(page, webdriver.Keys.TAB)
        reached.add(page.execute_script("return document.activeElement.id || document.activeElement.name || "
                                        "document.activeElement.className"))  # fmt: skip
    assert {"quantity", "filter", "order", "find", "theme", "text"} <= reached


def test_lists_lead_to_the_token_and_the_step(page):
    one_of(page, "article:nth-of-type(2) .tops button").click()
    assert one_of(page, "#values").is_displayed()
    assert one_of(page, "article:nth-of-type(2) .at").text.strip() == "7"
    one_of(page, "article:nth-of-type(2) .steps .worst").click()
    marked = page.execute_script(
        "return [...document.querySelectorAll('.in-step')].map((span) => span.textContent).join('')"
    )
    assert marked.startswith("## Step 2: Take the difference")
    assert "Step 3" not in marked


def test_the_theme_switches_and_both_are_readable(page):
    seen = set()
    for theme in ("light", "dark", "auto"):
        one_of(page, "#theme").click()
        assert one_of(page, "#theme").text == f"Theme: {theme}"
        seen.add(page.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(seen) == 2


def test_hard_text_is_text(page):
    card = all_of(page, "article")[2]
    assert "</script><script>alert(1)</script>" in card.text
    assert "[bold]markup[/bold] :smile: ⟨ESC⟩[31mred⟨ESC⟩[0m⟨BEL⟩" in card.text
    assert not all_of(page, "main script, main b b")


def test_compared_responses_stand_side_by_side(open_page):
    page = open_page([view_samples.right(), view_samples.wrong()], compare=True)
    left, right = (card.rect for card in all_of(page, "article"))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]


def test_a_response_of_ten_thousand_tokens_is_painted(open_page):
    begun = time.monotonic()
    response = view_samples.long(10_000)
    page = open_page([response])
    cells = cells_of(response.response, response.spans)
    assert page.execute_script("return document.querySelectorAll('.text span').length") == len(cells) > 9_900
    one_of(page, "#quantities label:nth-of-type(2)").click()
    assert one_of(page, "#legend .name").text == "au"
    assert time.monotonic() - begun < 20


def test_the_score_that_a_page_begins_with_leads_too(browser, tmp_path, run_tokur):
    scored = Path(__file__).parents[2] / "data" / "scored.jsonl"
    assert run_tokur("heatmap", scored, "--score", "au", "--limit", "1", "--html", tmp_path / "page.html")[0] == 0
    browser.get((tmp_path / "page.html").as_uri())
    leading, others = (line.get_attribute("textContent").split()[::2] for line in all_of(browser, ".scores"))
    assert sorted(leading) == ["au", "eu"]
    assert "au" not in others
    assert "ll" in others


def test_two_scores_lead_and_the_others_are_folded(open_page):
    scores = {"eu": 1.25, "ll": -0.5, "p_correct": 0.875, "pe": None}
    page = open_page([replace(view_samples.right(), scores=scores)])
    assert [line.text for line in all_of(page, ".scores") if line.is_displayed()] == ["eu 1.25 p_correct 0.875"]
    one_of(page, "summary").click()
    assert one_of(page, "summary").text == "1 other score, 1 not known"
    assert [line.text for line in all_of(page, ".scores")] == ["eu 1.25 p_correct 0.875", "ll -0.5", "not known: pe"]


def test_of_logged_log_probabilities_the_scores_that_are_known_lead(browser, tmp_path, run_tokur):
    logged = Path(__file__).parents[2] / "data" / "formats" / "vllm_logprobs.jsonl"
    assert run_tokur("score", logged, "--from-logprobs", "-o", tmp_path / "logged.jsonl")[0] == 0
    options = ("--score", "logprob", "--limit", "1", "--html", tmp_path / "page.html")
    assert run_tokur("heatmap", tmp_path / "logged.jsonl", *options)[0] == 0
    browser.get((tmp_path / "page.html").as_uri())
    leading = [line.text.split()[::2] for line in all_of(browser, ".scores") if line.is_displayed()]
    assert leading == [["ll", "ll_sum"]]
    assert re.fullmatch(r"\d+ other scores, \d+ not known", one_of(browser, "summary").text)
    assert "–" not in "".join(line.get_attribute("textContent") for line in all_of(browser, ".scores"))


@pytest.mark.parametrize(("place", "kind"), [(1, "Sum"), (3, "Sum"), (4, "Mean")])
def test_the_least_sure_step_on_the_page_is_that_of_the_terminal(browser, tmp_path, run_tokur, place, kind):
    scored = Path(__file__).parents[2] / "data" / "scored.jsonl"
    names = ("eu", "au", "logprob", "deepconf")
    options = ("--score", ",".join(names), "--id", "word-001", "--sample", "2", "--html", tmp_path / "page.html")
    assert run_tokur("heatmap", scored, *options)[0] == 0
    _, text, _ = run_tokur("heatmap", scored, "--score", names[place - 1], *options[2:6], "--width", "100")
    browser.get((tmp_path / "page.html").as_uri())
    wait(browser, timeout=20).until(lambda page: all_of(page, ".text span"))
    keys(browser, str(place))
    assert one_of(browser, "aside h3:nth-of-type(2)").text == f"{kind} of {names[place - 1]} by step, ▶ the least sure"
    worst = one_of(browser, "article .steps .worst .label").text.removeprefix("▶ ")
    marked = next(line for line in text.split("\n") if re.match(r"▶ +\d", line))
    assert worst[:30] in marked


@pytest.mark.parametrize("columns", [360, 400])
def test_the_page_fits_a_phone(browser, tmp_path, run_tokur, columns):
    """With all seven quantities to choose from, as the records have them."""
    scored = Path(__file__).parents[2] / "data" / "scored.jsonl"
    assert run_tokur("heatmap", scored, "--html", tmp_path / "page.html")[0] == 0
    metrics = {"width": columns, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.get((tmp_path / "page.html").as_uri())
        wait(browser, timeout=20).until(lambda page: all_of(page, ".text span"))
        assert len(all_of(browser, "#quantities label")) == 7
        assert browser.execute_script("return document.documentElement.scrollWidth") == columns
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("columns", [500, 700, 1300])
def test_the_scale_is_one_row(browser, tmp_path, run_tokur, columns):
    scored = Path(__file__).parents[2] / "data" / "scored.jsonl"
    options = ("--score", "logprob", "--vmin", "-14.51", "--vmax", "0")
    assert run_tokur("heatmap", scored, *options, "--html", tmp_path / "page.html")[0] == 0
    metrics = {"width": columns, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.get((tmp_path / "page.html").as_uri())
        assert len({step.rect["y"] for step in all_of(browser, "#legend .scale b")}) == 1
        assert one_of(browser, "#legend .scale").rect["height"] < 30
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_a_thousand_responses_are_shown_as_they_come_near(open_page):
    pair = [view_samples.right(), view_samples.wrong()]
    page = open_page([pair[index % 2] for index in range(1000)])
    count = "return document.querySelectorAll('.text span').length"
    assert 0 < page.execute_script(count) < 5_000
    started = time.monotonic()
    page.execute_script("scrollTo(0, document.body.scrollHeight)")
    wait(page, timeout=10).until(lambda page: "∎" in all_of(page, "article")[-1].text)
    one_of(page, "#filters label:nth-of-type(3)").click()
    one_of(page, "#quantities label:nth-of-type(2)").click()
    assert one_of(page, "#count").text == "500 of 1,000 responses"
    assert page.execute_script(count) < 8_000
    assert time.monotonic() - started < 10
