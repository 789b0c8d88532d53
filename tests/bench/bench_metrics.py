#!/usr/bin/env python3
"""bench_metrics.py [--build BUILD] [--pairs N] [--operation knn|ping]: what a scrape costs: 64 spaces
and 4 simulated cards. First how long one takes and how large it is, each second beside 20,000
requests a second; then how many requests fewer are answered, as fast as they go: intervals with and
without scrapes by turns, so that what else the machine does meets both, and the median over pairs.
With scrapes every 50 ms a loss is twenty times what one scrape a second costs, and can be seen."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from metrics_daemon import Daemon, ask, series  # noqa: E402

OFTEN_S = 0.05
MADE = "engram_accel_http_render_seconds_total"
LOADS = {"ping": ["--operation", "ping"],
         "knn": ["--collection", "rows", "--dim", "16", "-k", "3"]}


class Bench:
    def __init__(self, build):
        self.d = Daemon(build, "metrics.open=true", "gpu.force=cpu")
        self.at = self.d.folder + "/http"
        self.d.settings[0] = "gpu.devices=sim,sim,sim,sim"
        self.d.settings.append("metrics.listen=" + self.at)
        self.d.start()
        for i in range(64):
            self.d.tool("--space", "space-%02d" % i, "collection", "list")
        path = self.d.folder + "/rows.csv"
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(",".join(str((i * 7 + k) % 13) for k in range(16)) for i in range(64)))
        self.d.tool("load", "rows", path, "--create", "--metric", "cosine")

    def load(self, operation, rate, seconds):
        return subprocess.Popen(
            [self.d.build + "/engram-accel", "--socket", self.d.socket, "--json", "bench",
             *LOADS[operation], "--connections", "4", "--depth", "8", "--seconds", str(seconds),
             "--rate", str(rate)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def scrapes(self, p, every_s):
        """Until p ends: the milliseconds that each took, and the last page."""
        took, text = [], ""
        while p.poll() is None:
            begun = time.monotonic()
            text = ask(self.at, "/metrics")[1]
            took.append((time.monotonic() - begun) * 1e3)
            time.sleep(max(0, every_s - (time.monotonic() - begun)))
        return took, text

    def rate(self, operation, scraped):
        """Requests a second, and scrapes a second."""
        begun = time.monotonic()
        p = self.load(operation, 0, 1)
        count = len(self.scrapes(p, OFTEN_S)[0]) if scraped else p.wait()
        took = time.monotonic() - begun
        return json.loads(p.stdout.read().splitlines()[-1])["requests_per_second"], count / took


def one_each_second(bench, operation):
    before = series(ask(bench.at, "/metrics")[1])
    p = bench.load(operation, 20000, 20)
    took, text = bench.scrapes(p, 1)
    reached = json.loads(p.stdout.read().splitlines()[-1])["requests_per_second"]
    made = 1e3 * (series(text)[MADE] - before[MADE]) / len(took)
    print("page of 64 spaces, 4 cards: %.1f KiB (512 wanted)" % (len(text) / 1024))
    print("scrape beside %.0f %s/s: %.2f ms (median), %.2f ms (at most), of %d; %.2f ms to make "
          "(5 wanted)" % (reached, operation, statistics.median(took), max(took), len(took), made))


def what_it_takes(bench, operation, pairs):
    lost, rates = [], []
    for i in range(pairs):
        found = {}
        for scraped in ((True, False), (False, True))[i % 2]:
            found[scraped], often = bench.rate(operation, scraped)
            if scraped:
                rates.append(often)
        lost.append(1 - found[True] / found[False])
    often = statistics.median(rates)
    middle, low, high = (statistics.quantiles(lost, n=20)[k] for k in (9, 4, 14))
    print("%s as fast as they go, %.1f scrapes a second: %.2f %% fewer (median of %d pairs; half lie "
          "within %.2f and %.2f)" % (operation, often, 100 * middle, pairs, 100 * low, 100 * high))
    print("so that one scrape a second costs %.3f %% (1 wanted)" % (100 * middle / often))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--operation", choices=list(LOADS), default="knn")
    options = parser.parse_args()
    bench = Bench(options.build)
    print("load before: %.1f" % os.getloadavg()[0])
    one_each_second(bench, options.operation)
    what_it_takes(bench, options.operation, options.pairs)
    bench.d.stop()


main()
