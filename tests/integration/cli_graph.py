"""cli_graph: engram-accel's graph commands and spread, against the real daemon.

The graph is small enough to spread by hand: weights and decay are powers of two, so that every
activation below is exact, or one rounding away from what stands here.
"""
import array
import json
import math
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import xml.etree.ElementTree
import time

import cli
from cli import Tool, check, start_daemon, write_npy

EDGES = "# source target weight\r\n1\t2\t0.5\r\n2 3 0.5\n\n1 3 0.25\n3 1   \n4 4 1\n3 5 -1\n"
NAMES = '1\tone "quoted"\n2\ttwo\\\n3\tthrée\n5\tfive\n'


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)


def write_doubles(path, shape, values):
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }\n" % shape
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        f.write(array.array("d", values).tobytes())


def edges_of(t, graph, *ids):
    """[(source, target, weight)] of nodes, and checks that show counts what it lists."""
    found = []
    for node in t.json("graph", "show", graph, *(str(i) for i in ids)):
        check(node["found"] and node["out_count"] == len(node["edges"]), "show: %s" % node)
        found += [(node["id"], e["target"], e["weight"]) for e in node["edges"]]
    return found


def loads(t):
    write("g.tsv", EDGES)
    done = t.json("graph", "load", "g", "g.tsv", "--create")[0]
    check((done["edges_read"], done["edges_added"], done["nodes_added"], done["edges"],
           done["nodes"], done["complete"]) == (6, 6, 5, 6, 5, True), "load: %s" % done)
    all_edges = edges_of(t, "g", 1, 2, 3, 4, 5)
    check(all_edges == [(1, 2, .5), (1, 3, .25), (2, 3, .5), (3, 1, 1), (3, 5, -1), (4, 4, 1)],
          "what was loaded: %s" % all_edges)
    about = t.json("graph", "describe", "g")[0]
    check((about["nodes"], about["edges"], about["out_count_max"], about["in_count_max"]) ==
          (5, 6, 2, 2) and about["edge_bytes"] > 0, "describe: %s" % about)
    shown = t.run("graph", "list").stdout.splitlines()
    check(len(shown) == 2 and shown[1].startswith("g "), "list: %s" % shown)

    write("m.mtx", "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 3 2\n")
    t.run("graph", "load", "m", "m.mtx", "--create")
    check(edges_of(t, "m", 0, 1, 2) == [(0, 1, .5), (1, 0, .5), (2, 2, 2)], "symmetric .mtx")
    t.run("graph", "load", "m", "m.mtx", "--first-id", "10", "--add")
    check(edges_of(t, "m", 10, 11, 12) == [(10, 11, .5), (11, 10, .5), (12, 12, 2)], "--first-id")

    write_doubles("triples.npy", "(2, 3)", [7, 8, .5, 2.0**53, 7, -1])
    t.run("graph", "load", "n", "triples.npy", "--create")
    check(edges_of(t, "n", 7, 2**53) == [(7, 8, .5), (2**53, 7, -1)], "an n x 3 array")
    write_npy("s.npy", "Q", "(2,)", [2**64 - 2, 20])
    write_npy("t.npy", "Q", "(2,)", [20, 21])
    write_npy("w.npy", "f", "(2,)", [.25, 3])
    t.run("graph", "load", "n", "s.npy", "t.npy", "w.npy", "--add")
    done = t.json("graph", "load", "n", "s.npy", "t.npy", "--add")[0]
    check((done["edges_added"], done["edges_doubled"]) == (2, 2), "both are doubled: %s" % done)
    check(edges_of(t, "n", 20, 2**64 - 2) ==
          [(20, 21, 1), (20, 21, 3), (2**64 - 2, 20, .25), (2**64 - 2, 20, 1)], "columns, twice")
    write("r.txt", "20 21 9\n70 71 8\n70 71\n71 70\n")
    t.run("graph", "create", "o")
    for times, doubled in ((1, 1), (2, 4)):
        said = t.run("graph", "load", "o", "r.txt", "--add").stdout
        check("; %d edge%s beside one between" % (doubled, "s" * (doubled > 1)) in said, said)
    check(t.json("graph", "describe", "o")[0]["edges"] == 8, "twice 4")
    t.run("graph", "drop", "o")
    write("r.txt", "20 21 9\n20 21 8\n7 9\n")
    done = t.json("graph", "load", "n", "r.txt", "--update")[0]
    check((done["edges_removed"], done["edges_added"]) == (2, 3) and edges_of(t, "n", 7, 20) ==
          [(7, 8, .5), (7, 9, 1), (20, 21, 8), (20, 21, 9)], "duplicates of one file stay: %s" % done)
    p = subprocess.run(t.start + ["graph", "load", "n", "/dev/stdin", "--format", "tsv", "--add"],
                       input="30 31\n", capture_output=True, text=True)
    check(p.returncode == 0 and "1 edge loaded" in p.stdout, "a pipe: %s%s" % (p.stdout, p.stderr))


