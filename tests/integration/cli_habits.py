"""cli_habits: what hands are used to: help in all its spellings, completion, questions before a drop,
a daemon that is waited for, a full disk."""
import os
import pty
import subprocess
import sys

import cli
from cli import check, write_npy

ROWS, DIMENSION = 12000, 4


def helps(t):
    whole, knn = t.run("--help").stdout, t.run("knn", "--help").stdout
    check(all(t.run(*words).stdout == whole for words in (["-h"], ["-?"], ["help"])), "help of all")
    check(all(t.run(*words).stdout == knn for words in (["knn", "-h"], ["help", "knn"])), "help knn")
    check("NAME FILE..." in t.run("help", "graph", "load").stdout, "help graph load")
    check("graph show" in t.run("help", "graph").stdout, "help graph")
    told = t.json("version")[0]
    check(told["tool"] == told["daemon"] == told["library"], "versions: %s" % told)
    check(t.json("--socket", "none", "version")[0]["daemon"] is None, "no daemon, still a version")


def completes(t):
    def offers(*words):
        return [l.split("\t")[0] for l in t.run_bare("__complete", *words).stdout.splitlines()]

    check(offers("kn") == ["knn"] and "similarity" in offers("s"), "commands")
    check(offers("graph", "sh") == ["show"] and offers("help", "graph", "sh") == ["show"], "verbs")
    check(offers("--socket", "socket", "knn", "ro") == ["rows"], "collections")
    check(offers("--socket=socket", "spread", "") == ["links"], "graphs")
    check(offers("--socket", "none", "knn", "") == [], "nobody to ask")
    check(offers("knn", "rows", "--q") == ["--queries", "--query", "--query-id"], "options")
    check(offers("collection", "create", "x", "-m", "") == ["cosine", "dot", "l2"], "values")
    check(offers("load", "rows", "") == offers("load", "x", "--ids=") == [":files"], "files")
    check("--expect" in offers("delete", "x", "--") and "--yes" in offers("graph", "drop", "--"),
          "shared options")
    live = offers("--socket", "socket", "config", "set", "gpu.")
    check("gpu.force" in live and "gpu.devices" not in live, "live settings: %s" % live)
    check(offers("--socket", "socket", "config", "get", "gpu.d") == ["gpu.devices"], "settings")
    check(offers("config", "") == ["get", "set"], "verbs of config")
    check(offers("completion", "") == ["bash", "zsh", "fish"], "shells")
    bash = """eval "$(%s completion bash)"; COMP_WORDS=(%s --socket socket collection create x
        --metric = c); COMP_CWORD=8; _engram_accel; echo "${COMPREPLY[@]}";
        COMP_WORDS=(%s --socket socket knn r); COMP_CWORD=4; _engram_accel; echo "${COMPREPLY[@]}"
        """ % (t.start[0], t.start[0], t.start[0])
    said = subprocess.run(["bash", "-c", bash], capture_output=True, text=True)
    check(said.stdout == "cosine\nrows\n", "bash: %r %s" % (said.stdout, said.stderr))
    for shell in "zsh", "fish":
        check("__complete" in t.run("completion", shell).stdout, shell)


def asked(t, answer, *words):
    """Runs it on a terminal that answers; gives the exit code and what was shown."""
    master, slave = pty.openpty()
    p = subprocess.Popen(t.start + list(words), stdin=slave, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 4096):
            if b"[y/N]" in part and b"[y/N]" not in shown:
                os.write(master, answer)
            shown += part
    except OSError:
        pass
    os.close(master)
    return p.wait(), shown.decode()


def drops(t):
    t.run("load", "large", "v.npy", "--create", "--metric", "l2")
    code, shown = asked(t, b"\n", "collection", "drop", "large")
    check(code == 1 and "12,000 rows" in shown and "--yes" in shown, "no: %d %s" % (code, shown))
    check(t.json("collection", "describe", "large")[0]["rows"] == ROWS, "it is still there")
    code, shown = asked(t, b"y\n", "collection", "drop", "large")
    check(code == 0, "yes: %d %s" % (code, shown))
    t.run("load", "large", "v.npy", "--create", "--metric", "l2")
    code, shown = asked(t, b"", "collection", "drop", "large", "--yes")
    check(code == 0 and "[y/N]" not in shown, "--yes: %d %s" % (code, shown))
    t.run("load", "large", "v.npy", "--create", "--metric", "l2")
    t.run("collection", "drop", "large")  # no terminal, no question
    t.run("collection", "create", "small", "--dim", "4", "--metric", "l2")
    code, shown = asked(t, b"", "collection", "drop", "small")
    check(code == 0 and "[y/N]" not in shown, "nothing to lose: %d %s" % (code, shown))


def writes(t):
    with open("/dev/full", "w", encoding="utf-8") as full:
        p = t.popen("knn", "rows", "--query-id", "1", stdout=full)
        said = p.communicate()[1]
    check(p.returncode == 4 and "No space left on device" in said, "full: %s" % said)
    p = t.popen("fetch", "rows", "--ids", "ids.npy", "--json", stdout=subprocess.PIPE)
    p.stdout.readline()
    p.stdout.close()
    said = p.stderr.read()
    check(p.wait() == 141 and said == "", "| head: %d %s" % (p.returncode, said))


