"""metrics_http: /metrics, /healthz and /readyz of a real daemon."""
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time

import checks
import metrics_selectors as selectors
from checks import check
from metrics_daemon import (Daemon, GIVE_UP_S, ask, ask_raw, basic, bearer, connect, make_nvml,
                            series)

BUILD = sys.argv[1]


def has_no_numbers(text):
    return "engram" not in text.replace("engram-accel", "") and " 1" not in text


def until(wanted, what):
    end = time.monotonic() + GIVE_UP_S
    while not wanted():
        if time.monotonic() > end:
            check(False, "never: " + what)
            return
        time.sleep(0.01)


def statuses():
    """What each request is answered, on TCP."""
    d = Daemon(BUILD, "metrics.listen=127.0.0.1:0", "metrics.spaces=2")
    d.settings.append("metrics.token_file=" + d.write_token("sec-ret\n"))
    d.start()
    at = d.address()
    until(lambda: ask(at, "/readyz")[0] == 200, "ready")
    check(ask(at, "/readyz")[1] == "ready\n" and ask(at, "/healthz")[:2] == (200, "ok\n"), "words")
    status, text, headers = ask(at, "/metrics")
    check(status == 401 and has_no_numbers(text), "no token: %d %s" % (status, text))
    check({w.split()[0] for w in headers.get_all("WWW-Authenticate")} == {"Basic", "Bearer"},
          "how to say the token")
    for wrong in (bearer("sec-re"), bearer(""), basic("sec-ret!"), {"Authorization": "sec-ret"}):
        check(ask(at, "/metrics", headers=wrong)[0] == 401, "wrong token %s" % wrong)
    for right in (bearer("sec-ret"), basic("sec-ret")):
        check(ask(at, "/metrics", headers=right)[0] == 200, "token %s" % right)
    for host, wanted in (("evil.example", 421), ("localhost", 200), ("127.0.0.1:1", 200),
                         ("[::1]", 200), ("", 421), ("localhost.evil.example", 421)):
        status, text, _ = ask(at, "/metrics", headers={**bearer("sec-ret"), "Host": host})
        check(status == wanted and (wanted == 200 or has_no_numbers(text)),
              "Host %s: %d" % (host, status))
    for method, path, wanted in (("POST", "/metrics", 405), ("PUT", "/healthz", 405),
                                 ("DELETE", "/readyz", 405), ("GET", "/", 401), ("POST", "/", 405), ("GET", "/index.html", 404),
                                 ("GET", "/metrics/x", 404), ("GET", "/metrics?a=b", 401)):
        status, text, headers = ask(at, path, method, body=b"x" * 100 if method == "POST" else None)
        check(status == wanted and has_no_numbers(text), "%s %s: %d" % (method, path, status))
        check(wanted != 405 or headers["Allow"] == "GET, HEAD", "Allow")
    status, text, headers = ask(at, "/metrics", "HEAD", bearer("sec-ret"))
    check(status == 200 and text == "" and int(headers["Content-Length"]) > 1000, "HEAD")
    check(headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", "type")
    for raw, wanted in ((b"GET /healthz HTTP/1.1\r\n\r\n", b"400"),
                        (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
                        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", b"400"),
                        (b"nonsense\r\n\r\n", None),
                        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\n"
                         b"Authorization: Bearer sec-ret\r\n\r\n", b"400"),
                        (b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", None),
                        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 20000, None)):
        said = ask_raw(at, raw)
        check(b"engram_" not in said, "numbers for %r" % raw[:60])
        check(wanted is None or said.split()[1] == wanted, "%r: %r" % (raw[:60], said[:40]))
    check(d.stop() == 0, "exit code")


def counts():
    """The page says what was asked, on a Unix socket."""
    d = Daemon(BUILD, "metrics.open=true", "metrics.spaces=1", "socket.mode=0600")
    at = d.folder + "/http"
    d.settings.append("metrics.listen=" + at)
    d.start()
    check(stat.S_IMODE(os.stat(at).st_mode) == 0o600, "mode of the socket")
    before = series(ask(at, "/metrics")[1])
    for space, times in (("alpha", 3), ("beta", 2), ("gamma", 1)):
        for _ in range(times):
            d.tool("--space", space, "collection", "list")
    time.sleep(0.03)  # a page younger than 20 ms is sent again
    status, text, _ = ask(at, "/metrics")
    after = series(text)
    check(status == 200, "open")
    rise = {k: after[k] - before.get(k, 0) for k in after}
    check(rise['engram_accel_requests_total{operation="collection_list"}'] == 6 or
          rise.get('engram_accel_requests_total{operation="list"}') == 6,
          "lists: %s" % [k for k in after if "requests_total{op" in k])
    check(sum(v for k, v in rise.items() if k.startswith("engram_accel_space_requests_total{")) ==
          sum(v for k, v in rise.items() if k.startswith("engram_accel_requests_total{")),
          "spaces have all")
    spaces = {k for k in after if k.startswith("engram_accel_space_requests_total{")}
    check(len(spaces) == 2 and any('"other"' in k for k in spaces), "spaces: %s" % spaces)
    check(after["engram_accel_ready"] in (0, 1), "ready")
    check(not [k for k in before if after.get(k, 0) < before[k] and "_total" in k], "counters fell")
    d.tool("config", "set", "observe.enabled", "false")
    until(lambda: series(ask(at, "/metrics")[1])["engram_accel_observed"] == 0, "it is not observed")
    check(after["engram_accel_observed"] == 1 and
          any(f["about"] == "telemetry" for f in json.loads(d.tool("--json", "doctor"))),
          "doctor says that nothing is counted")
    promtool = shutil.which("promtool")
    if promtool:
        p = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True,
                           text=True, check=False)
        check(p.returncode == 0 and not p.stderr, "promtool: " + p.stderr)
    else:
        print("SKIP promtool check metrics: no promtool here (Debian: prometheus)")
    check(d.stop() == 0 and not os.path.exists(at), "the socket's file stays")


