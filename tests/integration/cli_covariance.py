"""cli_covariance: engram-accel covariance, against the real daemon and numpy.cov."""
import os
import sys

import cli
from cli import check

try:
    import numpy as np
except ImportError:
    print("SKIP cli_covariance: no numpy")
    sys.exit(77)

D, ROWS, NEAR = 70, 9001, 1e-12


def files():
    random = np.random.default_rng(5)
    rows = (random.normal(size=(ROWS, D)) * np.linspace(0.1, 3, D) + 20).astype("f4")
    np.save("rows.npy", rows)
    np.save("weights.npy", random.random(ROWS))
    chosen = random.permutation(ROWS)[:500].astype("u8")
    np.save("chosen.npy", chosen)
    np.save("chosen_weights.npy", random.random(500).astype("f4"))
    np.save("two.npy", np.ones((2, 2), "f4"))
    np.save("bad.npy", np.full(500, -1, "f4"))
    return rows.astype("f8"), chosen.astype("i8")


def near(got, want, what):
    worst = np.abs(got - want).max() / np.abs(want).max()
    check(got.shape == want.shape and worst < NEAR, "%s: off by %g" % (what, worst))


def computes(t, rows, chosen):
    t.run("load", "facts", "rows.npy", "--create", "--metric", "dot")
    said = t.run("covariance", "facts", "--out", "all.npy", "--mean", "mean.npy")
    lines = said.stdout.splitlines()
    check(lines[0].split() == ["rows", "9,001"] and lines[1].split() == ["dimension", "70"], lines)
    check(lines[-2:] == ["all.npy  float64  70 x 70", "mean.npy  float64  70"], lines)
    check(said.stderr.startswith("9,001 rows in 1 request: cpu (gpu_absent)"), said.stderr)
    got = np.load("all.npy")
    check(got.dtype == np.float64 and (got == got.T).all(), "symmetric, of float64")
    near(got, np.cov(rows.T), "all rows")
    near(np.load("mean.npy"), rows.mean(0), "mean")
    weights = np.load("weights.npy").astype("f4").astype("f8")
    t.run("covariance", "facts", "--weights", "weights.npy", "--out", "weighed.npy", "--mean",
          "mean.npy")
    near(np.load("weighed.npy"), np.cov(rows.T, aweights=weights), "weights")
    near(np.load("mean.npy"), np.average(rows, 0, weights), "mean by weights")
    weights = np.load("chosen_weights.npy").astype("f8")
    t.run("covariance", "facts", "--ids", "chosen.npy", "--weights", "chosen_weights.npy", "--out",
          "some.npy")
    near(np.load("some.npy"), np.cov(rows[chosen].T, aweights=weights), "some rows")
    t.run("covariance", "facts", "5", "7", "9", "--out", "few.npy")
    near(np.load("few.npy"), np.cov(rows[[5, 7, 9]].T), "three rows")


def tells_json(t, rows):
    told = t.json("covariance", "facts")[0]
    check(told["rows"] == ROWS and told["dimension"] == D and told["total"] == ROWS, told)
    check(told["divisor"] == ROWS - 1 and told["backend"] == "cpu" and "file" not in told, told)
    check(abs(told["variance"] / rows.var(0, ddof=1).sum() - 1) < NEAR, told)
    check(abs(told["mean_squared"] / (rows.mean(0) ** 2).sum() - 1) < NEAR, told)
    told = t.json("covariance", "facts", "1", "2", "--out", "two_rows.npy")[0]
    check(told["rows"] == 2 and told["file"] == "two_rows.npy", told)


def rehearses(t):
    said = t.run("covariance", "facts", "--dry-run", "--out", "never.npy")
    check(said.stdout.startswith("facts: some ") and "on the cpu" in said.stdout and
          "nothing was computed" in said.stdout and not said.stderr, said)
    told = t.json("covariance", "facts", "--dry-run")
    check(len(told) == 1 and told[0]["predicted_ns"] > 0 and "rows" not in told[0], told)
    fails(t, 1, "ids: 1, a covariance needs 2 rows or more", "covariance", "facts", "4",
          "--dry-run")


def fails(t, code, text, *words):
    said = t.run(*words, code=code)
    check(text in said.stderr, "%s: %s" % (text, said.stderr))


def refusals(t):
    fails(t, 2, "the collection's NAME is needed", "covariance")
    fails(t, 2, "'x'", "covariance", "facts", "x")
    fails(t, 1, "there is no collection 'gone'", "covariance", "gone", "--out", "never.npy")
    fails(t, 1, "ids: 1, a covariance needs 2 rows or more", "covariance", "facts", "4")
    fails(t, 1, "there is no id 99999", "covariance", "facts", "4", "99999")
    fails(t, 1, "weights: 500 rows, facts has 9001", "covariance", "facts", "--weights",
          "chosen_weights.npy")
    fails(t, 1, "weight 0 is -1, 0 or more wanted", "covariance", "facts", "--ids", "chosen.npy",
          "--weights", "bad.npy")
    fails(t, 4, "has 500 weights for 2 ids", "covariance", "facts", "1", "2", "--weights",
          "chosen_weights.npy")
    fails(t, 4, "has 2 columns, one is wanted", "covariance", "facts", "--weights", "two.npy")
    fails(t, 4, "none.npy: cannot open", "covariance", "facts", "--ids", "none.npy")
    fails(t, 4, "cannot create", "covariance", "facts", "--out", "no/such/folder.npy")
    fails(t, 4, "cannot create", "covariance", "facts", "--out", "never.npy", "--mean",
          "no/such/mean.npy")
    check(not os.path.exists("never.npy"), "nothing is written of a failure")


def everything(t):
    rows, chosen = files()
    computes(t, rows, chosen)
    tells_json(t, rows)
    rehearses(t)
    refusals(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