def changes(t):
    write("kinds.tsv", "1 concept 2\n2\tepisode\n5 - 0.5\n77 -\n")
    done = t.json("graph", "set", "n", "kinds.tsv")[0]
    check((done["nodes_set"], done["nodes_added"]) == (4, 4), "set: %s" % done)
    nodes = t.json("graph", "show", "n", "1", "2", "5", "77", "88")
    check([(n.get("kind"), n.get("factor")) for n in nodes] ==
          [("concept", 2), ("episode", 1), ("plain", .5), ("plain", 1), (None, None)],
          "kinds and factors: %s" % nodes)
    about = t.json("graph", "describe", "n")[0]
    check((about["episodes"], about["concepts"]) == (1, 1), "describe: %s" % about)
    p = t.run("graph", "show", "n", "2", "88")
    check("episode, factor 1, 0 edges out, 0 in" in p.stdout and "1 of 2 ids are not in n" in
          p.stderr, "show: %s%s" % (p.stdout, p.stderr))
    write("gone.tsv", "20 21\n20 22\n")
    done = t.json("graph", "remove", "n", "--edges", "gone.tsv")[0]
    check(done == {"nodes_removed": 0, "edges_removed": 2, "missing": 1}, "remove: %s" % done)
    done = t.json("graph", "remove", "n", "7", "99")[0]
    check(done == {"nodes_removed": 1, "edges_removed": 3, "missing": 1}, "remove: %s" % done)
    t.run("graph", "drop", "n")
    check([g["name"] for g in t.json("graph", "list")[0]] == ["g", "m"], "drop")


def weights(t):
    """graph add: edges, and what is added to weights."""
    t.run("graph", "create", "w")
    done = t.json("graph", "add", "w", "1", "2", "0.5", "2", "3", "0.25")[0]
    check((done["edges_added"], done["nodes_added"], "weights" in done) == (2, 3, False),
          "add: %s" % done)
    write("deltas.tsv", "1 2 0.25\n2 3 -0.25\n")
    done = t.json("graph", "add", "w", "--delta", "--clamp", "0.125,0.625", "--edges",
                  "deltas.tsv")[0]
    check((done["weights"], done["edges_added"], done["edges"]) == ([.625, .125], 0, 2),
          "add --delta: %s" % done)
    p = t.run("graph", "add", "w", "1", "9", "1", "--delta", code=1)
    check("edge 0: there is none from node 1 to node 9" in p.stderr, "--delta: " + p.stderr)
    write("deltas.tsv", "1 9 0.5\n1 9 0.5\n")
    shown = t.run("graph", "add", "w", "--delta", "--create", "--edges", "deltas.tsv").stdout
    check(shown.split()[3:9] == ["1", "9", "0.5", "1", "9", "1"] and "1 edge and 1 node added" in
          shown, "--create: " + shown)
    check(edges_of(t, "w", 1, 2) == [(1, 2, .625), (1, 9, 1), (2, 3, .125)], "weights")
    shown = t.run("graph", "add", "w", "--delta", "--", "1", "2", "-0.5").stdout
    check(shown.split()[3:] == ["1", "2", "0.125"], "a negative delta: " + shown)
    t.run("graph", "add", "w", "1", "2", "--delta", code=2)
    t.run("graph", "add", "w", "1", "2", "3", "--clamp", "0,1", code=2)
    t.run("graph", "add", "w", "1", "2", "3", "--delta", "--clamp", "1", code=2)
    p = t.run("graph", "add", "w", "1", "2", "3", "--delta", "--clamp", "1,0", code=1)
    check("low: 1, above high, which is 0" in p.stderr, "--clamp 1,0: " + p.stderr)
    done = t.json("graph", "scale", "w", "0.5")[0]
    check((done["edges"], done["edges_removed"]) == (3, 0), "scale: %s" % done)
    check(edges_of(t, "w", 1, 2) == [(1, 2, .0625), (1, 9, .5), (2, 3, .0625)], "scaled weights")
    shown = t.run("graph", "prune", "w", "0.1").stdout
    check("2 edges removed, 1 left" in shown, "prune: " + shown)
    check("times 2" in t.run("graph", "scale", "w", "2").stdout, "scale")
    t.run("graph", "prune", "w", "--", "-1")
    t.run("graph", "scale", "w", "-1", code=2)
    t.run("graph", "scale", "w", code=2)
    t.run("graph", "prune", "w", "x", code=2)
    t.run("graph", "drop", "w")