def sensors():
    """What NVML says of a card; a call of it that hangs holds up nothing; a library that is none."""
    d = Daemon(BUILD, "metrics.open=true", "sched.predict=false", "gpu.force=gpu")
    at = d.folder + "/http"
    d.settings[0] = "gpu.devices=sim"
    d.settings.append("metrics.listen=" + at)
    state = make_nvml(d.folder)
    d.start()

    def reads(name):
        return series(ask(at, "/metrics")[1]).get(name)
    heat = 'engram_accel_gpu_temperature_celsius{gpu="0"}'
    until(lambda: reads(heat) == 61, "a temperature")
    for name, value in (('power_watts{gpu="0"}', 312.5), ('power_limit_watts{gpu="0"}', 700),
                        ('clock_hertz{gpu="0",of="sm"}', 1.98e9),
                        ('clock_hertz{gpu="0",of="memory"}', 2.619e9),
                        ('busy_ratio{gpu="0",of="sm"}', 0.87), ('device_used_bytes{gpu="0"}', 400),
                        ('device_bytes{gpu="0"}', 1000),
                        ('ecc_errors_total{gpu="0",kind="uncorrected"}', 2),
                        ('ecc_errors_total{gpu="0",kind="corrected"}', 7),
                        ('slowed{gpu="0",reason="hardware_heat"}', 1),
                        ('slowed{gpu="0",reason="heat"}', 0)):
        check(reads("engram_accel_gpu_" + name) == value, "%s: %s" % (name, value))
    said = json.loads(d.tool("--json", "stats"))["gpus"][0]["sensors"]
    check(said["celsius"] == 61 and said["milliwatts"] == 312500 and said["ecc_uncorrected"] == 2 and
          said["slowed"] == ["power_cap", "hardware_heat"], "stats: %s" % said)
    said = d.tool("stats")
    check("      61 °C, 312 of 700 W" in d.tool("top", "--count", "1"), "top shows sensors")
    check("61 °C, 312 of 700 W" in said and "slowed by: power_cap, hardware_heat" in said, said)

    def doctor():
        """What it finds about the card's heat and memory."""
        found = json.loads(d.tool_any("--json", "doctor").stdout.splitlines()[0])
        return [f["verdict"] for f in found if f["about"] in ("gpu 0 heat", "gpu 0 ECC")]
    check(doctor() == ["look", "bad"], "doctor, slowed by heat and with errors: %s" % doctor())
    for text, wanted in (("60 0 4", ["fine"]), ("70 0 8", ["look"]), ("86 0 0", ["look"])):
        with open(state, "w", encoding="utf-8") as f:
            f.write(text)
        until(lambda: doctor() == wanted, "doctor finds %s with sensors %s" % (wanted, text))
    for text, wanted in (("absent", None), ("40", 40)):
        with open(state, "w", encoding="utf-8") as f:
            f.write(text)
        until(lambda: reads(heat) == wanted, "sensors are %s" % text)
    with open(state, "w", encoding="utf-8") as f:
        f.write("hang")
    with open(d.folder + "/rows.csv", "w", encoding="utf-8") as f:
        f.write("1,2,3,4\n" * 100)
    runs = 'engram_accel_gpu_runs_total{gpu="0"}'
    time.sleep(1.2)  # by then NVML hangs; if not, the check is only weaker
    before = reads(runs)
    d.tool("norms", d.folder + "/rows.csv")
    until(lambda: reads(runs) > before, "a run beside NVML that hangs")
    check(reads('engram_accel_gpu_restarts_total{gpu="0"}') == 0, "the card stays")
    check(d.stop() == 0, "exit code, with a call of NVML that does not return")
    d = Daemon(BUILD)
    d.settings[0] = "gpu.devices=sim"
    os.environ["ENGRAM_ACCEL_NVML"] = "/nowhere/at/all.so"
    d.start()
    until(lambda: "gpu0: /nowhere/at/all.so cannot be loaded: temperature, power and clocks are not "
          "known" in d.log(), "a line that says that there is no NVML")
    check(d.log().count("/nowhere/at/all.so") == 1, "one line")
    check(d.stop() == 0, "exit code")
    del os.environ["ENGRAM_ACCEL_NVML"]


