"""cli_recall: engram-accel recall, against the real daemon and the three commands that it is."""
import math
import random
import sys

import cli
from cli import check, write_npy

D, ROWS, CUES = 16, 200, 40


def files():
    random.seed(7)
    rows = []
    for i in range(ROWS):
        random.seed(i // 10)
        center = [random.gauss(0, 1) for _ in range(D)]
        random.seed(1000 + i)
        rows += [c + random.gauss(0, 0.5) for c in center]
    write_npy("rows.npy", "f", "(%d, %d)" % (ROWS, D), rows)
    write_npy("cues.npy", "f", "(%d, %d)" % (CUES, D), rows[:CUES * D])
    write_npy("short.npy", "f", "(1, 4)", [1] * 4)
    write_npy("within.npy", "Q", "(100,)", list(range(100)))
    with open("links.tsv", "w", encoding="utf-8") as f:
        f.writelines("%d %d 0.%d\n" % (i, (i * 7 + j) % ROWS, 9 - j)
                     for i in range(ROWS - 20) for j in range(4))
    with open("names.txt", "w", encoding="utf-8") as f:
        f.writelines("thing %d\n" % i for i in range(ROWS))


def tables(t):
    said = t.run("recall", "things", "links", "cues.npy", "-n", "5", "--names", "names.txt").stdout
    lines = said.splitlines()
    check(lines[0] == "cue 0", lines[0])
    check(lines[1].split() == ["rank", "id", "activation", "cosine", "marks", "depth", "name"], lines[1])
    first = lines[2].split()
    check(first[0] == "1" and first[1] == "0" and first[4] == "st" and lines[2].endswith("thing 0"),
          lines[2])
    check(len([x for x in lines if x.startswith("cue ")]) == CUES, "a table for each cue")
    said = t.run("recall", "things", "links", "--id", "3", "--id", "7", "-n", "4", "--paths").stdout
    check("cue id 3\n" in said and "cue id 7\n" in said and " path\n" in said, said)
    check(" > " in t.run("recall", "things", "links", "--id", "3", "-m", "linear", "--paths").stdout,
          "a path")


# Cue by cue what spread --cue does, where seeds are given by hand.
def as_spread(t):
    for cue, said in enumerate(t.json("recall", "things", "links", "cues.npy", "-n", "1000", "-k", "8",
                                      "--no-embeddings", "--boost", "1")):
        hits = t.json("knn", "things", "--query-id", str(cue), "-k", "8", "--threshold", "0.4")[0]
        hits = hits["results"] if "results" in hits else hits["hits"]
        check(said["seeds"] == len(hits), "cue %d: %d seeds" % (cue, said["seeds"]))
        by_id = {x["id"]: x for x in said["recalled"]}
        for hit in hits:
            found = by_id[hit["id"]]
            check(found["seed"] and found["cosine"] == hit["score"], "cue %d: %s" % (cue, found))
            if not found["touched"]:
                want = 1 / (1 + math.exp(-(hit["score"] - 0.4) / 0.5))
                check(abs(found["activation"] - want) < 1e-6, "cue %d: %s" % (cue, found))
        check(sum(x["touched"] for x in said["recalled"]) == said["touched"], "touched")
        order = [(-x["activation"], x["id"]) for x in said["recalled"]]
        check(order == sorted(order), "cue %d: order" % cue)
        check(said["run_ns"] >= said["seek_ns"] + said["spread_ns"], "times")
        if cue == 5:
            break


def options(t):
    one = t.json("recall", "things", "links", "--id", "3", "-t", "0.9", "-n", "7", "--mode", "linear",
                 "--hops", "2", "--decay", "power:0.5", "--spread-threshold", "0.2", "--touched-max",
                 "50", "--time-max-ms", "10000", "--width", "0.25", "--activation-min", "0.1")[0]
    check(one["seeds"] >= 1 and len(one["recalled"]) <= 7 and one["hops"] <= 2, str(one))
    inside = t.json("recall", "things", "links", "--id", "3", "--within", "within.npy", "-n", "500")[0]
    check(all(x["id"] < 100 for x in inside["recalled"] if x["touched"]), "within")
    late = t.json("recall", "things", "links", "--id", "3", "--time-max-ms", "0.001", "-n", "500")[0]
    check(late["truncated"] and late["recalled"] and all(x["seed"] for x in late["recalled"]), str(late))
    for words in (("--fan", "sqrt"), ("--no-kinds",), ("--embeddings", "things")):
        t.json("recall", "things", "links", "--id", "3", *words)


def refusals(t):
    def says(words, code, *text):
        err = t.run("recall", *text, code=code).stderr
        check(words in err, "%s: %s" % (text, err))
    says("COLLECTION and GRAPH are needed", 2, "things")
    says("give one of CUES and --id", 2, "things", "links")
    says("give one of CUES and --id", 2, "things", "links", "cues.npy", "--id", "1")
    says("--threshold", 2, "things", "links", "--id", "1", "-t", "2")
    says("need --mode engram", 2, "things", "links", "--id", "1", "-m", "linear", "--no-embeddings")
    says("there is no 'odd'", 2, "things", "links", "--id", "1", "-m", "odd")
    says("no graph 'none'", 1, "things", "none", "--id", "1")
    says("no id 999", 1, "things", "links", "--id", "999")
    says("dimension 4, things has 16", 1, "things", "links", "short.npy")


def everything(t):
    files()
    t.run("load", "things", "rows.npy", "--create", "--metric", "cosine")
    t.run("graph", "load", "links", "links.tsv", "--create")
    tables(t)
    as_spread(t)
    options(t)
    refusals(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
