#!/usr/bin/env python3
"""bench_attractor_peers: completion of cues by an attractor of 768 dimensions, 256 numbers known:
in this process by numpy, matrices resident, in another by a daemon over its socket (bench_attractor
--serve), in turn, with the same threads.

    bench_attractor_peers.py [--build build/release] [--runs N] [--threads T] [--cpu]
                             [--scattered]

--scattered: every third number is known, in place of the first 256.
--cpu: the processors' seconds of numpy's process and of the daemon in place of the clock's, for a
machine that others load. The peer lives in a virtual environment: pip install numpy threadpoolctl.
The OPENBLAS_* variables are unset.
"""
import argparse
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

D, KNOWN, PATTERNS = 768, 256, 50
TARGETS = {1: 0.9, 1000: 1.15}


def keep(x, k):
    """The k greatest of each row stay, in place."""
    n = x.shape[1]
    out = np.argpartition(x, n - k, axis=1)[:, :n - k]
    np.put_along_axis(x, out, np.float32(0), axis=1)
    return x


class Numpy:
    def __init__(self):
        f = np.float32
        i = np.arange(10 * D * D, dtype=np.int64)
        self.dentate_t = np.ascontiguousarray((f(0.1) * np.sin(i.astype(f).astype("f8")).astype(f))
                                              .reshape(10 * D, D).T)
        self.w = f(0.01) * np.sin((f(0.1) * i[:D * D].astype(f)).astype("f8")).astype(f)
        self.w = self.w.reshape(D, D)
        random = np.random.default_rng(1)
        self.cues = random.uniform(-1, 1, (1000, D)).astype(f)
        for p in self.cues[:PATTERNS]:
            self.w += f(0.01) * np.outer(p, p)
            if self.w.max() > 1:
                self.w /= self.w.max()
        self.w_t = np.ascontiguousarray(self.w.T)
        self.mask = (np.arange(D) < KNOWN).astype(f)

    def complete(self, count):
        n = count
        a = keep((self.cues[:n] * self.mask) @ self.dentate_t, D // 2)
        s = a.reshape(n, D, 10).sum(axis=2) / np.float32(10)
        active = np.arange(n)
        rounds = np.zeros(n, np.uint32)
        for _ in range(7):
            old = s[active]
            new = keep(1 / (1 + np.exp(-(old @ self.w_t))), round(0.05 * D))
            s[active] = new
            rounds[active] += 1
            active = active[np.linalg.norm(new - old, axis=1) >= 0.01]
            if not active.size:
                break
        return s, 0.9 * (1 - rounds / 7)


def timed(call, repeats, cpu):
    clock = time.process_time if cpu else time.perf_counter
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


class Ours:
    def __init__(self, build, threads, folder, scattered):
        path = os.path.join(folder, "socket")
        self.daemon = subprocess.Popen(
            [os.path.join(build, "engram-acceld"), "--socket", path, "--set",
             f"workers.count={threads}", "--set", "gpu.devices=none"],
            stderr=open(os.path.join(folder, "log"), "w"))
        while not os.path.exists(path):
            if self.daemon.poll() is not None:
                sys.exit(open(os.path.join(folder, "log")).read())
            time.sleep(0.05)
        time.sleep(2)  # it measures itself first
        serve = "--serve-scattered" if scattered else "--serve"
        self.bench = subprocess.Popen([os.path.join(build, "tests/bench/bench_attractor"), path,
                                       serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        self.bench.stdout.readline()

    def ask(self, count, repeats, cpu):
        self.bench.stdin.write(f"{count} {repeats}\n")
        self.bench.stdin.flush()
        return float(self.bench.stdout.readline().split()[2 if cpu else 0])

    def close(self):
        self.bench.stdin.close()
        self.bench.wait()
        self.daemon.terminate()
        self.daemon.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--scattered", action="store_true")
    arguments = parser.parse_args()
    peer = Numpy()
    met = True
    limits = threadpoolctl.threadpool_limits(arguments.threads)
    with limits, tempfile.TemporaryDirectory() as folder:
        for pool in threadpoolctl.threadpool_info():
            print(f"numpy {np.__version__}: {pool['internal_api']} {pool['version']}, "
                  f"{pool['architecture']}, {pool['num_threads']} threads")
        ours = Ours(arguments.build, arguments.threads, folder, arguments.scattered)
        unit = "cpu ms" if arguments.cpu else "ms"
        print(f"  cues {'ours, ' + unit:>14} {'numpy, ' + unit:>14}   ratio  target")
        for count in (1, 8, 64, 1000):
            repeats = max(1, 60 // count)
            times = {"ours": [], "numpy": []}
            for run in range(arguments.runs + 1):
                took = {"ours": ours.ask(count, repeats, arguments.cpu),
                        "numpy": timed(lambda: peer.complete(count), repeats, arguments.cpu)}
                for name, value in took.items() if run else ():  # the first warms up
                    times[name].append(value)
            a, b = (statistics.median(times[name]) for name in ("ours", "numpy"))
            target = TARGETS.get(count)
            missed = target is not None and b / a < target
            met = met and not missed
            print(f"{count:6} {a * 1e3:14.3f} {b * 1e3:14.3f} {b / a:7.2f}  "
                  f"{target or '':6}{'MISSED' if missed else ''}", flush=True)
        ours.close()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
