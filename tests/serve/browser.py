"""A real browser: Debian's Chromium, headless, and what a page did that it should not have done."""

import os
import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium on this machine: apt-get install chromium"
)


@contextmanager
def browser():
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


class Page:
    """A page of the browser that remembers console errors and requests to other hosts."""

    def __init__(self, opened, address, *, scheme="light", width=1280, height=900):
        context = opened.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        self.address, self.errors, self.elsewhere = address, [], []
        self.page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss())
        )
        self.page.on("request", self._request)
        self.page.goto(address)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _request(self, request):
        if not request.url.startswith(self.address):
            self.elsewhere.append(request.url)

    def card(self, query):
        """The card of a query."""
        return self.page.locator("#queries article.card").filter(
            has=self.page.get_by_role("heading", name=query, exact=True)
        )

    def text_of(self, query, part):
        return self.card(query).locator(part).inner_text()

    def until(self, expression, argument=None):
        """Wait until a JavaScript expression holds."""
        self.page.wait_for_function(expression, arg=argument, timeout=60_000)

    def is_clean(self):
        return (self.errors, self.elsewhere) == ([], [])
