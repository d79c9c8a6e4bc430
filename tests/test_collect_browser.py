"""A real browser goes through a study: keys, touch, reload, back, two tabs, no JavaScript, 320 pixels, axe."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import wave
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from collect_studies import new_study
from crowdmetric.collect import make_study, open_study
from crowdmetric.collect.words import WORDS
from hanging import HANGING

selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not (BROWSER and DRIVER):
    pytest.skip("no browser is installed (Debian: apt-get install chromium chromium-driver)", allow_module_level=True)

OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip
SURVEY = """
[[survey]]
name = "age"
label = "Age"
kind = "number"
[[survey]]
name = "often"
label = "How often?"
kind = "choice"
options = ["Never", "Often"]
required = true
"""
PATIENCE = HANGING


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study that is served, with the address it is served at."""
    changes = {"undecided =": "undecided = true", "code =": 'code = "DONE1"', "repeats =": "repeats = 0.2"}
    study = new_study(tmp_path_factory.mktemp("browser"), changes, SURVEY)
    with served(study) as address:
        yield study, address


@contextmanager
def served(study):
    """Serve a study, and yield the address for participants."""
    process = subprocess.Popen(
        [sys.executable, "-m", "crowdmetric", "collect", str(study.folder), "--port", "0", "--quiet"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    yield process.stdout.readline().split()[1]
    process.terminate()
    process.wait(HANGING)
    process.stdout.close()


class Browser:
    """One person's browser."""

    def __init__(self, *, width: int = 1000, dark: bool = False, script: bool = True) -> None:
        options = selenium.ChromeOptions()
        options.binary_location = BROWSER
        for option in OPTIONS:
            options.add_argument(option)
        if not script:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        os.environ.setdefault("SE_OFFLINE", "true")
        self.driver = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
        self.driver.set_page_load_timeout(PATIENCE)
        size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})

    def find(self, css: str):
        return self.driver.find_elements("css selector", css)

    def wait(self, condition) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, self.driver.page_source
            time.sleep(0.02)

    @property
    def text(self) -> str:
        return self.driver.page_source

    def agree(self, address: str) -> None:
        self.driver.get(address)
        self.find("button.main")[0].click()
        self.wait(lambda: self.number() == 1)

    def number(self) -> int:
        """The question on the page; 0 where there is none."""
        found = re.search(r"Question (\d+) of \d+", self.text)
        return int(found[1]) if found else 0

    def key(self, name: str) -> None:
        key = getattr(import_module("selenium.webdriver.common.keys").Keys, name)
        selenium.ActionChains(self.driver).send_keys(key).perform()


@pytest.fixture
def browse():
    """A function that opens browsers, which are closed at the end."""
    opened = []

    def open_one(**options) -> Browser:
        opened.append(Browser(**options))
        return opened[-1]

    yield open_one
    for browser in opened:
        browser.driver.quit()


def answers(study) -> list[tuple[str, int, str, int | None]]:
    with sqlite3.connect(study.store) as db:
        last = db.execute("SELECT id FROM person ORDER BY started DESC LIMIT 1").fetchone()[0]
        sql = "SELECT person, position, choice, response_ms FROM answer WHERE person = ? ORDER BY position"
        return db.execute(sql, (last,)).fetchall()


def test_a_whole_study_by_keys_with_a_reload_and_the_back_button(study, browse) -> None:
    study, address = study
    browser = browse()
    browser.agree(address)
    browser.key("ARROW_LEFT")
    browser.wait(lambda: browser.number() == 2)
    browser.key("ARROW_RIGHT")
    browser.wait(lambda: browser.number() == 3)
    cards = [card.text for card in browser.find(".card")]
    browser.driver.refresh()
    browser.wait(lambda: browser.number() == 3)
    assert [card.text for card in browser.find(".card")] == cards
    browser.key("ARROW_DOWN")
    browser.wait(lambda: browser.number() == 4)
    browser.driver.back()
    browser.driver.get(f"{address}go")
    browser.wait(lambda: browser.number() == 4)
    for number in (5, 6, 7):
        browser.key("ARROW_LEFT")
        browser.wait(lambda number=number: browser.number() == number)
    browser.key("ARROW_LEFT")
    browser.wait(lambda: browser.find("#age"))
    browser.find("button.main")[0].click()
    browser.wait(lambda: browser.find(".error"))
    browser.find("input[type=radio]")[0].click()
    browser.find("button.main")[0].click()
    browser.wait(lambda: "DONE1" in browser.text)
    kept = answers(study)
    assert [row[2] for row in kept] == ["left", "right", "tie", "left", "left", "left", "left"]
    assert all(row[3] is not None and row[3] >= 0 for row in kept)
    assert not [line for line in browser.driver.get_log("browser") if line["level"] == "SEVERE"]


def test_a_double_click_is_one_answer(study, browse) -> None:
    study, address = study
    browser = browse()
    browser.agree(address)
    browser.driver.execute_script("const b = document.querySelector('.card'); b.click(); b.click(); b.click();")
    browser.wait(lambda: browser.number() == 2)
    time.sleep(0.3)
    assert len(answers(study)) == 1
    assert browser.number() == 2


