"""prometheus_live: Debian's Prometheus scrapes a daemon with a simulated GPU."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import checks
import metrics_selectors as selectors
from checks import check
from metrics_daemon import Daemon, GIVE_UP_S, ask, connect

BUILD = sys.argv[1]
PROMETHEUS = "config/prometheus/"


def promtool(*words, text=None):
    p = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, check=False)
    check(p.returncode == 0 and "WARN" not in p.stdout + p.stderr,
          "promtool %s: %s%s" % (" ".join(words), p.stdout, p.stderr))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Server:
    """Prometheus, whose rules look at seconds where ours look at minutes."""

    def __init__(self, target):
        self.folder = tempfile.mkdtemp(prefix="engram-prometheus-")
        self.at = "http://127.0.0.1:%d" % free_port()
        with open(selectors.RULES, encoding="utf-8") as f:
            rules = re.sub(r"for: \d+m", "for: 0s", re.sub(r"\[(5|10)m\]", "[3s]", f.read()))
        with open(self.folder + "/rules.yml", "w", encoding="utf-8") as f:
            f.write(rules)
        with open(self.folder + "/settings.yml", "w", encoding="utf-8") as f:
            f.write("global: {scrape_interval: 200ms, scrape_timeout: 200ms, "
                    "evaluation_interval: 200ms}\n"
                    "rule_files: [rules.yml]\n"
                    "scrape_configs:\n  - job_name: engram-accel\n"
                    "    static_configs: [{targets: ['%s:%d']}]\n" % target)
        with open(self.folder + "/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["prometheus", "--config.file", self.folder + "/settings.yml",
                 "--storage.tsdb.path", self.folder + "/data", "--storage.tsdb.retention.time", "1h",
                 "--web.listen-address", self.at[7:]], stdout=log, stderr=log)

    def get(self, path, **query):
        url = self.at + path + "?" + urllib.parse.urlencode(query)
        with urllib.request.urlopen(url, timeout=GIVE_UP_S) as r:
            return json.load(r)["data"]

    def count(self, expression):
        try:
            return len(self.get("/api/v1/query", query=expression)["result"])
        except (urllib.error.URLError, ConnectionError):
            return 0

    def until(self, expression, what, meanwhile=lambda: None):
        end = time.monotonic() + GIVE_UP_S
        while not self.count(expression):
            if time.monotonic() > end:
                check(False, "%s: nothing for %s" % (what, expression))
                return
            meanwhile()
            time.sleep(0.1)

    def fires(self, alert, fault=lambda: None):
        """Has fault happen again and again until the alert has fired."""
        self.until('count_over_time(ALERTS{alertname="%s",alertstate="firing"}[10m])' % alert,
                   "alert", fault)

    def stop(self):
        self.process.terminate()
        self.process.wait(GIVE_UP_S)
        shutil.rmtree(self.folder)


def load(d):
    """Some of each kind of request."""
    with open(d.folder + "/rows.csv", "w", encoding="utf-8") as f:
        f.write("id,x\n" + "".join("%d,%d,1,0,2\n" % (i, i % 17) for i in range(2000)))
    d.tool("load", "rows", d.folder + "/rows.csv", "--create", "--metric", "cosine")
    d.tool("knn", "rows", "--query-id", "7", "-k", "3")
    d.tool("fetch", "rows", "7")


def gpu_process(d):
    """The child of the daemon that has its simulated card."""
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(d.process.pid)],
                              capture_output=True, text=True, check=True).stdout.split()
    return int(children[0])


def main():
    promtool("check", "rules", selectors.RULES)
    promtool("test", "rules", PROMETHEUS + "engram-accel.tests.yml")
    d = Daemon(BUILD, "metrics.open=true", "metrics.listen=127.0.0.1:%d" % free_port(),
               "gpu.force=gpu", "spaces.beta.queue=1", "limits.connections=8",
               "limits.connections_kept=0")
    d.settings[0] = "gpu.devices=sim"
    d.start()
    server = Server(d.address())
    try:
        load(d)
        server.until("up == 1", "the daemon is scraped")
        end = time.monotonic() + GIVE_UP_S
        left = selectors.everything()
        while left and time.monotonic() < end:
            left = [s for s in left if not server.count(
                s[0] + "{" + ",".join('%s%s"%s"' % (n, how, value.replace("$instance", ".*"))
                                      for n, how, value in s[1]) + "}")]
            if left:
                load_again(d)
        check(not left, "no series for %s" % left[:10])
        for title, expression in selectors.panels():
            shown = expression.replace("$instance", ".*").replace("$__rate_interval", "3s")
            check(server.get("/api/v1/query", query=shown)["resultType"] == "vector", title)
        promtool("check", "metrics", text=ask(d.address(), "/metrics")[1])

        for times in (1, 2):  # the card's process ends, and is started again
            os.kill(gpu_process(d), signal.SIGKILL)
            server.until("engram_accel_gpu_restarts_total >= %d" % times, "a new process")
        server.fires("EngramAccelGpuRestarts")
        server.fires("EngramAccelErrors", lambda: d.tool_any("knn", "missing", "--query-id", "7"))
        refused = subprocess.Popen(
            [BUILD + "/engram-accel", "--socket", d.socket, "--space", "beta", "bench", "--rows",
             "2000", "--depth", "64", "--seconds", "600"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        server.fires("EngramAccelRefusing")
        refused.kill()
        refused.wait(GIVE_UP_S)
        crowd = [connect(d.socket) for _ in range(8)]
        server.fires("EngramAccelConnectionsRefused", lambda: connect(d.socket).close())
        for s in crowd:
            s.close()
        for times in (1, 2, 3):
            d.process.send_signal(signal.SIGKILL)
            d.process.wait(GIVE_UP_S)
            if times == 1:
                server.fires("EngramAccelDown")
            d.start()
            server.until("changes(process_start_time_seconds[15m]) >= %d" % times, "another start")
        server.fires("EngramAccelRestarting")
    finally:
        server.stop()
        d.process.kill()
        d.process.wait(GIVE_UP_S)
        shutil.rmtree(d.folder)
    sys.exit(checks.failures > 0)


def load_again(d):
    d.tool("knn", "rows", "--query-id", "8", "-k", "3")
    time.sleep(0.2)


main()
