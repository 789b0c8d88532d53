"""cli_attractor: engram-accel attractor, against the real daemon. The numbers themselves are
compared with the slow reference by test_attractor.c; here it is files, tables and JSON."""
import math
import random
import sys

import cli
from cli import check, read_npy, write_npy

D, ROWS = 48, 9


def files():
    random.seed(3)
    rows = [random.gauss(0, 1) for _ in range(ROWS * D)]
    write_npy("rows.npy", "f", "(%d, %d)" % (ROWS, D), rows)
    write_npy("mask.npy", "B", "(1, %d)" % D, [1] * (D // 2) + [0] * (D - D // 2))
    write_npy("masks.npy", "B", "(%d, %d)" % (ROWS, D),
              [7 * (i < D // 3 + r) for r in range(ROWS) for i in range(D)])
    write_npy("few.npy", "B", "(1, %d)" % D, [1] * (D // 3 - 1) + [0] * (D - D // 3 + 1))
    write_npy("narrow.npy", "B", "(2, 8)", [1] * 16)
    write_npy("short.npy", "f", "(2, 8)", [1] * 16)
    write_npy("large.npy", "f", "(%d, %d)" % (D, D), [0.5] * (D * D - 1) + [1.5])


def names(t):
    told = t.json("attractor", "create", "a", "--dim", str(D), "--rate", "0.25")[0]
    check((told["name"], told["dimension"], told["patterns"], told["kept"], told["rate"]) ==
          ("a", D, 0, 2, 0.25), "create --json: %s" % told)
    check((told["weight_bytes"], told["dentate_bytes"]) == (D * 64 * 4, D * 64 * 40), "its bytes")
    said = t.run("attractor", "create", "b", "--dim", str(D), "--sparsity", "0.5").stdout
    check(said.split("\n")[0].split() ==
          ["name", "dimension", "patterns", "kept", "rate", "weights", "dentate", "version"], said)
    listed = t.json("attractor", "list")[0]
    check([(a["name"], a["kept"]) for a in listed] == [("a", 2), ("b", 24)], "list: %s" % listed)
    check(t.json("attractor", "describe", "b")[0] == listed[1], "describe is a line of the list")
    check("exists" in t.run("attractor", "create", "a", "--dim", "4", code=1).stderr, "twice")
    check("0" in t.run("attractor", "create", "c", "--dim", "4", "--rate", "0", code=1).stderr,
          "a rate of 0")
    t.run("attractor", "create", "c", code=2)
    t.run("attractor", "create", "c", "--dim", "4000", code=2)
    said = t.run("attractor", "drop", "b").stdout
    check(said == "dropped b\n", said)
    check("no attractor 'b'" in t.run("attractor", "describe", "b", code=1).stderr, "it is gone")


def learns(t):
    said = t.run("attractor", "learn", "a", "rows.npy").stdout
    check(said == "a: 9 patterns learned, 9 in all\n", said)
    t.run("load", "stored", "rows.npy", "--create", "--metric", "cosine")
    told = t.json("attractor", "learn", "a", "stored:2-4")[0]
    check((told["learned"], told["patterns"]) == (3, 12), "by id: %s" % told)
    version = t.json("attractor", "describe", "a")[0]["version"]
    check(told["version"] == version, "its version")
    words = ["attractor", "learn", "a", "rows.npy", "--expect"]
    t.run(*words, "exactly:%d" % version)
    check("version" in t.run(*words, "exactly:%d" % version, code=1).stderr, "--expect, too late")
    check("no id 77" in t.run("attractor", "learn", "a", "stored:77", code=1).stderr, "unknown id")
    check("8 columns" in t.run("attractor", "learn", "a", "short.npy", code=1).stderr, "dimension")
    stats = t.json("stats")[0]
    check((stats["attractors"], stats["attractor_patterns"]) == (1, 21), "stats: %s" % stats)
    check(stats["attractor_bytes"] == D * 64 * 4 * 11, "bytes: %d" % stats["attractor_bytes"])
    check("1 attractor: 21 patterns" in t.run("stats").stdout, "stats")


def weights(t):
    t.run("attractor", "fetch", "a", "w.npy")
    shape, w = read_npy("w.npy")
    check(shape == (D, D) and max(w) <= 1, "fetched: %s, %g" % (shape, max(w)))
    t.run("attractor", "create", "twin", "--dim", str(D))
    said = t.run("attractor", "set", "twin", "w.npy").stdout
    check(said == "twin: 48 x 48 weights set\n", said)
    told = t.json("attractor", "fetch", "twin", "again.npy")[0]
    check(told["dimension"] == D and read_npy("again.npy")[1] == w, "the same bits")
    check("row 47, column 47 is 1.5" in t.run("attractor", "set", "twin", "large.npy",
                                              code=1).stderr, "a weight out of range")
    check("not square" in t.run("attractor", "set", "twin", "short.npy", code=4).stderr, "2 x 8")
    t.run("attractor", "fetch", "twin", "again.npy")
    check(read_npy("again.npy")[1] == w, "nothing was half set")


def completes(t):
    said = t.run("attractor", "complete", "a", "rows.npy", "--mask", "mask.npy", "--out", "s.npy")
    check(said.stdout.split("\n")[0].split() == ["cue", "rounds", "converged", "confidence"],
          said.stdout)
    check(said.stderr.startswith("9 cues in 1 request: cpu"), said.stderr)
    shape, states = read_npy("s.npy")
    kept = [sum(x != 0 for x in states[i * D:(i + 1) * D]) for i in range(ROWS)]
    check(shape == (ROWS, D) and kept == [2] * ROWS, "states: %s, %s" % (shape, kept))
    lines = t.json("attractor", "complete", "a", "rows.npy", "--mask", "masks.npy", "--collection",
                   "stored")
    check([line["cue"] for line in lines] == list(range(ROWS)), "a line a cue")
    for line in lines:
        check(1 <= line["rounds"] <= 7 and 0 <= line["id"] < ROWS and
              line["passes"] == (line["cosine"] > 0.7), "line: %s" % line)
    twin = t.json("attractor", "complete", "twin", "rows.npy", "--mask", "masks.npy",
                  "--collection", "stored")
    check([line["id"] for line in twin] == [line["id"] for line in lines], "weights that were set")
    t.run("collection", "create", "empty", "--dim", str(D), "--metric", "dot")
    line = t.json("attractor", "complete", "a", "rows.npy", "--collection", "empty")[0]
    check(line["id"] is None and "cosine" not in line, "an empty collection: %s" % line)
    check("15 numbers are known, at least 16" in
          t.run("attractor", "complete", "a", "rows.npy", "--mask", "few.npy", code=1).stderr,
          "few")
    check("2 x 8" in t.run("attractor", "complete", "a", "rows.npy", "--mask", "narrow.npy",
                           code=4).stderr, "a mask of another shape")
    rows = read_npy("rows.npy")[1]
    part = [x if i % D < D // 2 else math.nan for i, x in enumerate(rows)]
    write_npy("part.npy", "f", "(%d, %d)" % (ROWS, D), part)
    t.run("attractor", "complete", "a", "part.npy", "--mask", "mask.npy", "--out", "part-out.npy")
    check(read_npy("part-out.npy")[1] == states, "unknown numbers are not used")
    check("part.npy: row 0, column %d: not a finite" % (D // 2) in
          t.run("attractor", "complete", "a", "part.npy", code=4).stderr, "no mask")
    check("8 columns" in t.run("attractor", "complete", "a", "short.npy", code=1).stderr, "cues")
    t.run("attractor", "complete", "a", code=2)
    same = t.json("complete", "stored", "rows.npy", "--rule", "engine", "--attractor", "a",
                  "--mask", "masks.npy")
    check(same == lines, "complete --rule engine")
    for words in (["--rule", "engine"], ["--attractor", "a"],
                  ["--rule", "engine", "--attractor", "a", "--beta", "3"], ["--rule", "none"]):
        t.run("complete", "stored", "rows.npy", *words, code=2)


def everything(t):
    files()
    names(t)
    learns(t)
    weights(t)
    completes(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
