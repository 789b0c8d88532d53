"""cli_hrr: engram-accel hrr, against the real daemon and convolutions computed here."""
import array
import math
import os
import random
import signal
import subprocess
import sys

import cli
from cli import Tool, check, read_npy, start_daemon, until, write_npy

D, ROWS = 60, 7


def row_of(values, i):
    return list(values[i * D:(i + 1) * D])


def convolve(a, b):
    return [math.fsum(a[i] * b[(j - i) % D] for i in range(D)) for j in range(D)]


def norm(a):
    return math.sqrt(math.fsum(x * x for x in a))


def near(got, want, bound):
    return all(abs(g - w) <= bound for g, w in zip(got, want))


# The bound that kernels/hrr.h states, for each number.
def bound(a, b):
    return 4 * 2.0 ** -24 * (1 + math.log2(D)) * norm(a) * norm(b)


def files():
    random.seed(7)
    rows = {}
    for name, n in ("a", ROWS), ("b", ROWS), ("one", 1):
        rows[name] = [random.gauss(0, D ** -0.5) for _ in range(n * D)]
        write_npy(name + ".npy", "f", "(%d, %d)" % (n, D), rows[name])
        rows[name] = read_npy(name + ".npy")[1]
    write_npy("ids.npy", "Q", "(%d,)" % ROWS, [90 - i for i in range(ROWS)])
    write_npy("two.npy", "Q", "(2,)", [1, 2])
    write_npy("gap.npy", "Q", "(4,)", [0, 3, 3, ROWS])
    write_npy("flat.npy", "f", "(1, %d)" % D, [1] * D)
    write_npy("short.npy", "f", "(2, 8)", [1] * 16)
    return rows


