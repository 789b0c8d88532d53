"""cli_export: what is exported loads again to the same bits, and appears whole or not at all; what has
changed since a version."""
import os
import struct
import subprocess
import sys

import cli
from cli import check, write_npy

ROWS, DIMENSION = 5000, 6


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def rows(t):
    # Numbers that no text would keep: the last bits matter.
    values = [struct.unpack("<f", struct.pack("<I", 0x3f000001 + i * 977))[0]
              for i in range(ROWS * DIMENSION)]
    write_npy("v.npy", "f", "(%d, %d)" % (ROWS, DIMENSION), values)
    write_npy("ids.npy", "Q", "(%d,)" % ROWS, [i * 3 + 2**63 for i in range(ROWS)])
    t.run("load", "rows", "v.npy", "--ids", "ids.npy", "--create", "--metric", "l2")
    done = t.json("export", "rows", "--out", "out.npy", "--ids", "out-ids.npy")[0]
    about = t.json("collection", "describe", "rows")[0]
    check((done["rows"], done["dimension"], done["kind"], done["version"]) ==
          (ROWS, DIMENSION, "collection", about["version"]), "export: %s" % done)
    check(contents("out.npy")[-4 * ROWS * DIMENSION:] == contents("v.npy")[-4 * ROWS * DIMENSION:],
          "rows, bit for bit")
    check(contents("out-ids.npy")[-8 * ROWS:] == contents("ids.npy")[-8 * ROWS:], "ids")
    t.run("load", "again", "out.npy", "--ids", "out-ids.npy", "--create", "--metric", "l2")
    t.run("export", "again", "--out", "third.npy", "--ids", "third-ids.npy")
    check(contents("third.npy") == contents("out.npy") and
          contents("third-ids.npy") == contents("out-ids.npy"), "and back again")
    p = subprocess.run(t.start + ["export", "rows", "--out", "-"], capture_output=True)
    check(p.returncode == 0 and p.stdout == contents("out.npy") and b"5,000 rows" in p.stderr,
          "standard output: %s" % p.stderr)
    t.run("collection", "create", "empty", "--dim", "3", "--metric", "dot")
    check(t.json("export", "empty", "--out", "e.npy")[0]["rows"] == 0, "nothing")
    t.run("load", "empty", "e.npy")


def graphs(t):
    lines = ["1 2 0.1", "2 1 -3.25e-7", "2 3 1", "2 3 1", "7 7 16777217", "3 1 0.33333334"]
    with open("g.tsv", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    with open("kinds.tsv", "w", encoding="utf-8") as f:
        f.write("1 concept 2\n7 episode 0.1\n50 plain\n")
    t.run("graph", "load", "g", "g.tsv", "--create")
    t.run("graph", "set", "g", "kinds.tsv")
    nodes = ["1", "2", "3", "7", "50"]
    before = t.json("graph", "show", "g", *nodes)
    for ending in ("mtx", "npy", "tsv"):
        done = t.json("export", "g", "--out", "g-out." + ending, "--nodes", "n-out.tsv")[0]
        check((done["edges"], done["nodes"], done["kind"]) == (6, 5, "graph"), "export: %s" % done)
        name = "from-" + ending
        t.run("graph", "load", name, "g-out." + ending, "--create")
        t.run("graph", "set", name, "n-out.tsv")
        check(t.json("graph", "show", name, *nodes) == before, ending + ": the same bits")
    p = subprocess.run(t.start + ["export", "g", "--out", "-"], capture_output=True, text=True)
    check(p.returncode == 0 and p.stdout.count("\n") == 6, "standard output: " + p.stdout)
    with open("far.tsv", "w", encoding="utf-8") as f:
        f.write("1 %d\n" % (2**53 + 2))
    t.run("graph", "load", "far", "far.tsv", "--create")
    said = t.run("export", "far", "--out", "far.npy", code=1).stderr
    check("above 2^53" in said and not os.path.exists("far.npy"), said)
    t.run("export", "far", "--out", "far.mtx")
    t.run("graph", "load", "far2", "far.mtx", "--create")
    check(t.json("graph", "show", "far2", str(2**53 + 2))[0]["found"], "through .mtx")
    said = t.run("export", "g", "--out", "g.xyz", code=2).stderr
    check(".mtx, .npy or .tsv" in said, said)


def wrong(t):
    os.mkdir("folder")
    for words, code, told in ((["none", "--out", "x.npy"], 1, "no collection or graph 'none'"),
                              (["rows"], 2, "--out FILE are needed"),
                              (["rows", "--out", "folder"], 4, "folder: cannot create"),
                              (["rows", "--out", "none/x.npy"], 4, "none/x.npy: cannot create"),
                              (["g", "--out", "g.mtx", "--ids", "x.npy"], 2, "of a collection"),
                              (["rows", "--out", "x.npy", "--nodes", "x"], 2, "of a graph"),
                              (["rows", "--out", "/dev/full"], 4, "No space left on device"),
                              (["g", "--out", "/dev/full"], 4, "No space left on device"),
                              (["rows", "--graph", "--out", "x.npy"], 1, "no graph 'rows'")):
        said = t.run("export", *words, code=code).stderr
        check(told in said, "%s: %s" % (words, said))
    t.run("graph", "create", "rows")
    said = t.run("export", "rows", "--out", "x.npy", code=2).stderr
    check("a collection and a graph" in said, said)
    t.run("export", "rows", "--collection", "--out", "x.npy")
    # A file that cannot become larger leaves nothing, and what was there stays.
    before = contents("x.npy")
    def bound():
        import resource
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))
    p = subprocess.run(t.start + ["export", "rows", "--collection", "--out", "x.npy"],
                       capture_output=True, text=True, preexec_fn=bound)
    check(p.returncode == 4 and "File too large" in p.stderr, "full: %s" % p.stderr)
    check(contents("x.npy") == before, "what was there stays")
    check([f for f in os.listdir(".") if f.startswith("x.npy")] == ["x.npy"], "no half file")


def changes(t):
    first = t.json("changes")[0]
    kinds = {(o["kind"], o["name"]) for o in first["objects"]}
    check(("collection", "rows") in kinds and ("graph", "g") in kinds, "all: %s" % first)
    check(first["total"] == len(first["objects"]), "total: %s" % first)
    t.run("delete", "rows", str(2**63))
    later = t.json("changes", "--since", str(first["version"]))[0]
    check([(o["kind"], o["name"]) for o in later["objects"]] == [("collection", "rows")],
          "changed: %s" % later)
    check((later["instance"], later["generation"]) == (first["instance"], first["generation"]), "")
    said = t.run("changes", "--since", str(later["version"]))
    check(said.stdout == "" and "0 of " in said.stderr, said.stderr)


def everything(t):
    rows(t)
    graphs(t)
    wrong(t)
    changes(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
