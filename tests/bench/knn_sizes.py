"""knn_sizes: the part of bench_peers.py about GPU and CPU: both forced, by number of rows, and
where they meet, as `explain` predicts it and as it is measured."""
import json
import math
import statistics
import time

import numpy as np

import engram_client
import knn_rows

AROUND = [2 ** (i / 4) for i in range(-6, 7)]  # of the predicted break-even
ROWS_MIN, ROWS_MAX = 16, 1 << 20
BREAK_QUERIES = (1, 8)
CARD_MEASURED_S = 4


class Side:
    """A daemon in which one backend is forced, or none."""

    def __init__(self, arguments, force):
        self.force = force
        devices = "none" if force == "cpu" else arguments.gpu
        self.daemon = engram_client.Daemon(arguments.build, gpu__devices=devices,
                                           gpu__force=force)
        self.client = self.daemon.client()
        self.loaded = 0

    def settle(self):
        """Waits until it has measured the machine, the card last (docs/operate.md)."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if json.loads(self.daemon.command("explain", "--json"))["calibrated"]:
                break
            time.sleep(0.2)
        time.sleep(CARD_MEASURED_S)

    def load(self, rows):
        """The card has its replica when this returns."""
        self.loaded += 1
        name = b"rows-%d" % self.loaded
        self.client.create(name, rows.shape[1], engram_client.COSINE)
        self.client.upsert(name, rows)
        query = np.ascontiguousarray(rows[:1])
        deadline = time.monotonic() + 60
        for i in range(1000):
            self.client.knn(name, query, 10)
            on = engram_client.BACKENDS.get(self.client.meta().backend)
            if i >= 14 and (self.force == "none" or on == self.force):
                return name
            if i >= 14:
                time.sleep(0.05)
            if time.monotonic() > deadline:
                break
        raise engram_client.ClientError(f"{len(rows)} rows are not on the {self.force}")

    def ask(self, name, queries, k, calls):
        """Seconds of each call; which share ran on the GPU."""
        times, on_gpu = [], 0
        self.client.knn(name, queries, k)
        for _ in range(calls):
            begun = time.perf_counter()
            self.client.knn(name, queries, k)
            times.append(time.perf_counter() - begun)
            on_gpu += self.client.meta().backend == 2
        return times, on_gpu / calls

    def close(self):
        self.client.close()
        self.daemon.close()


def p50_us(times):
    return statistics.median(times) * 1e6


def both(sides, names, queries, k, budget_s):
    """[p50 in us] of each side, in turn, and the GPU's share of the last one's calls."""
    found = [[] for _ in sides]
    shares = []
    calls = []
    for side, name in zip(sides, names):
        first, _ = side.ask(name, queries, k, 3)
        calls.append(max(3, min(200, int(budget_s / 5 / max(min(first), 1e-6)))))
    for _ in range(5):
        for i, (side, name) in enumerate(zip(sides, names)):
            times, share = side.ask(name, queries, k, calls[i])
            found[i] += times
            if i == len(sides) - 1:
                shares.append(share)
    return [p50_us(times) for times in found], statistics.mean(shares)


def by_rows(arguments, sides, results):
    print(f"\nGPU beside CPU, {arguments.dimension} dimensions, k = {arguments.k}, through the "
          f"socket, p50 in us\n  {'rows':>10}{'queries':>9}{'cpu':>12}{'gpu':>12}{'cpu/gpu':>9}"
          f"{'left to it':>12}{'on the gpu':>12}")
    for size in arguments.sizes:
        rows = knn_rows.gaussian(size, arguments.dimension, size)
        names = [side.load(rows) for side in sides]
        for count in (1, 16, 128):
            queries = knn_rows.gaussian(count, arguments.dimension, 3)
            (cpu, gpu, free), share = both(sides, names, queries, min(arguments.k, size),
                                           arguments.budget / 2)
            print(f"  {size:10,}{count:9}{cpu:12.1f}{gpu:12.1f}{cpu / gpu:9.2f}{free:12.1f}"
                  f"{share:11.0%}", flush=True)
            results.append({"table": "sizes", "rows": size, "queries": count, "cpu_us": cpu,
                            "gpu_us": gpu, "free_us": free, "gpu_share": share})
        for side, name in zip(sides, names):
            side.client.drop(name)


def predicted(side):
    """{queries: (rows, cpu ns, gpu ns)} as the daemon explains it."""
    told = json.loads(side.daemon.command("explain", "--json"))
    knn = next(o for o in told["operations"] if o["name"] == "knn")
    return {c["queries"]: (c["rows"], c["cpu_ns"], c["gpu_ns"]) for c in knn["crossovers"]}


def crossing(points):
    """Where cpu = gpu on a line through log(cpu / gpu) over log(rows), of the points nearest to
    it; None: they do not meet there."""
    points = sorted(points, key=lambda p: abs(math.log(p[1] / p[2])))[:7]
    x = np.log([p[0] for p in points])
    y = np.log([p[1] / p[2] for p in points])
    if y.min() > 0 or y.max() < 0:
        return None
    slope, at = np.polyfit(x, y, 1)
    return float(np.exp(-at / slope)) if slope > 0 else None


def break_even(arguments, sides, results):
    print("\nfrom how many rows on the GPU is faster (768 dimensions, k = 10)")
    for count in BREAK_QUERIES:
        rows_told, cpu_ns, gpu_ns = predicted(sides[-1])[count]
        middle = rows_told or ROWS_MAX
        sizes = sorted({int(middle * times) for times in AROUND
                        if ROWS_MIN <= middle * times <= ROWS_MAX})
        queries = knn_rows.gaussian(count, 768, 3)
        points = []
        for size in sizes:
            rows = knn_rows.gaussian(size, 768, size)
            try:
                names = [side.load(rows) for side in sides]
            except engram_client.ClientError as error:
                print(f"  {error}")
                continue
            (cpu, gpu, _), _ = both(sides, names, queries, min(10, size), arguments.budget / 5)
            points.append((size, cpu, gpu))
            for side, name in zip(sides, names):
                side.client.drop(name)
        after = predicted(sides[-1])[count][0]
        met = crossing(points) if len(points) > 2 else None
        apart = None if not met or not after else max(met / after, after / met) - 1
        said = "they do not meet near it" if met is None else f"measured {met:,.0f}"
        print(f"  {count} queries: predicted {rows_told} ({cpu_ns / 1e3:.1f} us, "
              f"{gpu_ns / 1e3:.1f} us), after these runs {after}; {said}"
              + ("" if apart is None else f", {apart:.0%} apart (<= 20 %: "
                 f"{'ok' if apart <= 0.2 else 'MISSED'})"))
        print("    " + "  ".join(f"{n}: {c:.0f}/{g:.0f}" for n, c, g in points), flush=True)
        results.append({"table": "break-even", "queries": count, "predicted": rows_told,
                        "predicted_after": after, "measured": met, "points": points})


def run(arguments, results):
    sides = []
    try:
        for force in ("cpu", "gpu", "none"):
            sides.append(Side(arguments, force))
        for side in sides:
            side.settle()
        by_rows(arguments, sides, results)
        break_even(arguments, sides, results)
    finally:
        for side in sides:
            side.close()
