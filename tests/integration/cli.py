"""cli: engram-accel as a user and a script would call it, against the real daemon.

Only the standard library: .npy files are written and read by hand. Each check says what it ran.
"""
import array
import json
import os
import pty
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import checks
from checks import check

BUILD = sys.argv[1]
# Whoever starts this in the background may have it ignore Ctrl-C, and its children with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
ROWS, DIMENSION = 3000, 64


def write_npy(path, code, shape, values):
    kind = {"f": "<f4", "Q": "<u8", "B": "|u1"}[code]
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        f.write(array.array(code, values).tobytes())


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<H", data[8:10])[0]
    header = data[10:10 + size].decode()
    shape = tuple(int(n) for n in header.split("(")[1].split(")")[0].split(",") if n.strip())
    values = array.array("f" if "<f4" in header else "Q")
    values.frombytes(data[10 + size:])
    return shape, values


class Tool:
    def __init__(self, path):
        self.start = [os.path.join(BUILD, "engram-accel"), "--socket", path]

    def run(self, *words, code=0):
        p = subprocess.run(self.start + list(words), capture_output=True, text=True)
        check(p.returncode == code, "%s: exit %d, not %d: %s" %
              (" ".join(words), p.returncode, code, p.stderr.strip()))
        check("Sanitizer" not in p.stderr, p.stderr)
        return p

    def run_bare(self, *words):
        """Without --socket."""
        return subprocess.run(self.start[:1] + list(words), capture_output=True, text=True)

    def run_any(self, *words):
        """Whatever its exit code is."""
        return subprocess.run(self.start + list(words), capture_output=True, text=True)

    def json(self, *words):
        return [json.loads(line) for line in self.run(*words, "--json").stdout.splitlines()]

    def popen(self, *words, **more):
        return subprocess.Popen(self.start + list(words), text=True, stderr=subprocess.PIPE, **more)

    def on_terminal(self, *words):
        """Runs it with standard error on a terminal, each step of progress drawn; returns standard
        output, and what that showed."""
        master, slave = pty.openpty()
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen(self.start + list(words), stdout=out, stderr=slave,
                                 env=dict(os.environ, ENGRAM_ACCEL_REDRAW_MS="0"))
            os.close(slave)
            shown = b""
            try:
                while part := os.read(master, 4096):
                    shown += part
            except OSError:  # how a pty says that its other end is closed
                pass
            os.close(master)
            check(p.wait() == 0, "%s: exit %d: %r" % (" ".join(words), p.returncode, shown[-200:]))
            out.seek(0)
            return out.read(), shown


def same_float(stored, printed):
    return stored == struct.unpack("f", struct.pack("f", printed))[0]


def without_gpu(t):
    """gpu.devices is none: info says so in one line, and stats why each request ran on the CPU."""
    info = t.json("info")[0]
    check(info["limits"], "info --json has limits")
    check(info["ready"] and info["loading"]["bytes"] == 0 and info["left_out"] == [],
          "info --json: nothing is on its way: %s" % info)
    check(info["gpu"].startswith("absent: ") and info["gpus"] == [], "info --json: %s" % info)
    lines = [l for l in t.run("info").stdout.splitlines() if l.startswith("gpu ")]
    check(len(lines) == 1 and lines[0].split(None, 1)[1].startswith("absent: "),
          "info says why there is no GPU, in one line: %s" % lines)
    t.run("knn", "v", "--query-id", "7", "-k", "3")
    stats = t.json("stats")[0]
    check(stats["peers"][0]["own"] and stats["peers"][0]["connections"] >= 1, "its own row is first")
    ran = sum(r["requests"] for r in stats["routes"])
    check(0 < ran <= sum(o["requests"] for o in stats["operations"]), "each is counted once")
    check(stats["gpus"] == [] and stats["requests_by_backend"] == {"cpu": ran, "gpu": 0, "both": 0},
          "stats --json: all %d requests ran on the CPU: %s" % (ran, stats))
    check(("cpu", "gpu_absent") in [(r["backend"], r["reason"]) for r in stats["routes"]],
          "stats --json: routes: %s" % stats["routes"])
    shown = t.run("stats").stdout
    check("gpu_absent" in shown and "no GPU is in use" in shown, "stats: " + shown)
    about = t.json("collection", "describe", "v")[0]
    check(about["vram_bytes"] == about["vram_version"] == 0, "describe --json: %s" % about)


