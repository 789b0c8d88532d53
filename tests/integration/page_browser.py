"""page_browser BUILD [FOLDER] [SECONDS]: the status page in a headless Chromium beside load: no
error on the console, nothing asked for from elsewhere, every chart with data, no sideways scrolling,
texts of clients shown as text, and what it says while the daemon is gone and when it is back.
Pictures go to FOLDER; it looks for SECONDS at each page."""
import json
import os
import subprocess
import sys
import time

import checks
from browser import Browser, Tab, find
from checks import check
from metrics_daemon import Daemon, GIVE_UP_S, ask, basic, series

BUILD = sys.argv[1]
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 0
TOKEN = "sec-ret"
NAME = "words"
HOSTILE = "<img src=x onerror=alert(1)><b>"  # no daemon would take it for a name
CHARTS = 10


def until(wanted, what):
    end = time.monotonic() + GIVE_UP_S
    while not wanted():
        if time.monotonic() > end:
            check(False, "never: " + what)
            return
        time.sleep(0.03)


def start_load(d):
    """Clients of several spaces, until they are stopped."""
    def bench(space, *words):
        return subprocess.Popen(
            [BUILD + "/engram-accel", "--socket", d.socket, "--space", space, "--json", "bench",
             "--seconds", "600", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [bench("search", "--rows", "4000", "--dim", "64", "--batch", "4", "--rate", "120"),
            bench("nightly", "--rows", "2000", "--dim", "32", "--rate", "60"),
            bench("recommender", "--rows", "3000", "--dim", "48", "--operation", "score",
                  "--candidates", "200", "--rate", "90"),
            bench("lab", "--operation", "ping", "--rate", "200")]


def start_daemon():
    """Cards that take 1.5 ms for each answer, so that what they answer is slow."""
    d = Daemon(BUILD, "metrics.listen=127.0.0.1:0", "sched.predict=false", "gpu.min_pairs=3000",
               "observe.slow_ms=1")
    d.settings[0] = "gpu.devices=sim,sim"
    d.settings.append("observe.slow_operations=knn=%d score_candidates=%d" % ((4, 4) if SECONDS else (0, 0)))
    d.settings.append("gpu.sim=run_us=1500")
    d.settings.append("metrics.token_file=" + d.write_token(TOKEN))
    return d.start()


def make_rows(d):
    with open(d.folder + "/rows.csv", "w", encoding="utf-8") as f:
        f.write("id,x\n" + "".join("%d,%d,%d,1\n" % (i, i % 7, i % 11) for i in range(3000)))
    d.tool("--space", "lab", "load", NAME, d.folder + "/rows.csv", "--create", "--metric", "cosine")


def slow_ones(d, at):
    """Until one request of that name is in the slow log."""
    def there():
        d.tool_any("--space", "lab", "knn", "missing", "--query", "1,2,1")
        d.tool("--space", "lab", "similarity", NAME, "--query", "1,2,1", "--best", "5")
        return '"name":"%s"' % NAME in ask(at, "/slow.json", headers=basic(TOKEN))[1]
    until(there, "a slow request of " + NAME)


EVERY_CHART = """[...document.querySelectorAll('[data-chart]')].filter(
    (f) => Number(f.dataset.points) >= %d).length === """ + str(CHARTS)


def look(browser, at, width, scheme):
    """One page: what it has, and what is wrong with it."""
    what = "%s, %d wide" % (scheme, width)
    tab = Tab(browser, width, 900, scheme)
    tab.open("http://operator:%s@127.0.0.1:%d/" % (TOKEN, at[1]))
    check(tab.until(EVERY_CHART % 2), what + ": charts with data: " + str(tab.value(
        "JSON.stringify([...document.querySelectorAll('[data-chart]')].map("
        "(f) => [f.dataset.chart, f.dataset.points]))")))
    check(tab.until("document.querySelectorAll('#slow tbody tr').length > 0"),
          what + ": slow requests")
    time.sleep(SECONDS)
    check(tab.value("document.querySelector('#health').textContent") == "✓ ready", what + ": ready")
    drawn = tab.value("[...document.querySelectorAll('figure .chart')].filter("
                      "(s) => s.querySelector('path.line')).length")
    check(drawn == CHARTS - 1, "%s: %s charts have lines" % (what, drawn))
    wide = tab.value("""[...document.querySelectorAll('body *:not(.unseen)')].filter((e) =>
        !e.closest('.unseen') && !e.closest('svg') &&
        e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
        .map((e) => e.tagName + "." + e.className)""")
    check(not wide and tab.value("document.documentElement.scrollWidth <= "
                                 "document.documentElement.clientWidth"),
          "%s: scrolls sideways: %s" % (what, wide))
    check(tab.value("document.querySelectorAll('#spaces tbody tr').length") >= 4, what + ": spaces")
    check(tab.value("document.querySelectorAll('.card dl dt').length") > 20, what + ": cards")
    check(SECONDS or tab.value("document.querySelector('#slow').textContent.includes('%s')" % NAME),
          what + ": names of collections")
    paper = tab.value("getComputedStyle(document.body).backgroundColor")
    light = sum(int(n) for n in paper[4:-1].split(",")) > 380
    check(light == (scheme == "light"), "%s: paper is %s" % (what, paper))
    cut = tab.value("""[...document.querySelectorAll('.chart text')].filter((t) => {
        const box = t.getBBox(), s = t.ownerSVGElement.viewBox.baseVal;
        return box.x < -0.5 || box.x + box.width > s.width + 0.5; }).map((t) => t.textContent)""")
    check(not cut, "%s: labels that are cut: %s" % (what, cut))
    said, asked = tab.errors()
    check(not said, "%s: on the console: %s" % (what, said))
    here = "http://127.0.0.1:%d/" % at[1]
    check(asked and all(("http://" + url.split("@")[-1].removeprefix("http://")).startswith(here)
                        for url in asked), "%s: asked for %s" % (what, asked))
    if FOLDER:
        tab.picture("%s/page-%s-%d.png" % (FOLDER, scheme, width))
    return tab


def keys(tab):
    """Arrow keys read a chart's values, as text, and Pause stops asking."""
    tab.value("document.querySelector('#chart-requests .chart').focus()")
    for key, wanted in (("ArrowLeft", "s ago: "), ("End", "now: ")):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        said = tab.value("document.querySelector('#chart-requests .unseen').textContent")
        check(wanted in said, "%s tells values: %s" % (key, said))
    check("/s" in said, "values now: " + said)
    tab.value("document.querySelector('#chart-requests details').open = true")
    check(tab.until("document.querySelectorAll('#chart-requests details td').length > 3"),
          "a table of the values")
    tab.value("document.querySelector('#pause').click()")
    check(tab.value("document.querySelector('#pause').getAttribute('aria-pressed')") == "true",
          "paused")
    tab.value("document.querySelector('#pause').click()")


def hostile(tab):
    """What a client may have said is text, in cells and in charts."""
    there = tab.value("""(async () => {
        const { Table } = await import("/tables.js"), { Chart } = await import("/chart.js");
        const box = document.createElement("div"), name = %s;
        document.body.append(box);
        new Table(box, name, [{ name, text: () => name }], name).show([{}]);
        new Chart({ id: name, title: name, help: name, format: () => name, scale: "linear" }, box)
            .draw([0], [{ name, values: [1] }], [{ time: 0, text: name }], 60);
        const found = [box.textContent.split(name).length > 5, box.querySelector("img, b > b"),
                       box.querySelector("[onerror]")];
        box.remove();
        return found.map(Boolean);
    })()""" % json.dumps(HOSTILE))
    check(there == [True, False, False], "names that are markup: %s" % there)


SENSORS = """engram_accel_gpu_state{gpu="0",state="ready"} 1
engram_accel_gpu_temperature_celsius{gpu="0"} 41
engram_accel_gpu_clock_hertz{gpu="0",of="sm"} 1980000000
engram_accel_gpu_busy_ratio{gpu="0",of="memory"} 0.25
engram_accel_gpu_ecc_errors_total{gpu="0",kind="corrected"} 3
engram_accel_gpu_slowed{gpu="0",reason="power_cap"} 1
engram_accel_gpu_slowed{gpu="0",reason="heat"} 0
"""


def sensors(tab):
    """What a card tells besides, which no simulated one does."""
    said = tab.value("""(async () => {
        const { parse } = await import("/read.js"), { sample } = await import("/sample.js");
        const { showCards } = await import("/tables.js"), box = document.createElement("div");
        showCards(box, sample(null, parse(%s)).cards);
        return [...box.querySelectorAll("dt")].map(
            (t) => t.textContent + ": " + t.nextSibling.textContent);
    })()""" % json.dumps(SENSORS))
    for line in ("temperature: 41 °C", "clock sm: 1.98 GHz", "busy memory: 25 %",
                 "ecc errors corrected: 3", "slowed by: power cap"):
        check(line in said, "%s is not in %s" % (line, said))


def unobserved(d, tab):
    """It says so where requests are not counted."""
    for enabled, hidden in (("false", "false"), ("true", "true")):
        d.tool("config", "set", "observe.enabled", enabled)
        check(tab.until("String(document.querySelector('#unobserved').hidden) === '%s'" % hidden),
              "the note that nothing is counted, with observe.enabled %s" % enabled)
        if FOLDER and enabled == "false":
            tab.picture(FOLDER + "/page-unobserved.png", False)


def restart(d, at, tab):
    """The daemon goes and comes back at the same address: no negative rates, and it is said."""
    d.process.terminate()
    d.process.wait(GIVE_UP_S)
    check(tab.until("!document.querySelector('#trouble').hidden && document.querySelector("
                    "'#health').textContent.includes('no answer')"), "a daemon that is gone")
    if FOLDER:
        tab.picture(FOLDER + "/page-gone.png", False)
    d.settings = [s.replace("127.0.0.1:0", "127.0.0.1:%d" % at[1]) for s in d.settings]
    d.start()
    d.tool("--space", "lab", "collection", "list")
    check(tab.until("document.querySelector('#trouble').hidden && [...document.querySelectorAll("
                    "'text.event')].some((t) => t.textContent === 'restarted')"), "it is back")
    d.tool("--space", "lab", "collection", "list")
    check(tab.until("/^[0-9.]+\\/s$/.test(document.querySelector('#figures dd').textContent)"),
          "rates after a restart: " + tab.value("document.querySelector('#figures dd').textContent"))
    check(not tab.value("/[−-]\\d/.test(document.querySelector('#chart-requests .legend')"
                        ".textContent)"), "negative rates")


def main():
    if not find():
        print("SKIP the status page in a browser: no chromium here (Debian: chromium)")
        return
    d = start_daemon()
    at = d.address()
    until(lambda: ask(at, "/readyz")[0] == 200, "ready")
    make_rows(d)
    load = start_load(d)
    browser = Browser()
    try:
        until(lambda: sum(v for k, v in series(ask(at, "/metrics", headers=basic(TOKEN))[1]).items()
                          if k.startswith("engram_accel_gpu_runs_total")) > 0, "a run on a card")
        slow_ones(d, at)
        tab = None
        for width in (1600, 400):
            for scheme in ("light", "dark"):
                if tab:
                    tab.close()
                tab = look(browser, at, width, scheme)
        keys(tab)
        hostile(tab)
        sensors(tab)
        unobserved(d, tab)
        for p in load:
            p.terminate()
            p.wait(GIVE_UP_S)
        restart(d, at, tab)
    finally:
        browser.close()
        for p in load:
            p.kill()
            p.wait()
    check(d.stop() == 0, "exit code")


main()
sys.exit(checks.failures > 0)
