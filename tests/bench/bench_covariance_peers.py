#!/usr/bin/env python3
"""bench_covariance_peers: the covariance of rows that lie in a daemon, and numpy's product of the
same rows, centred, in float64 (y.T @ y, which numpy hands to dsyrk), in turn: the clock's seconds and the
processors' seconds.

    bench_covariance_peers.py [--build build/release] [--rows N] [--dim D] [--runs N] [--threads N]

Peers live in a virtual environment: pip install numpy threadpoolctl. OPENBLAS_* are unset. Converting
and centring the rows is not counted for numpy, and is for the daemon.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

for variable in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[variable]

import numpy as np
import threadpoolctl


def processor_seconds(process):
    with open("/proc/%d/stat" % process, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work, processors):
    start, used = time.perf_counter(), processors()
    answer = work()
    return answer, time.perf_counter() - start, processors() - used


def start_daemon(build, folder, threads):
    path = os.path.join(folder, "socket")
    daemon = subprocess.Popen([os.path.join(build, "engram-acceld"), "--socket", path, "--set",
                               "workers.count=%d" % threads], stderr=subprocess.DEVNULL)
    tool = [os.path.join(build, "engram-accel"), "--json", "--socket", path]
    while subprocess.run(tool + ["ping"], capture_output=True, check=False).returncode:
        if daemon.poll() is not None:
            sys.exit("the daemon ended")
        time.sleep(0.1)
    return daemon, tool


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    threadpoolctl.threadpool_limits(args.threads)
    print("numpy", np.__version__, [(p["internal_api"], p["version"], p["architecture"],
                                     p["num_threads"]) for p in threadpoolctl.threadpool_info()])
    rows = np.random.default_rng(7).normal(size=(args.rows, args.dim)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.npy")
        np.save(path, rows)
        daemon, tool = start_daemon(args.build, folder, args.threads)
        try:
            subprocess.run(tool + ["load", "rows", path, "--create", "--metric", "dot"], check=True,
                           capture_output=True)
            os.unlink(path)
            centred = rows.astype(np.float64)
            del rows
            centred -= centred.mean(axis=0)
            compare(args, daemon, tool, centred)
        finally:
            daemon.terminate()
            daemon.wait()


def compare(args, daemon, tool, centred):
    ours, theirs = [], []
    for _ in range(args.runs + 1):
        told, _, used = timed(lambda: subprocess.run(tool + ["covariance", "rows"], check=True,
                                                     capture_output=True).stdout,
                              lambda: processor_seconds(daemon.pid))
        ours.append((json.loads(told)["run_ns"] / 1e9, used))
        _, wall, used = timed(lambda: centred.T @ centred, time.process_time)
        theirs.append((wall, used))
    flops = args.rows * args.dim * (args.dim + 1)
    for i, what in enumerate(("clock", "processors")):
        a = statistics.median(x[i] for x in ours[1:])
        b = statistics.median(x[i] for x in theirs[1:])
        print("%-10s  ours %.3f s (%.1f GFLOP/s)  numpy %.3f s (%.1f GFLOP/s)  numpy/ours %.2f" %
              (what, a, flops / a / 1e9, b, flops / b / 1e9, b / a))


if __name__ == "__main__":
    main()