def pages():
    """docs/metrics.md lists what there is, and nothing else, with its type and labels."""
    d = Daemon(BUILD, "metrics.open=true", "sched.predict=false", "gpu.force=gpu")
    at = d.folder + "/http"
    os.mkdir(d.folder + "/data")
    d.settings += ["persist.dir=" + d.folder + "/data", "persist.journal=always"]
    make_nvml(d.folder)
    d.settings[0] = "gpu.devices=sim"
    d.settings.append("metrics.listen=" + at)
    d.start()
    until(lambda: 'state="ready"} 1' in ask(at, "/metrics")[1], "a card")
    until(lambda: "engram_accel_gpu_slowed{" in ask(at, "/metrics")[1], "sensors")
    with open(d.folder + "/rows.csv", "w", encoding="utf-8") as f:
        f.write("1,2,3,4\n" * 100)
    d.tool("norms", d.folder + "/rows.csv")
    for space in ("alpha", "beta", "alpha"):  # the second of alpha has its own place on the card
        name = "rows%d" % len(d.tool("--space", space, "collection", "list").splitlines())
        d.tool("--space", space, "load", name, d.folder + "/rows.csv", "--create", "--metric", "dot")
        d.tool("--space", space, "knn", name, "--query-id", "7", "-k", "3")
    for space in ("alpha", "beta"):
        vram = 'engram_accel_space_vram_bytes{memory_space="%s"}' % space
        until(lambda: series(ask(at, "/metrics")[1]).get(vram, 0) ==
              json.loads(d.tool("--space", space, "--json", "stats"))["vram_bytes"] > 0,
              "VRAM of " + space)
    time.sleep(0.03)
    text = ask(at, "/metrics")[1]
    page = series(text)
    check(sum(v for k, v in page.items() if k.startswith("engram_accel_space_vram_bytes{")) ==
          page['engram_accel_gpu_replica_bytes{gpu="0"}'], "VRAM of spaces, and of the card")
    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE "))
    labels = {name: set() for name in types}
    for line in series(text):
        name = re.sub(r"(_bucket|_sum|_count)?([{].*)?$", "", line)
        labels[name if name in types else line.split("{")[0]] |= set(
            re.findall(r'[{,]([a-z_]+)="', line)) - {"le"}
    said = {}
    with open("docs/metrics.md", encoding="utf-8") as f:
        for line in f:
            cells = [c.strip() for c in line.split("|")]
            if len(cells) == 7 and cells[1].startswith("`"):
                said[cells[1].strip("`")] = (cells[2], set(re.findall("`([a-z_]+)`", cells[4])))
    there = {name: (types[name], labels[name]) for name in types}
    for name in sorted(said.keys() | there.keys()):
        check(said.get(name) == there.get(name),
              "docs/metrics.md: %s: %s, not %s" % (name, said.get(name), there.get(name)))
    for selector in selectors.everything():
        check(selector[0] in selectors.records() | {"up"} or
              selectors.is_served(selector, series(text)), "nothing is selected by %s" % (selector,))
    check(len(selectors.everything()) > 80, "selectors that were found")
    with open("docs/alerts.md", encoding="utf-8") as f:
        told = re.findall(r"^## (Engram\w+)", f.read(), re.MULTILINE)
    check(told == selectors.alerts(), "docs/alerts.md: %s" % (set(told) ^ set(selectors.alerts())))
    check(d.stop() == 0, "exit code")


