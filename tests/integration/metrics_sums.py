"""metrics_sums BUILD SECONDS: kNN for so long, in three spaces, two of which have series of their
own, while the simulated card's process is killed now and then; then each sum is compared with what
the clients were answered."""
import json
import os
import signal
import subprocess
import sys
import time

import checks
from checks import check
from metrics_daemon import Daemon, GIVE_UP_S, ask, series

BUILD, SECONDS = sys.argv[1], float(sys.argv[2])
SPACES = ("alpha", "beta", "gamma")


def is_counter(key):
    name = key.split("{")[0]
    return name.endswith(("_total", "_bucket", "_sum", "_count"))


def total(page, name, **labels):
    return sum(value for key, value in page.items() if key.split("{")[0] == name and
               all('%s="%s"' % pair in key for pair in labels.items()))


def until(wanted):
    end = time.monotonic() + GIVE_UP_S
    while not wanted() and time.monotonic() < end:
        time.sleep(0.03)


def kill_card(d):
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(d.process.pid)],
                              capture_output=True, text=True, check=False).stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    return len(children)


def main():
    d = Daemon(BUILD, "metrics.open=true", "metrics.spaces=2", "gpu.force=gpu", "gpu.min_pairs=1")
    at = d.folder + "/http"
    d.settings[0] = "gpu.devices=sim"
    d.settings.append("metrics.listen=" + at)
    d.start()
    until(lambda: 'state="ready"} 1' in ask(at, "/metrics")[1])
    time.sleep(0.03)  # a page younger than 20 ms is sent again
    first = last = series(ask(at, "/metrics")[1])
    clients = [subprocess.Popen(
        [BUILD + "/engram-accel", "--socket", d.socket, "--space", space, "--json", "bench",
         "--rows", "64", "--dim", "16", "-k", "3", "--connections", "2", "--depth", "4",
         "--seconds", str(SECONDS)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for space in SPACES]
    killed, pages, wrong = 0, 0, 0
    while any(c.poll() is None for c in clients):
        page = series(ask(at, "/metrics")[1])
        for key, value in last.items():
            if is_counter(key) and page.get(key, 0) < value:
                check(False, "%s fell from %s to %s" % (key, value, page.get(key)))
        last, pages = page, pages + 1
        said = d.tool_any("--space", SPACES[pages % 3], "knn", "missing", "--query-id", "7")
        wrong += said.returncode == 1
        if killed == 0 or pages % 20 == 0:
            killed += kill_card(d)
        time.sleep(0.05)
    answers = [json.loads(c.communicate(timeout=GIVE_UP_S)[0].splitlines()[-1]) for c in clients]
    asked = sum(a["requests"] for a in answers)
    check(not any(a["errors"] for a in answers), "errors: %s" % [a["errors"] for a in answers])
    until(lambda: total(series(ask(at, "/metrics")[1]), "engram_accel_gpu_restarts_total") > 0)
    time.sleep(0.03)
    page = series(ask(at, "/metrics")[1])

    def rise(name, **labels):
        return total(page, name, **labels) - total(first, name, **labels)
    check(asked > 0 and killed > 0, "%d asked, %d killed" % (asked, killed))
    for what, name, labels in (
            ("requests", "engram_accel_requests_total", {"operation": "knn"}),
            ("histogram's count", "engram_accel_request_duration_seconds_count",
             {"operation": "knn"}),
            ("histogram's last bucket", "engram_accel_request_duration_seconds_bucket",
             {"operation": "knn", "le": "+Inf"})):
        check(rise(name, **labels) == asked, "%s: %d, not %d" % (what, rise(name, **labels), asked))
    for name in ("engram_accel_request_errors_total", "engram_accel_space_errors_total"):
        check(rise(name) == wrong > 0, "%s: %d, not %d" % (name, rise(name), wrong))
    routed = rise("engram_accel_routes_total")
    timed = sum(rise("engram_accel_request_duration_seconds_count", backend=b)
                for b in ("cpu", "gpu", "both"))
    check(routed == timed, "routes: %d, durations on a backend: %d" % (routed, timed))
    whole = rise("engram_accel_requests_total")
    outside = rise("engram_accel_requests_total", operation="ping")
    check(rise("engram_accel_space_requests_total") == whole - outside,
          "of spaces: %d, of operations %d with %d pings" %
          (rise("engram_accel_space_requests_total"), whole, outside))
    gpu = rise("engram_accel_requests_total", operation="knn")
    ran = rise("engram_accel_request_duration_seconds_count", operation="knn", backend="gpu") + \
        rise("engram_accel_request_duration_seconds_count", operation="knn", backend="both")
    check(ran <= rise("engram_gpu_launch_total") <= gpu + whole, "launched: %d of which kNN %d" %
          (rise("engram_gpu_launch_total"), ran))
    check(rise("engram_accel_gpu_restarts_total") >= 1, "restarts")
    print("%d kNN, %d wrong requests; %d processes of the card killed, %d pages" %
          (asked, wrong, killed, pages))
    check(d.stop() == 0, "exit code")
    sys.exit(checks.failures > 0)


main()
