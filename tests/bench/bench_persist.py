#!/usr/bin/env python3
"""bench_persist.py [--build BUILD] [--mib N] [--collections N] [--rounds N] [--dir DIR]: what
snapshots cost, by turns with what a copy of as many bytes costs on the same disk:
- a save, of which every row's file is new, against `cp` and `sync` of the copy;
- short requests' p99 (kNN of one query over 1,000 x 64) beside saves that follow each other, against
  intervals without;
- a start from it with the page cache warm, until all is in, against `cp` to /dev/shm.
DIR (a new folder in /tmp) needs four times --mib, memory twice that."""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from metrics_daemon import Daemon  # noqa: E402

DIMENSION = 768


def timed(*words):
    begun = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def synced(folder):
    return timed("sync", *sorted(glob.glob(folder + "/**", recursive=True)))


def tell(what, ratios, wanted, more=""):
    middle = statistics.median(ratios)
    ok = middle >= wanted[1] if wanted[0] == ">=" else middle <= wanted[1]
    print("%-52s %.2f x (median of %d; %s), %s %.2f: %s%s" %
          (what, middle, len(ratios), ", ".join("%.2f" % r for r in ratios), *wanted,
           "ok" if ok else "missed", more), flush=True)


class Bench:
    def __init__(self, options):
        import numpy
        self.dir = options.dir or tempfile.mkdtemp(prefix="engram-persist-")
        self.made = not options.dir
        self.collections = options.collections
        self.rows = options.mib * 2**20 // (self.collections * DIMENSION * 4)
        self.d = Daemon(options.build, "gpu.force=cpu", "memory.max_mib=%d" % (2 * options.mib + 1024),
                        "persist.dir=%s/snapshots" % self.dir, "persist.on_stop=false",
                        "persist.every_s=0", "persist.keep=1")
        os.makedirs(self.dir + "/snapshots", mode=0o700, exist_ok=True)
        self.d.start()
        random = numpy.random.default_rng(1)
        self.one = self.d.folder + "/one.npy"
        numpy.save(self.one, random.random((1, DIMENSION), dtype=numpy.float32))
        self.id = self.d.folder + "/id.npy"
        numpy.save(self.id, numpy.array([5], dtype=numpy.uint64))
        path = self.d.folder + "/rows.npy"
        for i in range(self.collections):
            numpy.save(path, random.random((self.rows, DIMENSION), dtype=numpy.float32))
            self.d.tool("load", "c%d" % i, path, "--create", "--metric", "cosine")
        numpy.save(path, random.random((1000, 64), dtype=numpy.float32))
        self.d.tool("load", "short", path, "--create", "--metric", "cosine")
        os.remove(path)

    def change(self):
        """One row of each, so that nothing of the last snapshot can be linked."""
        for i in range(self.collections):
            self.d.tool("load", "c%d" % i, self.one, "--ids", self.id)

    def newest(self):
        found = [p for p in glob.glob(self.dir + "/snapshots/*") if os.path.exists(p + "/manifest.json")]
        return max(found, key=os.path.getmtime)

    def save(self):
        self.change()
        begun = time.monotonic()
        self.d.tool("save")
        return time.monotonic() - begun

    def copy(self, to):
        took = timed("cp", "-r", self.newest(), to) + synced(to)
        shutil.rmtree(to)
        return took

    def saves(self, rounds):
        self.save()
        ratios, speeds = [], []
        for _ in range(rounds):
            copied = self.copy(self.dir + "/copy")
            saved = self.save()
            ratios.append(copied / saved)
            size = sum(os.path.getsize(p) for p in glob.glob(self.newest() + "/**", recursive=True)
                       if os.path.isfile(p)) / 2**20
            speeds.append("%.0f and %.0f MiB/s" % (size / saved, size / copied))
        tell("a save against cp and sync of %.0f MiB" % size, ratios, (">=", 0.8),
             "\n    save and cp: " + "; ".join(speeds))

    def p99(self, seconds):
        p = self.d.tool("--json", "bench", "--operation", "knn", "--collection", "short", "--dim", "64",
                        "--rate", "2000", "--seconds", str(seconds))
        return json.loads(p.splitlines()[-1])["p99_ns"] / 1e3

    def beside(self, rounds, seconds):
        ratios, times = [], []
        for _ in range(rounds):
            alone = self.p99(seconds)
            saving = subprocess.Popen(
                ["sh", "-c", 'while "$0" --socket "$1" load c0 "$2" --ids "$3" && '
                 '"$0" --socket "$1" save; do :; done >/dev/null 2>&1',
                 self.d.build + "/engram-accel", self.d.socket, self.one, self.id],
                start_new_session=True)
            time.sleep(0.3)
            with_saves = self.p99(seconds)
            os.killpg(saving.pid, 15)
            saving.wait()
            ratios.append(with_saves / alone)
            times.append("%.0f and %.0f us" % (alone, with_saves))
            time.sleep(1)
        tell("p99 of short requests beside saves", ratios, ("<=", 1.5), "\n    " + "; ".join(times))

    def start(self):
        self.d.process.kill()
        self.d.process.wait()
        subprocess.run("cat '%s'/*/* '%s'/* >/dev/null 2>&1" % (self.newest(), self.newest()),
                       shell=True, check=False)
        begun = time.monotonic()
        self.d.start()
        return time.monotonic() - begun

    def starts(self, rounds):
        ratios, times = [], []
        to = tempfile.mkdtemp(dir="/dev/shm", prefix="engram-persist-")
        for _ in range(rounds):
            subprocess.run("cat '%s'/*/* >/dev/null 2>&1" % self.newest(), shell=True, check=False)
            copied = timed("cp", "-r", self.newest(), to + "/copy")
            shutil.rmtree(to + "/copy")
            started = self.start()
            ratios.append(copied / started)
            times.append("%.2f and %.2f s" % (started, copied))
        os.rmdir(to)
        tell("a start, all in, against cp to /dev/shm", ratios, (">=", 0.7),
             "\n    start and cp: " + "; ".join(times))

    def end(self):
        self.d.stop()
        if self.made:
            shutil.rmtree(self.dir)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mib", type=int, default=4096)
    parser.add_argument("--collections", type=int, default=4, help="that have the MiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="of an interval of short requests")
    parser.add_argument("--dir", help="on the disk that is meant (a new folder in /tmp)")
    options = parser.parse_args()
    print("load before: %.1f" % os.getloadavg()[0])
    b = Bench(options)
    try:
        b.saves(options.rounds)
        b.beside(options.rounds, options.seconds)
        b.starts(options.rounds)
    finally:
        b.end()


main()
