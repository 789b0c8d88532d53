"""page_http BUILD: the status page over HTTP: who gets it, with which headers, that nothing in it
comes from elsewhere, and what /slow.json tells to whom. Its arithmetic is tried where Node is."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import checks
from checks import check
from metrics_daemon import Daemon, GIVE_UP_S, ask, basic, bearer, series

BUILD = sys.argv[1]
PAGES = {"/": "text/html; charset=utf-8", "/page.css": "text/css; charset=utf-8",
         "/icon.svg": "image/svg+xml"}
PAGES.update({"/%s.js" % name: "text/javascript; charset=utf-8"
              for name in ("page", "read", "sample", "chart", "tables")})
BYTES_MAX = 100 << 10  # of all files together


def check_headers(headers, what):
    policy = headers["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    check(rules["default-src"] == "'none'" and rules["script-src"] == "'self'" and
          rules["style-src"] == "'self'" and rules["frame-ancestors"] == "'none'" and
          rules["require-trusted-types-for"] == "'script'" and "unsafe" not in policy and
          "http" not in policy and "*" not in policy, "%s: policy: %s" % (what, policy))
    check(headers["X-Content-Type-Options"] == "nosniff" and
          headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer" and
          headers["Cross-Origin-Resource-Policy"] == "same-origin", what + ": headers")


def check_text(path, text):
    """Nothing from elsewhere, no markup made of texts, nothing that the policy would refuse."""
    foreign = [w for w in re.findall(r"(?:[a-z]+:)?//[\w.-]+", re.sub(r"/\*.*?\*/|(?m:^//.*$)", "",
                                                                   text, flags=re.DOTALL))
               if w != "http://www.w3.org"]  # the name of SVG, which is not asked for
    check(not foreign, "%s: from elsewhere: %s" % (path, foreign))
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                 "new Function", "@import", "data:", "javascript:"):
        check(word not in text, "%s: %s" % (path, word))
    if path == "/":
        check(not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", text),
              "markup with script or style inside")
    for named in re.findall(r'(?:src|href)="([^"#]+)"|from "\./([^"]+)"', text):
        check("/" + "".join(named) in PAGES | {"/metrics": None}, "%s names %s" % (path, named))


def pages():
    """With the token and without, under another host's name, only its head."""
    d = Daemon(BUILD, "metrics.listen=127.0.0.1:0")
    d.settings.append("metrics.token_file=" + d.write_token("sec-ret\n"))
    d.start()
    at, total = d.address(), 0
    for path, kind in PAGES.items():
        status, text, headers = ask(at, path)
        check(status == 401 and headers.get_all("WWW-Authenticate")[0].startswith("Basic ") and
              len(text) < 100, "%s without a token: %d" % (path, status))
        check(ask(at, path, headers=bearer("wrong"))[0] == 401, path + ": wrong token")
        check(ask(at, path, headers={**basic("sec-ret"), "Host": "evil.example"})[0] == 421,
              path + ": another host")
        check(ask(at, path, "POST", basic("sec-ret"))[0] == 405, path + ": POST")
        status, text, headers = ask(at, path, headers=basic("sec-ret", "anybody"))
        total += len(text.encode())
        check(status == 200 and headers["Content-Type"] == kind, "%s: %d" % (path, status))
        check_headers(headers, path)
        check_text(path, text)
        status, nothing, headers = ask(at, path, "HEAD", bearer("sec-ret"))
        check(status == 200 and nothing == "" and
              int(headers["Content-Length"]) == len(text.encode()), path + ": HEAD")
    check(total < BYTES_MAX, "%d bytes" % total)
    for path in ("/page.html", "/page", "/js", "/..", "/page.js/", "/slow", "/favicon.ico"):
        check(ask(at, path, headers=basic("sec-ret"))[0] == 404, path)
    check_headers(ask(at, "/metrics")[2], "a refusal")
    check(d.stop() == 0, "exit code")


def slow():
    """Slow requests: counted, the newest first; names for who knows the token, else none."""
    d = Daemon(BUILD, "observe.slow_operations=ping=0 hello=0", "observe.slow_ms=1", "sched.predict=false",
               "gpu.min_pairs=1")
    at = d.folder + "/http"
    d.settings[0] = "gpu.devices=sim"
    d.settings += ["gpu.sim=run_us=1500", "metrics.listen=" + at,
                   "metrics.token_file=" + d.write_token("sec-ret")]
    d.start()
    with open(d.folder + "/rows.csv", "w", encoding="utf-8") as f:
        f.write("id,x\n" + "".join("%d,%d,1\n" % (i, i) for i in range(2000)))
    d.tool("--space", "alpha", "load", "words", d.folder + "/rows.csv", "--create", "--metric",
           "cosine")
    token = basic("sec-ret")
    check(ask(at, "/slow.json")[0] == 401, "no token")

    def is_meant(r):
        """From a replica, which takes 1.5 ms; one that waited for a processor is slow as well."""
        return r["operation"] == "knn" and r["backend"] == "gpu"

    def knn():
        d.tool("--space", "alpha", "knn", "words", "--query", "1,2")
        said = json.loads(ask(at, "/slow.json", headers=token)[1])
        return any(is_meant(r) for r in said["requests"])
    end = time.monotonic() + GIVE_UP_S
    while not knn() and time.monotonic() < end:
        pass
    time.sleep(0.03)  # a text younger than 20 ms is sent again
    status, text, headers = ask(at, "/slow.json", headers=token)
    said = json.loads(text)
    check(status == 200 and headers["Content-Type"] == "application/json", "slow.json")
    check_headers(headers, "/slow.json")
    newest = next(r for r in said["requests"] if is_meant(r))
    check(newest["name"] == "words" and newest["space"] == "alpha" and newest["status"] == "OK" and
          newest["peer"].startswith("uid ") and newest["total_ns"] >= 1e6, "a slow request: %s" % newest)
    numbers = [r["number"] for r in said["requests"]]
    check(numbers == sorted(numbers, reverse=True) and numbers[0] == said["total"], "the newest first")
    counted = series(ask(at, "/metrics", headers=token)[1])["engram_accel_slow_requests_total"]
    check(counted == said["total"], "counted: %d of %d" % (counted, said["total"]))
    d.tool("config", "set", "metrics.open", "true")
    status, text, _ = ask(at, "/slow.json")
    check(status == 200 and '"words"' not in text and "uid" not in text and '"alpha"' in text and
          "request_id" not in text, "open: %s" % text[:300])
    check(ask(at, "/")[0] == 200, "open")
    check(d.stop() == 0, "exit code")


def arithmetic():
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        print("SKIP the status page's arithmetic: no node here (Debian: nodejs)")
        return
    with tempfile.TemporaryDirectory(prefix="engram-page-") as folder:
        for name in ("read.js", "sample.js"):
            shutil.copy("daemon/http/page/" + name, folder)
        with open(folder + "/package.json", "w", encoding="utf-8") as f:
            f.write('{"type": "module"}')
        p = subprocess.run([node, "tests/integration/page_read.mjs", folder], capture_output=True,
                           text=True, timeout=GIVE_UP_S, check=False)
    check(p.returncode == 0, p.stdout + p.stderr)


def files():
    """What is served is what stands in the tree, all of it."""
    check({"/" + f for f in os.listdir("daemon/http/page")} - {"/page.html"} == set(PAGES) - {"/"},
          "daemon/http/page: %s" % os.listdir("daemon/http/page"))


for part in (files, arithmetic, pages, slow):
    begun = time.monotonic()
    part()
    print("%s: %.1f s" % (part.__name__, time.monotonic() - begun))
sys.exit(checks.failures > 0)