def refusals():
    """Settings that are wrong: exit code 2, and file, key and reason."""
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    d = Daemon(BUILD)
    plain = d.settings
    os.mkfifo(d.folder + "/fifo")
    token = d.write_token("x")
    here = "metrics.listen=127.0.0.1:0"
    for settings, words in (
            (["metrics.listen=0.0.0.0:7424"], ["command line: metrics.listen: '0.0.0.0:7424'"]),
            (["metrics.listen=[::]:7424"], ["command line: metrics.listen:"]),
            (["metrics.listen=localhost"], ["command line: metrics.listen:"]),
            (["metrics.listen=127.0.0.1:%d" % port, "metrics.open=true"],
             ["command line: metrics.listen: 127.0.0.1:%d: Address already in use" % port]),
            (["metrics.listen=/nowhere/at/all", "metrics.open=true"],
             ["command line: metrics.listen: /nowhere/at/all", "No such file"]),
            (["metrics.listen=" + token, "metrics.open=true"],
             ["metrics.listen: ", "is not a socket"]),
            ([here], ["metrics.token_file: empty while metrics.open is false"]),
            ([here, "metrics.token_file=" + d.folder + "/fifo"], ["not a regular file"]),
            ([here, "metrics.token_file=" + d.write_token("x", 0o604, "w")], ["others may read"]),
            ([here, "metrics.token_file=" + d.write_token("", name="e")], ["empty"]),
            ([here, "metrics.token_file=/nowhere/at/all"],
             ["command line: metrics.token_file: /nowhere/at/all: No such file"]),
            (["metrics.buckets=5 5"], ["command line: metrics.buckets: '5 5'"]),
            (["metrics.spaces=257"], ["metrics.spaces: 257 is out of range, 0 to 256"])):
        d.settings = plain + settings
        code, said = d.refuses()
        check(code == 2 and all(w in said for w in words), "%s: %d: %s" % (settings, code, said))
    d.settings = plain
    d.config = '{"metrics": {"listen": "127.0.0.1:%d", "open": true}}' % port
    code, said = d.refuses()
    check(code == 2 and d.config_path + ": metrics.listen: 127.0.0.1:" in said, "file: " + said)
    taken.close()
    for name in os.listdir(d.folder):
        os.unlink(d.folder + "/" + name)
    os.rmdir(d.folder)