def version_of(t, what, name):
    return t.json(what, "describe", name)[0]["version"]


def refused(t, version, *words):
    """Nothing is changed, since what is there has another version."""
    p = t.run(*words, "--expect", "exactly:%d" % version, code=1)
    check("is there, and %d is expected" % version in p.stderr, " ".join(words) + p.stderr)


def expects(t):
    """--expect: of every command that changes something, on condition of a version."""
    t.run("graph", "create", "e")
    first = version_of(t, "graph", "e")
    done = t.json("graph", "add", "e", "1", "2", "0.5", "--expect", "exactly:%d" % first)[0]
    write("some.tsv", "1 2 0.25\n")
    write("kinds.tsv", "1 concept 2\n2 - 3\n")
    for words in (("add", "e", "1", "2", "0.5"), ("add", "e", "1", "2", "0.5", "--delta"),
                  ("scale", "e", "2"), ("prune", "e", "1"), ("remove", "e", "1"),
                  ("remove", "e", "--edges", "some.tsv"), ("set", "e", "kinds.tsv"),
                  ("load", "e", "some.tsv", "--add"), ("drop", "e")):
        refused(t, first, "graph", *words)
    check(version_of(t, "graph", "e") == done["version"], "nothing was changed")
    # Two requests, of which the first one is on that condition.
    t.run("graph", "set", "e", "kinds.tsv", "--expect", "exactly:%d" % done["version"])
    for words in (("scale", "e", "2"), ("load", "e", "some.tsv", "--add"), ("remove", "e", "2"),
                  ("drop", "e")):
        t.run("graph", *words, "--expect", "at-least:%d" % first)
    t.run("collection", "create", "rows", "--dim", "3", "--metric", "dot")
    first = version_of(t, "collection", "rows")
    cli.write_npy("two.npy", "f", "(2, 3)", [1, 2, 3, 4, 5, 6])
    t.run("load", "rows", "two.npy", "--expect", "exactly:%d" % first)
    refused(t, first, "load", "rows", "two.npy")
    refused(t, first, "delete", "rows", "0")
    refused(t, first, "collection", "drop", "rows")
    t.run("delete", "rows", "0", "--expect", "at-least:%d" % first)
    now = version_of(t, "collection", "rows")
    t.run("collection", "drop", "rows", "--expect", "exactly:%d" % now)
    for wrong in "7", "exactly:0", "exactly:x", "at-most:7", "exactly", "":
        t.run("graph", "drop", "g", "--expect", wrong, code=2)
    t.run("graph", "describe", "g", "--expect", "exactly:7", code=2)


