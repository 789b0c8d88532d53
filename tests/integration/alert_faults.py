"""alert_faults: what makes each alert of config/prometheus fire: a daemon with its settings, and a
generator that brings the fault about. It is advanced again and again, until all its alerts have
fired; what it started ends with it.
A generator gets the daemon and what Prometheus has seen of it: has(EXPRESSION), with %s for the
matcher of that daemon; fired(ALERT)."""
import itertools
import os
import signal
import socket
import subprocess
import time

from held_threads import HeldThreads
from metrics_daemon import GIVE_UP_S

ROWS = 30000  # 3.7 MiB on a card
JOURNAL = ("persist.dir=FOLDER/data", "persist.journal=always")  # FOLDER: the daemon's


class Fault:
    def __init__(self, story, alerts, *settings, sim=None, files=None):
        """sim: of a simulated card, if there is to be one; files: how many the process may open."""
        self.story, self.alerts, self.files = story, alerts, files
        self.settings = list(settings)
        if sim is not None:
            self.settings += ["gpu.devices=sim", "gpu.sim=" + sim, "gpu.force=gpu"]


class Bench:
    """Requests that go on until the fault ends; what becomes of them is no matter."""

    def __init__(self, d, *words):
        self.process = subprocess.Popen(
            [d.build + "/engram-accel", "--socket", d.socket, *words, "--seconds", "7200"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        self.process.kill()
        self.process.wait(GIVE_UP_S)


def rows_file(d, rows):
    path = d.folder + "/rows-%d.csv" % rows
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as f:
            f.write("id,x\n" + "".join("%d,%d,1,0,2\n" % (i, i % 17) for i in range(rows)))
    return path


def load(d, name="rows", rows=2000):
    d.tool("load", name, rows_file(d, rows), "--create", "--metric", "cosine")


def card_process(d):
    """The child of the daemon that has its simulated card."""
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(d.process.pid)],
                              capture_output=True, text=True, check=True).stdout.split()
    return int(children[0])


def benches(*started):
    try:
        while True:
            yield
    finally:
        for b in started:
            b.end()


def wrong_requests(d, _):
    """For what is not there, and more at once than a space may have."""
    refused = Bench(d, "--space", "beta", "bench", "--rows", "2000", "--depth", "64",
                    "--rate", "40")
    try:
        while True:
            d.tool_any("knn", "missing", "--query-id", "7")
            yield
    finally:
        refused.end()


def slow_requests(d, _):
    """Runs of 1.2 s, of which some may take a tenth of that."""
    load(d)
    slow = Bench(d, "bench", "--collection", "rows", "--dim", "4", "--depth", "2", "--rate", "2")
    try:
        while True:
            d.tool_any("--timeout", "0.12", "knn", "rows", "--query-id", "7")
            yield
    finally:
        slow.end()


def crowd(d, _):
    """As many connections as there are places, and others that find no place."""
    held = []
    try:
        while True:
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(d.socket)
            if len(held) > 920:
                held.pop().close()
                yield
    finally:
        for s in held:
            s.close()


def rows_of_zeros(d, count):
    path = d.folder + "/rows.npy"
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 1024)}" % count
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0v\0" + (header.ljust(117) + "\n").encode() +
                bytes(count * 1024 * 4))
    return path


def full_memory(d, _):
    """Collections of 512 KiB, until there is no memory for another."""
    path = rows_of_zeros(d, 128)
    for i in itertools.count():
        d.tool_any("load", "rows%d" % i, path, "--create", "--metric", "dot")
        if i % 10 == 0:
            yield


def stuck_workers(d, _):
    held = HeldThreads(d.process.pid, "worker")
    assert held.count, "no thread is called worker"
    try:
        while True:
            yield
    finally:
        d.process.kill()
        while held.threads:
            held.let_die()
            time.sleep(0.01)


def card_that_crashes(d, _):
    """Whenever it is asked for something."""
    return benches(Bench(d, "bench", "--rows", "2000", "--rate", "20"))


