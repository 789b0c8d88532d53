#!/usr/bin/env python3
"""bench_spread_peers: one hop over a whole graph, in one process scipy.sparse (CSR x vector) and
SuiteSparse GraphBLAS (mxv, plus_times), in another ours (bench_spread --serve), in turn: float32
weights and activations, the same matrix, the same threads. Peers have nodes in their user's numbers,
ours in a store's. Twice: the sums alone (the product of matrix and vector; ours with decay and cap),
and all of a hop: sums, decay, cap, threshold, accumulation (and, but for GraphBLAS, visits). Then our
whole hop beside the peer's bare product. Ours alone sums so that no order changes a bit.

    bench_spread_peers.py [--build build/release] [--runs N] [--cpu]

--cpu: with one thread its own seconds instead of the clock's, for a machine that others load.
"""
import argparse
import ctypes as C
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

GRAPHS = [("wordnet", True), ("uniform", False), ("power", True)]  # name, has a target
DECAY = 0.2
NTHREADS, MATERIALIZE, BLOCKING = 5, 1, 1  # GraphBLAS.h's


class GraphBLAS:
    """y = A x over plus_times."""

    started = False

    def __init__(self, matrix, x):
        self.lib = C.CDLL("libgraphblas.so")
        if not GraphBLAS.started:  # once a process
            self.check("GrB_init", C.c_int(BLOCKING))
            GraphBLAS.started = True
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.uint64), np.diff(matrix.indptr))
        columns = matrix.indices.astype(np.uint64)
        self.a, self.x, self.y, self.acc = (C.c_void_p() for _ in range(4))
        n, count = C.c_uint64(matrix.shape[0]), C.c_uint64(matrix.nnz)
        kind = self.symbol("GrB_FP32")
        self.check("GrB_Matrix_new", C.byref(self.a), kind, n, n)
        self.check("GrB_Matrix_build_FP32", self.a, self.array(rows), self.array(columns),
                   self.array(matrix.data), count, self.symbol("GrB_PLUS_FP32"))
        self.check("GrB_Vector_new", C.byref(self.x), kind, n)
        self.check("GrB_Vector_new", C.byref(self.y), kind, n)
        self.check("GrB_Vector_new", C.byref(self.acc), kind, n)
        places = np.arange(len(x), dtype=np.uint64)
        self.check("GrB_Vector_build_FP32", self.x, self.array(places), self.array(x), n,
                   self.symbol("GrB_PLUS_FP32"))
        self.check("GrB_Matrix_wait", self.a, C.c_int(MATERIALIZE))
        self.check("GrB_Vector_wait", self.x, C.c_int(MATERIALIZE))
        self.semiring = self.symbol("GrB_PLUS_TIMES_SEMIRING_FP32")

    def symbol(self, name):
        return C.c_void_p.in_dll(self.lib, name)

    @staticmethod
    def array(values):
        return values.ctypes.data_as(C.c_void_p)

    def check(self, name, *arguments):
        code = getattr(self.lib, name)(*arguments)
        if code != 0:
            sys.exit(f"bench_spread_peers: {name}: {code}")

    def threads(self, count):
        self.check("GxB_Global_Option_set", C.c_int(NTHREADS), C.c_int(count))

    def close(self):
        self.check("GrB_Matrix_free", C.byref(self.a))
        self.check("GrB_Vector_free", C.byref(self.x))
        self.check("GrB_Vector_free", C.byref(self.y))
        self.check("GrB_Vector_free", C.byref(self.acc))

    def multiply(self):
        self.check("GrB_mxv", self.y, None, None, self.semiring, self.a, self.x, None)
        self.check("GrB_Vector_wait", self.y, C.c_int(MATERIALIZE))

    def hop(self):
        self.multiply()
        y, acc = self.y, self.acc
        self.check("GrB_Vector_apply_BinaryOp2nd_FP32", y, None, None,
                   self.symbol("GrB_TIMES_FP32"), y, C.c_float(DECAY), None)
        self.check("GrB_Vector_apply_BinaryOp2nd_FP32", y, None, None, self.symbol("GrB_MIN_FP32"),
                   y, C.c_float(1), None)
        self.check("GrB_Vector_select_FP32", y, None, None, self.symbol("GrB_VALUEGT_FP32"), y,
                   C.c_float(0), None)
        self.check("GrB_Vector_eWiseAdd_BinaryOp", acc, None, None, self.symbol("GrB_PLUS_FP32"),
                   acc, y, None)
        self.check("GrB_Vector_apply_BinaryOp2nd_FP32", acc, None, None,
                   self.symbol("GrB_MIN_FP32"), acc, C.c_float(1), None)
        self.check("GrB_Vector_wait", acc, C.c_int(MATERIALIZE))

    def result(self, count):
        y, places, n = np.zeros(count, np.float32), np.zeros(count, np.uint64), C.c_uint64(count)
        self.check("GrB_Vector_extractTuples_FP32", self.array(places), self.array(y), C.byref(n),
                   self.y)
        full = np.zeros(count, np.float32)
        full[places[:n.value]] = y[:n.value]
        return full