def repeats(t):
    """A --create that failed leaves nothing, so that the same command works once its cause is gone;
    edges are never doubled without a word."""
    bad = [1.0] * (4 * ROWS)
    bad[-1] = float("nan")
    write_npy("late.npy", "f", "(%d, 4)" % ROWS, bad)
    said = t.run("load", "late", "late.npy", "--create", "--metric", "l2", code=4).stderr
    check("nothing is left" in said and "not a finite number" in said, "load: %s" % said)
    t.run("collection", "describe", "late", code=1)
    write_npy("late.npy", "f", "(%d, 4)" % ROWS, [1.0] * (4 * ROWS))
    t.run("load", "late", "late.npy", "--create", "--metric", "l2")
    there = t.json("collection", "describe", "late")[0]
    write_npy("other.npy", "f", "(2, 3)", [2.0] * 6)
    done = t.json("load", "late", "other.npy", "--replace", "--expect",
                  "exactly:%d" % there["version"])[0]
    check((done["replaced"], done["rows_in_collection"]) == (True, 2), "--replace: %s" % done)
    shown = t.json("collection", "describe", "late")[0]
    check((shown["dimension"], shown["metric"], shown["rows"]) == (3, "l2", 2), "metric: %s" % shown)
    write_npy("bad.npy", "f", "(%d, 4)" % ROWS, bad)
    said = t.run("load", "late", "bad.npy", "--replace", "--metric", "dot", code=4).stderr
    check("stopped: late is as it was" in said, said)
    said = t.run("load", "late", "late.npy", "--replace", "--expect", "exactly:1", code=1).stderr
    check("is expected" in said and "late is as it was" in said, said)
    check(t.json("collection", "describe", "late")[0] == shown, "as it was")
    check([c["name"] for c in t.json("collection", "list")[0]].count("late") == 1, "listed once")
    said = t.run("load", "never", "other.npy", "--replace", code=1).stderr
    check("--metric METRIC makes it" in said, said)
    t.run("load", "late", "other.npy", "--replace", "--create", code=2)
    t.run("load", "late", "late.npy", "--replace")
    with open("late.tsv", "w", encoding="utf-8") as f:
        f.write("1 2 0.5\n2 3 0.5\n3 4 x\n")
    said = t.run("graph", "load", "late", "late.tsv", "--create", code=4).stderr
    check("nothing is left" in said and "line 3" in said, "graph load: %s" % said)
    with open("late.tsv", "w", encoding="utf-8") as f:
        f.write("1 2 0.5\n2 3 0.5\n")
    t.run("graph", "load", "late", "late.tsv", "--create")
    said = t.run("graph", "load", "late", "late.tsv", code=1).stderr
    check("2 edges already" in said and "--replace" in said and "--add" in said, said)
    done = t.json("graph", "load", "late", "late.tsv", "--update")[0]
    check((done["edges_removed"], done["edges"]) == (2, 2), "--update: %s" % done)
    said = t.run("graph", "load", "late", "late.tsv", "--add").stdout
    check("; 2 edges beside one between the same nodes" in said and "4 edges" in said, "--add: %s" % said)


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def replaces(t):
    """The whole graph at one instant, or nothing of it."""
    write_text("new.tsv", "1 2 0.5\n2 3\n")
    done = t.json("graph", "load", "p", "new.tsv", "--replace")[0]
    check((done["edges"], done["edges_before"], done["replaced"]) == (2, 0, False), "new: %s" % done)
    write_text("other.tsv", "7 8 0.25\n")
    said = t.run("graph", "load", "p", "other.tsv", "--replace").stdout
    check("1 edge loaded" in said and "in place of 2 edges; the graph has 2 nodes, 1 edge" in said,
          said)
    shown = t.json("graph", "show", "p", "7")[0]["edges"]
    check(shown == [{"target": 8, "weight": .25}], "replaced: %s" % shown)
    there = t.json("graph", "describe", "p")[0]
    write_text("bad-late.tsv", "1 2\n3 x\n")
    said = t.run("graph", "load", "p", "bad-late.tsv", "--replace", code=4).stderr
    check("stopped: p is as it was" in said, said)
    said = t.run("graph", "load", "p", "new.tsv", "--replace", "--expect", "exactly:1", code=1).stderr
    check("is expected" in said and "p is as it was" in said, said)
    check(t.json("graph", "describe", "p")[0] == there, "nothing of it")
    done = t.json("graph", "load", "p", "new.tsv", "--replace", "--expect",
                  "exactly:%d" % there["version"])[0]
    check(done["replaced"] and done["version"] > there["version"], "expected: %s" % done)
    check(done["version"] == t.json("graph", "describe", "p")[0]["version"], "its version")
    t.run("graph", "drop", "p")
    check("~" not in str(t.json("graph", "list")), "what was abandoned is not listed")


def waits(t):
    late = cli.Tool("late")
    p = late.popen("ping", "--wait", "60", stdout=subprocess.PIPE)
    daemon = cli.start_daemon("late", "gpu.devices=none")
    said = p.communicate()[0]
    check(p.returncode == 0 and said.startswith("reply in"), "ping --wait: %s" % said)
    daemon.kill()
    daemon.wait()
    late.run("ping", "--wait", "0.05", code=3)


def everything(t):
    write_npy("v.npy", "f", "(%d, %d)" % (ROWS, DIMENSION), [i % 7 for i in range(ROWS * DIMENSION)])
    write_npy("ids.npy", "Q", "(%d,)" % ROWS, list(range(ROWS)))
    t.run("load", "rows", "v.npy", "--create", "--metric", "l2")
    t.run("graph", "create", "links")
    helps(t)
    completes(t)
    drops(t)
    writes(t)
    repeats(t)
    replaces(t)
    waits(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
