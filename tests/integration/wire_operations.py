"""wire_operations: the reference client of docs/examples on every operation of the daemon."""
import importlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from checks import check

sys.path.insert(0, "docs/examples")
from wire_client import Client, Lost, Refused  # noqa: E402

schema = None


def load_schema(folder):
    """Compiles the schema into that folder, and loads it."""
    global schema
    subprocess.run(["protoc", "-I", "proto", "--python_out=" + folder,
                    "proto/engram_accel.proto"], check=True)
    sys.path.insert(0, folder)
    schema = importlib.import_module("engram_accel_pb2")


def greeted(path, space=""):
    return Client(schema, path, space=space)


ROWS = np.eye(4, dtype="f4")
IDS = np.arange(1, 5, dtype="u8")


def u64(*numbers):
    return np.array(numbers, "u8")


def f32(*numbers):
    return np.array(numbers, "f4")


def refused(client, detail, operation, tensors=None, **more):
    try:
        client.ask(operation, tensors, **more)
    except Refused as error:
        check(error.detail == detail, "%s: %s" % (operation, error))
        return error
    check(False, "%s was taken" % operation)
    return None


# ---- every operation, in an order in which each finds what it needs

def near(found, wanted):
    return found.shape == np.shape(wanted) and np.allclose(found, wanted, atol=1e-5)


def hello(c):
    return c.hello.instance != 0 and c.hello.space == "strangers" and c.limits.in_flight_max > 0


def config_set(c):
    setting = c.ask("ConfigSet", name="log.level", value="error").message.setting
    return setting.value == "error"


def slowlog(c):
    return c.ask("Slowlog").message.slow_ms > 0


def collection_create(c):
    made = c.ask("CollectionCreate", name="rows", dimension=4, metric=1).message
    c.ask("CollectionCreate", name="other", dimension=4, metric=2)
    return made.collection.name == "rows"


def upsert(c):
    said = c.ask("Upsert", {"ids": IDS, "rows": ROWS}, collection="rows").message
    return (said.inserted, said.replaced, said.rows) == (4, 0, 4)


def swap(c):
    c.ask("CollectionCreate", name="other2", dimension=4, metric=2)
    return c.ask("Swap", object=1, name="other", **{"fields": {"with": "other2"}}).message \
        .replaced_version > 0


def fetch(c):
    found = c.ask("Fetch", {"ids": u64(2, 77)}, collection="rows")
    return found.message.missing == 1 and near(found.tensors["rows"], [ROWS[1], 0 * ROWS[1]]) \
        and found.tensors["found"].ravel().tolist() == [1, 0]


def similarity(c):
    all_of = c.ask("Similarity", {"queries": ROWS[:1]}, collection="rows").tensors
    kept = c.ask("Similarity", {"queries": ROWS[:1], "filter.ids": u64(1, 2)}, collection="rows",
                 threshold=0.5).tensors
    return near(all_of["scores"], [[1, 0, 0, 0]]) and kept["ids"].ravel().tolist() == [1] \
        and kept["offsets"].ravel().tolist() == [0, 1]


def knn(c):
    found = c.ask("Knn", {"queries": ROWS[:2], "filter.bitmap": np.array([0b110], "u1")},
                  collection="rows", k=2).tensors
    return found["ids"].tolist() == [[1, 2], [2, 1]] and near(found["scores"], [[1, 0], [1, 0]])


def score_candidates(c):
    return near(c.ask("ScoreCandidates", {"queries": ROWS[:1], "rows": ROWS}, metric=2)
                .tensors["scores"].ravel(), [1, 0, 0, 0])


def weighted_average(c):
    return near(c.ask("WeightedAverage", {"weights": f32(1, 3), "ids": u64(1, 2)},
                      collection="rows").tensors["average"], [[0.25, 0.75, 0, 0]])


def spread(c):
    found = c.ask("Spread", {"seeds": u64(1)}, graph="links", mode=1, hops=1, decay=3,
                  decay_parameter=0.5, paths=True, k=2).tensors
    return found["ids"].ravel().tolist() == [1, 2] and near(found["activations"].ravel(), [1, .5]) \
        and found["path_ids"].ravel().tolist() == [1, 1, 2]


def hrr(operation, tensors, wanted=None, **more):
    def ask(c):
        rows = c.ask(operation, tensors, **more).tensors["rows"]
        return wanted is None or near(rows, wanted)
    return ask


def random(c):
    rows = c.ask("Random", seed=7, count=3, dimension=8).tensors["rows"]
    into = c.ask("Random", {"into_ids": u64(21)}, into="other", seed=7, count=1, dimension=4)
    return rows.shape == (3, 8) and into.message.inserted == 1


