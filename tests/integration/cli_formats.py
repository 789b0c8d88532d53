"""cli_formats: what goes into engram-accel and what comes out: text, archives, standard input; tables,
CSV, JSON, each document of which is valid by docs/schemas/cli.json, errors included."""
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import zipfile

import cli
from cli import check, write_npy

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMAS = os.path.join(HERE, "../../docs/schemas/cli.json")
D, ROWS = 8, 40
SILENT = {"help", "completion"}  # they print no JSON

# Every command, each in the ways in which its documents differ. HERE: the folder of the test.
ASKS = """
version
ping | --count 3
info
stats
explain
doctor
top | --sort name
clients
spaces
memory | default | --history
slowlog | --last 2
reload
save --to /tmp --dry-run | --to HERE/saved
verify saved
restore saved --dry-run --replace | saved --replace
config get | batch | gpu.devices
config set log.level info | spaces.shared.weight 3
collection create new --dim 4 --metric dot
collection list
collection describe rows
collection drop new
load rows rows.npy | rows rows.npy --replace
export rows --out e.npy | g --out e.mtx
changes | --since 3
knn rows --query-id 3 -k 2 | rows --queries q.npy --names names.txt | rows --queries q.npy --out near
monitor --last 1 --count 1
similarity rows --queries q.npy --best 2 | rows --queries q.npy --out s.npy | rows --queries q.npy --out m.npy -t 0
score rows --queries q.npy --candidates ids.npy
fetch rows 1 99 | rows 1 --out f.npy
delete rows 39 99
norms q.npy | q.npy --out n.npy
average rows 1 2 | rows 1 2 --out a.npy
graph create h
graph list
graph describe g
graph drop h
graph load g g.tsv --add | g g.tsv --update | g g.tsv --replace
graph add g 1 2 0.5 | g --delta 3 4 0.5
graph scale g 0.9
graph prune g 0.0001
graph set g kinds.tsv
graph show g 1 99 | g 1 --names names.txt
graph remove g 20 99 | g --edges some.tsv
spread g --seed 1 | g --seed 1 --paths --names names.txt | g --cue rows --query-id 1 -k 2
recall rows g --id 1 | rows g q.npy -n 3 --paths --names names.txt
hrr bind rows:1 rows:2 --out b.npy
hrr unbind b.npy rows:2 --out u.npy | b.npy rows:2 --into other --ids 5
hrr product rows:1-3 --out p.npy
hrr superpose rows:1-3 --out su.npy
hrr permute rows:1 --shift 1 --out pe.npy
hrr random --count 2 --dim 8 --seed 1 --out r.npy
hrr cleanup rows b.npy rows:2 | rows b.npy rows:2 --names names.txt
complete rows q.npy | rows q.npy --names names.txt --out c.npy
covariance rows | rows --out co.npy --mean me.npy | rows --dry-run
cluster rows | rows --out cl --names names.txt | rows --dry-run
attractor create at --dim 8
attractor list
attractor describe at
attractor learn at rows:1-3
attractor complete at q.npy | at q.npy --collection rows
attractor fetch at w.npy
attractor set at w.npy
attractor drop at
bench --operation ping --seconds 0.1
"""

# Refused by the tool, its files and the daemon: the last line is the error.
ERRORS = """
knn none --query-id 1
knn rows --query-id 1 -k x
ping -x
ping --frob
knn rows --queries none.npy
graph load g bad.tsv --add
collection create rows --dim 4 --metric dot
frobnicate
graph frobnicate
--socket none ping
--tcp x ping
"""


