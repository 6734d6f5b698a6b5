"""A headless Chromium, spoken to over its debugging pipe (Chrome DevTools Protocol): no library, no port."""

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""None where there is no Chromium."""

DEADLINE_S = 60.0


class Chromium:
    """One browser with one page; what the page logs, throws and asks for is kept."""

    def __init__(self, profile: Path) -> None:
        assert PATH is not None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The browser reads commands from 3 and answers on 4; bash puts our pipes there (dash knows only one digit).
        words = [PATH, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        words += ["--disable-background-networking", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *words],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._pending = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Go there and wait until the page's own script has run."""
        self.ask("Page.navigate", url=url)
        self.until("document.documentElement.getAttribute('data-ready') === 'yes'")

    def value(self, expression: str) -> Any:
        """What an expression is in the page; raises AssertionError with the page's exception."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true in the page; raises AssertionError after the deadline."""
        script = f"""new Promise((done, fail) => {{ const end = performance.now() + {DEADLINE_S * 500};
          (function look() {{ let ok = false; try {{ ok = {expression}; }} catch (problem) {{ ok = false; }}
            if (ok) done(true); else if (performance.now() > end) done(false); else setTimeout(look, 30); }})(); }})"""
        assert self.value(script), f"never true: {expression}"

    @property
    def problems(self) -> list[str]:
        """Errors on the console, exceptions, and violations of the page's policy."""
        found = []
        for event in self.events:
            body = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(body["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and body["entry"]["level"] == "error":
                found.append(body["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and body["type"] == "error":
                found.append(str(body["args"]))
        return found

    @property
    def requests(self) -> list[str]:
        """Every address that the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        number = self._number
        answer = self._read(lambda found: found.get("id") == number)
        assert "error" not in answer, answer["error"]
        return dict(answer["result"])

    def close(self) -> None:
        """End the browser that was started here."""
        self._process.terminate()
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _read(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            while b"\0" in self._pending:
                line, _, self._pending = self._pending.partition(b"\0")
                found: dict[str, Any] = json.loads(line)
                if wanted(found):
                    return found
                if "method" in found:
                    self.events.append(found)
            left = deadline - time.monotonic()
            assert left > 0, "Chromium did not answer"
            if select.select([self._in], [], [], left)[0]:
                data = os.read(self._in, 1 << 20)
                assert data, "Chromium ended"
                self._pending += data
