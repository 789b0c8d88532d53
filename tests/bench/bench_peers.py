#!/usr/bin/env python3
"""bench_peers: kNN through the daemon's socket beside the peers that can be imported here, same
rows, same questions, in turn: on a machine with a card torch (fp32, TF32, fp16), FAISS-GPU and cuVS
brute force; on others faiss-cpu IndexFlat, usearch exact and numpy. Everybody is timed from host
array to host array; processor time is that of all threads of this process and the daemon's, without
a GPU process. Where ids differ, both lists are scored in float64: a row that only rounding put in
another place is not counted, one that was missed is; the bench fails if the daemon missed one.

With a card also: the GPU beside the CPU (both forced by settings) by number of rows, and from how
many rows on the GPU is faster, as the daemon predicts it (`explain`) and as it is measured.

    build/bench-venv/bin/python tests/bench/bench_peers.py [--rows N] [--threads 1 2] [--json FILE]

OPENBLAS_* variables are unset, so that each library chooses its kernels as it does for everybody;
what they chose is printed, and --core names another choice (faiss-cpu 1.15.1 brings an OpenBLAS
that takes new processors for a Prescott; --core SkylakeX is its best). Each number of threads has a
process of its own."""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CHILD = "ENGRAM_BENCH_PEERS_CHILD"  # its parent has set what libraries read when they start
if CHILD not in os.environ:
    for variable in [name for name in os.environ if name.startswith("OPENBLAS_")]:
        del os.environ[variable]

import numpy as np

import knn_sizes
import engram_client
import knn_peers
import knn_rows

# What issue and docs ask for, by peer and queries: peer's time / ours.
ASKED = {"faiss-cpu": {1: 3, 16: 2, 1024: 2}, "read": {1: 2.5},
         "fp16": {1: 1.5, 16: 1.3, 128: 2.0, 1024: 2.2}}
WARM = 14       # searches after which the daemon has its rows in int8 (store/shadow.h)
ROUNDING = 1e-6  # of a cosine in float32


class Read(knn_peers.Peer):
    """What reading the rows once takes, in as many threads; it finds nothing."""
    exact = None

    def __init__(self, threads):
        import concurrent.futures
        self.name, self.threads = "read float32 rows once", threads
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def load(self, rows):
        self.parts = np.array_split(rows.view(np.int32).reshape(-1), self.threads)

    def search(self, queries, k):
        list(self.pool.map(np.max, self.parts))

    def unload(self):
        self.parts = None


class Ours:
    def __init__(self, daemon, rows, card):
        self.name, self.daemon = "ours", daemon
        self.client = daemon.client()
        self.client.create(b"rows", rows.shape[1], engram_client.COSINE)
        self.client.upsert(b"rows", rows)
        self.wanted = 2 if card else 1
        self.found = None
        warm = np.ascontiguousarray(rows[:1])
        deadline = time.monotonic() + 120
        for _ in range(WARM):
            self.search(warm, 10)
        while self.client.meta().backend != self.wanted:
            if time.monotonic() > deadline:
                raise engram_client.ClientError("the card answers nothing: " + daemon.log())
            time.sleep(0.2)
            self.search(warm, 10)

    def search(self, queries, k):
        self.found = self.client.knn(b"rows", queries, k)
        return self.found.astype(np.int64)

    def close(self):
        self.client.drop(b"rows")
        self.client.close()


def processors(daemon):
    return time.process_time() + daemon.processor_s()


def measure(contestants, queries, k, rounds, budget_s, pause_s, daemon):
    """{name: (seconds of each call, processor seconds of each, ids)}: bursts of calls, in turn."""
    out, bursts = {}, {}

    def once(c):
        used, begun = processors(daemon), time.perf_counter()
        ids = c.search(queries, k)
        return time.perf_counter() - begun, processors(daemon) - used, ids

    for c in contestants:
        first, cpu, ids = once(c)
        if first < budget_s:
            first, cpu, ids = once(c)
        # One that takes longer than all of its time is not asked again.
        slow = first > budget_s
        bursts[c.name] = 0 if slow else max(1, min(50, int(budget_s / rounds / first)))
        out[c.name] = ([first], [cpu], ids) if slow else ([], [], ids)
    for _ in range(rounds):
        for c in contestants:
            if not bursts[c.name]:
                continue
            time.sleep(pause_s)  # the last one's threads stop spinning
            c.search(queries, k)
            times, cpu, _ = out[c.name]
            for _ in range(bursts[c.name]):
                took, used, _ = once(c)
                times.append(took)
                cpu.append(used)
    return out