def decided(t):
    """The newest decision is about the request before it, and only this space sees it."""
    knn = t.json("knn", "v", "--query-id", "7", "-k", "3")[0]
    told = t.json("explain", "--last", "3")[0]
    last = [d for d in told["decisions"] if d["operation"] == "knn"][0]
    check(len(told["decisions"]) == 3, "explain --last 3: %s" % told["decisions"])
    check(last["queries"] == 1 and last["rows"] == ROWS and last["k"] == 3 and last["well"] and
          last["dimension"] == DIMENSION, "explain tells of the request before it: %s" % last)
    check((last["backend"], last["reason"]) == (knn["backend"], knn["reason"]),
          "explain and the reply agree: %s, %s" % (last, knn))
    check(last["batch"] == 1 and knn["batch"] in (0, 1), "alone: %s, %s" % (last, knn))
    check(last[last["backend"] + "_ns"] == knn["predicted_ns"] > 0,
          "what was predicted: %s, %s" % (last, knn))
    check(last["took_ns"] > 0 and last["ratio"] > 0, "and what it took: %s" % last)
    check(t.json("explain", "--last", "0")[0]["decisions"] == [], "explain --last 0")
    check(t.json("--space", "stranger", "explain")[0]["decisions"] == [], "another space's are hid")
    return told


def explains(t):
    told = decided(t)
    names = [o["name"] for o in told["operations"]]
    check(names == ["knn", "similarity", "score_candidates", "weighted_average", "spread",
                    "spread_engram", "bind", "complete", "covariance",
                    "complete_engine", "cluster"], names)
    for o in told["operations"]:
        check(all(o[b][c] >= 0 for b in ("cpu", "gpu") for c in
                  ("fixed_ns", "row_byte_ns", "product_ns", "query_ns", "score_ns",
                   "moved_byte_ns")), "costs are not negative: %s" % o)
        check(all(0 <= o[b]["confidence"] <= 1 and 0 <= o[b]["success"] <= 1 and
                  o[b]["drift"] > 0 for b in ("cpu", "gpu")), "sure, success, drift: %s" % o)
    knn = told["operations"][0]
    check([x["queries"] for x in knn["crossovers"]] == [1, 8, 64, 512], knn["crossovers"])
    check(knn["cpu"]["seen"] > 0, "it has learnt from the CPU's runs: %s" % knn)
    check(told["gpu"].startswith("absent: ") and told["settings"]["force"] == "none", told["gpu"])
    check(told["settings"]["pairs_min"] > 0 and told["settings"]["batch_wait_ns"] > 0 and
          told["settings"]["speedup_percent"] == 150, "settings: %s" % told["settings"])
    shown = t.run("explain").stdout
    check(all(word in shown for word in ("costs", "learnt", "GPU faster", "queries x rows x dim",
                                         "gpu_absent", "1 x 3,000 x 64", "give or take")), shown)
    check("queries x rows" not in t.run("explain", "-n", "0").stdout, "-n 0 shows no decisions")
    stats = t.json("stats")[0]
    check(stats["scheduler"]["decisions"] >= 2 and stats["space"]["connections"] == 1 and
          stats["space"]["weight"] == 1 and stats["space"]["host_bytes"] > 0 and
          stats["space"]["cpu"]["requests"] > 0 and stats["space"]["gpu"]["requests"] == 0,
          "stats of the scheduler: %s %s" % (stats["scheduler"], stats["space"]))
    check(stats["pressure"] == {"low": False, "shrunk_batches": 0, "shrunk_runs": 0,
                                "split_runs": 0, "evictions": 0, "cpu": 0}, stats["pressure"])
    ran = t.run("knn", "v", "--query-id", "7").stderr
    check("; predicted " in ran and "other" not in ran, "there was no choice: " + ran)


