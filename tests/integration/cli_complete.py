"""cli_complete: engram-accel complete, against the real daemon and the rule computed here."""
import math
import os
import random
import struct
import sys

import cli
from cli import check, read_npy, write_npy

D, ROWS, CUES, BETA = 96, 320, 300, 32.0
KNOWN = D // 3


def row_of(values, i):
    return list(values[i * D:(i + 1) * D])


def write_marks(path, dtype, shape, marks):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (dtype, shape)
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(marks))


def files():
    random.seed(7)
    rows = []
    for _ in range(ROWS):
        row = [random.gauss(0, 1) for _ in range(D)]
        length = math.sqrt(math.fsum(x * x for x in row))
        rows += [x / length for x in row]
    write_npy("rows.npy", "f", "(%d, %d)" % (ROWS, D), rows)
    rows = read_npy("rows.npy")[1]
    write_npy("cues.npy", "f", "(%d, %d)" % (CUES, D), list(rows[:CUES * D]))
    write_npy("one.npy", "f", "(%d,)" % D, row_of(rows, 5))
    write_npy("short.npy", "f", "(1, 8)", [1] * 8)
    write_marks("mask.npy", "|b1", "(%d,)" % D, [1] * KNOWN + [0] * (D - KNOWN))
    write_marks("each.npy", "|u1", "(%d, %d)" % (CUES, D), ([1] * KNOWN + [0] * (D - KNOWN)) * CUES)
    write_marks("two.npy", "|u1", "(2, %d)" % D, [1] * 2 * D)
    write_marks("narrow.npy", "|b1", "(8,)", [1] * 8)
    part = [x if i % D < KNOWN else math.nan for i, x in enumerate(rows[:CUES * D])]
    write_npy("part.npy", "f", "(%d, %d)" % (CUES, D), part)
    part[(CUES - 2) * D + 3] = math.inf
    write_npy("bad.npy", "f", "(%d, %d)" % (CUES, D), part)
    with open("names.txt", "w", encoding="utf-8") as f:
        f.writelines("thing %d\n" % i for i in range(ROWS))
    return rows


# One round over unit rows, in binary64; known numbers stay.
def completed(rows, cue):
    state = cue[:KNOWN] + [0] * (D - KNOWN)
    units = []
    for i in range(ROWS):
        row = row_of(rows, i)
        length = math.sqrt(math.fsum(x * x for x in row))
        units.append([x / length for x in row])
    scores = [math.fsum(a * b for a, b in zip(u, state)) for u in units]
    weights = [math.exp(BETA * (s - max(scores))) for s in scores]
    total = math.fsum(weights)
    mean = [math.fsum(w * u[c] for w, u in zip(weights, units)) / total for c in range(D)]
    return cue[:KNOWN] + mean[KNOWN:]


def completes(t, rows):
    t.run("load", "things", "rows.npy", "--create", "--metric", "cosine")
    said = t.run("complete", "things", "cues.npy", "--mask", "mask.npy", "--unit", "--rounds", "1",
                 "--out", "out.npy", "--names", "names.txt")
    lines = said.stdout.splitlines()
    check(lines[0].split() == ["cue", "id", "cosine", "rounds", "still", "energy", "name"], lines[0])
    check(lines[6].split()[:2] == ["5", "5"] and lines[6].endswith("thing 5"), lines[6])
    check(lines[-1] == "out.npy  float32  %d x %d" % (CUES, D), lines[-1])
    check(said.stderr.startswith("%d cues in 2 requests: cpu (gpu_absent)" % CUES), said.stderr)
    shape, got = read_npy("out.npy")
    check(shape == (CUES, D), "shape %s" % (shape,))
    for i in (0, 5, CUES - 1):
        want = completed(rows, row_of(rows, i))
        check(max(abs(a - b) for a, b in zip(row_of(got, i), want)) < 1e-5, "cue %d" % i)
    t.run("complete", "things", "cues.npy", "--rule", "modern", "--mask", "each.npy", "--unit",
          "--rounds", "1", "--out", "again.npy")
    check(read_npy("again.npy")[1] == got, "a mask for each cue, the same bits")
    for mask in ("mask.npy", "each.npy"):
        t.run("complete", "things", "part.npy", "--mask", mask, "--unit", "--rounds", "1", "--out",
              "part-out.npy")
        check(read_npy("part-out.npy")[1] == got, "unknown numbers are not used: %s" % mask)


def tells_json(t):
    told = t.json("complete", "things", "cues.npy", "--mask", "mask.npy", "--unit", "--beta", "32")
    check(len(told) == CUES and [x["cue"] for x in told] == list(range(CUES)), "a line for each cue")
    check(all(x["id"] == x["cue"] for x in told), "recalled: %s" %
          [x["cue"] for x in told if x["id"] != x["cue"]])
    check(all(x["converged"] and 1 < x["rounds"] <= 10 and x["cosine"] > 0.99 for x in told), told[0])
    check("name" not in told[0] and told[0]["energy"] > -1e-3, told[0])
    told = t.json("complete", "things", "one.npy", "--names", "names.txt")
    check(len(told) == 1 and told[0]["id"] == 5 and told[0]["name"] == "thing 5", told)


def fails(t, code, text, *words):
    said = t.run(*words, code=code)
    check(text in said.stderr, "%s: %s" % (text, said.stderr))


def refusals(t):
    fails(t, 2, "the collection's NAME and CUES are needed", "complete", "things")
    fails(t, 2, "unexpected argument 'c'", "complete", "a", "b", "c")
    fails(t, 2, "--rule: there is no rule 'soft'", "complete", "things", "one.npy", "--rule", "soft")
    fails(t, 2, "--beta", "complete", "things", "one.npy", "--beta", "0")
    fails(t, 2, "--rounds", "complete", "things", "one.npy", "--rounds", "101")
    fails(t, 1, "the queries have dimension 8", "complete", "things", "short.npy")
    fails(t, 1, "nothing", "complete", "nothing", "one.npy")
    fails(t, 4, "marks 8 numbers, the cues have 96", "complete", "things", "one.npy", "--mask",
            "narrow.npy")
    fails(t, 4, "two.npy: has 2 rows; 1, or one for each", "complete", "things", "cues.npy",
            "--mask", "two.npy")
    fails(t, 4, "dtype '<f4' does not fit; save it as bool or uint8", "complete", "things",
            "one.npy", "--mask", "one.npy")
    wrong = "bad.npy: row %d, column 3: not a finite number" % (CUES - 2)
    fails(t, 4, wrong, "complete", "things", "bad.npy", "--mask", "mask.npy")
    fails(t, 4, wrong, "complete", "things", "bad.npy", "--mask", "each.npy")
    fails(t, 4, "part.npy: row 0, column %d: not a finite" % KNOWN, "complete", "things", "part.npy")
    fails(t, 4, "gone.npy: cannot open", "complete", "things", "gone.npy")
    t.run("collection", "create", "empty", "--dim", str(D), "--metric", "dot")
    fails(t, 1, "empty has no rows", "complete", "empty", "one.npy", "--out", "never.npy")
    check(not os.path.exists("never.npy"), "an unfinished file is gone")


def everything(t):
    rows = files()
    completes(t, rows)
    tells_json(t)
    refusals(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
