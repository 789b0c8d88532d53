"""metrics_hostile BUILD COUNT [PACE]: clients over HTTP that are long, slow, many, broken, that
name another host or no token. None sees a number, each is let go, and kNN is answered meanwhile, the
same. From 20,000 on, kNN's p99 is measured beside them, by turns with intervals in which they ask
another daemon on this machine in the same way, and in which they rest: the first ratio is what they
do to the daemon that they ask, the second what they do to it and to the machine. Of both the median
over all rounds is told, which what else the machine does meets alike."""
import array
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

from metrics_daemon import Daemon, GIVE_UP_S, ask, bearer, connect

BUILD, COUNT = sys.argv[1], int(sys.argv[2])
THREADS = 8
MEASURED_FROM = 20000
INTERVAL_S, ROUNDS = 1, 15  # or more rounds, until all were sent
# A second, where kNN is measured; 0: as fast as they can, which takes two processors by itself.
PACE = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
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


class Aim:
    """Whom they ask; None: nobody, they rest. over: they end."""

    def __init__(self, at):
        self.at, self.over, self.changed = at, False, threading.Condition()

    def turn(self, at, over=False):
        with self.changed:
            self.at, self.over = at, over
            self.changed.notify_all()

    def take(self):
        with self.changed:
            while self.at is None and not self.over:
                self.changed.wait()
            return None if self.over else self.at


class Hostile(threading.Thread):
    """count: how many it sends; None: until it is over."""

    def __init__(self, aim, number, count):
        super().__init__(daemon=True)
        self.aim, self.r, self.count = aim, random.Random(SEED * 1000 + number), count
        self.wrong, self.held, self.seen, self.sent = [], [], {}, {}

    def one(self, at):
        name, make = self.r.choice(KINDS)
        manner = self.r.choice(["whole", "whole", "whole", "cut", "reset", "held"])
        data = make(self.r)
        if manner == "cut":
            data = data[:self.r.randrange(len(data) + 1)]
        s = connect(at)
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
        at, due = self.aim.take(), time.monotonic()
        while at is not None and sum(self.sent.values()) != self.count:
            self.sent[at] = self.sent.get(at, 0) + 1
            try:
                self.one(at)
            except socket.timeout:
                self.wrong.append("a client is neither answered nor let go")
            if PACE and self.count is None:
                due = max(due, time.monotonic() - 0.1) + THREADS / PACE
                time.sleep(max(0, due - time.monotonic()))
            at = self.aim.take()
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


def start():
    d = Daemon(BUILD)
    d.settings += ["metrics.listen=127.0.0.1:0", "metrics.token_file=" + d.write_token("sec-ret")]
    return d.start()


def times(d, meanwhile):
    """p50 and p99 of kNN for an interval, in milliseconds."""
    p = subprocess.Popen(
        [BUILD + "/engram-accel", "--socket", d.socket, "--json", "bench", "--collection", "large",
         "--dim", "384", "--seconds", str(INTERVAL_S), "--rate", "300"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)
    while p.poll() is None:
        meanwhile()
    said = json.loads(p.stdout.read().splitlines()[-1])
    return said["p50_ns"] / 1e6, said["p99_ns"] / 1e6


def measure(d, hostile, aim, meanwhile):
    """Rounds of three intervals, until enough was sent to d."""
    rows = array.array("f", iter(os.urandom(20000 * 384)))
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (20000, 384)}"
    with open(d.folder + "/large.npy", "wb") as f:
        f.write(b"\x93NUMPY\1\0v\0" + (header.ljust(117) + "\n").encode() + rows.tobytes())
    d.tool("load", "large", d.folder + "/large.npy", "--create", "--metric", "cosine")
    other, at, found = start(), d.address(), []
    places = [at, other.address(), None]
    while sum(h.sent.get(at, 0) for h in hostile) < COUNT or len(found) < ROUNDS:
        took = {}
        for place in places:
            aim.turn(place)
            took[place] = times(d, meanwhile)
        found.append((took[at], took[other.address()], took[None]))
        places = places[1:] + places[:1]  # each is the first by turns
    aim.turn(None, over=True)
    other.stop()
    for than, what in ((1, "as they ask another daemon here"), (2, "as they rest")):
        for k, name in enumerate(("p50", "p99")):
            ratios = [f[0][k] / f[than][k] for f in found]
            low, _, high = statistics.quantiles(ratios, n=4)
            print("kNN's %s beside them is %.2f x that %s (median of %d rounds, half lie within %.2f "
                  "and %.2f)" % (name, statistics.median(ratios), what, len(ratios), low, high))
    print("kNN's p99: %.2f ms beside them, %.2f ms while they rest (medians)" % tuple(
        statistics.median(f[i][1] for f in found) for i in (0, 2)))


def main():
    d = start()
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
        said = d.tool_any(*knn)
        if said.returncode:
            return said.stderr
        found = json.loads(said.stdout.splitlines()[0])
        return [found.get("ids"), found.get("scores"), found.get("hits")]
    wanted, fds, wrong, asked = answer(), descriptors(d), [], []

    def compare():
        asked.append(answer())
        time.sleep(0.05)
    measured = COUNT >= MEASURED_FROM
    aim = Aim(None if measured else at)
    hostile = [Hostile(aim, i, None if measured else COUNT // THREADS) for i in range(THREADS)]
    begun, spent = time.monotonic(), spent_ms(d)
    for h in hostile:
        h.start()
    if measured:
        measure(d, hostile, aim, compare)
    while any(h.is_alive() for h in hostile):
        compare()
    wrong += ["kNN is answered otherwise: %s" % a for a in asked if a != wanted][:3]
    took = time.monotonic() - begun
    spent = spent, spent_ms(d)
    seen = {}
    for h in hostile:
        h.join()
        wrong += h.wrong
        for status, n in h.seen.items():
            seen[status] = seen.get(status, 0) + n
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
          (sum(h.sent.get(at, 0) for h in hostile), took, len(asked), dict(sorted(seen.items()))))
    for line in wrong[:20]:
        print("FAILED:", line)
    sys.exit(bool(wrong))


main()