def counted(t):
    """stats counts the space's graphs, explain says from how many nodes on a GPU is asked."""
    infos = t.json("graph", "list")[0]
    want = {"graphs": len(infos), "graph_nodes": sum(g["nodes"] for g in infos),
            "graph_edges": sum(g["edges"] for g in infos),
            "graph_bytes": sum(g["edge_bytes"] + g["node_bytes"] + g["work_bytes"] for g in infos)}
    stats = t.json("stats")[0]
    check(len(infos) == 2 and {k: stats[k] for k in want} == want, "%s: %s" % (want, stats))
    shown = t.run("stats").stdout
    check("2 graphs: %d nodes, %d edges, " % (want["graph_nodes"], want["graph_edges"]) in shown,
          "stats: " + shown)
    t.start += ["--space", "elsewhere"]
    check(t.json("stats")[0]["graphs"] == 0 and "graph" not in
          t.run("stats").stdout.split("\noperation")[0], "graphs of another space")
    del t.start[-2:]
    check(t.json("explain")[0]["settings"]["nodes_min"] == 512, "explain --json: nodes_min")
    shown = t.run("explain").stdout
    check("64 candidates (others), 512 nodes (spreads)" in shown, "explain: " + shown)


def nodes_of(line, *keys):
    return [tuple(n[k] for k in keys) for n in line["nodes"]]


def spreads(t):
    linear = ["spread", "g", "--mode", "linear", "--hops", "2", "--decay", "constant",
              "--threshold", "0"]
    a = t.json(*linear, "--seed", "1", "--paths")[0]
    check(nodes_of(a, "id", "activation", "confidence", "visits", "depth") ==
          [(1, 1, 1, 2, 0), (2, .5, .5, 1, 1), (3, .5, .5, 2, 1)], "linear: %s" % a)
    check(nodes_of(a, "path") == [([1],), ([1, 2],), ([1, 3],)], "paths: %s" % a)
    check((a["touched"], a["cycles"], a["truncated"], a["tiers"]) ==
          (3, 0, False, {"hot": 1, "warm": 1, "cold": 0}), "linear: %s" % a)
    check(a["backend"] == "cpu" and a["run_ns"] > 0 and a["seeds"] ==
          [{"id": 1, "activation": 1}], "how it ran: %s" % a)
    a = t.json(*linear, "--seed", "1", "--last-hop")[0]
    check(nodes_of(a, "id", "activation") == [(1, .25), (3, .25)], "--last-hop: %s" % a)
    a = t.json(*linear, "--seed", "1=0.5", "--seed", "4", "--top", "2")[0]
    check(nodes_of(a, "id", "activation") == [(4, 1), (1, .625)] and a["touched"] == 4,
          "two seeds, the best two: %s" % a)
    a = t.json("spread", "g", "--mode", "linear", "--seed", "1", "--decay", "table:0.5,0.25")[0]
    check(nodes_of(a, "id", "activation") == [(1, 1), (2, .25), (3, .15625)],
          "a table of two hops: %s" % a)
    write_npy("within.npy", "Q", "(2,)", [1, 2])
    a = t.json(*linear, "--seed", "1", "--within", "within.npy")[0]
    check(nodes_of(a, "id", "activation") == [(1, 1), (2, .5)], "--within: %s" % a)
    a = t.json(*linear, "--seed", "1", "--touched-max", "2")[0]
    check(a["truncated"] and nodes_of(a, "id") == [(1,), (2,)], "--touched-max: %s" % a)

    write("seeds.tsv", "4 0.5 9\n1 1 3\n")
    a = t.json(*linear, "--seeds", "seeds.tsv")
    check([(x["set"], x["touched"]) for x in a] == [(3, 3), (9, 1)], "two sets: %s" % a)
    a = t.json("spread", "g", "--seed", "1", "--hops", "2", "--decay", "constant")[0]
    check(nodes_of(a, "id", "visits") == [(1, 2), (2, 1), (3, 2)] and a["cycles"] == 1 and
          same_float(a["nodes"][0]["activation"], .93) and
          same_float(a["nodes"][1]["confidence"], .95 * .5), "engram: %s" % a)


def same_float(printed, wanted):
    return struct.pack("f", printed) == struct.pack("f", wanted)