def answers(t):
    t.run("load", "v", "v.npy", "--create", "--metric", "cosine")
    check(t.json("ping")[0] is not None, "ping --json")
    without_gpu(t)
    explains(t)
    check([c["name"] for c in t.json("collection", "list")[0]] == ["v"], "collection list")
    hits = t.json("knn", "v", "--queries", "v.npy", "-k", "5")
    check(len(hits) == ROWS and all(h["hits"][0]["id"] == h["query"] for h in hits),
          "each row is its own nearest")
    t.run("knn", "v", "--queries", "v.npy", "-k", "5", "--out", "near")
    shape, ids = read_npy("near.ids.npy")
    score_shape, scores = read_npy("near.scores.npy")
    check(shape == score_shape == (ROWS, 5), "shapes of the files: %s %s" % (shape, score_shape))
    check(all(ids[5 * q + r] == h["id"] and same_float(scores[5 * q + r], h["score"])
              for q, line in enumerate(hits) for r, h in enumerate(line["hits"])),
          "files and --json hold the same ids and bits")
    t.run("similarity", "v", "--queries", "v.npy", "--out", "all.npy")
    shape, matrix = read_npy("all.npy")
    columns = list(read_npy("all.ids.npy")[1])
    check(shape == (ROWS, ROWS), "similarity's shape %s" % (shape,))
    check(all(matrix[ROWS * q + columns.index(ids[5 * q + r])] == scores[5 * q + r]
              for q in (0, 17, ROWS - 1) for r in range(5)), "similarity has the scores of knn")
    best = t.json("score", "v", "--queries", "q.npy", "--candidates", "candidates.npy", "-k", "2")
    check(best[1]["hits"][0]["id"] == 1, "score ranks a row's own id first")
    found = t.json("fetch", "v", "0", "5", "77777")
    check([f["found"] for f in found] == [True, True, False], "fetch says what it has not")
    allowed = t.json("knn", "v", "--queries", "q.npy", "--allow", "candidates.npy", "-k", "10")
    check(sorted(h["id"] for h in allowed[0]["hits"]) == [0, 1, 2, 3, 4], "--allow")
    deleted = t.json("delete", "v", "0", "99999")[0]
    check(deleted["deleted"] == 1 and deleted["missing"] == 1, "delete counts")
    bench = t.json("bench", "--seconds", "0.3", "--rows", "500", "--dim", "16")[0]
    check(bench["errors"] == 0 and bench["requests"] > 0, "bench")
    check(len(t.json("collection", "list")[0]) == 1, "bench drops its collection")
    bench = t.json("bench", "--seconds", "0.5", "--connections", "32", "--collection", "v")[0]
    shared = t.json("stats")[0]["space"]["cpu"]
    check(1 < bench["daemon"]["batch_max"] <= 32 and shared["batches"] > 0 and
          shared["batched_requests"] >= 2 * shared["batches"],
          "32 at once share runs, and replies say so: %s %s" % (bench["daemon"], shared))
    check(bench["daemon"]["predicted_ns"] > 0, "predictions: %s" % bench["daemon"])


def refusals(t):
    for words, code in [
            (["bogus"], 2), (["knn"], 2), (["knn", "v"], 2), (["fetch", "v", "x"], 2),
            (["explain", "--last", "65"], 2), (["explain", "v"], 2), (["explian"], 2),
            (["--timeout", "0", "ping"], 2), (["--tcp", "h:1", "--socket", "x", "ping"], 2),
            (["collection", "create", "ab", "--dim", "3", "--metric", "l3"], 2),
            (["collection", "create", "a b", "--dim", "3", "--metric", "l2"], 1),
            (["collection", "drop", "zz"], 1), (["knn", "v", "--query-id", "88888888"], 1),
            (["knn", "v", "--queries", "q.npy", "-k", "99999"], 1),
            (["knn", "v", "--queries", "none.npy"], 4),
            (["load", "v", "candidates.npy"], 4), (["load", "v", "cut.npy"], 4),
            (["similarity", "v", "--queries", "q.npy", "--out", "/dev/full"], 4),
            (["knn", "v", "--queries", "q.npy", "--names", "/nonexistent"], 4)]:
        p = t.run(*words, code=code)
        check(p.stderr.startswith("engram-accel"), "%s says who speaks: %s" % (words, p.stderr))


