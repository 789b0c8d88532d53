"""browser: a headless Chromium, driven by its DevTools protocol over two pipes."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

GIVE_UP_S = 60  # ends a broken run; nothing is judged by it


def find():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def high(fd):
    """The same descriptor with a number that 3 and 4 do not overwrite."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="engram-browser-")
        (r1, w1), (r2, w2) = os.pipe(), os.pipe()
        its_in, self.out, self.inn, its_out = high(r1), high(w1), high(r2), high(w2)

        def place():
            os.dup2(its_in, 3)
            os.dup2(its_out, 4)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                 "--user-data-dir=" + self.folder, "--no-first-run", "--disable-extensions",
                 "--disable-dev-shm-usage", "--disable-background-networking",
                 "--disable-component-update", "--no-proxy-server", "--force-color-profile=srgb",
                 "--disable-lcd-text", "about:blank"]
        self.process = subprocess.Popen([find(), *flags], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=place, pass_fds=(3, 4))
        os.close(its_in)
        os.close(its_out)
        self.number, self.rest, self.events = 0, b"", []

    def receive(self, end):
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.inn], [], [], left)[0]:
                return None
            more = os.read(self.inn, 1 << 16)
            assert more, "chromium ended"
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        end = time.monotonic() + GIVE_UP_S
        while True:
            said = self.receive(end)
            assert said is not None, "no answer to " + method
            if said.get("id") == self.number:
                assert "error" not in said, "%s: %s" % (method, said)
                return said["result"]
            self.events.append(said)

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(GIVE_UP_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            os.close(self.out)
            os.close(self.inn)
            shutil.rmtree(self.folder, ignore_errors=True)


class Tab:
    """A page of a width, light or dark."""

    def __init__(self, browser, width, height, scheme):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target,
                                    flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def open(self, url):
        said = self.call("Page.navigate", url=url)
        assert "errorText" not in said, said

    def value(self, script):
        said = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                         awaitPromise=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def until(self, script):
        """Whether it became true."""
        end = time.monotonic() + GIVE_UP_S
        while not self.value(script):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def errors(self):
        """What the console was told that is no mere remark, and where the browser was asked to
        connect to so far, as ([texts], [addresses])."""
        said, asked = [], []
        for e in self.browser.events:
            if e.get("sessionId") != self.session:
                continue
            p = e.get("params", {})
            if e["method"] == "Runtime.exceptionThrown":
                said.append(json.dumps(p["exceptionDetails"])[:600])
            elif e["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning",
                                                                             "assert"):
                said.append(json.dumps(p["args"])[:600])
            elif e["method"] == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                said.append(p["entry"]["text"] + " " + p["entry"].get("url", ""))
            elif e["method"] == "Network.requestWillBeSent":
                asked.append(p["request"]["url"])
        return said, asked

    def picture(self, path, whole=True):
        """Writes a PNG of all of the page, or of what is seen."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        said = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                         **({"clip": clip} if whole else {}))
        with open(path, "wb") as f:
            f.write(base64.b64decode(said["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
