#!/usr/bin/env python3
"""bench_hrr_peers: binding of n pairs of float32 rows, in one process scipy.fft (rfft, product,
irfft), torchhd (HRR's bind) and torch (rfft, product, irfft), in another ours (bench_hrr --serve), in
turn, with the same threads.

    bench_hrr_peers.py [--build build/release] [--runs N] [--threads T] [--cpu]
                       [--variant NAME] [--recall]

--recall: in place of times, 1,000 codebooks of 64 rows: eight pairs are bound and superposed, each
key is unbound, and the nearest row is looked for, by ours and by torchhd: hits and differences.
--cpu: the processor's seconds of a process in place of the clock's, for a machine that others load.
Peers live in a virtual environment: pip install scipy torch-hd. The OPENBLAS_* variables are unset.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

for variable in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[variable]

import numpy as np

DIMENSIONS = [512, 768, 1024, 4096]
COUNTS = [1, 100, 10000]
TARGETS = {"scipy": 1.5, "torchhd": 1.5}


class Ours:
    def __init__(self, build, variant):
        # numpy asks for huge pages for its arrays: the same for ours.
        self.process = subprocess.Popen(
            [os.path.join(build, "tests/bench/bench_hrr"), "--serve", variant],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
        self.name = self.process.stdout.readline().strip()

    def ask(self, d, count, threads, repeats, cpu):
        self.process.stdin.write(f"{d} {count} {threads} {repeats}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[1 if cpu else 0])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peers_of(threads):
    peers = {}
    try:
        import scipy.fft

        def scipy_bind(a, b):
            d = a.shape[1]
            return scipy.fft.irfft(scipy.fft.rfft(a, workers=threads) *
                                   scipy.fft.rfft(b, workers=threads), d, workers=threads)

        peers["scipy"] = (lambda x: x, scipy_bind)
    except ImportError:
        print("SKIP scipy: it is not in this environment")
    try:
        import torch
        import torchhd

        torch.set_num_threads(threads)
        peers["torchhd"] = (lambda x: torch.from_numpy(x).as_subclass(torchhd.HRRTensor),
                            lambda a, b: torchhd.bind(a, b))
        peers["torch"] = (torch.from_numpy,
                          lambda a, b: torch.fft.irfft(torch.fft.rfft(a) * torch.fft.rfft(b),
                                                       a.shape[1]))
    except ImportError:
        print("SKIP torchhd: it is not in this environment")
    return peers


def timed(call, repeats, cpu):
    clock = time.process_time if cpu else time.perf_counter
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def compare(ours, peers, d, count, arguments):
    random = np.random.default_rng(d + count)
    a = random.standard_normal((count, d), dtype=np.float32) / np.float32(np.sqrt(d))
    b = random.standard_normal((count, d), dtype=np.float32) / np.float32(np.sqrt(d))
    repeats = max(1, 400000 // (d * count))
    calls = {name: (lambda bind=bind, x=make(a), y=make(b): bind(x, y))
             for name, (make, bind) in peers.items()}
    times = {name: [] for name in ["ours", *calls]}
    for run in range(arguments.runs + 1):
        took = {"ours": ours.ask(d, count, arguments.threads, repeats, arguments.cpu)}
        for name, call in calls.items():
            took[name] = timed(call, repeats, arguments.cpu)
        for name, value in took.items() if run else ():  # the first warms up
            times[name].append(value)
    middle = {name: statistics.median(values) for name, values in times.items()}
    line = f"  {d:5} x {count:<6}{middle['ours'] / count * 1e6:9.2f}us"
    met = True
    for name in calls:
        ratio = middle[name] / middle["ours"]
        target = TARGETS.get(name)
        missed = target is not None and ratio < target
        met = met and not missed
        line += f"{middle[name] / count * 1e6:10.2f}us{ratio:7.2f}x{'MISSED' if missed else '':6}"
    print(line, flush=True)
    return met


def ours_of(build, form, a, b):
    d = a.shape[-1]
    count = a.size // d
    run = subprocess.run([os.path.join(build, "tests/bench/bench_hrr"), "--apply", str(form), str(d),
                          str(count)], input=a.tobytes() + b.tobytes(), capture_output=True,
                         check=True)
    return np.frombuffer(run.stdout, np.float32).reshape(a.shape)


def recall(build, codebooks=1000, rows=64, bound=8):
    import torch
    import torchhd

    def hrr(x):
        return torch.from_numpy(np.ascontiguousarray(x)).as_subclass(torchhd.HRRTensor)

    worst = 0
    for d in (256, 512, 768, 1000, 1024):
        random = np.random.default_rng(d)
        book = random.standard_normal((codebooks, rows, d), dtype=np.float32) / np.float32(d**0.5)
        keys, values = book[:, :bound], book[:, bound:2 * bound]
        keys, values = np.ascontiguousarray(keys), np.ascontiguousarray(values)
        found = []
        for ours in (True, False):
            if ours:
                memory = ours_of(build, 0, values, keys).sum(1, keepdims=True)
                memory = np.ascontiguousarray(np.broadcast_to(memory, keys.shape))
                got = ours_of(build, 1, memory, keys)
            else:
                memory = torchhd.bind(hrr(values), hrr(keys)).sum(1, keepdim=True)
                got = torchhd.bind(memory, hrr(keys).inverse()).numpy()
            found.append(np.einsum("cbd,crd->cbr", got, book).argmax(2))
        right = np.arange(bound, 2 * bound)
        hits = [(f == right).sum() for f in found]
        differ = (found[0] != found[1]).sum()
        worst += differ
        print(f"  {d:5}: {hits[0]} and torchhd's {hits[1]} hits of {codebooks * bound}, "
              f"{differ} answers differ", flush=True)
    return 1 if worst else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--variant", default="auto")
    parser.add_argument("--recall", action="store_true")
    arguments = parser.parse_args()
    peers = peers_of(arguments.threads)
    if arguments.recall:
        sys.exit(recall(arguments.build))
    ours = Ours(arguments.build, arguments.variant)
    print(f"Binding n pairs with {arguments.threads} thread(s), {ours.name}, a pair's time, medians of "
          f"{arguments.runs} in turn{', processor seconds' if arguments.cpu else ''}; "
          f"targets {TARGETS}")
    print(f"  {'dimension x n':14}{'ours':>11}" + "".join(f"{name:>12}{'ratio':>8}{'':6}"
                                                          for name in peers))
    met = [compare(ours, peers, d, count, arguments) for d in DIMENSIONS for count in COUNTS]
    ours.close()
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
