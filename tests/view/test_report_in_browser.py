"""The report as a browser shows it; skipped where Debian's chromium is not installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from robotrl.view.report import write_report
from tests.view import reports

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_report_renders_without_errors_and_fits_the_screen(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    path = write_report(tmp_path / "report.html", reports.complete())
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    fetched: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(path.as_uri())
    assert said == []
    assert fetched == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("section").count() == 9
    assert page.locator("svg.forest circle").first.bounding_box() is not None
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(253, 253, 252)" if scheme == "light" else "rgb(20, 23, 26)")
    context.close()
