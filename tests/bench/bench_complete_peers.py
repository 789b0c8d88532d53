#!/usr/bin/env python3
"""bench_complete_peers: one round of completion over unit rows by numpy (two matrix products and a
softmax, float32) and by ours (bench_complete --once), in turn, one thread each, the processor's
seconds.

    bench_complete_peers.py [--build build/release] [--runs N] [--variant NAME]

Peers live in a virtual environment: pip install numpy threadpoolctl. OPENBLAS_* are unset.
"""
import argparse
import os
import statistics
import subprocess
import time

for variable in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[variable]

import numpy as np
import threadpoolctl

SHAPES = [(1024, 768), (20000, 768), (100000, 384)]
STATES = [1, 8, 64, 128]
BETA = np.float32(32)


def complete(rows, states):
    scores = states @ rows.T
    scores -= scores.max(axis=1, keepdims=True)
    scores *= BETA
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores @ rows


def peer(rows, states, runs):
    times = []
    for _ in range(runs):
        start = time.process_time()
        complete(rows, states)
        times.append(time.process_time() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--variant", default="auto")
    args = parser.parse_args()
    program = os.path.join(args.build, "tests/bench/bench_complete")
    threadpoolctl.threadpool_limits(1)
    print("numpy", np.__version__, [(p["internal_api"], p["version"], p["architecture"])
                                    for p in threadpoolctl.threadpool_info()])
    print("%8s %6s %8s %12s %12s %8s" % ("rows", "d", "states", "ours ms", "numpy ms", "ratio"))
    generator = np.random.default_rng(7)
    for count, dimension in SHAPES:
        rows = generator.normal(size=(count, dimension)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for n in STATES:
            states = np.ascontiguousarray(rows[:n])
            states[:, dimension // 3:] = 0
            complete(rows, states)
            said = subprocess.run([program, "--once", str(count), str(dimension), str(n),
                                   args.variant, str(args.runs)], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.split()
            theirs, ours = peer(rows, states, args.runs), float(said[2])
            print("%8d %6d %8d %12.3f %12.3f %7.2fx" % (count, dimension, n, ours * 1e3,
                                                        theirs * 1e3, theirs / ours), flush=True)


if __name__ == "__main__":
    main()
