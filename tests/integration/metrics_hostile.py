"""metrics_hostile BUILD COUNT: clients over HTTP that are long, slow, many, broken, that name
another host or no token. None sees a number, each is let go, and kNN is answered meanwhile, the
same. From 20,000 on, how long kNN takes is measured before and meanwhile, and told."""
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

from metrics_daemon import Daemon, GIVE_UP_S, ask, bearer, connect

BUILD, COUNT = sys.argv[1], int(sys.argv[2])
THREADS = 8
MEASURED_FROM = 20000
SEED = int(os.environ.get("SEED", "1"))
LOCAL = b"Host: localhost\r\n"


def get(path=b"/metrics", more=b"", host=LOCAL, version=b"HTTP/1.1", method=b"GET"):
    return method + b" " + path + b" " + version + b"\r\n" + host + more + b"\r\n"


def noise(r, most):
    return bytes(r.randrange(256) for _ in range(r.randrange(1, most)))


def broken(r):
    """The wrong parts of a request, put together by chance."""
    whole = bytearray(get(more=b"Authorization: Bearer x\r\nContent-Length: 5\r\n"))
    for _ in range(r.randrange(1, 6)):
        at = r.randrange(len(whole))
        whole[at:at + r.randrange(4)] = noise(r, 4)
    return bytes(whole)


KINDS = [
    ("no token", lambda r: get(r.choice([b"/metrics", b"/slow.json", b"/", b"/page.js"]))),
    ("wrong token", lambda r: get(r.choice([b"/metrics", b"/slow.json", b"/"]), more=b"Authorization: Bearer %d\r\n" % r.randrange(10**9))),
    ("token as a query", lambda r: get(b"/metrics?token=x&access_token=x")),
    ("nonsense for a token", lambda r: get(more=b"Authorization: Basic " + b"=" * r.randrange(2000)
                                           + b"\r\n")),
    ("wrong host", lambda r: get(host=b"Host: evil.example\r\n", path=r.choice(
        [b"/metrics", b"/healthz", b"/readyz"]))),
    ("no host", lambda r: get(host=b"")),
    ("two hosts", lambda r: get(host=LOCAL + b"Host: evil.example\r\n")),
    ("whole address", lambda r: get(b"http://evil.example/metrics")),
    ("long path", lambda r: get(b"/" + b"x" * r.randrange(1, 60000))),
    ("long header", lambda r: get(more=b"X: " + b"y" * r.randrange(1, 60000) + b"\r\n")),
    ("many headers", lambda r: get(more=b"A: b\r\n" * r.randrange(1, 4000))),
    ("endless line", lambda r: b"G" * r.randrange(1, 100000)),
    ("body", lambda r: get(method=b"POST", more=b"Content-Length: 1000000\r\n") + b"z" * 30000),
    ("chunks", lambda r: get(method=b"PUT", more=b"Transfer-Encoding: chunked\r\n") +
     b"ffffffffffffffff\r\n" + noise(r, 100)),
    ("climbing path", lambda r: get(r.choice([b"/../metrics", b"/%2e%2e/metrics", b"//metrics",
                                              b"/metrics%00", b"/metrics/", b"/m%65trics"]))),
    ("other methods", lambda r: get(method=r.choice([b"TRACE", b"OPTIONS", b"CONNECT", b"get",
                                                     b"PRI", b"X" * 500]))),
    ("other versions", lambda r: get(version=r.choice([b"HTTP/0.9", b"HTTP/2.0", b"HTTP/9", b""]))),
    ("http 2", lambda r: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise(r, 60)),
    ("several at once", lambda r: get() * r.randrange(2, 30)),
    ("broken", broken),
    ("noise", lambda r: noise(r, 300)),
    ("empty", lambda r: b""),
]


class Hostile(threading.Thread):
    def __init__(self, at, number, count):
        super().__init__()
        self.at, self.r, self.count = at, random.Random(SEED * 1000 + number), count
        self.wrong, self.held, self.seen = [], [], {}

    def one(self):
        name, make = self.r.choice(KINDS)
        manner = self.r.choice(["whole", "whole", "whole", "cut", "reset", "held"])
        data = make(self.r)
        if manner == "cut":
            data = data[:self.r.randrange(len(data) + 1)]
        s = connect(self.at)
        try:
            s.sendall(data)
            if manner == "held":  # it stays, sends nothing more and reads nothing
                self.held.append(s)
                if len(self.held) > 3:
                    self.held.pop(0).close()
                return
            if manner == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
                return
            s.shutdown(socket.SHUT_WR)
            self.read(s, name)
        except (ConnectionResetError, BrokenPipeError):
            pass
        except OSError as e:
            if e.errno != 107:  # it was cut before it could be shut
                raise
        s.close()

    def read(self, s, name):
        said = b""
        while True:
            more = s.recv(65536)
            if not more:
                break
            said += more
        status = said.split(b" ", 2)[1][:3].decode() if said.startswith(b"HTTP/") else "closed"
        self.seen[status] = self.seen.get(status, 0) + 1
        if b"engram_" in said:
            self.wrong.append("%s: %r" % (name, said[:200]))
        elif said and status == "200" and said.split(b"\r\n\r\n", 1)[1] not in (b"ok\n", b"ready\n"):
            self.wrong.append("%s: %r" % (name, said[:200]))

    def run(self):
        for _ in range(self.count):
            try:
                self.one()
            except socket.timeout:
                self.wrong.append("a client is neither answered nor let go")
        for s in self.held:
            s.close()