def reloads():
    """SIGHUP: what is wrong changes nothing, what is right changes at once."""
    text = '{"metrics": {"listen": "%s", "token_file": "%s", "open": %s}}'
    d = Daemon(BUILD)
    token, at, other = d.write_token("one\n"), d.folder + "/http", d.folder + "/other"
    d.config = text % (at, token, "false")
    d.start()

    def knows(word, where=at):
        return ask(where, "/metrics", headers=bearer(word))[0] == 200
    check(knows("one"), "token at start")
    d.write_token("two\n")
    check(knows("one") and not knows("two"), "a file that changes is not read by itself")
    d.reload()
    check(knows("two") and not knows("one"), "token changed by a reload")
    d.write_token("three\n", 0o644)
    line = d.reload()
    check("metrics.token_file: " in line and d.config_path in line and "stay" in line, line)
    check(knows("two") and not knows("three"), "token that others may read")
    d.write_config(text % ("0.0.0.0:1", token, "true"))
    line = d.reload()
    check("metrics.listen: '0.0.0.0:1'" in line and "stay" in line, line)
    check(knows("two") and not knows("three"), "public address")
    d.write_token("three\n")
    d.write_config(text % ("/nowhere/x", token, "true"))
    line = d.reload()
    check("metrics.listen: /nowhere/x" in line and "stay" in line, line)
    check(knows("two") and ask(at, "/metrics")[0] == 401, "address that cannot be used")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        d.write_config(text % ("127.0.0.1:%d" % taken.getsockname()[1], token, "true"))
        line = d.reload()
    check(d.config_path + ": metrics.listen: 127.0.0.1:" in line and "already in use" in line and
          "stay" in line, line)
    check(knows("two") and ask(at, "/metrics")[0] == 401, "address that is in use")
    d.write_config('{"metrics": {"listen": "%s", "token_file": "%s", "buckets": "9 3"}}' % (at, token))
    line = d.reload()
    check("metrics.buckets: '9 3'" in line and "stay" in line and knows("two"), line)
    d.write_token("four\n")
    d.write_config(text % (other, token, "false"))
    d.reload()
    check(knows("four", other) and not os.path.exists(at), "another address")
    d.write_config(text % (other, token, "true"))
    d.reload()
    check(ask(other, "/metrics")[0] == 200, "open")
    d.tool("config", "set", "metrics.open", "false")
    check(ask(other, "/metrics")[0] == 401, "closed by an operator")
    p = d.tool_any("config", "set", "metrics.listen", "/nowhere/x")
    check(p.returncode and "metrics.listen: /nowhere/x" in p.stderr and
          "No such file" in p.stderr, p.stderr)
    d.tool("config", "set", "metrics.listen", at)
    check(knows("four") and not os.path.exists(other), "moved by an operator")
    d.write_config("{}")
    d.reload()
    check(not os.path.exists(at), "switched off")
    d.write_config(text % (at, token, "true"))
    d.reload()
    until(lambda: ask(at, "/readyz")[0] == 200, "ready again")
    check(d.stop() == 0, "exit code")


def crowds():
    """More clients than there are places, that send a byte now and then, keep nobody out for long;
    and no connection is left when they are gone."""
    d = Daemon(BUILD, "metrics.open=true")
    at = d.folder + "/http"
    d.settings.append("metrics.listen=" + at)
    d.start()
    until(lambda: ask(at, "/readyz")[0] == 200, "ready")
    slow = [connect(at) for _ in range(64)]
    for s in slow:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
    over = threading.Event()

    def drip():
        left = list(slow)
        while left and not over.wait(0.01):
            for s in list(left):
                try:
                    s.sendall(b"a")
                except OSError:
                    left.remove(s)
    dripping = threading.Thread(target=drip)
    dripping.start()
    check(ask(at, "/readyz")[0] == 200, "behind a crowd")
    page = series(ask(at, "/metrics")[1])
    check(page["engram_accel_http_connections_cut_total"] > 32, "they were cut, and counted")
    over.set()
    dripping.join()
    for s in slow:
        s.close()
    d.tool("ping")
    check(d.stop() == 0, "exit code")


for part in (statuses, counts, sensors, pages, refusals, reloads, crowds):
    begun = time.monotonic()
    part()
    print("%s: %.1f s" % (part.__name__, time.monotonic() - begun))
sys.exit(checks.failures > 0)
