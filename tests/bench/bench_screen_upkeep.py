#!/usr/bin/python3
"""What rows in int8 cost a card: VRAM with them over that of the rows (at most 1.30 is wanted), and
an upsert of 10,000 rows with them over one without (1.10): one daemon with screen.memory=auto and
one with off beside it, asked in turn. An upsert's time ends with the answer that a kNN on the card
gives from the new rows, which is also timed alone; upload is what the card says of it.

    bench_screen_upkeep.py [--build DIR] [--rows N] [--dimension D] [--rounds N] [--devices NAMES]
                           [--sim SETTINGS]
"""
import argparse
import json
import statistics
import sys
import time

import numpy

import engram_client

UPSERT_ROWS = 10_000
NAME = b"rows"


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build/release")
    p.add_argument("--rows", type=int, default=300_000)
    p.add_argument("--dimension", type=int, default=768)
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--devices", default="auto")
    p.add_argument("--sim", default="")
    return p.parse_args()


class Side:
    """A daemon with this setting, its rows on the card."""

    def __init__(self, o, memory, rows):
        self.daemon = engram_client.Daemon(o.build, screen__memory=memory, gpu__force="gpu",
                                           gpu__devices=o.devices, gpu__sim=o.sim,
                                           gpu__min_pairs=1)
        self.client = self.daemon.client()
        self.client.create(NAME, o.dimension, engram_client.COSINE)
        for first in range(0, o.rows, 50_000):
            self.client.upsert_at(NAME, rows[first:first + 50_000], first)
        self.query = rows[:1].copy()
        deadline = time.monotonic() + 60
        while not self.answered_by_card():
            if time.monotonic() > deadline:
                sys.exit(f"bench_screen_upkeep: no answer of a card: {self.daemon.log()}")

    def answered_by_card(self):
        self.client.knn(NAME, self.query, 10)
        return engram_client.BACKENDS.get(self.client.meta().backend) == "gpu"

    def uploads(self):
        card = json.loads(self.daemon.command("stats", "--json"))["gpus"][0]
        return card["upload_ns"], card["upload_bytes"]

    def upsert(self, rows):
        """Seconds of the upsert, and until a kNN on the card has seen it; ns of upload."""
        before = self.uploads()[0]
        began = time.perf_counter()
        self.client.upsert_at(NAME, rows, 0)
        wrote = time.perf_counter()
        while not self.answered_by_card():
            pass
        seen = time.perf_counter()
        return wrote - began, seen - began, self.uploads()[0] - before

    def described(self):
        return json.loads(self.daemon.command("collection", "describe", NAME.decode(), "--json"))

    def close(self):
        self.client.close()
        self.daemon.close()


def main():
    o = parse()
    generator = numpy.random.default_rng(17)
    rows = generator.standard_normal((o.rows, o.dimension), dtype=numpy.float32)
    sides = {memory: Side(o, memory, rows) for memory in ("auto", "off")}
    taken = {memory: [] for memory in sides}
    for n in range(o.rounds + 2):
        part = generator.standard_normal((UPSERT_ROWS, o.dimension), dtype=numpy.float32)
        for memory in ("auto", "off") if n % 2 else ("off", "auto"):
            times = sides[memory].upsert(part)
            if n >= 2:
                taken[memory].append(times)
    told = {memory: side.described() for memory, side in sides.items()}
    for side in sides.values():
        side.close()
    with_codes, without = told["auto"], told["off"]
    codes = with_codes.get("vram_shadow_bytes", 0)
    if not codes:
        sys.exit("bench_screen_upkeep: the card has no rows in int8")
    rows_bytes = without["vram_bytes"]
    print(f"VRAM            rows {rows_bytes / 2**20:8.1f} MiB, in int8 {codes / 2**20:8.1f} MiB: "
          f"{(rows_bytes + codes) / rows_bytes:.3f} x")
    for at, what in enumerate(("upsert answered", "seen on card", "upload")):
        scale = 1e3 if at < 2 else 1e-6
        a, b = (statistics.median(t[at] for t in taken[m]) * scale for m in ("auto", "off"))
        print(f"{what:15s} with {a:8.3f} ms, without {b:8.3f} ms (p50 of {o.rounds}): {a / b:.3f} x")


if __name__ == "__main__":
    main()