def descriptors(d):
    return len(os.listdir("/proc/%d/fd" % d.process.pid))


def spent_ms(d):
    """Time on a processor so far, of the loop and of HTTP's thread; 0 where the kernel tells none."""
    folder, spent = "/proc/%d/task/" % d.process.pid, {"loop": 0, "http": 0}
    for thread in os.listdir(folder):
        try:
            with open(folder + thread + "/comm", encoding="utf-8") as f:
                name = f.read().strip()
            with open(folder + thread + "/schedstat", encoding="utf-8") as f:
                spent["loop" if int(thread) == d.process.pid else name] = \
                    int(f.read().split()[0]) / 1e6
        except FileNotFoundError:
            pass
    return spent["loop"], spent["http"]


def start_bench(d, seconds):
    return subprocess.Popen(
        [BUILD + "/engram-accel", "--socket", d.socket, "--json", "bench", "--rows", "20000",
         "--seconds", str(seconds), "--rate", "200"], stdout=subprocess.PIPE, text=True)


def p99(text):
    """In milliseconds."""
    return json.loads(text.splitlines()[-1])["p99_ns"] / 1e6


def main():
    d = Daemon(BUILD)
    d.settings += ["metrics.listen=127.0.0.1:0", "metrics.token_file=" + d.write_token("sec-ret")]
    d.start()
    at = d.address()
    r = random.Random(SEED)
    with open(d.folder + "/rows.csv", "w", encoding="utf-8") as f:
        f.write("id,x\n")
        for i in range(500):
            f.write("%d,%s\n" % (i, ",".join("%.3f" % r.gauss(0, 1) for _ in range(16))))
    d.tool("load", "rows", d.folder + "/rows.csv", "--create", "--metric", "cosine")
    knn = ["--json", "knn", "rows", "--query-id", "7", "-k", "5"]

    def answer():
        """What a kNN finds, without what it took."""
        found = json.loads(d.tool(*knn).splitlines()[0])
        return [found.get("ids"), found.get("scores"), found.get("hits")]
    wanted, fds, wrong = answer(), descriptors(d), []
    measured = COUNT >= MEASURED_FROM
    before = p99(start_bench(d, 20).communicate(timeout=GIVE_UP_S * 10)[0]) if measured else None
    hostile = [Hostile(at, i, COUNT // THREADS) for i in range(THREADS)]
    begun, asked, spent = time.monotonic(), 0, spent_ms(d)
    bench = start_bench(d, 20) if measured else None
    for h in hostile:
        h.start()
    while any(h.is_alive() for h in hostile):
        if answer() != wanted:
            wrong.append("kNN is answered otherwise")
        asked += 1
        time.sleep(0.05)
    took = time.monotonic() - begun
    spent = spent, spent_ms(d)
    seen = {}
    for h in hostile:
        h.join()
        wrong += h.wrong
        for status, n in h.seen.items():
            seen[status] = seen.get(status, 0) + n
    if bench:
        meanwhile = p99(bench.communicate(timeout=GIVE_UP_S * 10)[0])
        print("kNN's p99: %.2f ms before, %.2f ms meanwhile" % (before, meanwhile))
    if not any(wanted):
        wrong.append("kNN found nothing to compare")
    end = time.monotonic() + GIVE_UP_S
    while descriptors(d) > fds and time.monotonic() < end:
        time.sleep(0.05)
    if descriptors(d) > fds:
        wrong.append("%d descriptors, %d before" % (descriptors(d), fds))
    if ask(at, "/metrics", headers=bearer("sec-ret"))[0] != 200:
        wrong.append("no metrics afterwards")
    end = time.monotonic() + GIVE_UP_S
    while ask(at, "/readyz")[0] != 200 and time.monotonic() < end:
        time.sleep(0.05)
    if ask(at, "/readyz")[0] != 200:
        wrong.append("not ready afterwards: " + ask(at, "/readyz")[1])
    if d.stop() != 0:
        wrong.append("exit code")
    print("on a processor meanwhile: loop %.0f ms, kNN included; HTTP's thread %.0f ms" % tuple(
        spent[1][i] - spent[0][i] for i in (0, 1)))
    print("%d hostile requests in %.1f s, %d kNN meanwhile; answers: %s" %
          (COUNT // THREADS * THREADS, took, asked, dict(sorted(seen.items()))))
    for line in wrong[:20]:
        print("FAILED:", line)
    sys.exit(bool(wrong))


main()