def test_touch_on_a_phone_without_scrolling_sideways(study, browse) -> None:
    study, address = study
    browser = browse(width=320)
    browser.agree(address)
    wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 320
    for card in browser.find(".card"):
        assert card.size["height"] >= 44
    place = browser.find(".card")[1].rect
    point = {"x": place["x"] + place["width"] / 2, "y": place["y"] + place["height"] / 2}
    browser.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    browser.wait(lambda: browser.number() == 2)
    assert [row[2] for row in answers(study)] == ["right"]


def test_of_two_tabs_one_wins(study, browse) -> None:
    study, address = study
    browser = browse()
    browser.agree(address)
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    browser.driver.get(f"{address}go")
    browser.find(".card")[0].click()
    browser.wait(lambda: browser.number() == 2)
    browser.driver.switch_to.window(first)
    assert browser.number() == 1
    browser.find(".card")[1].click()
    browser.wait(lambda: "in another tab" in browser.text)
    assert browser.number() == 2
    assert [row[2] for row in answers(study)] == ["left"]


def test_everything_works_without_javascript(study, browse) -> None:
    study, address = study
    browser = browse(script=False)
    browser.agree(address)
    for number in range(2, 8):
        browser.find(".card")[0].click()
        browser.wait(lambda number=number: browser.number() == number)
    browser.find(".card")[0].click()
    browser.wait(lambda: browser.find("#age"))
    browser.find("input[type=radio]")[1].click()
    browser.find("button.main")[0].click()
    browser.wait(lambda: "DONE1" in browser.text)
    assert [row[3] for row in answers(study)] == [None] * 7


def violations(browser) -> list:
    """What axe-core says against the page."""
    spec = find_spec("axe_selenium_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-selenium-python is not installed")
    source = next(Path(spec.origin).parent.rglob("axe.min.js")).read_text(encoding="utf-8")
    browser.driver.execute_script(source)
    result = browser.driver.execute_async_script(
        "const done = arguments[0]; axe.run(document).then(r => done(r.violations), e => done([{id: String(e)}]));"
    )
    return [(v["id"], [n.get("html") for n in v.get("nodes", [])]) for v in result]


def test_pictures_sounds_and_films_on_a_phone_and_from_right_to_left(tmp_path, browse) -> None:
    items = tmp_path / "items"
    items.mkdir()
    with wave.open(str(items / "a.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(16000))
    (items / "a.webm").write_bytes(bytes(100))  # a player that has nothing to play has the same size
    (items / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="900" height="300"/>', encoding="utf-8")
    rows = "".join(f"{i},{'a.svg,,' if i < 2 else ',a.wav,' if i < 4 else ',,a.webm'},{i}\n" for i in range(6))
    (items / "items.csv").write_text(f"item_id,image,audio,video,x\n{rows}", encoding="utf-8")
    folder = make_study(items / "items.csv", tmp_path / "study")
    (folder / "q.csv").write_text("person,left,right\n0,0,1\n0,2,3\n0,4,5\n", encoding="utf-8")
    text = (folder / "study.toml").read_text(encoding="utf-8")
    for old, new in (
        ("repeats = 0.1", "repeats = 0"), ("evaluation = 0.1", "evaluation = 0"),
        ('language = "en"', 'language = "ar"'), ('kind = "optimal"', 'kind = "file"\nfile = "q.csv"'),
    ):  # fmt: skip
        text = text.replace(old, new)
    text = re.sub(r'instructions = """.*?"""', 'instructions = ""', text, flags=re.DOTALL)
    words = "".join(f"{name} = {json.dumps(word)}\n" for name, word in WORDS.items())
    (folder / "study.toml").write_text(f"{text}\n[words.ar]\n{words}", encoding="utf-8")
    with served(open_study(folder)) as address:
        browser = browse(width=320)
        browser.agree(address)
        assert browser.find("html")[0].get_attribute("dir") == "rtl"
        for number, seen in ((1, "img"), (2, "audio"), (3, "video")):
            browser.wait(lambda number=number: browser.number() == number)
            assert len(browser.find(seen)) == 2
            assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 320
            heights = [one.size["height"] for one in browser.find(seen)]
            assert heights[0] == heights[1] > 40
            assert violations(browser) == []
            browser.find("button[value=left]")[0].click()
        browser.wait(lambda: WORDS["done"] in browser.text)
    assert [row[2] for row in answers(open_study(folder))] == ["left"] * 3


@pytest.mark.parametrize(("width", "dark"), [(320, False), (768, True), (1280, False)])
def test_axe_finds_no_violation(study, browse, width, dark) -> None:
    study, address = study
    browser = browse(width=width, dark=dark)
    found = {}

    def look(page: str) -> None:
        if wrong := violations(browser):
            found[page] = wrong

    browser.driver.get(address)
    look("welcome")
    browser.find("button.main")[0].click()
    browser.wait(lambda: browser.number() == 1)
    for number in range(1, 8):
        if number == 1:
            look("question")
        browser.find(".card")[0].click()
        browser.wait(lambda number=number: browser.number() in (number + 1, 0))
    browser.wait(lambda: browser.find("#age"))
    browser.find("button.main")[0].click()
    browser.wait(lambda: browser.find(".error"))
    look("survey")
    browser.find("input[type=radio]")[0].click()
    browser.find("button.main")[0].click()
    browser.wait(lambda: "DONE1" in browser.text)
    look("done")
    browser.driver.get(f"{address}nowhere")
    look("nowhere")
    browser.driver.get(f"{address}researcher?key={study.secret.researcher}")
    browser.wait(lambda: browser.find(".desk"))
    look("researcher")
    assert not found