def cleanup(c):
    found = c.ask("Cleanup", {"a_rows": ROWS[:1], "b_rows": ROWS[:1]}, codebook="rows", k=1)
    return found.tensors["ids"].tolist() == [[1]]


def complete(c):
    found = c.ask("Complete", {"states": ROWS[:1] * .6, "mask": np.array([[1, 0, 0, 0]], "u1")},
                  collection="rows", beta=50, rounds=9).tensors
    return found["ids"].tolist() == [[1]] and found["converged"].tolist() == [[1]]


def complete_engine(c):
    found = c.ask("CompleteEngine", {"cues": ROWS[:1]}, attractor="memory", collection="rows")
    return found.tensors["states"].shape == (1, 4) and found.tensors["ids"].shape == (1, 1)


def recall(c):
    found = c.ask("Recall", {"cues": ROWS[:1]}, graph="links", collection="rows", results=5)
    return found.tensors["ids"].ravel().tolist()[:1] == [1] and found.tensors["marks"][0] & 1


def graph_fetch_nodes(c):
    found = c.ask("GraphFetchNodes", {"ids": u64(1, 99)}, graph="links", edges=True)
    return found.tensors["found"].ravel().tolist() == [1, 0] and \
        found.tensors["targets"].ravel().tolist() == [2]


def graph_add_weights(c):
    return near(c.ask("GraphAddWeights", {"sources": u64(1), "targets": u64(2), "deltas": f32(.5)},
                      graph="links", high=1.25).tensors["weights"], [[1.25]])


def changed(operation, tensors=None, graph="links", wanted=None, **more):
    def ask(c):
        said = c.ask(operation, tensors, graph=graph, **more).message
        return all(getattr(said, name) == value for name, value in (wanted or {}).items())
    return ask


def attractor_fetch(c):
    return c.ask("AttractorFetch", attractor="memory").tensors["weights"].shape == (4, 4)


def covariance(c):
    found = c.ask("Covariance", {"weights": f32(1, 1, 1, 1)}, collection="rows").tensors
    return near(found["mean"], [[.25] * 4]) and near(found["covariance"], np.cov(ROWS.T))


def cluster(c):
    rows = np.repeat(ROWS[:2], 3, 0)
    found = c.ask("Cluster", {"rows": rows}).tensors
    return found["labels"].ravel().tolist() == [0, 0, 0, 1, 1, 1] and \
        near(found["centroids"], ROWS[:2])


def save(c):
    with tempfile.TemporaryDirectory() as folder:
        to = np.frombuffer(folder.encode(), "u1")
        return c.ask("Save", {"to": to}, dry_run=True).message.objects >= 2 and \
            c.ask("Save", {"to": to}).message.number > 0


def said(operation, of=lambda message: True, **more):
    return lambda c: of(c.ask(operation, **more).message)