def judge(rows, queries, ours, theirs):
    """(queries whose ids differ, those for which we, they missed a row by more than rounding)."""
    differing = missed = theirs_missed = 0
    k = ours.shape[1]
    for q in np.nonzero((ours != theirs).any(axis=1))[0]:
        both = np.union1d(ours[q], theirs[q])
        both = both[(both >= 0) & (both < len(rows))]
        some, asked = rows[both].astype(np.float64), queries[q].astype(np.float64)
        scores = dict(zip(both.tolist(), (some @ asked) / np.linalg.norm(some, axis=1) /
                          np.linalg.norm(asked)))
        best = np.sort(np.array(list(scores.values())))[::-1][:k]

        def lacks(ids):
            has = np.sort(np.array([scores.get(int(i), -2.0) for i in ids]))[::-1]
            return len(set(ids.tolist())) < k or bool((best - has > ROUNDING).any())

        differing += 1
        missed += lacks(ours[q])
        theirs_missed += lacks(theirs[q])
    return differing, missed, theirs_missed


def asked_of(name, count):
    for part, targets in ASKED.items():
        if part in name and count in targets:
            return targets[count]
    return None


def tell(name, count, entry, ours, verdict):
    ratio, cpu_ratio = (entry[what] / ours[what] for what in ("p50_ms", "cpu_ms"))
    asked = asked_of(name, count)
    met = "" if asked is None else f"(>= {asked}: {'ok' if ratio >= asked else 'MISSED'})"
    print(f"  {name:32}{entry['p50_ms']:11.3f}{entry['p99_ms']:11.3f}{entry['cpu_ms']:11.3f}"
          f"{ratio:9.2f}x{cpu_ratio:9.2f}x {met:18} {verdict}", flush=True)
    entry.update(ratio=ratio, cpu_ratio=cpu_ratio, asked=asked)


def table(title, rows, asked_for, arguments, contestants, daemon, results):
    """One kind of rows; returns False if the daemon missed a row."""
    right = True
    for count in arguments.queries:
        queries = np.ascontiguousarray(asked_for[:count])
        count = len(queries)
        found = measure(contestants, queries, arguments.k, arguments.runs, arguments.budget,
                        arguments.pause, daemon)
        print(f"\n{title}, {len(rows):,} x {rows.shape[1]}, k = {arguments.k}, "
              f"{count:,} queries\n  {'ms':32}{'p50':>11}{'p99':>11}{'processor':>11}"
              f"{'peer/ours':>10}{'processor':>10}")
        ours = found["ours"]
        for name, (times, cpu, ids) in found.items():
            entry = {"table": title, "rows": len(rows), "dimension": rows.shape[1],
                     "queries": count, "k": arguments.k, "threads": arguments.threads[0],
                     "who": name, "calls": len(times),
                     "p50_ms": statistics.median(times) * 1e3,
                     "p99_ms": float(np.percentile(times, 99)) * 1e3,
                     "cpu_ms": statistics.median(cpu) * 1e3}
            if name == "ours":
                first = entry
            verdict = ""
            if name != "ours" and ids is not None:
                differ, missed, theirs = judge(rows, queries, ours[2], ids)
                entry.update(differ=differ, we_missed=missed, they_missed=theirs)
                right = right and not missed
                verdict = "same ids" if not differ else (
                    f"{differ} queries differ; a row missed: they {theirs}, we {missed}")
            tell(name, count, entry, first, verdict)
            results.append(entry)
    return right


def kinds(arguments):
    """(title, rows, queries) of each kind, made when its turn comes."""
    most = max(arguments.queries)
    if "gaussian" in arguments.kinds:
        yield ("Gaussian", knn_rows.gaussian(arguments.rows, arguments.dimension, 1),
               knn_rows.gaussian(most, arguments.dimension, 2))
    if "real" in arguments.kinds:
        try:
            begun = time.monotonic()
            rows, queries = knn_rows.real(arguments.rows, most, arguments.texts, arguments.model,
                                          arguments.cache)
            print(f"real rows: {len(rows):,} x {rows.shape[1]} in {time.monotonic() - begun:.0f} s",
                  flush=True)
            yield "MiniLM-L6 of WordNet", rows, queries
        except knn_rows.Missing as why:
            print(f"SKIP real rows: {why}", flush=True)


def tell_threads():
    try:
        import threadpoolctl
        for pool in threadpoolctl.threadpool_info():
            print(f"  threadpoolctl: {pool.get('internal_api')} {pool.get('version')} "
                  f"{pool.get('architecture', '')} {pool.get('num_threads')} thread(s)")
    except ImportError:
        print("  threadpoolctl: not here")


def settings_of(arguments, card):
    settings = {"gpu__devices": arguments.gpu if card else "none"}
    if card:
        settings["gpu__force"] = "gpu"
    else:
        settings["workers__count"] = arguments.threads[0]
    return settings


def ready(peers, rows, queries, k):
    """Those of them that take the rows and answer a question; what fails is left out, and told."""
    out = []
    for peer in peers:
        try:
            peer.load(rows)
            peer.search(queries[:1], k)
            out.append(peer)
        except Exception as error:  # a peer's own, of whatever kind
            peer.unload()
            print(f"SKIP {peer.name}: {type(error).__name__}: {str(error).splitlines()[:1]}")
    return out


