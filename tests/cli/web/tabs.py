"""A page in a browser, and what it complained of."""

from typing import Any

#: Longest wait for the page to show something [ms].
WAIT_MS = 20_000
WIDE = {"width": 1280, "height": 900}


class Tab:
    """One page, and what it complained of."""

    def __init__(self, browser: Any, size: dict[str, int], **more: Any) -> None:
        self._context = browser.new_context(viewport=size, **more)
        self.page = self._context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.complaints: list[str] = []
        self.page.on("console", self._keep)
        self.page.on("pageerror", lambda err: self.complaints.append(str(err)))

    def _keep(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def shows(self, selector: str, text: str) -> None:
        """Wait until an element has exactly this text."""
        code = "([where, text]) => document.querySelector(where)?.textContent === text"
        self.page.wait_for_function(code, arg=[selector, text])

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_text_contents()]

    def close(self) -> None:
        self._context.close()