def tables(t):
    write("names.tsv", NAMES)
    p = t.run("spread", "g", "--seed", "1", "--mode", "linear", "--threshold", "0", "--names",
              "names.tsv", "-n", "2")
    lines = p.stdout.splitlines()
    check(lines[0].split() == ["rank", "id", "activation", "confidence", "visits", "depth",
                               "name"], "heads: %s" % lines)
    check(len(lines) == 4 and lines[1].endswith('one "quoted"') and
          lines[3].startswith("3 nodes touched, 2 shown; activation of seeds 1, warm "),
          "the table: %s" % lines)
    check(p.stderr.startswith("1 spread in 1 request: cpu ("), "how it ran: " + p.stderr)
    p = t.run("spread", "g", "--seeds", "seeds.tsv", "--paths", "--names", "names.tsv")
    check("set 3\n" in p.stdout and "set 9\n" in p.stdout and 'one "quoted" > thrée' in p.stdout,
          "sets and paths: " + p.stdout)
    write("steer.tsv", "1\tone\x1b[2J\x9b2J\n")
    shown = t.run("graph", "show", "g", "1", "--names", "steer.tsv").stdout
    check(shown.startswith("node 1: one?[2J??2J\nplain"), "a name that would steer: " + repr(shown))


def pictures(t):
    p = t.run("spread", "g", "--seed", "1", "--names", "names.tsv", "--dot", "a.dot", "--mode",
              "linear")
    check(p.stdout.startswith("rank"), "the table comes too: " + p.stdout)
    t.run("spread", "g", "--seed", "1", "--names", "names.tsv", "--svg", "a.svg")
    svg = xml.etree.ElementTree.parse("a.svg").getroot()
    drawn = t.json("spread", "g", "--seed", "1", "-n", "20")[0]
    circles = svg.findall(".//{http://www.w3.org/2000/svg}circle")
    check(svg.tag.endswith("svg") and len(circles) == len(drawn["nodes"]), "--svg: %d circles of %d" %
          (len(circles), len(drawn["nodes"])))
    check(all(0 < float(c.get("cx")) < 1200 and 0 < float(c.get("cy")) < 820 for c in circles),
          "--svg: all within the picture")
    text = t.run("spread", "g", "--seed", "1", "--names", "names.tsv", "--dot", "-", "--mode",
                 "linear").stdout
    with open("a.dot", encoding="utf-8") as f:
        check(f.read() == text, "the same on standard output")
    check(not [f for f in os.listdir(".") if f.endswith(".tmp")], "nothing is left behind")
    check(sorted(re.findall(r'^  "(\d)" \[', text, re.M)) == ["1", "2", "3"], "nodes: " + text)
    check(re.findall(r'"(\d)" -> "(\d)" \[.*?(dir=both)?\]', text) ==
          [("1", "2", ""), ("1", "3", "dir=both"), ("2", "3", "")], "edges among them: " + text)
    check(r'label="one \"quoted\"\n1"' in text and r'label="two\\\n' in text, "labels: " + text)
    if shutil.which("dot"):
        p = subprocess.run(["dot", "-Tsvg", "a.dot"], capture_output=True, text=True)
        check(p.returncode == 0 and not p.stderr and p.stdout.count("<ellipse") == 4 and
              "one &quot;quoted&quot;" in p.stdout, "Graphviz: %s" % p.stderr)


def cues(t):
    write_npy("v.npy", "f", "(5, 2)", [1, 0, 1, .25, 1, .5, -1, 0, 1, 1])
    write_npy("ids.npy", "Q", "(5,)", [1, 2, 99, 3, 4])
    write_npy("q.npy", "f", "(2, 2)", [1, 0, -1, 0])
    t.run("load", "v", "v.npy", "--ids", "ids.npy", "--create", "--metric", "cosine")
    t.run("load", "far", "v.npy", "--ids", "ids.npy", "--create", "--metric", "l2")
    hits = {h["id"]: h["score"] for h in t.json("knn", "v", "--query-id", "1", "-k", "5")[0]["hits"]}
    a = t.json("spread", "g", "--cue", "v", "--query-id", "1", "-k", "5", "--mode", "linear")[0]
    check([(s["id"], s["activation"]) for s in a["seeds"]] ==
          [(i, hits[i]) for i in (1, 2, 4)], "seeds are kNN's scores: %s" % a)
    check(a["cue"]["collection"] == "v" and a["cue"]["query_id"] == 1 and
          a["cue"]["run_ns"] > 0 and a["run_ns"] > 0, "both times: %s" % a)
    p = t.run("spread", "g", "--cue", "v", "--query", "q.npy", "-k", "5", "--mode", "linear")
    check("query 0\n" in p.stdout and "query 1\n" in p.stdout, "a set for each query: " + p.stdout)
    check("2 queries in 1 request" in p.stderr and "2 spreads in 1 request" in p.stderr and
          "6 rows left out: 5 not similar (scores of 0 or less), 1 not in g" in p.stderr,
          "what was left out: " + p.stderr)
    p = t.run("spread", "g", "--cue", "far", "--query-id", "1", code=1)
    check("--cue: far is compared by l2" in p.stderr, "l2: " + p.stderr)
    p = t.run("spread", "m", "--cue", "v", "--query-id", "99", "-k", "1", code=1)
    check("rows of v nearest to query id 99 " in p.stderr, "no seed: " + p.stderr)