def valid(schema, value, where, root):
    """Says what is wrong, or None. As much of JSON Schema as the schemas need."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].split("/")[-1]]
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    is_kind = {"object": lambda v: isinstance(v, dict), "array": lambda v: isinstance(v, list),
               "string": lambda v: isinstance(v, str), "boolean": lambda v: isinstance(v, bool),
               "null": lambda v: v is None,
               "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
               "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)}
    if kinds and not any(is_kind[k](value) for k in kinds):
        return "%s: %r is no %s" % (where, value, " or ".join(kinds))
    if "enum" in schema and value not in schema["enum"]:
        return "%s: %r is none of %s" % (where, value, schema["enum"])
    if "anyOf" in schema:
        told = [valid(s, value, where, root) for s in schema["anyOf"]]
        if all(told):
            return "%s: none fits: %s" % (where, told)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        lacks = [k for k in schema.get("required", []) if k not in value]
        more = [k for k in value if k not in known] if not schema.get("additionalProperties", True) else []
        if lacks or more:
            return "%s: lacks %s, has %s besides" % (where, lacks, more)
        for k, v in value.items():
            told = valid(known[k], v, "%s.%s" % (where, k), root) if k in known else None
            if told:
                return told
    if isinstance(value, list) and "items" in schema:
        for i, v in enumerate(value):
            told = valid(schema["items"], v, "%s[%d]" % (where, i), root)
            if told:
                return told
    return None


def asks():
    """(command, words) of each way."""
    for line in ASKS.strip().splitlines():
        words = line.split()
        two = words[0] in ("config", "collection", "graph", "hrr", "attractor")
        name = " ".join(words[:2] if two else words[:1])
        for way in line[len(name):].split("|"):
            yield name, way.replace("HERE", os.getcwd()).split()


def schemas(t):
    with open(SCHEMAS, encoding="utf-8") as f:
        root = json.load(f)
    seen = set()
    for name, words in asks():
        for document in t.json(*name.split(), *words):
            told = valid(root["$defs"].get(name, {"type": "null"}), document, name, root)
            check(told is None, "%s %s: %s" % (name, " ".join(words), told))
        seen.add(name)
    offered = t.run("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    commands = {line[2:].split("  ")[0].strip() for line in offered.splitlines()}
    check(commands - SILENT <= seen, "no schema is tried for %s" % (commands - SILENT - seen))
    for line in ERRORS.strip().splitlines():
        p = t.run_any(*line.split(), "--json") if not line.startswith("--") else \
            subprocess.run(t.start[:1] + line.split() + ["--json"], capture_output=True, text=True)
        last = json.loads(p.stdout.splitlines()[-1])
        told = valid(root["$defs"]["error"], last, "error", root)
        check(told is None and last["error"]["exit"] == p.returncode and p.returncode in (1, 2, 3, 4),
              "%s: %s %s" % (line, told, last))
        check(last["error"]["message"] != "failed", "%s: told what: %s" % (line, last))
        check(last["error"]["message"][:60] in p.stderr, "%s: told twice: %s %s" % (line, last, p.stderr))
    gone = json.loads(t.run_any("knn", "none", "--query-id", "1", "--json").stdout)["error"]
    check((gone["status"], gone["detail"]) == ("NOT_FOUND", "unknown_collection"), gone)


def files(folder_rows):
    write_npy("rows.npy", "f", "(%d, %d)" % (ROWS, D), folder_rows)
    write_npy("q.npy", "f", "(2, %d)" % D, folder_rows[:2 * D])
    write_npy("ids.npy", "Q", "(3,)", [1, 2, 3])
    for name, text in (("names.txt", "".join("thing %d\n" % i for i in range(ROWS))),
                       ("g.tsv", "".join("%d %d 0.5\n" % (i, i + 1) for i in range(25))),
                       ("some.tsv", "3 4\n"), ("bad.tsv", "1 2 x\n"), ("kinds.tsv", "1 concept 2\n")):
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)


def reads(t, values):
    """The same rows by all ways in, and out again."""
    rows = [values[i * D:(i + 1) * D] for i in range(ROWS)]
    with open("r.csv", "w", encoding="utf-8") as f:
        f.write("id,%s\n" % ",".join("x%d" % i for i in range(D)))
        f.writelines("%d,%s\n" % (i, ",".join("%.9g" % x for x in r)) for i, r in enumerate(rows))
    with open("r.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"id": i, "vector": r}) + "\n" for i, r in enumerate(rows))
    for name, how in ("r.npz", zipfile.ZIP_STORED), ("deflated.npz", zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(name, "w", how) as z:
            z.write("rows.npy")
            z.write("q.npy")
    want = t.run("fetch", "rows", *map(str, range(ROWS)), "--format", "csv").stdout
    for path in "r.csv", "r.jsonl", "r.npz:rows", "deflated.npz:rows":
        t.run("load", "copy", path, "--create", "--metric", "cosine")
        got = t.run("fetch", "copy", *map(str, range(ROWS)), "--format", "csv").stdout
        check(got == want, "%s: the same rows" % path)
        t.run("collection", "drop", "copy")
    for path in "r.csv", "r.jsonl", "rows.npy", "/dev/null":
        with open(path, "rb") as f:
            p = subprocess.run(t.start + ["load", "piped", "-", "--create", "--metric", "cosine"],
                               stdin=f, capture_output=True, text=True)
        check(p.returncode == (4 if path == "/dev/null" else 0), "- from %s: %s" % (path, p.stderr))
        if not p.returncode:
            got = t.run("fetch", "piped", *map(str, range(ROWS)), "--format", "csv").stdout
            check(got == want, "-: the same rows as %s" % path)
            t.run("collection", "drop", "piped")
    said = t.run("load", "copy", "r.npz", "--create", "--metric", "l2", code=4).stderr
    check("rows, q" in said, "several arrays: " + said)
    said = t.run("load", "copy", "r.npz:none", "--create", "--metric", "l2", code=4).stderr
    check("no such array" in said, said)
    with open("r.npz", "rb") as f, open("cut.npz", "wb") as g:
        g.write(f.read()[:-40])
    t.run("load", "copy", "cut.npz:rows", "--create", "--metric", "l2", code=4)
    near = t.run("knn", "rows", "--query", ",".join("%.9g" % x for x in rows[5]), "-k", "1",
                 "--format", "csv").stdout.splitlines()
    check(near[0] == "query,rank,id,score" and near[1].startswith("0,1,5,"), "--query: %s" % near)
    best = t.json("similarity", "rows", "--queries", "q.npy", "-n", "3")
    knn = t.json("knn", "rows", "--queries", "q.npy", "-k", "3")
    check([b["ids"] for b in best] == [[h["id"] for h in k["hits"]] for k in knn],
          "similarity --best is knn")
    mean = t.run("average", "rows", "1", "2").stdout.strip().split(",")
    check(all(abs(float(m) - (a + b) / 2) < 1e-6 for m, a, b in zip(mean, rows[1], rows[2])), mean)
    norm = t.json("norms", "q.npy")[1]["norm"]
    check(abs(norm - sum(x * x for x in rows[1]) ** .5) < 1e-5, "norms: %r" % norm)


def on_terminal(t, columns, words, **environment):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen(t.start + words, stdin=slave, stdout=slave, stderr=subprocess.DEVNULL,
                         env=dict(os.environ, NO_COLOR="1", **environment))
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 4096):
            shown += part
    except OSError:
        pass
    os.close(master)
    return p.wait(60), shown


def prints(t):
    text = t.run("--ids-as-strings", "knn", "rows", "--query-id", "3", "-k", "1", "--json").stdout
    check(json.loads(text)["hits"][0]["id"] == "3", text)
    lines = t.run("collection", "list", "--format", "csv").stdout.splitlines()
    check(lines[0].startswith("name,dim,metric,rows,") and len(lines) >= 2, lines)
    check(t.run("collection", "list", "--format", "json").stdout[0] == "[", "--format json")
    t.run("info", "--format", "csv", code=2)
    t.run("collection", "list", "--format", "xml", code=2)
    with open("wide.txt", "w", encoding="utf-8") as f:
        f.writelines("%d\t\u6f22\u5b57 %s e\u0301\n" % (i, "long " * 20) for i in range(ROWS))
    code, shown = on_terminal(t, 50, ["knn", "rows", "--query-id", "1", "--names", "wide.txt"])
    check(code == 0 and b"\x1b" not in shown, "NO_COLOR")
    lines = shown.decode().splitlines()[1:]
    widths = [sum(2 if ord(c) >= 0x2e80 and c != "\u2026" else c != "\u0301" for c in l) for l in lines]
    check(max(widths) == 50 and lines[-1].endswith("\u2026"), "50 columns: %s %s" % (widths, lines[-1]))
    for rows, paged in ((30, True), (5, False)):  # of 24 on the screen
        code, shown = on_terminal(t, 80, ["knn", "rows", "--query-id", "1", "-k", str(rows)],
                                  PAGER="sed s/^/paged:/")
        lines = shown.decode().splitlines()
        check(code == 0 and len(lines) == rows + 2 and
              sum(l.startswith("paged:") for l in lines) == (rows + 1 if paged else 0),
              "$PAGER, %d rows: %d %s" % (rows, code, lines[:3]))


def shows(t):
    """What may last says how far it is."""
    with open("slow.csv", "w", encoding="utf-8") as f:
        f.writelines("%d,%d\n" % (i, i + 1) for i in range(3000))
    for words, says in ((("norms", "slow.csv", "--out", "no.npy"), b"3,000 rows"),
                        (("load", "slow", "slow.csv", "--create", "--metric", "l2"), b"B/s"),
                        (("fetch", "slow", "1", "2", "--out", "f.npy"), b"2 / 2 rows"),
                        (("delete", "slow", "1", "2"), b"100 %"),
                        (("ping", "--count", "3"), b"3 / 3"),
                        (("graph", "set", "g", "kinds.tsv"), b"100 %"),
                        (("graph", "remove", "g", "24"), b"100 %"),
                        (("bench", "--operation", "ping", "--seconds", "0.3"), b"/s, "),
                        (("bench", "--rows", "100", "--seconds", "0.05"), b"100 / 100 rows")):
        shown = t.on_terminal(*words)[1]
        check(says in shown and shown.count(b"\r\033[K") + shown.count(b"\033[K") >= 2,
              "%s: %r" % (" ".join(words), shown))
    t.run("collection", "drop", "slow")


def everything(t):
    import random
    random.seed(3)
    values = [float("%.6f" % random.uniform(0.1, 1)) for _ in range(ROWS * D)]
    files(values)
    t.run("load", "rows", "rows.npy", "--create", "--metric", "cosine")
    t.run("collection", "create", "other", "--dim", str(D), "--metric", "cosine")
    t.run("graph", "load", "g", "g.tsv", "--create")
    reads(t, values)
    prints(t)
    shows(t)
    schemas(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