def compare(arguments, card, results):
    threads = arguments.threads[0]
    peers, missing = knn_peers.find(card and arguments.gpu != "sim", threads, arguments.peers)
    for name, why in missing:
        print(f"SKIP {name}: {why}")
    tell_threads()
    right = True
    for title, rows, queries in kinds(arguments):
        daemon = engram_client.Daemon(arguments.build, **settings_of(arguments, card))
        ours = Ours(daemon, rows, card)
        others = ready(peers if card else peers + [Read(threads)], rows, queries, arguments.k)
        right &= table(title, rows, queries, arguments, [ours, *others], daemon, results)
        for peer in others:
            peer.unload()
        ours.close()
        daemon.close()
    return right


def card_name(arguments):
    """What nvidia-smi calls the card; None: there is none, or it is not wanted."""
    if arguments.gpu == "none":
        return None
    if arguments.gpu == "sim":
        return "a simulated card"
    if not shutil.which("nvidia-smi"):
        return None
    got = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return got.stdout.splitlines()[0] if got.returncode == 0 and got.stdout.strip() else None


def run(arguments):
    results = []
    card = card_name(arguments)
    print(f"{time.strftime('%Y-%m-%d')}, {card or 'no card'}, {len(os.sched_getaffinity(0))} "
          f"processors, Python {platform.python_version()}, numpy {np.__version__}, "
          f"{arguments.threads[0]} thread(s)", flush=True)
    right = True
    for name in arguments.tables:
        try:
            if name == "peers":
                right &= compare(arguments, card is not None, results)
            elif card:
                knn_sizes.run(arguments, results)
            elif arguments.gpu != "none":
                print("SKIP GPU beside CPU by rows: no card")
        except engram_client.ClientError as error:
            print(f"FAILED: {error}", flush=True)
            right = False
    return results, right


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", default="build/release")
    add("--rows", type=int, help="default 1,000,000 with a card, else 100,000")
    add("--dimension", type=int, default=768, help="of the Gaussian rows")
    add("--queries", type=int, nargs="+", default=[1, 16, 128, 1024])
    add("--k", type=int, default=10)
    add("--threads", type=int, nargs="+", help="without a card; default 1 and all")
    add("--core", help="OPENBLAS_CORETYPE for the peers")
    add("--kinds", nargs="+", choices=["gaussian", "real"], default=["gaussian", "real"])
    add("--peers", nargs="*", choices=[*knn_peers.ON_CARD, *knn_peers.ON_CPU],
        help="default: whichever can be imported")
    add("--tables", nargs="+", choices=["peers", "sizes"], default=["peers", "sizes"])
    add("--sizes", type=int, nargs="+", default=[64, 256, 1000, 10_000, 100_000, 1_000_000])
    add("--gpu", default="auto", help="gpu.devices; none: as if there were no card; sim: for tests")
    add("--texts", help="a folder with WordNet's data.noun ...")
    add("--model", help="a folder with MiniLM-L6")
    add("--cache", help="real rows are kept in this file, or taken from it")
    add("--runs", type=int, default=5, help="rounds of bursts of calls")
    add("--budget", type=float, default=2.5, help="seconds for each contestant and row")
    add("--pause", type=float, default=0.05, help="seconds between contestants")
    add("--quick", action="store_true", help="a first look: fewer rows, shorter")
    add("--json", help="the figures go to this file, too")
    arguments = parser.parse_args()
    card = card_name(arguments) is not None
    if arguments.quick:
        arguments.budget, arguments.runs = min(arguments.budget, 0.3), min(arguments.runs, 3)
        arguments.rows = arguments.rows or (100_000 if card else 20_000)
        arguments.sizes = [size for size in arguments.sizes if size <= 100_000]
    arguments.rows = arguments.rows or (1_000_000 if card else 100_000)
    processors_here = len(os.sched_getaffinity(0))
    if card:
        arguments.threads = [processors_here]
    elif not arguments.threads:
        arguments.threads = sorted({1, processors_here})
    return arguments


def main():
    arguments = parse()
    alone = {"OPENBLAS_CORETYPE": arguments.core} if arguments.core else {}
    if len(arguments.threads) == 1 and CHILD in os.environ:
        results, right = run(arguments)
    else:
        results, right = [], True
        for threads in arguments.threads:
            # BLAS and OpenMP libraries read this once. The last --threads and --json count.
            with tempfile.NamedTemporaryFile(suffix=".json") as part:
                code = subprocess.call(
                    [sys.executable, *sys.argv, "--threads", str(threads), "--json", part.name],
                    env={**os.environ, **alone, "OMP_NUM_THREADS": str(threads), CHILD: "1"})
                right &= code == 0
                results += json.loads(part.read() or b"[]")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    sys.exit(0 if right else "bench_peers: ours missed rows, or a part failed")


if __name__ == "__main__":
    main()