class Scipy:
    def __init__(self, matrix, x):
        self.matrix, self.x = matrix, x
        self.acc, self.visits = x.copy(), np.ones(len(x), np.uint32)

    def multiply(self):
        return self.matrix @ self.x

    def hop(self):
        y = self.multiply()
        y *= np.float32(DECAY)
        np.minimum(y, 1, out=y)
        y[y <= 0] = 0
        self.acc += y
        np.minimum(self.acc, 1, out=self.acc)
        self.visits += y > 0


class Ours:
    def __init__(self, build, folder, name, threads):
        # numpy asks for huge pages for its arrays: the same for ours.
        self.process = subprocess.Popen(
            [os.path.join(build, "tests/bench/bench_spread"), "--serve", folder, name, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
        self.here = self.process.stdout.readline().strip() == "ready"

    def ask(self, what, cpu):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[1 if cpu else 0])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def timed(call, cpu):
    clock = time.thread_time if cpu else time.perf_counter
    start = clock()
    call()
    return clock() - start


def report(what, peer, times, target):
    (hop, product), (peer_hop, peer_product) = times["ours"], times[peer]
    ratios = {"hop": peer_hop / hop, "product": peer_product / product,
              "strict": peer_product / hop}
    met = True
    if target:
        met = ratios[target[0]] >= target[1]
    print(f"  {what:23}{peer:11}{hop * 1e3:9.2f}ms{peer_hop * 1e3:9.2f}ms{ratios['hop']:7.2f}x"
          f"{product * 1e3:9.2f}ms{peer_product * 1e3:9.2f}ms{ratios['product']:7.2f}x"
          f"{ratios['strict']:9.2f}x" + (f"  {target[0]} >={target[1]:.2f}x "
                                         f"{'ok' if met else 'MISSED'}" if target else ""),
          flush=True)
    return met


def compare(arguments, name, targeted, threads):
    from scipy.sparse import csr_matrix

    cpu = arguments.cpu and threads == 1
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(arguments.build, folder, name, threads)
        if not ours.here:
            print(f"SKIP {name}: it is not on this machine")
            return True
        offsets = np.fromfile(os.path.join(folder, "offsets"), np.uint64).astype(np.int32)
        columns = np.fromfile(os.path.join(folder, "columns"), np.uint32).astype(np.int32)
        weights = np.fromfile(os.path.join(folder, "weights"), np.float32)
    n = len(offsets) - 1
    matrix = csr_matrix((weights, columns, offsets), (n, n))
    x = np.random.default_rng(3).random(n, dtype=np.float32) + 0.5
    peers = {"scipy": Scipy(matrix, x)} if threads == 1 else {}
    if arguments.graphblas:
        blas = peers["GraphBLAS"] = GraphBLAS(matrix, x)
        blas.threads(threads)
        blas.multiply()
        assert np.allclose(blas.result(n), matrix @ x, rtol=1e-3), "GraphBLAS: another product"
    rows = {key: ([], []) for key in ["ours", *peers]}
    for run in range(arguments.runs + 1):
        took = {"ours": (ours.ask("hop", cpu), ours.ask("sums", cpu))}
        for key, peer in peers.items():
            took[key] = (timed(peer.hop, cpu), timed(peer.multiply, cpu))
        for key, pair in took.items() if run else ():  # the first warms up
            rows[key][0].append(pair[0])
            rows[key][1].append(pair[1])
    ours.close()
    if arguments.graphblas:
        blas.close()
    middle = {key: [statistics.median(values) for values in pair] for key, pair in rows.items()}
    targets = {"scipy": ("strict", 1.5), "GraphBLAS": ("hop", 1.0)} if targeted else {}
    return all([report(f"{name}, {threads} thread(s)", key, middle, targets.get(key))
                for key in peers])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    try:
        C.CDLL("libgraphblas.so")
        arguments.graphblas = True
    except OSError:
        arguments.graphblas = False
        print("SKIP GraphBLAS: libgraphblas.so is not on this machine")
    print(f"One hop over all nodes, medians of {arguments.runs} in turn"
          f"{'; one thread: its own seconds' if arguments.cpu else ''}")
    print(f"  {'':23}{'peer':11}{'hop: ours':>11}{'peer':>11}{'ratio':>8}"
          f"{'sums: ours':>11}{'peer':>11}{'ratio':>8}{'strict':>10}  target")
    met = [compare(arguments, name, targeted, threads)
           for name, targeted in GRAPHS for threads in (1, 2)]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