TRIES = [
    ("HELLO", hello), ("PING", said("Ping")),
    ("INFO", said("Info", lambda m: m.workers > 0)),
    ("CANCEL", said("Cancel", lambda m: not m.found, request_id=12345)),
    ("EXPLAIN", said("Explain", lambda m: m.workers > 0, last=4)),
    ("CONFIG_GET", said("ConfigGet", lambda m: len(m.settings) == 16)),
    ("CONFIG_SET", config_set), ("CONFIG_RELOAD", said("ConfigReload")),
    ("SPACES", said("Spaces", lambda m: any(s.own for s in m.spaces))), ("SLOWLOG", slowlog),
    ("MEMORY_HISTORY", said("MemoryHistory")),
    ("COLLECTION_CREATE", collection_create), ("UPSERT", upsert), ("SWAP", swap),
    ("CHANGES", said("Changes", lambda m: m.total == 2 and m.objects[0].name == "other")),
    ("COLLECTION_LIST", said("CollectionList", lambda m: len(m.collections) == 2)),
    ("COLLECTION_DESCRIBE", said("CollectionDescribe", lambda m: m.collection.rows == 4,
                                 name="rows")),
    ("FETCH", fetch), ("SIMILARITY", similarity), ("KNN", knn),
    ("SCORE_CANDIDATES", score_candidates),
    ("NORMS", lambda c: near(c.ask("Norms", {"rows": ROWS * 2}).tensors["norms"], [[2]] * 4)),
    ("WEIGHTED_AVERAGE", weighted_average),
    ("GRAPH_CREATE", said("GraphCreate", name="links")),
    ("GRAPH_ADD_EDGES", changed("GraphAddEdges", {"sources": u64(1, 2), "targets": u64(2, 3),
                                                  "weights": f32(1, 1)},
                                wanted={"edges_added": 2, "nodes": 3})),
    ("SPREAD", spread),
    ("GRAPH_ADD_CSR", changed("GraphAddCsr", {"ids": u64(7, 8), "offsets": u64(0, 1, 1),
                                              "columns": u64(1), "weights": f32(2)},
                              wanted={"edges_added": 1, "nodes_added": 2})),
    ("GRAPH_SET_NODES", changed("GraphSetNodes", {"ids": u64(4), "kinds": np.array([2], "u1"),
                                                  "factors": f32(1)}, wanted={"nodes_added": 1})),
    ("GRAPH_FETCH_NODES", graph_fetch_nodes), ("GRAPH_ADD_WEIGHTS", graph_add_weights),
    ("GRAPH_LIST", said("GraphList", lambda m: [g.name for g in m.graphs] == ["links"])),
    ("GRAPH_DESCRIBE", said("GraphDescribe", lambda m: m.graph.nodes == 6, name="links")),
    ("RECALL", recall), ("GRAPH_SCALE", changed("GraphScale", factor=.5)),
    ("GRAPH_PRUNE", changed("GraphPrune", below=.55, wanted={"edges_removed": 1})),
    ("GRAPH_REMOVE_EDGES", changed("GraphRemoveEdges", {"sources": u64(7), "targets": u64(8)},
                                   wanted={"edges_removed": 1})),
    ("GRAPH_REMOVE_NODES", changed("GraphRemoveNodes", {"ids": u64(4)},
                                   wanted={"nodes_removed": 1})),
    ("GRAPH_DROP", said("GraphDrop", lambda m: m.nodes == 5, name="links")),
    ("BIND", hrr("Bind", {"a_rows": ROWS[1:2], "b_rows": ROWS[:2]}, ROWS[1:3])),
    ("UNBIND", hrr("Unbind", {"a_ids": u64(2), "b_rows": ROWS[:1]}, ROWS[1:2], a="rows",
                   exact=True)),
    ("BIND_MANY", hrr("BindMany", {"a_rows": ROWS[:2], "offsets": u64(0, 2)}, ROWS[1:2])),
    ("SUPERPOSE", hrr("Superpose", {"a_rows": ROWS[:2], "offsets": u64(0, 2),
                                    "weights": f32(1, 2)}, [[1, 2, 0, 0]])),
    ("PERMUTE", hrr("Permute", {"a_rows": ROWS[:1]}, ROWS[1:2], shift=1)),
    ("RANDOM", random), ("CLEANUP", cleanup), ("COMPLETE", complete),
    ("ATTRACTOR_CREATE", said("AttractorCreate", name="memory", dimension=4, sparsity=.5)),
    ("ATTRACTOR_LEARN", lambda c: c.ask("AttractorLearn", {"rows": ROWS}, attractor="memory")
     .message.learned == 4),
    ("ATTRACTOR_FETCH", attractor_fetch),
    ("ATTRACTOR_SET", lambda c: c.ask("AttractorSet", {"weights": ROWS}, attractor="memory")
     .message.meta.version > 0),
    ("ATTRACTOR_LIST", said("AttractorList", lambda m: len(m.attractors) == 1)),
    ("ATTRACTOR_DESCRIBE", said("AttractorDescribe", lambda m: m.attractor.dimension == 4,
                                name="memory")),
    ("COMPLETE_ENGINE", complete_engine), ("ATTRACTOR_DROP", said("AttractorDrop", name="memory")),
    ("COVARIANCE", covariance), ("CLUSTER", cluster),
    ("DELETE", lambda c: c.ask("Delete", {"ids": u64(4, 99)}, collection="rows").message.missing
     == 1),
    ("STATS", said("Stats", lambda m: m.rows >= 3)),
    ("MEMORY", said("Memory", lambda m: "rows" in [c.name for c in m.contents])), ("SAVE", save),
    ("COLLECTION_DROP", said("CollectionDrop", lambda m: m.rows == 3, name="rows")),
]


def every_operation(path):
    with open("proto/operations.def", encoding="utf-8") as f:
        wanted = re.findall(r"^(?:ANSWERED|OPERATION)\((\w+),", f.read(), re.M)
    tried = [name for name, _ in TRIES]
    check(sorted(tried) == sorted(wanted), "not tried: %s; tried and unknown: %s" % (
        sorted(set(wanted) - set(tried)), sorted(set(tried) - set(wanted))))
    client = greeted(path, "strangers")
    for name, try_it in TRIES:
        try:
            check(try_it(client), name + ": another answer than wanted")
        except (Refused, Lost, OSError, KeyError, AttributeError, ValueError) as error:
            check(False, "%s: %r" % (name, error))
    client.close()
