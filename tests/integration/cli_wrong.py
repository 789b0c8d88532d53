"""cli_wrong: 100 commands that are wrong in one way each. Each ends by itself with the documented exit
code, says what is wrong on standard error, within a few lines, and what to do where the table says so.
How long each took is printed, not judged, but for a limit of 60 s that only ends a broken run."""
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import threading
import time

import cli
from cli import check, write_npy

D, ROWS = 4, 50

# exit code | command | what standard error must say
TABLE = """
2 | frobnicate | unknown command
2 | knm rows --query-id 1 | did you mean 'knn'
2 | graph | one of these is needed
2 | graph frob | unknown command 'graph frob'
2 | collection dorp rows | the commands are
2 | help frobnicate | unknown command
2 | | a command is needed
2 | --frob ping | unrecognized option
2 | ping --frob | unrecognized option
2 | ping extra | Too many arguments
2 | ping --count 0 | --count
2 | ping --count x | '
2 | ping --count | requires an argument
2 | ping --wait -1 | --wait
2 | --timeout 0 ping | --timeout
2 | --timeout soon ping | --timeout
2 | --tcp nowhere ping | HOST:PORT
2 | --tcp a:0 ping | HOST:PORT
2 | --tcp a:99999 ping | HOST:PORT
1 | --space X ping | a space name has
2 | --format xml collection list | table, csv or json
2 | --format csv info | prints no table
2 | completion tcsh | bash, zsh or fish
2 | completion | SHELL is needed
2 | collection create | NAME is needed
2 | collection create x | --dim and --metric
2 | collection create x --dim 0 --metric l2 | --dim
2 | collection create x --dim 99999 --metric l2 | 1..16384
2 | collection create x --dim 4 --metric manhattan | cosine, dot or l2
1 | collection create rows --dim 4 --metric l2 | exists
1 | collection create bad/name --dim 4 --metric l2 | name
1 | collection describe none | none
1 | collection drop none | none
2 | load | NAME and a FILE
2 | load rows | FILE
2 | load rows rows.npy --create | go together
2 | load rows rows.npy --metric l2 | go together
1 | load rows rows.npy --create --metric l2 | without --create
1 | load none rows.npy | --create --metric METRIC makes it
4 | load rows none.npy | No such file
4 | load rows folder.npy | regular file
4 | load rows secret.npy | Permission denied
4 | load rows rows.pt | unknown kind of file
4 | load rows cut.npy | truncated
4 | load rows long.npy | trailing
4 | load rows empty.npy | empty.npy
4 | load rows text.npy | text.npy
4 | load rows nan.npy | not a finite number
4 | load rows big-endian.npy | big-endian
4 | load rows ids.npy | dtype
4 | load rows bad.csv | line 2
4 | load rows bad.jsonl | line 1
4 | load rows bad.npz | archive
1 | load rows wide.npy | dimension
4 | load rows rows.npy --ids ids.npy | needs as many ids
2 | load rows rows.npy --expect newest | exactly:V or at-least:V
1 | load rows rows.npy --expect exactly:999999 | version
2 | knn rows | give --queries
2 | knn | NAME is needed
2 | knn rows --query-id x | '
2 | knn rows --query 1,2,x,4 | --query
2 | knn rows --query 1,2,3,4 --query-id 1 | give --queries, --query or --query-id
2 | knn rows --query-id 1 -k 0 | -k
2 | knn rows --query-id 1 --threshold much | --threshold
1 | knn rows --query 1,2 | dimension 2
1 | knn rows --query-id 999 | no id 999
1 | knn none --query-id 1 | no collection 'none'
4 | knn rows --queries none.npy | No such file
4 | knn rows --query-id 1 --allow none.npy | No such file
4 | knn rows --query-id 1 --names none.txt | No such file
4 | knn rows --query-id 1 --out none/x | No such file
4 | knn rows --query-id 1 --out locked/x | Permission denied
2 | similarity rows --query 1,2,3,4 -n 2 --out x.npy | knn --out
4 | fetch rows 1 --out /dev/full | No space left
2 | score rows --queries q.npy | candidates
1 | score rows --queries q.npy --candidates far.npy | 999
2 | fetch rows | id
2 | delete rows x | '
2 | norms | FILE of vectors
2 | average rows | ids
1 | average rows 999 | 999
2 | graph create | NAME is needed
1 | graph create g | exists
2 | graph load g | FILE are needed
2 | graph load g g.tsv --format csv | not auto, tsv, mtx or npy
1 | graph load g g.tsv | --add
4 | graph load g bad.tsv --add | line 1
4 | graph load g none.tsv --add | No such file
2 | graph add g 1 2 | SOURCE TARGET WEIGHT
1 | graph add g --delta 7 8 0.5 | there is none from node 7
2 | graph scale g x | '
2 | spread g | seed
1 | spread none --seed 1 | none
1 | spread g --seed 999 | 999
2 | spread g --seed 1=2x | '
2 | spread g --seed 1 --mode sideways | linear or engram
2 | spread g --seed 1 --decay fast | --decay
4 | spread g --seed 1 --svg none/x.svg | No such file
2 | spread g --seed 1 --svg - --json | standard output
2 | recall rows | GRAPH
2 | hrr bind rows:1 | A
1 | hrr bind rows:999 rows:1 --out b.npy | 999
2 | attractor create a | --dim
2 | cluster rows --threshold 7 | --threshold
2 | bench --operation dance | ping, knn, score or similarity
1 | config get nix | there is no setting 'nix'
1 | config set gpu.devices none | does not change while the daemon runs
1 | config set batch.wait_us soon | not a whole number
1 | config set nix 1 | unknown setting
2 | config set batch.wait_us | a SETTING and a VALUE
2 | spaces extra | Too many arguments
2 | top --sort size | time, requests, p99 or name
2 | monitor --last 99 | --last
"""


