#!/usr/bin/env python3
"""bench_metrics.py [BUILD]: what a scrape costs: 64 spaces and 4 simulated cards, scraped every
second, beside 20,000 pings a second and without them; and how many pings there are with scrapes and
without, as fast as they go, each in turn."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from metrics_daemon import Daemon, ask, series  # noqa: E402

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build/release"
SECONDS, ROUNDS = 5, 4


def bench(d, rate):
    return subprocess.Popen(
        [BUILD + "/engram-accel", "--socket", d.socket, "--json", "bench", "--operation", "ping",
         "--connections", "4", "--depth", "8", "--seconds", str(SECONDS), "--rate", str(rate)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def scrapes(at, p):
    """Scrapes each second until p ends; the milliseconds that each took, and the last page."""
    took, text = [], ""
    while p.poll() is None:
        begun = time.monotonic()
        text = ask(at, "/metrics")[1]
        took.append((time.monotonic() - begun) * 1e3)
        time.sleep(max(0, 1 - (time.monotonic() - begun)))
    return took, text


def answered(p):
    return json.loads(p.stdout.read().splitlines()[-1])["requests_per_second"]


def main():
    d = Daemon(BUILD, "metrics.open=true")
    at = d.folder + "/http"
    d.settings[0] = "gpu.devices=sim,sim,sim,sim"
    d.settings.append("metrics.listen=" + at)
    d.start()
    for i in range(64):
        d.tool("--space", "space-%02d" % i, "collection", "list")
    before = series(ask(at, "/metrics")[1])
    took, text = scrapes(at, bench(d, 20000))
    after = series(text)
    made = "engram_accel_http_render_seconds_total"
    print("page of 64 spaces, 4 cards: %.1f KiB" % (len(text) / 1024))
    print("scrape beside 20,000 pings/s: %.2f ms at most, %.2f ms to make, of %d" %
          (max(took), 1e3 * (after[made] - before[made]) / len(took), len(took)))
    rates = {True: [], False: []}
    for _ in range(ROUNDS):
        for scraped in (True, False):
            p = bench(d, 0)
            if scraped:
                scrapes(at, p)
            else:
                p.wait()
            rates[scraped].append(answered(p))
    print("pings/s: %.0f scraped, %.0f not: %.2f %% less" %
          (max(rates[True]), max(rates[False]), 100 * (1 - max(rates[True]) / max(rates[False]))))
    d.stop()


main()
