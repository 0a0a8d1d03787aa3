"""Takes docs/images/dashboard.png and dashboard_narrow.png of a run's folder, with headless Chromium.

python scripts/take_dashboard.py runs/demo
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from fed_core.study.report.png import shrink

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 900}
#: Longest picture [pixels], of which the rest is cut off, and largest file [bytes].
HEIGHT, MOST_BYTES = 1600, 700_000


def main() -> int:
    """Serve the folder and take both pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run or a demo")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("there is no Chromium: apt-get install chromium", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "fed_cli", "dashboard", str(options.run), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    try:
        address = (server.stdout.readline() if server.stdout else "").partition(": ")[2].strip()
        if not address:
            return 2
        with sync_playwright() as playwright:
            arguments = ["--headless", "--no-sandbox", "--disable-gpu"]
            browser = playwright.chromium.launch(executable_path=program, args=arguments)
            take(browser, address, options.out / "dashboard.png", WIDE, "light")
            take(browser, address, options.out / "dashboard_narrow.png", NARROW, "dark")
            browser.close()
    finally:
        server.terminate()
        server.wait(20)
    return 0


def take(browser: Browser, address: str, path: Path, size: dict[str, int], scheme: str) -> None:
    """Take one picture of the page.

    Args:
        browser: Chromium.
        address: of the server.
        path: of the PNG.
        size: of the window in pixels.
        scheme: "light" or "dark".
    """
    page = browser.new_page(viewport=size, color_scheme=scheme, locale="en-GB", reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector("#robots-rows tr")
    page.evaluate("() => Promise.all([...document.images].map((image) => image.decode()))")
    height = min(HEIGHT, int(page.evaluate("document.documentElement.scrollHeight")))
    png = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": size["width"], "height": height})
    path.write_bytes(shrink(png, MOST_BYTES))
    page.close()
    print(path)


if __name__ == "__main__":
    sys.exit(main())
