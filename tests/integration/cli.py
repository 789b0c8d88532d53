"""cli: engram-accel as a user and a script would call it, against the real daemon.

Only the standard library: .npy files are written and read by hand. Each check says what it ran.
"""
import array
import json
import os
import pty
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

BUILD = sys.argv[1]
ROWS, DIMENSION = 3000, 64
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", what)


def write_npy(path, code, shape, values):
    kind = {"f": "<f4", "Q": "<u8"}[code]
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

    def json(self, *words):
        return [json.loads(line) for line in self.run(*words, "--json").stdout.splitlines()]

    def popen(self, *words, **more):
        return subprocess.Popen(self.start + list(words), text=True, stderr=subprocess.PIPE, **more)


def same_float(stored, printed):
    return stored == struct.unpack("f", struct.pack("f", printed))[0]


def without_gpu(t):
    """gpu.devices is none: info says so in one line, and stats why each request ran on the CPU."""
    info = t.json("info")[0]
    check(info["limits"], "info --json has limits")
    check(info["gpu"].startswith("absent: ") and info["gpus"] == [], "info --json: %s" % info)
    lines = [l for l in t.run("info").stdout.splitlines() if l.startswith("gpu ")]
    check(len(lines) == 1 and lines[0].split(None, 1)[1].startswith("absent: "),
          "info says why there is no GPU, in one line: %s" % lines)
    t.run("knn", "v", "--query-id", "7", "-k", "3")
    stats = t.json("stats")[0]
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


def answers(t):
    t.run("load", "v", "v.npy", "--create", "--metric", "cosine")
    check(t.json("ping")[0] is not None, "ping --json")
    without_gpu(t)
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


def refusals(t):
    for words, code in [
            (["bogus"], 2), (["knn"], 2), (["knn", "v"], 2), (["fetch", "v", "x"], 2),
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
    time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate()
    rows = t.json("collection", "describe", "big")[0]["rows"]
    if p.returncode == 130:
        check(json.loads(out)["rows_loaded"] == rows, "Ctrl-C in load tells how many rows are in")
    else:
        check(p.returncode == 0 and rows == 200000, "load was faster than Ctrl-C: " + err)
    master, slave = pty.openpty()
    p = subprocess.Popen(t.start + ["load", "big", "big.fbin"], stdout=subprocess.DEVNULL,
                         stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while True:
            part = os.read(master, 4096)
            if not part:
                break
            shown += part
    except OSError:  # how a pty says that its other end is closed
        pass
    check(p.wait() == 0 and b"%" in shown, "a progress bar on a terminal: %r" % shown[:80])
    p = t.popen("similarity", "big", "--queries", "big.fbin", "--out", "torn.npy")
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    p.communicate()
    check(p.returncode == 130 and not [f for f in os.listdir(".") if f.startswith("torn")],
          "Ctrl-C leaves no torn file: exit %d" % p.returncode)


def vanished(t, daemon):
    p = t.popen("bench", "--seconds", "20", "--operation", "ping", stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    daemon.kill()
    daemon.wait()
    check(p.wait() == 3, "a daemon killed under bench: exit %d" % p.returncode)
    t.run("ping", code=3)
    mute = socket.socket(socket.AF_UNIX)
    mute.bind("mute")
    mute.listen(1)
    Tool("mute").run("--timeout", "0.3", "ping", code=5)


def until(what, question, seconds=20):
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            check(False, "waited %d s for %s" % (seconds, what))
            return
        time.sleep(0.05)


def start_daemon(path, *settings):
    always = ("log.level=error", "memory.max_mib=2048", "sched.calibrate=false")
    words = [w for s in always + settings for w in ("--set", s)]
    daemon = subprocess.Popen([os.path.join(BUILD, "engram-acceld"), "--socket", path] + words)
    until("the daemon's socket", lambda: os.path.exists(path))
    return daemon


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
    check("1 replica " in shown and "busy" in shown and "forced" in shown, "stats: " + shown)
    os.kill(gpu_process(daemon), signal.SIGKILL)
    until("its restart", lambda: gpu()["restarts"] == 1 and gpu()["state"] == "ready")
    check(t.json("knn", "v", "--query-id", "7", "-k", "3")[0]["hits"] == hits, "the same hits")
    check(t.json("stats")[0]["errors_total"] == 0, "no client saw an error")
    check("1 restart" in t.run("info").stdout, "info tells of the restart")


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
    print("%d checks failed" % failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