def similar(t):
    """From node 1, by way of node 2, to 16 others, whose vectors stand at angles to node 2's."""
    write("hub.tsv", "1 2 1\n" + "".join("2 %d 0.125\n" % i for i in range(3, 19)))
    t.run("graph", "load", "hub", "hub.tsv", "--create")
    rows = [[1, 0], [1, 0]] + [[math.cos(i / 10), math.sin(i / 10)] for i in range(16)]
    write_npy("hub.npy", "f", "(18, 2)", [x for row in rows for x in row])
    write_npy("hub_ids.npy", "Q", "(18,)", list(range(1, 19)))
    t.run("load", "hub_rows", "hub.npy", "--ids", "hub_ids.npy", "--create", "--metric", "l2")
    ask = ["spread", "hub", "--seed", "1", "--hops", "2", "--decay", "constant", "--threshold",
           "0.25,0,0"]
    plain = t.json(*ask)[0]
    check(all(n["activation"] == .125 for n in plain["nodes"] if n["id"] > 2) and
          "embeddings_version" not in plain, "without embeddings: %s" % plain)
    a = t.json(*ask, "--embeddings", "hub_rows")[0]
    got = {n["id"]: n["activation"] for n in a["nodes"]}
    for i in range(16):
        wanted = 1 / (1 + math.exp(-(math.cos(i / 10) - .25) / .5))
        check(abs(got[i + 3] - wanted) < 1e-6, "node %d: %s, not %s" % (i + 3, got[i + 3], wanted))
    check(a["embeddings_version"] == version_of(t, "collection", "hub_rows"), "version: %s" % a)
    t.run("delete", "hub_rows", "9")
    a = t.json(*ask, "--embeddings", "hub_rows")[0]
    check(a["nodes"] == plain["nodes"], "one row is missing: %s" % a)