def bound_rows(name, a, b, count):
    shape, got = read_npy(name)
    check(shape == (count, D), "%s: shape %s" % (name, shape))
    for i in range(count):
        x, y = row_of(a, i % (len(a) // D)), row_of(b, i % (len(b) // D))
        check(near(row_of(got, i), convolve(x, y), bound(x, y)), "%s: row %d" % (name, i))
    return got


def binds(t, rows):
    said = t.run("hrr", "bind", "a.npy", "b.npy", "--out", "c.npy")
    check(said.stdout == "c.npy  float32  %d x %d\n" % (ROWS, D), said.stdout)
    check(said.stderr.startswith("%d pairs in 1 request: cpu (gpu_absent)" % ROWS), said.stderr)
    c = bound_rows("c.npy", rows["a"], rows["b"], ROWS)
    t.run("hrr", "bind", "b.npy", "a.npy", "--out", "back.npy")
    check(read_npy("back.npy")[1] == c, "the other way round, the same bits")
    told = t.json("hrr", "bind", "one.npy", "b.npy", "--out", "many.npy", "--normalize")[0]
    check(told["results"] == ROWS and told["dimension"] == D and told["file"] == "many.npy" and
          told["requests"] == 1, "--json: %s" % told)
    got = read_npy("many.npy")[1]
    for i in range(ROWS):
        want = convolve(row_of(rows["one"], 0), row_of(rows["b"], i))
        length = norm(want)
        check(near(row_of(got, i), [x / length for x in want], 1e-5), "normalized row %d" % i)
    return c


def by_id(t, rows, c):
    for name in "roles", "bound":
        t.run("collection", "create", name, "--dim", str(D), "--metric", "cosine")
    t.run("load", "roles", "a.npy", "--ids", "ids.npy")  # 90, 89, ... 84
    t.run("hrr", "bind", "roles:@ids.npy", "b.npy", "--out", "stored.npy")
    check(read_npy("stored.npy")[1] == c, "ids of a file, the same bits")
    t.run("hrr", "bind", "b.npy", "roles:84-90", "--out", "range.npy")
    backwards = [x for i in reversed(range(ROWS)) for x in row_of(rows["a"], i)]
    bound_rows("range.npy", rows["b"], backwards, ROWS)
    t.run("hrr", "bind", "roles:90", "b.npy", "--out", "fixed.npy")
    bound_rows("fixed.npy", row_of(rows["a"], 0), rows["b"], ROWS)
    os.link("a.npy", "roles:90")  # a file of that name is written with its folder
    check("unknown kind of file" in t.run("hrr", "bind", "./roles:90", "b.npy", "--out", "x.npy",
                                          code=4).stderr, "./roles:90 is a file")


def into(t, c):
    said = t.run("hrr", "bind", "roles:@ids.npy", "b.npy", "--into", "bound", "--ids", "5")
    check(said.stdout == "bound: 7 rows inserted, 0 replaced; the collection has 7\n", said.stdout)
    t.run("fetch", "bound", *map(str, range(5, 5 + ROWS)), "--out", "kept.npy")
    check(read_npy("kept.npy")[1] == c, "kept under ids 5 to 11, the same bits")
    told = t.json("hrr", "bind", "a.npy", "b.npy", "--into", "bound", "--ids", "ids.npy")[0]
    check((told["collection"], told["inserted"], told["replaced"], told["rows"], told["complete"]) ==
          ("bound", 7, 0, 14, True), "--into --json: %s" % told)
    version = t.json("collection", "describe", "bound")[0]["version"]
    check(told["version"] == version, "its version: %s, %d" % (told, version))
    words = ["hrr", "bind", "a.npy", "b.npy", "--into", "bound", "--ids", "ids.npy", "--expect"]
    t.run(*words, "exactly:%d" % version)
    check("version" in t.run(*words, "exactly:%d" % version, code=1).stderr, "--expect, too late")
    t.run("hrr", "bind", "roles:90", "roles:@ids.npy", "--into", "roles", "--ids", "ids.npy")


def unbinds(t, rows, c):
    t.run("hrr", "unbind", "c.npy", "b.npy", "--out", "back.npy")
    back = read_npy("back.npy")[1]
    for i in range(ROWS):
        x, y = row_of(c, i), row_of(rows["b"], i)
        check(near(row_of(back, i), convolve(x, y[:1] + y[:0:-1]), bound(x, y)), "unbind %d" % i)
    t.run("hrr", "unbind", "c.npy", "b.npy", "--exact", "--out", "exact.npy")
    exact = read_npy("exact.npy")[1]
    check(all(abs(x - y) < 1e-3 for x, y in zip(exact, rows["a"])), "--exact gives a again")
    said = t.run("hrr", "unbind", "c.npy", "flat.npy", "--exact", "--out", "x.npy", code=1)
    check("no exact inverse" in said.stderr, "a zero in the spectrum: " + said.stderr)
    t.run("hrr", "bind", "a.npy", "b.npy", "--exact", "--out", "x.npy", code=2)


def lists(t, rows):
    weights = [0.5, -1.0, 2.0, 0.25, 1.0, 3.0, -0.5]
    write_npy("weights.npy", "f", "(%d,)" % ROWS, weights)
    write_npy("lists.npy", "Q", "(4,)", [0, 1, 3, ROWS])
    t.run("hrr", "superpose", "a.npy", "--lists", "lists.npy", "--weights", "weights.npy", "--raw",
          "--out", "sums.npy")
    shape, sums = read_npy("sums.npy")
    want = [[math.fsum(weights[i] * rows["a"][i * D + j] for i in range(first, end))
             for j in range(D)] for first, end in ((0, 1), (1, 3), (3, ROWS))]
    check(shape == (3, D) and all(near(row_of(sums, i), want[i], 1e-6) for i in range(3)), "sums")
    said = t.run("hrr", "superpose", "roles:84-90", "--out", "sum.npy").stderr
    check(said.startswith("1 list in 1 request"), said)
    check(abs(norm(read_npy("sum.npy")[1]) - 1) < 1e-6, "divided by its norm")
    t.run("hrr", "product", "a.npy", "--lists", "lists.npy", "--out", "products.npy")
    shape, products = read_npy("products.npy")
    want = convolve(row_of(rows["a"], 1), row_of(rows["a"], 2))
    check(shape == (3, D) and row_of(products, 0) == row_of(rows["a"], 0), "a product of one")
    check(near(row_of(products, 1), want, bound(row_of(rows["a"], 1), row_of(rows["a"], 2))), "of two")
    t.run("hrr", "product", "a.npy", "--into", "bound", "--ids", "1000", "--normalize")


def cleans(t, rows):
    t.run("collection", "create", "words", "--dim", str(D), "--metric", "cosine")
    t.run("load", "words", "a.npy", "--ids", "ids.npy")
    hits = t.json("hrr", "cleanup", "words", "c.npy", "b.npy", "-k", "2")
    check([h["hits"][0]["id"] for h in hits] == [90 - i for i in range(ROWS)], "cleanup: %s" % hits)
    t.run("hrr", "unbind", "c.npy", "b.npy", "--out", "noisy.npy")
    for one, other in zip(hits, t.json("knn", "words", "--queries", "noisy.npy", "-k", "2")):
        check(one["hits"] == other["hits"], "as unbind and knn: %s, %s" % (one, other))
    t.run("hrr", "cleanup", "words", "c.npy", "b.npy", "--exact", "--threshold", "0.9", "--out", "w")
    shape, ids = read_npy("w.ids.npy")
    check(shape == (ROWS, 1) and list(ids) == [90 - i for i in range(ROWS)], "--exact --out")
    said = t.run("hrr", "cleanup", "words", "c.npy", "roles:84-85", code=1).stderr
    check("or one of either" in said, said)
    t.run("hrr", "cleanup", "words", "c.npy", code=2)
    check("nobody" in t.run("hrr", "cleanup", "nobody", "c.npy", "b.npy", code=1).stderr, "nobody")


def shows_progress(t, rows):
    """Pairs of many requests."""
    many = 300000
    write_npy("many.npy", "f", "(%d, %d)" % (many, D), array.array("f", row_of(rows["a"], 0)) * many)
    for words in (["hrr", "cleanup", "words", "many.npy", "one.npy", "--out", "many"],
                  ["hrr", "unbind", "many.npy", "one.npy", "--out", "shown.npy"],
                  ["hrr", "superpose", "many.npy", "--lists", "pairs.npy", "--out", "shown.npy"]):
        if "--lists" in words:
            write_npy("pairs.npy", "Q", "(%d,)" % (many // 2 + 1), range(0, many + 1, 2))
        out, shown = t.on_terminal(*words)
        check(b" %  " in shown and b" rows" in shown, "%s: progress: %r" % (words[1], shown[:80]))
        check(b"%" not in out, "%s: the line is on standard error alone: %r" % (words[1], out[:80]))
    shape, ids = read_npy("many.ids.npy")
    check(shape == (many, 1), "all of them: %s" % (shape,))


def permutes(t, rows):
    t.run("hrr", "permute", "a.npy", "--shift", "2", "--out", "turned.npy")
    want = [row_of(rows["a"], i)[-2:] + row_of(rows["a"], i)[:-2] for i in range(ROWS)]
    check(list(read_npy("turned.npy")[1]) == sum(want, []), "shifted by 2")
    t.run("hrr", "permute", "turned.npy", "--shift=-62", "--out", "again.npy")
    check(read_npy("again.npy")[1] == rows["a"], "and back, once around")


def seeds(t):
    words = ["hrr", "random", "--dim", str(D), "--seed", "9"]
    t.run(*words, "--count", "9", "--out", "random.npy")
    t.run(*words, "--count", "4", "--first", "5", "--out", "later.npy")
    shape, got = read_npy("random.npy")
    check(shape == (9, D) and list(read_npy("later.npy")[1]) == list(got[5 * D:]), "--first 5")
    check(0.8 < math.fsum(x * x for x in got) / 9 < 1.2, "of variance 1 / D")
    t.run(*words, "-n", "4", "--first", "5", "--unit", "--into", "bound", "--ids", "2000")
    t.run("fetch", "bound", "2000", "2003", "--out", "units.npy")
    units = read_npy("units.npy")[1]
    length = norm(row_of(got, 5))
    check(near(row_of(units, 0), [x / length for x in row_of(got, 5)], 1e-6), "--unit")


def refusals(t):
    pairs = ["hrr", "bind", "a.npy", "b.npy"]
    before = t.json("collection", "describe", "bound")[0]
    for words, code, text in [
            (["hrr"], 2, "one of these is needed"),
            (["hrr", "bnid"], 2, "unknown command 'hrr bnid'"),
            (["hrr", "bind", "a.npy", "--out", "x.npy"], 2, "two operands are needed"),
            (pairs + ["b.npy", "--out", "x.npy"], 2, "unexpected argument"),
            (pairs, 2, "give --out or --into"),
            (pairs + ["--out", "x.npy", "--into", "bound", "--ids", "0"], 2, "--out or --into"),
            (pairs + ["--into", "bound"], 2, "go together"),
            (pairs + ["--out", "x.npy", "--ids", "0"], 2, "go together"),
            (pairs + ["--out", "x.npy", "--expect", "exactly:3"], 2, "--expect belongs to --into"),
            (pairs + ["--into", "bound", "--ids", str(2 ** 64 - 3)], 2, "too many"),
            (["hrr", "bind", "roles:x", "b.npy", "--out", "x.npy"], 2, "is not NAME:ID"),
            (["hrr", "bind", "roles:9-3", "b.npy", "--out", "x.npy"], 2, "is not NAME:ID"),
            (["hrr", "bind", "missing.npy", "b.npy", "--out", "x.npy"], 4, "missing.npy: cannot"),
            (["hrr", "bind", "a.npy", "roles:@gone.npy", "--out", "x.npy"], 4, "gone.npy: cannot"),
            (pairs + ["--into", "bound", "--ids", "gone.npy"], 4, "gone.npy: cannot open"),
            (pairs + ["--into", "bound", "--ids", "two.npy"], 4, "there are 7 results"),
            (pairs + ["--out", "/nonexistent/x.npy"], 4, "/nonexistent"),
            (["hrr", "bind", "a.npy", "short.npy", "--out", "x.npy"], 1, "has dimension 60"),
            (["hrr", "bind", "a.npy", "roles:84-85", "--out", "x.npy"], 1, "or one of either"),
            (["hrr", "bind", "roles:7", "b.npy", "--out", "x.npy"], 1, "there is no id 7"),
            (["hrr", "bind", "nobody:7", "b.npy", "--out", "x.npy"], 1, "nobody"),
            (pairs + ["--into", "nobody", "--ids", "0"], 1, "nobody"),
            (["hrr", "superpose", "--out", "x.npy"], 2, "A are needed"),
            (["hrr", "superpose", "a.npy", "b.npy", "--out", "x.npy"], 2, "unexpected"),
            (["hrr", "superpose", "a.npy", "--lists", "two.npy", "--out", "x.npy"], 4, "ends at 7"),
            (["hrr", "superpose", "a.npy", "--lists", "gap.npy", "--out", "x.npy"], 4, "1 is empty"),
            (["hrr", "superpose", "a.npy", "--weights", "b.npy", "--out", "x.npy"], 4, "weights"),
            (["hrr", "product", "a.npy", "--weights", "b.npy", "--out", "x.npy"], 2, "weights"),
            (["hrr", "permute", "a.npy", "--out", "x.npy"], 2, "--shift is needed"),
            (["hrr", "permute", "a.npy", "--shift", "far", "--out", "x.npy"], 2, "--shift"),
            (["hrr", "random", "-n", "3", "-d", "8", "--out", "x.npy"], 2, "--seed are needed"),
            (["hrr", "random", "-n", "0", "-d", "8", "--seed", "1", "--out", "x.npy"], 2, "--count"),
            (["hrr", "random", "-n", "3", "-d", "8", "--seed", "1", "--into", "bound", "--ids", "1"],
             1, "dimension")]:
        said = t.run(*words, code=code)
        check(text in said.stderr, "%s: %s" % (" ".join(words), said.stderr))
        check(not [f for f in os.listdir(".") if f.startswith("x.npy")], "%s: no file" % words)
    check(t.json("collection", "describe", "bound")[0] == before, "nothing was changed")


def in_pieces(folder):
    """Bodies of 1 MiB: more pairs than that go as several requests, which Ctrl-C ends between two."""
    daemon = start_daemon("narrow", "gpu.devices=none", "limits.request_body_mib=1",
                          "limits.reply_body_mib=1")
    t = Tool("narrow")
    try:
        many = 200000
        line = [0.0] * D
        line[1] = 1.0
        with open("many.fbin", "wb") as f:
            f.write(many.to_bytes(4, "little") + D.to_bytes(4, "little"))
            f.write(cli.array.array("f", line).tobytes() * many)
        told = t.json("hrr", "bind", "many.fbin", "one.npy", "--out", "turned.npy")[0]
        check(told["results"] == many and told["requests"] > 4, "several requests: %s" % told)
        shape, got = read_npy("turned.npy")
        one = list(read_npy("one.npy")[1])
        want = one[-1:] + one[:-1]  # bound to the second unit vector, a row is shifted by one
        check(shape == (many, D) and near(got[-D:], want, bound(line, one)), "the last row")
        check(got[:D] == got[-D:], "the first and the last row have the same bits")
        t.run("collection", "create", "big", "--dim", str(D), "--metric", "dot")
        p = t.popen("hrr", "bind", "many.fbin", "many.fbin", "--into", "big", "--ids", "0",
                    "--json", stdout=subprocess.PIPE)
        until("the first results",
              lambda: p.poll() is not None or t.json("collection", "describe", "big")[0]["rows"])
        p.send_signal(signal.SIGINT)
        out, err = p.communicate()
        rows = t.json("collection", "describe", "big")[0]["rows"]
        told = cli.json.loads(out.splitlines()[0])  # after Ctrl-C the error is a second line
        check(told["results"] == rows, "as many are in as it says: %s, %d" % (told, rows))
        if p.returncode == 130:
            check("interrupted: " in err and not told["complete"], "Ctrl-C: " + err)
            last = cli.json.loads(out.splitlines()[1])["error"]
            check(last["exit"] == 130 and "interrupted" in last["message"], "as JSON: %s" % last)
        else:
            check(p.returncode == 0 and rows == many, "faster than Ctrl-C: " + err)
    finally:
        daemon.kill()
        daemon.wait()


def everything(t):
    rows = files()
    c = binds(t, rows)
    by_id(t, rows, c)
    into(t, c)
    unbinds(t, rows, c)
    lists(t, rows)
    cleans(t, rows)
    shows_progress(t, rows)
    permutes(t, rows)
    seeds(t)
    refusals(t)
    in_pieces(os.getcwd())


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
