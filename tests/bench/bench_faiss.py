"""bench_faiss: kNN and similarity through the daemon against faiss-cpu IndexFlat and OpenBLAS, in one run.

Both answer the same queries over the same rows with the same number of threads, in turn; the rows
print medians, the ratio, and whether the ids agree on every query. A query on which the ids differ
is looked at in float64: where the peer's rounding put two almost equal rows in the other order, that
is said and counted; anything else is a failure. Ours is timed at the client: socket, copies and all.
"""
import argparse
import ctypes as C
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np


class Options(C.Structure):
    _fields_ = [("socket_path", C.c_char_p), ("tcp_host", C.c_char_p), ("tcp_port", C.c_uint16),
                ("space", C.c_char_p), ("client_name", C.c_char_p), ("token", C.c_void_p),
                ("token_bytes", C.c_size_t), ("connect_timeout_ms", C.c_uint32),
                ("timeout_ms", C.c_uint32)]


class Meta(C.Structure):
    _fields_ = [("backend", C.c_int), ("reason", C.c_uint32), ("queue_ns", C.c_uint64),
                ("run_ns", C.c_uint64), ("copy_ns", C.c_uint64), ("version", C.c_uint64)]


class Result(C.Structure):
    _fields_ = [("meta", Meta), ("rows", C.c_uint64), ("columns", C.c_uint64),
                ("scores", C.POINTER(C.c_float)), ("ids", C.POINTER(C.c_uint64)),
                ("counts", C.POINTER(C.c_uint32)), ("offsets", C.POINTER(C.c_uint64)),
                ("vectors", C.POINTER(C.c_float)), ("found", C.POINTER(C.c_uint8)),
                ("missing", C.c_uint64), ("memory", C.c_void_p)]


class Client:
    """The few calls that this bench needs of libengram_accel."""

    def __init__(self, library, socket_path):
        self.lib = C.CDLL(library)
        self.lib.ea_error_text.restype = C.c_char_p
        self.handle = C.c_void_p()
        options = Options(socket_path=socket_path.encode())
        self.check(self.lib.ea_open(C.byref(options), C.byref(self.handle)))

    def check(self, status):
        if status:
            text = self.lib.ea_error_text(self.handle) if self.handle else b"?"
            sys.exit(f"bench_faiss: {text.decode()}")

    def create(self, name, dimension, metric):
        self.check(self.lib.ea_collection_create(self.handle, name, C.c_uint32(dimension), metric, None))

    def upsert(self, name, ids, rows):
        self.check(self.lib.ea_upsert(
            self.handle, name, ids.ctypes.data_as(C.c_void_p), rows.ctypes.data_as(C.c_void_p),
            C.c_uint64(len(rows)), C.c_uint32(rows.shape[1]), None, None, None))

    def drop(self, name):
        self.check(self.lib.ea_collection_drop(self.handle, name))

    def knn(self, name, queries, k, result):
        self.check(self.lib.ea_knn(
            self.handle, name, queries.ctypes.data_as(C.c_void_p), C.c_uint64(len(queries)),
            C.c_uint32(queries.shape[1]), C.c_uint32(k), None, None, C.byref(result)))

    def similarity(self, name, queries, result):
        self.check(self.lib.ea_similarity(
            self.handle, name, queries.ctypes.data_as(C.c_void_p), C.c_uint64(len(queries)),
            C.c_uint32(queries.shape[1]), None, None, C.byref(result)))


def start_daemon(build, folder, threads):
    path = os.path.join(folder, "socket")
    process = subprocess.Popen([
        os.path.join(build, "engram-acceld"), "--set", f"socket.path={path}", "--set",
        f"workers.count={threads}", "--set", "log.level=warning", "--set", "memory.max_mib=4096"])
    for _ in range(500):
        if os.path.exists(path):
            return process, path
        time.sleep(0.01)
    sys.exit("bench_faiss: the daemon did not start")


def in_turn(runs, *calls):
    """Seconds of each call, in turn, after a warm-up of each."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(runs):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[i].append(time.perf_counter() - start)
    return [sorted(t)[len(t) // 2] for t in times]


def compare_ids(ours, theirs, queries, rows, metric):
    """(queries that differ, of these not explained by the peer's float32 rounding)."""
    differing = unexplained = 0
    for q in np.nonzero((ours != theirs).any(axis=1))[0]:
        differing += 1
        if metric == 2:
            exact = lambda ids: rows[ids].astype(np.float64) @ queries[q].astype(np.float64)
        else:
            exact = lambda ids: ((rows[ids].astype(np.float64) - queries[q]) ** 2).sum(axis=1)
        a, b = exact(ours[q]), exact(theirs[q])
        scale = np.abs(rows[ours[q]].astype(np.float64) * queries[q]).sum(axis=1).max()
        if np.abs(a - b).max() > 4e-6 * max(scale, np.abs(a).max()):
            unexplained += 1
    return differing, unexplained


def run(arguments, threads):
    import faiss

    faiss.omp_set_num_threads(threads)
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((arguments.rows, arguments.dim), dtype=np.float32)
    ids = np.arange(arguments.rows, dtype=np.uint64)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        process, path = start_daemon(arguments.build, folder, threads)
        client = Client(os.path.join(arguments.build, "libengram_accel.so"), path)
        for metric, name, index in ((2, "dot", faiss.IndexFlatIP(arguments.dim)),
                                    (3, "squared Euclidean", faiss.IndexFlatL2(arguments.dim))):
            client.create(b"rows", arguments.dim, metric)
            client.upsert(b"rows", ids, rows)
            index.add(rows)
            print(f"\nkNN over {arguments.rows:,} x {arguments.dim}, {name}, {threads} thread(s); "
                  f"peer: faiss-cpu {faiss.__version__} IndexFlat")
            print(f"  {'':28}{'ours':>12}{'faiss':>12}{'ratio':>9}{'target':>9}   ids")
            for count, k in ((1, 10), (16, 10), (128, 10), (1024, 10), (1, 1000), (128, 1000)):
                queries = rng.standard_normal((count, arguments.dim), dtype=np.float32)
                result, found = Result(), {}

                def ours():
                    client.knn(b"rows", queries, k, result)

                def theirs():
                    found["scores"], found["ids"] = index.search(queries, k)

                a, b = in_turn(arguments.runs if count < 1024 else 3, ours, theirs)
                mine = np.ctypeslib.as_array(result.ids, (count, k)).astype(np.int64)
                differing, unexplained = compare_ids(mine, found["ids"], queries, rows, metric)
                failed |= unexplained > 0
                verdict = "same on every query" if not differing else (
                    f"{differing} queries differ, {differing - unexplained} of them only in the "
                    "order or edge of rows that tie in the peer's rounding")
                met = "ok" if b / a >= 1 else "MISSED"
                print(f"  {count:5} queries, k = {k:<8}{a * 1e3:10.2f}ms{b * 1e3:10.2f}ms"
                      f"{b / a:8.2f}x   >=1.00x {met:6} {verdict}", flush=True)
                client.lib.ea_result_free(C.byref(result))
            client.drop(b"rows")
        process.send_signal(signal.SIGTERM)
        process.wait()
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    arguments = parser.parse_args()
    # Each thread count in a process of its own: BLAS libraries read it once.
    if len(arguments.threads) > 1:
        codes = [subprocess.call([sys.executable, *sys.argv, "--threads", str(t)],
                                 env={**os.environ, "OMP_NUM_THREADS": str(t)})
                 for t in arguments.threads]
        sys.exit(max(codes))
    sys.exit(run(arguments, arguments.threads[0]))


if __name__ == "__main__":
    main()