def refusals(t):
    write("bad.tsv", "1 2\n\n1 x 3\n")
    write("twice.tsv", "1 plain\n1 concept\n")
    write_npy("none.npy", "Q", "(0,)", [])
    write("sets.tsv", "".join("1 1 %d\n" % i for i in range(65537)))
    s = ["spread", "g", "--seed", "1"]
    for words, code, said in [
            (["graph"], 2, "graph: one of these is needed"),
            (["graph", "craete", "g"], 2, "unknown command 'graph craete'"),
            (["graph", "create"], 2, "NAME is needed"),
            (["graph", "create", "g"], 1, "g: "), (["graph", "create", "a b"], 1, "a b: "),
            (["graph", "drop", "none"], 1, "none: "), (["graph", "describe", "none"], 1, "none: "),
            (["graph", "load", "none", "g.tsv"], 1, "--create makes it"),
            (["graph", "load", "g", "g.tsv", "--create"], 1, "without --create"),
            (["graph", "load", "g"], 2, "FILE are needed"),
            (["graph", "load", "g", "g.tsv"], 1, "--add adds to them"),
            (["graph", "load", "g", "g.tsv", "--add", "--replace"], 2, "give one of"),
            (["graph", "load", "g", "g.tsv", "--create", "--replace"], 2, "not both"),
            (["graph", "load", "g", "bad.tsv", "--add"], 4, "bad.tsv: line 3: target 'x'"),
            (["graph", "load", "g", "none.tsv"], 4, "none.tsv: cannot open"),
            (["graph", "load", "g", "names.csv"], 4, "unknown kind of file"),
            (["graph", "load", "g", "g.tsv", "--format", "csv"], 2, "--format: 'csv'"),
            (["graph", "load", "g", "g.tsv", "w.npy"], 2, "w.npy: .npy files are the columns"),
            (["graph", "set", "g", "twice.tsv"], 4, "line 2: id 1 stands in line 1 already"),
            (["graph", "set", "g"], 2, "FILE are needed"), (["graph", "show", "g"], 2, "--ids"),
            (["graph", "remove", "g"], 2, "--edges"), (["graph", "remove", "none", "1"], 1, "none"),
            (["graph", "show", "g", "x"], 2, "id: 'x'"),
            (["spread"], 2, "NAME is needed"), (["spread", "g"], 2, "one of --seed, --seeds and --cue"),
            (["spread", "none", "--seed", "1"], 1, "none: "),
            (["spread", "g", "--seed", "12345"], 1, "12345"),
            (["spread", "g", "--seed", "1=0"], 2, "--seed: '1=0'"),
            (s + ["--seeds", "seeds.tsv"], 2, "one of --seed, --seeds and --cue"),
            (["spread", "g", "--seeds", "bad.tsv"], 4, "bad.tsv: line 3: activation 'x'"),
            (s + ["--hops", "0"], 2, "--hops"), (s + ["--mode", "fast"], 2, "--mode: 'fast'"),
            (s + ["--decay", "power"], 2, "--decay: 'power' needs a number"),
            (s + ["--decay", "table:1,2", "--hops", "3"], 2, "--hops says 3"),
            (s + ["--threshold", "1,2,3,4"], 2, "--threshold"), (s + ["--fan", "x"], 2, "--fan"),
            (s + ["--threshold", "1,2", "--mode", "linear"], 2, "--threshold: linear has one"),
            (s + ["--last-hop"], 2, "--last-hop needs --mode linear"),
            (s + ["--last-hop", "--paths", "--mode", "linear"], 2, "give one"),
            (s + ["--no-kinds", "--mode", "linear"], 2, "--no-kinds and --embeddings need --mode"),
            (s + ["--embeddings", "v", "--mode", "linear"], 2, "--embeddings need --mode engram"),
            (s + ["--embeddings", "zz"], 1, "'zz'"),
            (s + ["--top", "-1"], 2, "--top"), (s + ["--touched-max", "0"], 2, "--touched-max"),
            (s + ["--time-max-ms", "0"], 2, "--time-max-ms"), (s + ["-k", "3"], 2, "-k need --cue"),
            (s + ["--within", "none.npy"], 4, "none.npy: allows no node"),
            (["spread", "g", "--cue", "v"], 2, "--query or --query-id"),
            (["spread", "g", "--cue", "zz", "--query-id", "1"], 1, "zz: "),
            (s + ["--dot", "/dev/full"], 4, "/dev/full: cannot write"),
            (s + ["--dot", "-", "--json"], 2, "--dot - and --json"),
            (s + ["--svg", "-", "--json"], 2, "--svg - and --json"),
            (s + ["--svg", "x", "--dot", "y"], 2, "not both"),
            (s + ["--svg", "/dev/full"], 4, "/dev/full: cannot write"),
            (["spread", "g", "--seeds", "seeds.tsv", "--dot", "b.dot"], 2, "draw one set"),
            (["spread", "g", "--seeds", "sets.tsv"], 2, "65537 sets of seeds; 65536 can be")]:
        p = t.run(*words, code=code)
        check(said in p.stderr and p.stderr.startswith("engram-accel"),
              "%s says '%s': %s" % (" ".join(words), said, p.stderr))
    check(t.json("graph", "describe", "g")[0]["edges"] == 6, "a bad line's file changed nothing")


