"""cli_cluster: engram-accel cluster, against the real daemon."""
import os
import pty
import signal
import subprocess
import sys

import cli
from cli import check

try:
    import numpy as np
except ImportError:
    print("SKIP cli_cluster: no numpy")
    sys.exit(77)

D, THEMES, ROWS, NONE = 48, 12, 300, 2**64 - 1


def files():
    random = np.random.default_rng(5)
    themes = np.arange(ROWS) % THEMES
    rows = (random.normal(size=(THEMES, D))[themes] + 0.3 * random.normal(size=(ROWS, D)))
    np.save("rows.npy", rows.astype("f4"))
    np.save("hours.npy", (themes * 1000 + random.random(ROWS)).astype("f8"))
    np.save("few.npy", np.arange(ROWS - 1, -1, -3).astype("i8"))
    np.save("short.npy", np.zeros(7, "f4"))
    np.save("two.npy", np.ones((2, 2), "f4"))
    with open("names.txt", "w") as f:
        f.writelines("row%d\n" % i for i in range(ROWS))
    return rows.astype("f4"), themes


def same_sets(labels, themes):
    check(len(set(labels.tolist())) == THEMES, labels)
    for label in range(THEMES):
        check(len(set(themes[labels == label].tolist())) == 1, "cluster %d" % label)


def computes(t, rows, themes):
    t.run("load", "facts", "rows.npy", "--create", "--metric", "dot")
    for rule in (["centroid"], ["average"], ["average", "--times", "hours.npy"]):
        said = t.run("cluster", "facts", "--rule", *rule, "--out", "c", "--show", "2", "--names",
                     "names.txt")
        lines = said.stdout.splitlines()
        check(lines[0].split() == ["cluster", "size", "score", "members"], lines)
        check(len(lines) == 1 + THEMES and lines[1].split()[:2] == ["0", "25"], lines)
        check("300 rows, 288 merges" in said.stderr and "12 clusters in 1 request" in said.stderr,
              said.stderr)
        labels = np.load("c.labels.npy")
        check(labels.dtype == np.uint64 and (np.load("c.ids.npy") == np.arange(ROWS)).all(), labels)
        same_sets(labels, themes)
        first = np.flatnonzero(labels == 0)[:2]
        check(lines[1].split()[3:] == ["row%d," % first[0], "row%d," % first[1], "..."], lines)
        check((np.load("c.sizes.npy") == 25).all() and np.load("c.scores.npy").shape == (THEMES,),
              "sizes and scores")
        means = np.stack([rows[labels == i].astype("f8").mean(0) for i in range(THEMES)])
        check((np.load("c.centroids.npy") == means.astype("f4")).mean() > 0.999, "centroids")


def chooses(t, themes):
    t.run("cluster", "facts", "--ids", "few.npy", "--out", "few", "--size-min", "2",
          "--clusters-max", "3", "--second-threshold", "0.95", "--score-min", "0.5")
    ids, labels = np.load("few.ids.npy"), np.load("few.labels.npy")
    check((ids == np.load("few.npy")).all() and (labels == NONE).sum() > 0, labels)
    check(set(labels.tolist()) == {0, 1, 2, NONE}, labels)
    for label in range(3):
        check(len(set(themes[ids[labels == label].astype(int)].tolist())) == 1, label)
    told = t.json("cluster", "facts", "--clusters-max", "2")
    check(len(told) == 2 and told[0]["cluster"] == 0 and told[0]["size"] == 25, told)
    first = told[1]["members"][0]
    check(told[1]["members"] == list(range(first, ROWS, THEMES)), told)
    check(told[0]["backend"] == "cpu" and told[0]["score"] >= told[1]["score"] > 0.9, told)
    t.run("collection", "create", "themes", "--dim", str(D), "--metric", "cosine")
    said = t.run("cluster", "facts", "--into", "themes", "--into-first", "70")
    check(said.stdout.splitlines()[-1] == "themes: 12 inserted, 0 replaced", said.stdout)
    told = t.json("knn", "themes", "--queries", "rows.npy", "-k", "1")
    check(len(told) == ROWS and told[first]["hits"][0]["id"] == 71, told[first])


def rehearses(t):
    said = t.run("cluster", "facts", "--dry-run", "--out", "never")
    check(said.stdout.startswith("facts: some ") and "nothing was clustered" in said.stdout, said)
    told = t.json("cluster", "facts", "--dry-run", "--rule", "average")
    check(len(told) == 1 and told[0]["predicted_ns"] > 0 and "cluster" not in told[0], told)


def fails(t, code, text, *words):
    said = t.run(*words, code=code)
    check(text in said.stderr, "%s: %s" % (text, said.stderr))


def refusals(t):
    fails(t, 2, "the collection's NAME is needed", "cluster")
    fails(t, 2, "no rule 'mean'", "cluster", "facts", "--rule", "mean")
    fails(t, 2, "--times is for --rule=average", "cluster", "facts", "--times", "hours.npy")
    fails(t, 2, "--second-threshold is for", "cluster", "facts", "--rule", "average",
          "--second-threshold", "1")
    fails(t, 2, "--into-first is for --into", "cluster", "facts", "--into-first", "1")
    fails(t, 2, "--expect belongs to --into", "cluster", "facts", "--expect", "exactly:5")
    fails(t, 2, "--threshold", "cluster", "facts", "--threshold", "1.5")
    fails(t, 2, "--size-min", "cluster", "facts", "--size-min", "0")
    fails(t, 1, "there is no collection 'gone'", "cluster", "gone", "--out", "never")
    fails(t, 1, "times: 7 for 300 rows", "cluster", "facts", "--rule", "average", "--times",
          "short.npy")
    fails(t, 4, "one time a row is wanted", "cluster", "facts", "--rule", "average", "--times",
          "two.npy")
    fails(t, 4, "none.npy: cannot open", "cluster", "facts", "--ids", "none.npy")
    before = t.json("collection", "describe", "themes")
    fails(t, 4, "cannot create", "cluster", "facts", "--into", "themes", "--into-first", "900",
          "--out", "no/such/folder")
    check(t.json("collection", "describe", "themes") == before, "asked before it can be written")
    check(not os.path.exists("never.ids.npy"), "nothing is written of a failure")


def lasts(t):
    """On a terminal a line says how far it is; Ctrl-C ends it at the daemon."""
    many = 131072
    np.save("many.npy", np.random.default_rng(2).normal(size=(many, 64)).astype("f4"))
    t.run("load", "many", "many.npy", "--create", "--metric", "dot")
    master, slave = pty.openpty()
    p = subprocess.Popen(t.start + ["cluster", "many", "--threshold", "0.2"], stderr=slave,
                         stdout=subprocess.PIPE, text=True)
    os.close(slave)
    shown, sent = b"", False
    try:
        while part := os.read(master, 4096):
            shown += part
            if b"pairs" in shown and not sent:
                p.send_signal(signal.SIGINT)
                sent = True
    except OSError:  # how a pty says that its other end is closed
        pass
    os.close(master)
    p.communicate()
    check(b" %  pairs " in shown and b" / 17,179,869,184  " in shown, "%r" % shown[:200])
    told = shown.decode().replace("\r", "\n").strip().splitlines()[-1]
    check(p.returncode == 130 and "many: interrupted (pairs " in told and
          told.endswith("): nothing was clustered, nothing stored"), "%r" % shown[-300:])
    t.run("collection", "drop", "many")


def everything(t):
    rows, themes = files()
    computes(t, rows, themes)
    chooses(t, themes)
    rehearses(t)
    refusals(t)
    lasts(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