def killed(d, seen):
    """The card's process twice, so that it is started again; then the daemon, three times."""
    for times in (1, 2):
        os.kill(card_process(d), signal.SIGKILL)
        while not seen.has("engram_accel_gpu_restarts_total{%%s} >= %d" % times):
            yield
    while not seen.fired("EngramAccelGpuRestarts"):
        yield
    for times in (1, 2, 3):
        d.process.send_signal(signal.SIGKILL)
        d.process.wait(GIVE_UP_S)
        while not seen.fired("EngramAccelDown"):
            yield
        d.start()
        while not seen.has("changes(process_start_time_seconds{%%s}[15m]) >= %d" % times):
            yield
    while True:
        yield


def small_card(d, _):
    """Twelve collections by turns, of which it holds two."""
    for i in range(12):
        load(d, "rows%d" % i, ROWS)
    while True:
        for i in range(12):
            d.tool("knn", "rows%d" % i, "--query-id", "7", "-k", "3")
        yield


def short_card(d, _):
    """More requests at once, each for a while, than it has memory for."""
    return benches(*[Bench(d, "bench", "--rows", "512", "--dim", "64", "--operation", "similarity",
                           "--batch", "512", "--depth", "16", "--rate", "10") for _ in range(2)])


def sick_card(d, seen):
    """Hot, slowed by that, and with errors of memory that were not there before."""
    while not seen.has("engram_accel_gpu_ecc_errors_total{%s}"):
        yield
    with open(d.nvml, "w", encoding="utf-8") as f:
        f.write("93 1 0x40")
    while True:
        yield


def failing_disk(d, seen):
    """No file may be larger than 64 KiB from now on: neither the journal nor a snapshot."""
    while not seen.has("engram_accel_journal_refusing{%s} == 0"):
        yield
    subprocess.run(["prlimit", "--pid", str(d.process.pid), "--fsize=65536:65536"], check=True)
    d.tool_any("load", "rows", rows_file(d, ROWS), "--create", "--metric", "cosine")
    while True:
        yield


def slow_disk(d, _):
    """A snapshot of 64 MiB at 1 MiB a second, where there is to be one each second."""
    rows_of_zeros(d, 16384)
    d.tool("load", "rows", d.folder + "/rows.npy", "--create", "--metric", "dot")
    while True:
        yield


FAULTS = {
    "requests": Fault(wrong_requests, ("EngramAccelErrors", "EngramAccelRefusing"),
                      "spaces.beta.queue=1", "gpu.job_ms=600000", sim="run_us=100000"),
    "slow": Fault(slow_requests, ("EngramAccelSlow", "EngramAccelDeadlines"),
                  sim="latency_us=1200000"),
    "crowd": Fault(crowd, ("EngramAccelConnectionsRefused", "EngramAccelDescriptors"),
                   "limits.connections=920", "limits.connections_kept=0",
                   "limits.handshake_ms=3600000", files=1000),
    "full": Fault(full_memory, ("EngramAccelMemoryFull",), "memory.max_mib=32"),
    "stuck": Fault(stuck_workers, ("EngramAccelNotReady",)),
    "crashes": Fault(card_that_crashes, ("EngramAccelGpuDown", "EngramAccelGpuFallbacks"),
                     "screen.memory=off", sim="direct=0 fail=1+:crash@topk"),
    "killed": Fault(killed, ("EngramAccelGpuRestarts", "EngramAccelDown",
                             "EngramAccelRestarting"), sim=""),
    "small": Fault(small_card, ("EngramAccelEvictions",), "screen.memory=off", sim="vram_mib=16"),
    "disk": Fault(failing_disk, ("EngramAccelJournalRefusing", "EngramAccelSnapshotsFail"),
                  *JOURNAL),
    "late": Fault(slow_disk, ("EngramAccelSnapshotsLate",), "persist.dir=FOLDER/data",
                  "persist.every_s=1", "persist.mib_per_s=1"),
    "sick": Fault(sick_card, ("EngramAccelGpuHot", "EngramAccelGpuSlowed",
                              "EngramAccelGpuMemoryErrors"), sim=""),
    "short": Fault(short_card, ("EngramAccelVramPressure",), "gpu.job_ms=600000",
                   sim="vram_mib=16 run_us=200000"),
}
