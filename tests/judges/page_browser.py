"""Drives the page at URL in headless Chromium (Qt WebEngine, PySide6 6.8) as a person would; one line a step, exit code 1 where one fails.

    QT_QPA_PLATFORM=offscreen python page_browser.py URL KEYED_URL KEY

URL: a server without a key; KEYED_URL: one that wants KEY.
"""

import json
import os
import sys
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QTWEBENGINE_CHROMIUM_FLAGS", "--disable-gpu" + (" --no-sandbox" if os.geteuid() == 0 else ""))

from PySide6.QtCore import QEventLoop, QTimer, QUrl
from PySide6.QtWebEngineCore import QWebEnginePage, qWebEngineChromiumVersion
from PySide6.QtWidgets import QApplication

PATIENCE = 120.0
HTML = "<img src=x onerror='document.title=\"owned\"'><b>bold</b>"


class Page(QWebEnginePage):
    """complaints: what the page's console said."""

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[str] = []

    def javaScriptConsoleMessage(self, level, message, line, source) -> None:  # Qt's name
        self.complaints.append(f"{source}:{line}: {message}")

    def open(self, url: str) -> bool:
        loop, result = QEventLoop(), []
        done = self.loadFinished.connect(lambda ok: (result.append(ok), loop.quit()))
        self.load(QUrl(url))
        loop.exec()
        self.loadFinished.disconnect(done)
        return result[0]

    def js(self, code: str):
        """The value of an expression, as JSON can carry it."""
        loop, result = QEventLoop(), []
        self.runJavaScript(f"JSON.stringify({code})", 0, lambda v: (result.append(v), loop.quit()))
        loop.exec()
        return json.loads(result[0]) if result[0] else None

    def until(self, code: str) -> bool:
        """Wait for an expression to become true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.js(f"Boolean({code})"):
                return True
            loop = QEventLoop()
            QTimer.singleShot(50, loop.quit)
            loop.exec()
        return False

    def say(self, text: str) -> None:
        self.js(f"(document.getElementById('text').value = {json.dumps(text)}, document.getElementById('ask').requestSubmit(), 1)")

    def press(self, selector: str) -> None:
        self.js(f"(document.querySelector({json.dumps(selector)}).click(), 1)")


TURNS = "[...document.querySelectorAll('#log .turn')].map(t => t.textContent)"
IDLE = "document.getElementById('send').textContent === 'Send'"


def steps(page: Page, url: str, keyed: str, key: str):
    """(what, whether it holds), in order."""
    yield "the page loads", page.open(url)
    yield "it names the model", page.until("document.getElementById('model').textContent")
    yield "it shows the load", page.until("/running \\d+ · waiting \\d+ · KV/.test(document.getElementById('status').textContent)")
    page.say(HTML)
    yield "an answer comes", page.until(f"{IDLE} && {TURNS}.length === 2 && {TURNS}[1].length > 0")
    yield "the question is text, not HTML", page.js(f"{TURNS}[0]") == HTML and page.js("document.querySelectorAll('#log img, #log b').length") == 0
    yield "the answer says how fast it came", page.js("/\\d+ tokens, [\\d.]+ tokens\\/s/.test(document.querySelectorAll('#log .turn')[1].title)")
    page.say("again")
    yield "a second turn comes below the first", page.until(f"{IDLE} && {TURNS}.length === 4 && {TURNS}[3].length > 0")
    page.say("and again")
    page.press("#clear")
    yield "New stops and empties", page.until(f"{IDLE} && {TURNS}.length === 0")
    page.press("[data-tab=decide]")
    yield "the tab changes", page.js("getComputedStyle(document.getElementById('chat')).display") == "none"
    fill = "document.getElementById('{}').value = {}"
    texts = {"state": "It rains.", "what": "It is wet."}
    page.js("(" + ", ".join(fill.format(k, json.dumps(v)) for k, v in texts.items()) + ", document.getElementById('question').requestSubmit(), 1)")
    cells = "[...document.querySelectorAll('#answers tr')].map(r => [r.cells[0].textContent, Number(r.cells[2].textContent)])"
    yield "yes and no add up to one", page.until(f"{cells}.length === 2 && Math.abs({cells}[0][1] + {cells}[1][1] - 1) < 0.01")
    page.js("(" + fill.format("options", json.dumps("red | green | <b>blue</b>")) + ", document.getElementById('question').requestSubmit(), 1)")
    yield "options have probabilities", page.until(f"{cells}.length === 3 && Math.abs({cells}.reduce((a, c) => a + c[1], 0) - 1) < 0.01")
    yield "options are text, not HTML", page.js(f"{cells}[2][0]") == "<b>blue</b>" and page.js("document.title") == "Headwater"
    yield "the console stayed empty", page.complaints == []
    yield "a page without the key loads", page.open(keyed)
    page.say("hello")
    yield "and says what is missing", page.until("document.querySelector('.error')?.textContent.includes('API key')")
    page.open("about:blank")
    page.open(f"{keyed}#key={key}")
    yield "with the key it names the model", page.until("document.getElementById('model').textContent")
    page.say("hello")
    yield "and answers", page.until(f"{IDLE} && {TURNS}[1]?.length > 0 && !document.querySelector('.error')")


def main() -> int:
    app = QApplication(sys.argv[:1])
    print(f"Chromium {qWebEngineChromiumVersion()}")
    page, failed = Page(), 0
    for what, holds in steps(page, *sys.argv[1:4]):
        print(f"{'holds' if holds else 'FAILS'}: {what}", flush=True)
        failed += not holds
    if failed:
        print("console: " + "\n".join(page.complaints))
    page.deleteLater()
    app.processEvents()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