def interrupts(t):
    line = array.array("f", [random.random() for _ in range(256 * 1000)]).tobytes()
    with open("big.fbin", "wb") as f:
        f.write(struct.pack("<II", 200000, 256))
        for _ in range(200):
            f.write(line)
    t.run("collection", "create", "big", "--dim", "256", "--metric", "dot")
    p = t.popen("load", "big", "big.fbin", "--json", stdout=subprocess.PIPE)
    until("the first rows", lambda: t.json("collection", "describe", "big")[0]["rows"] > 0)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate()
    rows = t.json("collection", "describe", "big")[0]["rows"]
    if p.returncode == 130:
        check(json.loads(out.splitlines()[0])["rows_loaded"] == rows, "Ctrl-C in load tells how many rows are in")
    else:
        check(p.returncode == 0 and rows == 200000, "load was faster than Ctrl-C: " + err)
    shown = t.on_terminal("load", "big", "big.fbin")[1]
    check(b"%" in shown, "a progress bar on a terminal: %r" % shown[:80])
    p = t.popen("similarity", "big", "--queries", "big.fbin", "--out", "torn.npy")
    until("the file's beginning", lambda: [f for f in os.listdir(".") if f.startswith("torn")])
    p.send_signal(signal.SIGINT)
    p.communicate()
    check(p.returncode == 130 and not [f for f in os.listdir(".") if f.startswith("torn")],
          "Ctrl-C leaves no torn file: exit %d" % p.returncode)


def asked(t, operation):
    stats = json.loads(t.run("stats", "--json").stdout)
    return sum(o["requests"] for o in stats["operations"] if o["name"] == operation)


def vanished(t, daemon):
    p = t.popen("bench", "--seconds", "600", "--operation", "ping", stdout=subprocess.DEVNULL)
    until("bench's requests", lambda: asked(t, "ping") > 100)
    daemon.kill()
    daemon.wait()
    check(p.wait() == 3, "a daemon killed under bench: exit %d" % p.returncode)
    t.run("ping", code=3)
    mute = socket.socket(socket.AF_UNIX)
    mute.bind("mute")
    mute.listen(1)
    Tool("mute").run("--timeout", "0.3", "ping", code=5)


def until(what, question, seconds=300):
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            check(False, "waited %d s for %s" % (seconds, what))
            return
        time.sleep(0.05)


def start_daemon(path, *settings):
    always = ("log.level=error", "memory.max_mib=2048", "sched.calibrate=false")
    words = [w for s in always + settings for w in ("--set", s)]
    with open(path + ".json", "w") as settings_file: # which "reload" reads
        settings_file.write("{}")
    daemon = subprocess.Popen([os.path.join(BUILD, "engram-acceld"), "--config", path + ".json",
                               "--socket", path] + words)
    until("the daemon's socket", lambda: os.path.exists(path))
    return daemon


def beside_a_daemon(run):
    """All of a script: run(tool) in a folder of its own, beside a daemon there. Gives the exit
    code."""
    global BUILD
    BUILD = os.path.abspath(BUILD)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        daemon = start_daemon("socket", "gpu.devices=none")
        try:
            run(Tool("socket"))
        finally:
            daemon.kill()
            daemon.wait()
            os.chdir("/")
    print("%d checks failed" % checks.failures)
    return 1 if checks.failures else 0


def gpu_process(daemon):
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % number, "rb") as f:
                words = f.read().split(b"\0")
            with open("/proc/%s/stat" % number) as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if words[0].endswith(b"engram-accel-gpu") and parent == daemon.pid:
            return int(number)
    raise RuntimeError("no GPU process")


