"""prometheus_server: Debian's Prometheus, started by a test, that scrapes daemons and evaluates the
rules of config/prometheus."""
import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import metrics_selectors as selectors
from checks import check
from metrics_daemon import GIVE_UP_S


def promtool(*words, text=None):
    p = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, check=False)
    check(p.returncode == 0 and "WARN" not in p.stdout + p.stderr,
          "promtool %s: %s%s" % (" ".join(words), p.stdout, p.stderr))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def in_seconds(rules):
    """The rules, which look at seconds where ours look at minutes and wait for nothing; a count over
    a quarter of an hour stays one."""
    return re.sub(r"for: \d+m", "for: 0s", re.sub(r"\[(5|10)m\]", "[3s]", rules))


class Server:
    """targets: (host, port) of each daemon. As shipped: rules as they are, and a scrape in five
    seconds; otherwise rules in seconds, and four scrapes in each."""

    def __init__(self, targets, as_shipped=False):
        self.folder = tempfile.mkdtemp(prefix="engram-prometheus-")
        self.at = "http://127.0.0.1:%d" % free_port()
        with open(selectors.RULES, encoding="utf-8") as f:
            rules = f.read() if as_shipped else in_seconds(f.read())
        with open(self.folder + "/rules.yml", "w", encoding="utf-8") as f:
            f.write(rules)
        every = "5s" if as_shipped else "250ms"
        with open(self.folder + "/settings.yml", "w", encoding="utf-8") as f:
            f.write("global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\n"
                    "rule_files: [rules.yml]\n"
                    "scrape_configs:\n  - job_name: engram-accel\n"
                    "    static_configs: [{targets: [%s]}]\n" %
                    (every, every, every, ", ".join("'%s:%d'" % t for t in targets)))
        with open(self.folder + "/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["prometheus", "--config.file", self.folder + "/settings.yml",
                 "--storage.tsdb.path", self.folder + "/data", "--storage.tsdb.retention.time", "2h",
                 "--web.listen-address", self.at[7:]], stdout=log, stderr=log)

    def get(self, path, **query):
        url = self.at + path + "?" + urllib.parse.urlencode(query)
        with urllib.request.urlopen(url, timeout=GIVE_UP_S) as r:
            return json.load(r)["data"]

    def found(self, expression):
        """The labels of each series; none before Prometheus listens."""
        try:
            return [s["metric"] for s in self.get("/api/v1/query", query=expression)["result"]]
        except (urllib.error.URLError, ConnectionError):
            return []

    def until(self, expression, what):
        end = time.monotonic() + GIVE_UP_S
        while not self.found(expression):
            if time.monotonic() > end:
                check(False, "%s: nothing for %s" % (what, expression))
                return
            time.sleep(0.1)

    def fired(self):
        """(alert, instance) of all that have fired so far."""
        return {(m["alertname"], m["instance"]) for m in
                self.found('count_over_time(ALERTS{alertstate="firing"}[2h])')}

    def stop(self):
        self.process.terminate()
        self.process.wait(GIVE_UP_S)
        shutil.rmtree(self.folder)