def files():
    write_npy("rows.npy", "f", "(%d, %d)" % (ROWS, D), [float(i % 7 + 1) for i in range(ROWS * D)])
    write_npy("q.npy", "f", "(2, %d)" % D, [1.0] * (2 * D))
    write_npy("wide.npy", "f", "(2, 7)", [1.0] * 14)
    write_npy("nan.npy", "f", "(1, %d)" % D, [1.0, float("nan"), 1.0, 1.0])
    write_npy("ids.npy", "Q", "(3,)", [1, 2, 3])
    write_npy("far.npy", "Q", "(1,)", [999])
    write_npy("secret.npy", "f", "(1, %d)" % D, [1.0] * D)
    whole = open("rows.npy", "rb").read()
    for name, data in (("cut.npy", whole[:-5]), ("long.npy", whole + b"xx"), ("empty.npy", b""),
                       ("text.npy", b"hello"), ("rows.pt", whole), ("bad.csv", b"1,2,3,4\n1,x,3,4\n"),
                       ("bad.jsonl", b"{\"id\": 1}\n"), ("bad.npz", b"PK\x03\x04 no more"),
                       ("big-endian.npy", whole.replace(b"<f4", b">f4")),
                       ("g.tsv", b"1 2 0.5\n2 3 0.5\n"), ("bad.tsv", b"1 x\n")):
        with open(name, "wb") as f:
            f.write(data)
    os.mkdir("folder.npy")
    os.mkdir("locked")
    os.chmod("locked", 0o500)
    os.chmod("secret.npy", 0)


def judge(what, code, want, err, says, seconds=0):
    check(code == want, "%s: exit %d, not %d: %s" % (what, code, want, err))
    check(says in err, "%s: does not say '%s': %s" % (what, says, err))
    check("Sanitizer" not in err and "Assertion" not in err, err)
    check(0 < len(err.strip().splitlines()) < 100 and all(ord(c) >= 32 or c in "\n\t" for c in err),
          "%s: %r" % (what, err[:200]))
    return seconds


def row(t, line):
    want, words, says = (part.strip() for part in line.split("|"))
    begun = time.monotonic()
    p = subprocess.run(t.start + words.split(), capture_output=True, text=True, timeout=60,
                       stdin=subprocess.DEVNULL)
    return judge(words, p.returncode, int(want), p.stderr, says, time.monotonic() - begun)


def no_daemon(t):
    tool = t.start[0]
    for words, want, says in ((["--socket", "none", "ping"], 3, "is engram-acceld running"),
                              (["--socket", "x" * 200, "ping"], 2, "107 bytes"),
                              (["--tcp", "127.0.0.1:1", "ping"], 3, "listening"),
                              (["--socket", "q.npy", "ping"], 3, "is engram-acceld running"),
                              (["--socket", "none", "load", "x", "rows.npy"], 3, "running"),
                              (["--socket", "a", "--tcp", "b:1", "ping"], 2, "not both")):
        p = subprocess.run([tool, *words], capture_output=True, text=True, timeout=60)
        judge(" ".join(words)[:60], p.returncode, want, p.stderr, says)


def deaf(t):
    """Somebody listens who never answers."""
    import socket
    ear = socket.socket(socket.AF_UNIX)
    ear.bind("deaf")
    ear.listen(4)
    p = subprocess.run([t.start[0], "--socket", "deaf", "--timeout", "0.2", "ping"], text=True,
                       capture_output=True, timeout=60)
    ear.close()
    judge("a daemon that does not answer", p.returncode, 5, p.stderr, "--timeout")


def closed_and_full(t):
    with open("/dev/full", "w", encoding="utf-8") as full:
        p = t.popen("--json", "fetch", "rows", "1", stdout=full)
    judge("stdout full", p.wait(60), 4, p.stderr.read(), "No space left")
    p = subprocess.run("'%s' --socket socket info >&-" % t.start[0], shell=True, text=True,
                       capture_output=True, timeout=60)
    judge("stdout closed", p.returncode, 4, p.stderr, "standard output")
    p = t.popen("fetch", "many", "--ids", "many.npy", "--json", stdout=subprocess.PIPE)
    p.stdout.readline()
    p.stdout.close()
    err = p.stderr.read()
    check(p.wait(60) == 141 and err == "", "| head -1: %d %s" % (p.returncode, err))