def with_gpu(t, daemon):
    """A simulated GPU: what info, stats and describe show of one that works, and of its restart."""
    def gpu():
        return t.json("info")[0]["gpus"][0]

    until("the GPU", lambda: gpu()["state"] == "ready")
    about = gpu()
    check(about["simulated"] and about["why"] == "" and 0 < about["budget_bytes"] < 64 << 20,
          "info --json: %s" % about)
    t.run("load", "v", "v.npy", "--create", "--metric", "cosine")
    hits = t.json("knn", "v", "--query-id", "7", "-k", "3")[0]["hits"]
    ran = {r["backend"]: r["requests"] for r in t.json("stats")[0]["routes"]
           if r["reason"] == "forced"}
    check(ran == {"gpu": 1}, "forced to the GPU: %s" % ran)
    until("its count of replicas",  # which it writes every 100 ms
          lambda: t.json("stats")[0]["gpus"][0]["replicas"] == 1)
    work = t.json("stats")[0]["gpus"][0]
    check(work["runs"] >= 1 and work["uploads"] >= 1 and
          work["upload_bytes"] >= ROWS * DIMENSION * 4, "stats of the GPU: %s" % work)
    c = t.json("collection", "describe", "v")[0]
    check(c["vram_bytes"] > c["row_bytes"] and c["vram_version"] == c["version"],
          "describe --json: %s" % c)
    shown = t.run("stats").stdout
    last = [d for d in t.json("explain")[0]["decisions"] if d["reason"] == "forced"][0]
    check(last["backend"] == "gpu" and last["gpu"] == 0 and last["gpu_ns"] > 0,
          "explain: %s" % last)
    check("gpu0" in t.run("explain").stdout, "explain names the GPU")
    check("forced         to the gpu (gpu.force)" in t.run("explain").stdout, "explain: forced")
    use = t.json("stats")[0]["space"]["gpu"]
    check(use["requests"] >= 1 and use["busy_ns"] > 0, "this space's use of the GPU: %s" % use)
    check("1 replica " in shown and "busy" in shown and "forced" in shown, "stats: " + shown)
    os.kill(gpu_process(daemon), signal.SIGKILL)
    until("its restart", lambda: gpu()["restarts"] == 1 and gpu()["state"] == "ready")
    check(t.json("knn", "v", "--query-id", "7", "-k", "3")[0]["hits"] == hits, "the same hits")
    check(t.json("stats")[0]["errors_total"] == 0, "no client saw an error")
    check("1 restart" in t.run("info").stdout, "info tells of the restart")
    page = t.run("bench", "--report", "--seconds", "0.02", "--rows", "64").stdout
    check("predicted from" in page and "measured, rows of 768" in page, page)
    for line in page.split("measured, rows")[1].splitlines()[1:]:
        check(re.search(r"predicted .*, measured ((never up to )?[\d,]+( or fewer)?|not)", line),
              "a measured break-even: " + line)
    now = t.json("config", "get", "gpu.force")[0][0]
    check(now["value"] == "gpu" and now["source"] == "set", "gpu.force is set back: %s" % now)


def main():
    global BUILD
    BUILD = os.path.abspath(BUILD)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        random.seed(1)
        values = [random.gauss(0, 1) for _ in range(ROWS * DIMENSION)]
        write_npy("v.npy", "f", "(%d, %d)" % (ROWS, DIMENSION), values)
        write_npy("q.npy", "f", "(3, %d)" % DIMENSION, values[:3 * DIMENSION])
        write_npy("candidates.npy", "Q", "(5,)", [0, 1, 2, 3, 4])
        with open("v.npy", "rb") as f, open("cut.npy", "wb") as g:
            g.write(f.read()[:-7])
        daemon = start_daemon("socket", "gpu.devices=none")
        simulated = start_daemon("simulated", "gpu.devices=sim", "gpu.sim=vram_mib=64",
                                 "gpu.force=gpu")
        tool = Tool("socket")
        try:
            answers(tool)
            refusals(tool)
            interrupts(tool)
            with_gpu(Tool("simulated"), simulated)
            vanished(tool, daemon)
        finally:
            for process in daemon, simulated:
                process.kill()
                process.wait()
            os.chdir("/")
    print("%d checks failed" % checks.failures)
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
