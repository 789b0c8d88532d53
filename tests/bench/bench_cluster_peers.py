#!/usr/bin/env python3
"""bench_cluster_peers: clusters of rows that lie in a daemon, beside scipy's linkage of the same rows.

    bench_cluster_peers.py [--build build/release] [--rows N] [--dim D] [--runs N]

Needs numpy and scipy. Prints seconds of the clock and of processors for each kind of data and rule, and
scipy's for its distances and its linkage, in turn with ours.
"""
import argparse
import os
import re
import subprocess
import tempfile
import time

import numpy as np
import scipy
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist


def planted(random, rows, dim, size):
    centers = random.normal(size=(rows // size, dim))
    return centers[np.arange(rows) % len(centers)] + 0.4 * random.normal(size=(rows, dim))


def chain(random, rows, dim):
    x = np.empty((rows, dim))
    x[0] = random.normal(size=dim)
    for i in range(1, rows):
        x[i] = 0.92 * x[i - 1] + 0.39 * random.normal(size=dim)
    return x


def star(random, rows, dim):
    return random.normal(size=dim) + 0.45 * random.normal(size=(rows, dim))


def processor_seconds(process):
    with open("/proc/%d/stat" % process, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ours(tool, daemon, name, rule):
    began, used = time.perf_counter(), processor_seconds(daemon.pid)
    said = subprocess.run(tool + ["cluster", name, "--rule", rule, "--show", "0"], check=True,
                          capture_output=True, text=True).stderr
    seconds, used = time.perf_counter() - began, processor_seconds(daemon.pid) - used
    merges, scans = re.search(r"([\d,]+) merges?, ([\d.]+) scans", said).groups()
    return seconds, used, merges, scans


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--runs", type=int, default=3)
    a = parser.parse_args()
    random = np.random.default_rng(1)
    data = {"planted20": planted(random, a.rows, a.dim, 20),
            "planted100": planted(random, a.rows, a.dim, 100),
            "chain": chain(random, a.rows, a.dim),
            "star": star(random, a.rows, a.dim)}
    with tempfile.TemporaryDirectory() as work:
        socket = os.path.join(work, "socket")
        daemon = subprocess.Popen([os.path.join(a.build, "engram-acceld"), "--socket", socket,
                                   "--set", "gpu.devices=none"], stderr=subprocess.DEVNULL)
        tool = [os.path.join(a.build, "engram-accel"), "--socket", socket]
        try:
            while subprocess.run(tool + ["ping"], capture_output=True).returncode:
                time.sleep(0.1)
            for name, rows in data.items():
                path = os.path.join(work, name + ".npy")
                np.save(path, rows.astype("f4"))
                subprocess.run(tool + ["load", name, path, "--create", "--metric", "cosine"],
                               check=True, capture_output=True)
            for _ in range(a.runs):
                for name in data:
                    for rule in ("centroid", "average"):
                        print("%-10s %-8s %6.2f s, %5.2f s of processors, %s merges, "
                              "%s scans a merge" %
                              ((name, rule) + ours(tool, daemon, name, rule)), flush=True)
                times = [(time.perf_counter(), time.process_time())]
                distances = pdist(data["planted20"])
                times.append((time.perf_counter(), time.process_time()))
                linkage(distances, "centroid")
                times.append((time.perf_counter(), time.process_time()))
                clock, used = ([b[i] - a[i] for a, b in zip(times, times[1:])] for i in (0, 1))
                print("planted20  scipy %s: distances %.2f s, linkage %.2f s; of processors %.2f "
                      "and %.2f s" % (scipy.__version__, clock[0], clock[1], used[0], used[1]),
                      flush=True)
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
