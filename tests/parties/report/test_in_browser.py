"""The pages in a real browser: width, accessibility, sorting and the download, without network."""

import shutil
from collections.abc import Iterator
from json import loads
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from sample_metrics import sample, two_class_model

from parties.report.method_table import method_table
from parties.report.pages.officer import officer_page
from parties.report.pages.passive import PassiveFacts, passive_page
from parties.report.pages.privacy_words import PrivacyLine
from parties.report.pages.run_pair import run_pair_page
from parties.report.pages.scientist import report_page
from parties.report.pages.table_csv import methods_csv
from parties.report.record import read_record

READERS = ("scientist", "officer")
RECORDS = Path(__file__).parent / "records"
CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",  # Chromium refuses its sandbox to root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = (
    *(f"{mode}-{reader}" for mode in ("vertical", "horizontal", "llm") for reader in READERS),
    "two-classes",
    "pair",
    "passive",
)
WIDTHS = {"desk": 1400, "phone": 390}  # pixels
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install Debian's package chromium"),
]


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = loads((RECORDS / f"{name}.json").read_text())
    return found


def passive_sample() -> PassiveFacts:
    record = read_record(sample())
    run, columns = record.run, tuple(f"a_long_name_of_column_{number}" for number in range(20))
    return PassiveFacts(
        party="registry-of-the-northern-province",
        active="bank",
        federation=run.federation,
        session=run.session,
        agreement=run.agreement,
        began=run.began,
        ended=run.ended,
        seconds=run.seconds,
        held_rows=1000,
        common_rows=900,
        present_rows=880,
        row_sets=run.rows or {},
        columns=columns,
        width=16,
        parameters=12345,
        embeddings=10**6,
        privacy=[PrivacyLine("Privacy of the features", "no formal privacy")],
        purged=["row map and features of 20 rows"],
        phases=record.traffic,
        peers=record.peers,
        software=run.software,
    )


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """All kinds of pages: of a run in each mode, of two runs, and of a passive party."""
    runs = {"vertical": sample(), "horizontal": stored("horizontal"), "llm": stored("language")}
    found = {f"{name}-scientist": report_page(each) for name, each in runs.items()}
    found |= {f"{name}-officer": officer_page(each) for name, each in runs.items()}
    found["two-classes"] = report_page(sample() | {"model": two_class_model()})
    other = sample()
    other["run"]["seed"] = 2
    found["pair"] = run_pair_page(sample(), other, ("runs/first", "runs/second"))
    found["passive"] = passive_page(passive_sample())
    assert set(found) == set(NAMES)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Opens a page from a file; anything that the page requests beside the file is an error."""
    contexts, requests, errors = [], list[str](), list[str]()

    def open_page(text: str, width: int = 1400, **settings: Any) -> Page:
        path = tmp_path / "page.html"
        path.write_text(text)
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda each: errors.append(each.text))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert {*requests} == {(tmp_path / "page.html").as_uri()}
    assert errors == []


def violations(page: Page) -> list[str]:
    """What axe-core finds, as lines with rule and element."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_and_is_accessible(
    opened: Any, pages: dict[str, str], name: str, width: str, scheme: str
) -> None:
    page = opened(pages[name], WIDTHS[width], color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert violations(page) == []


def test_violations_and_overflow_are_found(opened: Any, pages: dict[str, str]) -> None:
    bad = pages["pair"].replace("<main>", "<main><img><p style='width:900px;color:#eee'>pale</p>")
    page = opened(bad, WIDTHS["phone"], color_scheme="light")
    assert {each.partition(":")[0] for each in violations(page)} >= {"image-alt", "color-contrast"}
    assert page.evaluate("document.documentElement.scrollWidth > window.innerWidth")


def test_dark_pages_have_light_charts(opened: Any, pages: dict[str, str]) -> None:
    page = opened(pages["vertical-scientist"], color_scheme="dark")
    paper = page.eval_on_selector("body", "each => getComputedStyle(each).backgroundColor")
    colours = page.eval_on_selector_all(
        "figure svg text", "all => all.map(each => getComputedStyle(each).fill)"
    )
    assert len(colours) > 50
    assert min(map(brightness, colours)) - brightness(paper) > 100


def brightness(colour: str) -> float:
    """Mean of red, green and blue, 0 to 255, of a colour such as ``rgb(1, 2, 3)``."""
    parts = [float(each) for each in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    return sum(parts) / 3


def column(page: Page, place: int) -> list[str]:
    return page.eval_on_selector_all(
        f"table.sortable tbody tr > :nth-child({place + 1})",
        "all => all.map(each => each.dataset.value ?? each.textContent.trim())",
    )


def test_columns_are_sorted_by_keyboard(opened: Any, pages: dict[str, str]) -> None:
    page = opened(pages["vertical-scientist"])
    headings = page.locator("table.sortable thead th[scope=col]")
    names = headings.all_inner_texts()
    place = names.index("time")
    original = column(page, place)
    assert "" in original
    states = []
    for sign in (1, -1):
        headings.nth(place).locator("button").focus()
        page.keyboard.press("Enter")
        states.append(headings.nth(place).get_attribute("aria-sort"))
        found = column(page, place)
        known = [sign * float(each) for each in found if each]
        assert known == sorted(known)
        assert found.index("") == len(known), "rows without a value come last"
    assert states == ["ascending", "descending"]
    assert violations(page) == []
    page.keyboard.press("Enter")
    assert headings.nth(place).get_attribute("aria-sort") == "none"
    assert column(page, place) == original
    headings.nth(0).locator("button").click()
    assert column(page, 0) == sorted(column(page, 0), key=str.lower)


def test_without_javascript_the_page_is_complete(opened: Any, pages: dict[str, str]) -> None:
    page = opened(pages["vertical-scientist"], java_script_enabled=False)
    assert page.locator("table.sortable button").count() == 0
    methods = [each.title for each in read_record(sample()).requests[0].methods]
    shown = page.locator("table.sortable tbody th").all_inner_texts()
    assert {*methods} <= {*shown}


def test_a_planted_script_does_not_run(
    browser: Browser, pages: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    planted = "<script>document.title = 'planted'</script></main>"
    path.write_text(pages["pair"].replace("</main>", planted))
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.title() == "runs/first and runs/second"
    page.close()


def test_the_table_is_downloaded_as_csv(opened: Any, pages: dict[str, str]) -> None:
    page = opened(pages["vertical-scientist"])
    with page.expect_download() as download:
        page.get_by_text("Download this table as CSV").click()
    assert download.value.suggested_filename == "half-of-3-and-8-methods.csv"
    content = Path(download.value.path()).read_bytes().decode("utf-8-sig")
    assert content == methods_csv(method_table(read_record(sample()).requests[0]))


def test_a_link_to_a_method_opens_its_details(opened: Any, pages: dict[str, str]) -> None:
    page = opened(pages["vertical-scientist"])
    page.locator("table.sortable tbody a", has_text="FedORA").click()
    assert page.locator("#request-1-method-2").is_visible()
