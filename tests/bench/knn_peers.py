"""knn_peers: who answers the same questions as the daemon in bench_peers.py. Each is a class with a
name, `load` (rows of length 1, C order) and `search` (queries, k), which takes a host array and
returns the ids as one: what a program around it would wait for. `find` gives those that can be
imported here, and why the others cannot."""
import numpy as np


class Unavailable(Exception):
    """Why a peer does not take part."""


def needs(module):
    try:
        return __import__(module, fromlist=["_"])
    except (ImportError, OSError) as error:
        raise Unavailable(str(error).splitlines()[0]) from error


class Peer:
    exact = True  # in float32; others lose rows, which is counted

    def load(self, rows):
        raise NotImplementedError

    def search(self, queries, k):
        raise NotImplementedError

    def unload(self):
        self.__dict__ = {"name": self.name, "threads": getattr(self, "threads", 0)}


# ---- without a card ----

class Numpy(Peer):
    def __init__(self, threads):
        self.name = f"numpy {np.__version__}"

    def load(self, rows):
        self.rows_t = rows.T

    def search(self, queries, k):
        scores = queries @ self.rows_t
        some = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        best = np.argsort(-np.take_along_axis(scores, some, 1), axis=1, kind="stable")
        return np.take_along_axis(some, best, 1)


class FaissCpu(Peer):
    def __init__(self, threads):
        self.faiss = needs("faiss")
        self.faiss.omp_set_num_threads(threads)
        self.name = f"faiss-cpu {self.faiss.__version__} IndexFlatIP"

    def load(self, rows):
        self.index = self.faiss.IndexFlatIP(rows.shape[1])
        self.index.add(rows)

    def search(self, queries, k):
        return self.index.search(queries, k)[1]

    def unload(self):
        self.index = None


class Usearch(Peer):
    def __init__(self, threads):
        self.usearch = needs("usearch.index")
        self.threads = threads
        self.name = f"usearch {needs('usearch').__version__} exact"

    def load(self, rows):
        self.rows = rows

    def search(self, queries, k):
        found = self.usearch.search(self.rows, queries, k, self.usearch.MetricKind.IP, exact=True,
                                    threads=self.threads)
        return np.asarray(found.keys).reshape(len(queries), -1).astype(np.int64)

    def unload(self):
        self.rows = None


# ---- on a card ----

class Torch(Peer):
    exact = False

    def __init__(self, kind):
        self.torch = needs("torch")
        if not self.torch.cuda.is_available():
            raise Unavailable("torch sees no card")
        self.kind = kind
        self.exact = kind == "fp32"
        self.name = f"torch {self.torch.__version__.split('+')[0]} {kind}"

    def load(self, rows):
        dtype = self.torch.float16 if self.kind == "fp16" else self.torch.float32
        self.rows = self.torch.empty(rows.shape, dtype=dtype, device="cuda")
        for first in range(0, len(rows), 1 << 17):
            part = self.torch.from_numpy(rows[first:first + (1 << 17)])
            self.rows[first:first + len(part)] = part.to("cuda")
        self.rows_t = self.rows.T

    def search(self, queries, k):
        self.torch.backends.cuda.matmul.allow_tf32 = self.kind == "TF32"
        q = self.torch.from_numpy(queries).to("cuda").to(self.rows.dtype)
        return self.torch.topk(q @ self.rows_t, k).indices.cpu().numpy()

    def unload(self):
        self.rows = self.rows_t = None
        self.torch.cuda.empty_cache()


class FaissGpu(Peer):
    def __init__(self, half):
        self.faiss = needs("faiss")
        if not hasattr(self.faiss, "StandardGpuResources") or not self.faiss.get_num_gpus():
            raise Unavailable("this faiss has no card")
        self.half = half
        self.exact = not half
        self.name = f"FAISS-GPU {self.faiss.__version__} {'fp16' if half else 'fp32'}"

    def load(self, rows):
        self.resources = self.faiss.StandardGpuResources()
        config = self.faiss.GpuIndexFlatConfig()
        config.useFloat16 = self.half
        self.index = self.faiss.GpuIndexFlatIP(self.resources, rows.shape[1], config)
        self.index.add(rows)

    def search(self, queries, k):
        return self.index.search(queries, k)[1]

    def unload(self):
        self.index = self.resources = None


class Cuvs(Peer):
    def __init__(self):
        self.torch = needs("torch")
        self.brute_force = needs("cuvs.neighbors.brute_force")
        self.common = needs("cuvs.common")
        if not self.torch.cuda.is_available():
            raise Unavailable("torch, which brings its arrays, sees no card")
        self.resources = self.common.Resources()
        self.name = f"cuVS {needs('cuvs').__version__} brute force"

    def load(self, rows):
        self.rows = self.torch.empty(rows.shape, device="cuda")
        for first in range(0, len(rows), 1 << 17):
            part = self.torch.from_numpy(rows[first:first + (1 << 17)])
            self.rows[first:first + len(part)] = part.to("cuda")
        self.torch.cuda.synchronize()
        self.index = self.brute_force.build(self.rows, metric="inner_product",
                                            resources=self.resources)
        self.resources.sync()

    def search(self, queries, k):
        q = self.torch.from_numpy(queries).to("cuda")
        ids = self.torch.empty((len(queries), k), dtype=self.torch.int64, device="cuda")
        scores = self.torch.empty((len(queries), k), device="cuda")
        self.torch.cuda.current_stream().synchronize()
        self.brute_force.search(self.index, q, k, neighbors=ids, distances=scores,
                                resources=self.resources)
        self.resources.sync()
        return ids.cpu().numpy()

    def unload(self):
        self.index = self.rows = None
        self.torch.cuda.empty_cache()


ON_CARD = {"torch": (lambda: Torch("fp32"), lambda: Torch("TF32"), lambda: Torch("fp16")),
           "faiss-gpu": (lambda: FaissGpu(False), lambda: FaissGpu(True)), "cuvs": (Cuvs,)}
ON_CPU = {"faiss-cpu": FaissCpu, "usearch": Usearch, "numpy": Numpy}


def find(card, threads, only):
    """(peers, [(name, why not)]). only: their names; None: all."""
    makers = [(name, make) for name, all_makers in ON_CARD.items() for make in all_makers]
    if not card:
        makers = [(name, lambda make=make: make(threads)) for name, make in ON_CPU.items()]
    peers, missing = [], {}
    for name, make in makers:
        if only is not None and name not in only:
            continue
        try:
            peers.append(make())
        except Unavailable as why:
            missing[name] = str(why)
    return peers, list(missing.items())