def interrupted(t):
    with open("big.tsv", "w", encoding="ascii") as f:
        for block in range(20):
            f.write("".join("%d\t%d\t0.5\n" % (block * 100000 + i, i * 7919 % 999983)
                            for i in range(100000)))
    t.run("graph", "create", "big")
    p = t.popen("graph", "load", "big", "big.tsv", "--json", stdout=subprocess.PIPE)
    cli.until("the first edges",
              lambda: t.json("graph", "describe", "big")[0]["edges"] > 0)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate()
    edges = t.json("graph", "describe", "big")[0]["edges"]
    if p.returncode == 130:
        said = json.loads(out.splitlines()[0])
        check(said["edges_added"] == edges and not said["complete"] and "interrupted" in err,
              "Ctrl-C tells how many edges are in: %s, %d" % (said, edges))
    else:
        check(p.returncode == 0 and edges == 2000000, "load was faster than Ctrl-C: " + err)
    t.run("graph", "drop", "big")
    master, slave = pty.openpty()
    p = subprocess.Popen(t.start + ["graph", "load", "big", "big.tsv", "--create"],
                         stdout=subprocess.PIPE, stderr=slave, text=True)
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 4096):
            shown += part
    except OSError:  # how a pty says that its other end is closed
        pass
    out = p.communicate()[0]
    check(p.returncode == 0 and b" %  " in shown and b"MiB" in shown, "progress: %r" % shown[:80])
    check("2,000,000 edges loaded" in out and "the graph has " in out, "load: " + out)


def in_pieces(_):
    """What the daemon refuses at once goes in smaller requests, by its limits or a space's quota."""
    many = 300000
    write_npy("many.s.npy", "Q", "(%d,)" % many, (i * 7919 % 5003 for i in range(many)))
    write_npy("many.t.npy", "Q", "(%d,)" % many, (i * 104729 % 5009 for i in range(many)))
    daemon = start_daemon("small", "gpu.devices=none", "quotas.host_mib=16")
    t = Tool("small")
    try:
        t.run("graph", "load", "g", "many.s.npy", "many.t.npy", "--create")
        before = t.json("graph", "describe", "g")[0]
        # 6 MB to send, and more than twice that to sort in.
        done = t.json("graph", "load", "g", "many.s.npy", "many.t.npy", "--update")[0]
        check((before["edges"], done["edges_removed"], done["edges_added"], done["edges"],
               done["complete"]) == (many, many, many, many, True) and
              done["version"] > before["version"] + 1, "replaced in pieces: %s" % done)
        p = t.run("graph", "load", "g", "many.s.npy", "many.t.npy", "--add", code=1)
        edges = t.json("graph", "describe", "g")[0]["edges"]
        told = re.search(r"stopped: ([0-9,]+) of 300,000 edges that were read are in", p.stderr)
        check(told and "quotas.host_mib" in p.stderr and "in 0 ms" not in p.stderr and
              done["edges"] + int(told.group(1).replace(",", "")) == edges,
              "what is too much for the quota: %s, %d edges" % (p.stderr, edges))
        # Edges of one pair are replaced together: there is no smaller request to ask for.
        write_npy("pair.npy", "Q", "(%d,)" % 700000, (1 for _ in range(700000)))
        p = subprocess.run(t.start + ["graph", "load", "pair", "pair.npy", "pair.npy", "--create",
                                      "--update"], capture_output=True, text=True, timeout=60)
        check(p.returncode == 1 and "stopped: 0 of 700,000 edges" in p.stderr,
              "one pair past the quota: %s" % p.stderr)
    finally:
        daemon.kill()
        daemon.wait()
    daemon = start_daemon("bounded", "gpu.devices=none", "limits.request_body_mib=1",
                          "limits.reply_body_mib=1")
    t = Tool("bounded")
    try:
        done = t.json("graph", "load", "g", "many.s.npy", "many.t.npy", "--create")[0]
        check((done["edges_added"], done["complete"]) == (many, True) and done["version"] >= 6,
              "requests of 1 MiB: %s" % done)
        write("everyone.tsv", "".join("%d 1 %d\n" % (i, i % 50) for i in range(5000)))
        p = t.run("spread", "g", "--seeds", "everyone.tsv", "--top", "0", code=1)
        check("limits.reply_body_mib" in p.stderr, "a reply that is too large: " + p.stderr)
    finally:
        daemon.kill()
        daemon.wait()


def everything(t):
    for part in loads, changes, weights, expects, counted, spreads, tables, pictures, cues, similar, refusals, interrupted, \
            in_pieces:
        part(t)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