def interrupted(t):
    """Ctrl-C in each that may last: an end, exit code 130, and what came of it."""
    for words, says in ((("monitor",), "interrupted"), (("ping", "--count", "1000000000"), "interrupted"),
                        (("bench", "--operation", "ping", "--seconds", "1000"), "interrupted")):
        p = t.popen(*words, stdout=subprocess.PIPE)
        if words[0] == "ping" or words[0] == "monitor":
            cli.until("its connection", lambda: t.json("stats")[0]["connections_open"] >= 2)
        else:
            cli.until("its requests", lambda: t.json("stats")[0]["connections_open"] >= 3)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        judge(" ".join(words) + " Ctrl-C", p.returncode, 130, err, says)


def interrupted_lists(t):
    """Ctrl-C in a list that takes two requests: the one that is on its way is done, and told."""
    with open("list.tsv", "w", encoding="utf-8") as f:
        f.writelines("%d plain\n" % i for i in range(1000001))
    cli.write_npy("list.npy", "Q", "(1000001,)", range(1000001))
    t.run("graph", "create", "listed")
    t.run("collection", "create", "listed", "--dim", "1", "--metric", "l2")
    for words, told in ((("graph", "set", "listed", "list.tsv"), "nodes_set"),
                        (("graph", "remove", "listed", "--ids", "list.npy"), "nodes_removed"),
                        (("delete", "listed", "--ids", "list.npy"), "missing")):
        before = t.json("stats")[0]["bytes_in"]
        p = t.popen(*words, "--json", stdout=subprocess.PIPE)
        cli.until("its first request", lambda: t.json("stats")[0]["bytes_in"] > before + (1 << 20))
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        done = json.loads(out.splitlines()[0])[told]
        if p.returncode:  # else it was faster than Ctrl-C
            judge(" ".join(words) + " Ctrl-C", p.returncode, 130, err, "interrupted: what follows")
            check(done <= 1000000, "%s: what was done is told: %s" % (words, out))
    t.run("graph", "drop", "listed", "--yes")
    t.run("collection", "drop", "listed", "--yes")
    os.remove("list.tsv")


def out_of_memory(t):
    if not os.path.dirname(t.start[0]).endswith("release"):
        print("cli_wrong: without the row about memory: it cannot be bounded beside a sanitizer's")
        return
    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (60 << 20, 60 << 20))
    with open("many.txt", "w", encoding="utf-8") as f:
        f.write("1 plain\n" * 2500000)
    for words in (["graph", "load", "h", "big.s.npy", "big.s.npy", "--create", "--update"],
                  ["graph", "set", "g", "many.txt"],
                  ["knn", "rows", "--query-id", "1", "--names", "many.txt"]):
        p = subprocess.run(t.start + words, capture_output=True, text=True, timeout=60,
                           preexec_fn=bound)
        judge("no memory: " + " ".join(words), p.returncode, 6, p.stderr, "memory")
    os.remove("many.txt")


def narrow(t):
    """A terminal of 20 columns, names of wide characters: an error is an error there, too."""
    import fcntl, struct, termios
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 20, 0, 0))
    p = subprocess.Popen(t.start + ["knn", "\u6f22\u5b57", "--query-id", "1"], stdout=slave,
                         stderr=subprocess.PIPE, text=True)
    os.close(slave)
    err = p.communicate(timeout=60)[1]
    os.close(master)
    judge("a name of wide characters", p.returncode, 1, err, "\u6f22\u5b57")


def everything(t):
    files()
    t.run("load", "rows", "rows.npy", "--create", "--metric", "cosine")
    t.run("graph", "load", "g", "g.tsv", "--create")
    write_npy("many.npy", "Q", "(20000,)", [i % ROWS for i in range(20000)])
    write_npy("big.s.npy", "Q", "(3000000,)", range(3000000))
    t.run("load", "many", "rows.npy", "--create", "--metric", "l2")
    lines = [l for l in TABLE.strip().splitlines() if l.strip()]
    if os.getuid() == 0:  # who may read everything
        lines = [l for l in lines if "Permission denied" not in l]
        print("cli_wrong: without two rows about permissions: root has them all")
    check(len(lines) >= 98, "the table has %d rows" % len(lines))
    slowest = max((row(t, line), line) for line in lines)
    for part in no_daemon, deaf, closed_and_full, interrupted, interrupted_lists, out_of_memory, narrow:
        part(t)
    print("cli_wrong: %d rows, the slowest %.3f s: %s" % (len(lines), *slowest))
    os.chmod("locked", 0o700)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
