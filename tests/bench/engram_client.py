"""engram_client: what the benches in Python need of libengram_accel (client/engram_accel.h, 0.2),
by ctypes, and a daemon of their own.

Structs here are the beginnings of those of the header: the library is told how much of each there
is (ea_open_sized), and neither reads nor writes more."""
import ctypes as C
import os
import signal
import subprocess
import tempfile
import time

COSINE, DOT, SQUARED_EUCLIDEAN = 1, 2, 3
BACKENDS = {1: "cpu", 2: "gpu", 3: "both"}
MINUTES_10_US = 600_000_000


class Sizes(C.Structure):
    _fields_ = [(name, C.c_size_t) for name in (
        "sizes options send_options filter result info stats explanation collection_info rows "
        "upsert_counts delete_counts knn_question").split()]


class Options(C.Structure):
    _fields_ = [("socket_path", C.c_char_p), ("tcp_host", C.c_char_p), ("tcp_port", C.c_uint16),
                ("space", C.c_char_p), ("client_name", C.c_char_p), ("token", C.c_void_p),
                ("token_bytes", C.c_size_t), ("connect_timeout_us", C.c_uint64),
                ("timeout_us", C.c_uint64)]


class Meta(C.Structure):
    """Not among the sizes: a result points to the library's own."""
    _fields_ = [("backend", C.c_int), ("reason", C.c_uint32), ("queue_ns", C.c_uint64),
                ("run_ns", C.c_uint64), ("copy_ns", C.c_uint64), ("version", C.c_uint64),
                ("predicted_ns", C.c_uint64), ("other_ns", C.c_uint64), ("wait_ns", C.c_uint64),
                ("batch", C.c_uint32), ("total_ns", C.c_uint64)]


class Result(C.Structure):
    _fields_ = [("meta", C.POINTER(Meta)), ("rows", C.c_uint64), ("columns", C.c_uint64),
                ("scores", C.POINTER(C.c_float)), ("ids", C.POINTER(C.c_uint64)),
                ("counts", C.POINTER(C.c_uint32)), ("offsets", C.POINTER(C.c_uint64)),
                ("vectors", C.POINTER(C.c_float)), ("found", C.POINTER(C.c_uint8)),
                ("missing", C.c_uint64), ("memory", C.c_void_p)]


class Rows(C.Structure):
    _fields_ = [("collection", C.c_char_p), ("ids", C.c_void_p), ("rows", C.c_void_p),
                ("count", C.c_uint64), ("dimension", C.c_uint32), ("progress", C.c_void_p),
                ("user", C.c_void_p), ("write", C.c_void_p)]


class Question(C.Structure):
    _fields_ = [("collection", C.c_char_p), ("queries", C.c_void_p), ("query_count", C.c_uint64),
                ("dimension", C.c_uint32), ("k", C.c_uint32), ("filter", C.c_void_p),
                ("threshold", C.POINTER(C.c_float))]


class ClientError(Exception):
    pass


class Client:
    def __init__(self, library, socket_path):
        import numpy
        self.numpy = numpy
        self.lib = C.CDLL(library)
        self.lib.ea_error_text.restype = C.c_char_p
        self.lib.ea_error_text.argtypes = [C.c_void_p]
        self.handle = C.c_void_p()
        self.result = Result()
        sizes = Sizes(sizes=C.sizeof(Sizes), options=C.sizeof(Options), result=C.sizeof(Result),
                      rows=C.sizeof(Rows), knn_question=C.sizeof(Question))
        options = Options(socket_path=socket_path.encode(), client_name=b"bench",
                          timeout_us=MINUTES_10_US)
        self._check(self.lib.ea_open_sized(C.byref(options), C.byref(sizes),
                                           C.byref(self.handle)))

    def _check(self, status):
        if status:
            text = self.lib.ea_error_text(self.handle) if self.handle else b"no handle"
            raise ClientError(f"{text.decode()} (status {status})")

    def create(self, name, dimension, metric):
        self._check(self.lib.ea_collection_create(self.handle, name, C.c_uint32(dimension), metric,
                                                  None))

    def drop(self, name):
        self._check(self.lib.ea_collection_drop(self.handle, name))

    def upsert(self, name, rows):
        self.upsert_at(name, rows, 0)

    def upsert_at(self, name, rows, first):
        """Rows get the ids from `first` on."""
        ids = self.numpy.arange(first, first + len(rows), dtype=self.numpy.uint64)
        asked = Rows(name, ids.ctypes.data, rows.ctypes.data, len(rows), rows.shape[1])
        self._check(self.lib.ea_upsert(self.handle, C.byref(asked), None))

    def knn(self, name, queries, k):
        """The ids, in memory that the next call frees; self.meta() tells of the reply."""
        asked = Question(name, queries.ctypes.data, len(queries), queries.shape[1], k)
        self._check(self.lib.ea_knn(self.handle, C.byref(asked), C.byref(self.result)))
        r = self.result
        return self.numpy.ctypeslib.as_array(r.ids, (int(r.rows), int(r.columns)))

    def meta(self):
        return self.result.meta.contents

    def close(self):
        if self.handle:
            self.lib.ea_result_free(C.byref(self.result))
            self.lib.ea_close(self.handle)
            self.handle = None


def end_with_parent():
    """SIGTERM comes when the bench has ended in whatever way."""
    set_death_signal = 1
    C.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


class Daemon:
    """A daemon on a socket in a folder of its own; ended by its process id."""

    def __init__(self, build, **settings):
        self.build = os.path.abspath(build)
        self.folder = tempfile.TemporaryDirectory(prefix="engram-bench-")
        self.path = os.path.join(self.folder.name, "socket")
        command = [os.path.join(self.build, "engram-acceld"), "--socket", self.path,
                   "--set", "log.level=warning"]
        for key, value in settings.items():
            command += ["--set", f"{key.replace('__', '.')}={value}"]
        self.environment = dict(os.environ)
        libraries = os.environ.get("ENGRAM_BENCH_LIBRARIES")  # of a bundle, for our programs alone
        if libraries:
            self.environment["LD_LIBRARY_PATH"] = libraries
        with open(os.path.join(self.folder.name, "log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stderr=log, env=self.environment,
                                            preexec_fn=end_with_parent)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise ClientError("the daemon did not start: " + self.last_log)
            time.sleep(0.02)

    def client(self):
        return Client(os.path.join(self.build, "libengram_accel.so"), self.path)

    def command(self, *words):
        """What the command-line client prints."""
        return subprocess.run([os.path.join(self.build, "engram-accel"), "--socket", self.path,
                               *words], check=True, capture_output=True, text=True,
                              env=self.environment).stdout

    def log(self):
        with open(os.path.join(self.folder.name, "log"), encoding="utf-8") as file:
            return file.read()

    def processor_s(self):
        """Processor time of the daemon's process, all threads, without that of a GPU process."""
        return time.clock_gettime((~self.process.pid) << 3 | 2)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.last_log = self.log()
        self.folder.cleanup()
