"""wire_page: the reference client of docs/examples on every operation of the daemon
(wire_operations.py), and what proto/README.md says that must, never or always be so. The page names
these functions."""
import os
import re
import socket
import sys
import tempfile
import time

import numpy as np

import checks
import cli
import wire_operations
from checks import check
from wire_operations import ROWS, every_operation, f32, greeted, load_schema, refused, u64
from wire_client import ALIGN, ERROR, HEADER, MAGIC, REPLY, Client, Lost, Refused  # noqa: E402

GIVE_UP_S = 120
FILLER = 2**64 - 1


# ---- sentences of the page

def header(kind=2, flags=0, request=1, text=0, body=0, magic=MAGIC, version=1):
    return HEADER.pack(magic, version, kind, flags, request, text, 0, body)


class Raw:
    """A connection whose bytes are written by hand."""

    def __init__(self, path, greets=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(GIVE_UP_S)
        self.socket.connect(path)
        self.client = Client.__new__(Client)
        self.client.schema, self.client.socket = wire_operations.schema, self.socket
        self.client.limits = None
        self.client.kinds = {"Hello": 1}
        if greets:
            self.say(self.hello())
            self.read()

    def hello(self, **more):
        fields = {"version_min": 1, "version_max": 1, "space": "strangers", **more}
        return self.client.frame("Hello", 1, **fields)

    def say(self, data):
        self.socket.sendall(data)

    def read(self):
        kind, flags, request, text, _ = self.client.receive_frame()
        error = wire_operations.schema.Error.FromString(text) if flags & ERROR else None
        return kind, flags, request, error

    def closed(self):
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def lives(self):
        self.say(header(request=999).ljust(ALIGN, b"\0"))
        return self.read()[:3] == (2, REPLY, 999)


def closes(path, data, detail, request, greets=True):
    raw = Raw(path, greets)
    raw.say(data if isinstance(data, bytes) else data(raw))
    kind, flags, told, error = raw.read()
    check(flags == REPLY | ERROR and error.detail == detail and told == request,
          "detail %d of request %d: %s to %d" % (detail, request, error, told))
    check(request or kind == 0, "the kind of an Error to no request is %d" % kind)
    check(raw.closed(), "detail %d leaves the connection open" % detail)


def refusals_that_close(path):
    closes(path, header(magic=7).ljust(64, b"\0"), 1, 0)
    closes(path, header(version=2).ljust(64, b"\0"), 2, 0)
    closes(path, header(flags=1).ljust(64, b"\0"), 34, 1)
    closes(path, header(text=65537).ljust(64, b"\0"), 3, 1)
    closes(path, header(body=2**40).ljust(64, b"\0"), 4, 1)
    closes(path, header(body=32).ljust(64, b"\0"), 8, 1)
    closes(path, header(kind=2).ljust(64, b"\0"), 10, 1, False)
    closes(path, lambda raw: raw.hello(space="NO"), 11, 1, False)
    closes(path, lambda raw: raw.hello(client_name="a\nb"), 12, 1, False)
    closes(path, lambda raw: raw.hello(client_name="x" * 65), 12, 1, False)
    closes(path, lambda raw: raw.hello(version_min=2, version_max=3), 2, 1, False)
    closes(path, lambda raw: header(kind=1, text=1) + b"\xff" + bytes(31), 6, 1, False)


def refusals_that_leave_it_open(path):
    raw = Raw(path)
    for data, detail in ((raw.hello(), 10), (header(kind=200).ljust(64, b"\0"), 9),
                         (header(kind=33, text=1) + b"\xff" + bytes(31), 6)):
        raw.say(data)
        error = raw.read()[3]
        check(error.detail == detail, "%s, not %d" % (error, detail))
        check(raw.lives(), "detail %d closes the connection" % detail)


def padding_is_checked(path):
    raw = Raw(path)
    raw.say(header(request=5) + bytes(31) + b"\1")
    check(raw.read()[2:] and raw.lives(), "alive")
    raw.say(header(request=5) + bytes(31) + b"\1")
    error = raw.read()[3]
    check(error and error.detail == 6 and "not zero" in error.message, "message: %s" % error)
    client = greeted(path)
    frame = bytearray(client.frame("Norms", 9, {"rows": f32(1, 2, 3)[None, :]}))
    frame[-1] = 1
    client.asked[9] = "Norms"
    client.socket.sendall(frame)
    try:
        client.receive()
        check(False, "a tensor's padding is not looked at")
    except Refused as error:
        check(error.detail == 8 and error.request == 9 and "rows" in str(error), str(error))
    closes(path, lambda raw: raw.hello(space="abc")[:-1] + b"\1", 6, 1, False)
    client.close()


def ids_in_flight_are_unique(path):
    """Two requests with one id: the second is refused while the first waits. A Ping is answered at
    once, so that two with one id both are; 0 is served, though an Error to it may mean all."""
    raw = Raw(path)
    raw.say(2 * header(request=3).ljust(64, b"\0") + header(request=0).ljust(64, b"\0"))
    check([raw.read()[2] for _ in range(3)] == [3, 3, 0], "three Pings")
    client = greeted(path, "unique")
    client.ask("CollectionCreate", name="rows", dimension=1024, metric=2)
    rows = np.ones((4000, 1024), "f4")
    load = client.frame("Upsert", 50, {"ids": np.arange(4000, dtype="u8"), "rows": rows},
                        collection="rows")
    twice = client.frame("Knn", 51, {"queries": rows[:4]}, collection="rows", k=1)
    client.asked = {50: "Upsert", 51: "Knn"}
    client.socket.sendall(load + twice + twice)
    details = []
    for _ in range(3):
        try:
            client.receive()
        except Refused as error:
            details.append(error.detail)
            client.asked[51] = "Knn"
    check(details == [29], "refused: %s" % details)
    client.close()


def no_row_and_no_node_has_the_fillers_id(path):
    c = greeted(path, "filler")
    c.ask("CollectionCreate", name="rows", dimension=4, metric=1)
    c.ask("GraphCreate", name="links")
    for ids in u64(1, FILLER), u64(FILLER, 1), u64(FILLER, 5):
        refused(c, 66, "Upsert", {"ids": ids, "rows": ROWS[:2]}, collection="rows")
    refused(c, 66, "Bind", {"a_rows": ROWS[:1], "b_rows": ROWS[:1], "into_ids": u64(FILLER)},
            into="rows")
    refused(c, 41, "GraphAddEdges", {"sources": u64(FILLER), "targets": u64(1),
                                     "weights": f32(1)}, graph="links")
    refused(c, 41, "GraphSetNodes", {"ids": u64(FILLER)}, graph="links")
    check(c.ask("CollectionDescribe", name="rows").message.collection.rows == 0, "half-applied")
    c.ask("Upsert", {"ids": u64(FILLER - 1), "rows": ROWS[:1]}, collection="rows")
    found = c.ask("Knn", {"queries": ROWS[:2], "filter.ids": u64(FILLER - 1, FILLER)},
                  collection="rows", k=3).tensors
    check(found["ids"][0, 0] == FILLER - 1 and (found["counts"] == 1).all(), str(found))
    c.close()


def a_tensor_may_have_no_rows(path):
    c = greeted(path, "empty")
    c.ask("CollectionCreate", name="rows", dimension=4, metric=1)
    none = np.zeros((0, 4), "f4")
    check(c.ask("Knn", {"queries": none}, collection="rows", k=3).tensors["ids"].shape[0] == 0, "knn")
    check(c.ask("Norms", {"rows": none}).tensors["norms"].shape == (0, 1), "norms")
    check(c.ask("Upsert", {"ids": u64(), "rows": none}, collection="rows").message.rows == 0, "up")
    c.close()


def floats_are_finite(path):
    c = greeted(path, "finite")
    for bad in np.nan, np.inf, -np.inf:
        refused(c, 19, "Norms", {"rows": f32(1, bad)[None, :]})
    c.close()


def offsets_never_fall(path):
    c = greeted(path, "offsets")
    for offsets in u64(0, 3, 2), u64(1, 2, 4), u64(0, 2, 5):
        refused(c, 23, "ScoreCandidates", {"queries": ROWS[:2], "offsets": offsets,
                                           "rows": ROWS}, metric=2)
    c.close()


def writes_expect_a_version(path):
    c = greeted(path, "writes")
    made = c.ask("CollectionCreate", name="rows", dimension=4, metric=1).message.collection.version
    row = {"ids": u64(1), "rows": ROWS[:1]}
    now = c.ask("Upsert", row, collection="rows", fields={"write.version": made}).message.meta.version
    error = refused(c, 50, "Upsert", row, collection="rows", fields={"write.version": made})
    check(error and error.error.version == now and error.code == 10, "version %d" % now)
    refused(c, 51, "Upsert", row, collection="rows", fields={"write.version": now + 2**40})
    token = {"write.token_low": 5, "write.token_high": 6}
    first = c.ask("Upsert", {"ids": u64(2), "rows": ROWS[:1]}, collection="rows", fields=token)
    again = c.ask("Upsert", {"ids": u64(2), "rows": ROWS[:1]}, collection="rows", fields=token)
    check(again.message.meta.version == first.message.meta.version and again.message.inserted == 1,
          "a repetition with the token: %s" % again.message)
    refused(c, 52, "Delete", {"ids": u64(2)}, collection="rows", fields=token)
    c.ask("CollectionDrop", name="rows")
    after = c.ask("Upsert", {"ids": u64(2), "rows": ROWS[:1]}, collection="rows", fields=token)
    check(after.message.inserted == 1, "also when what it named is gone")
    c.close()


def a_recall_wants_cosine(path):
    c = greeted(path, "recalls")
    c.ask("CollectionCreate", name="rows", dimension=4, metric=2)
    c.ask("GraphCreate", name="links")
    refused(c, 17, "Recall", {"cues": ROWS[:1]}, graph="links", collection="rows")
    c.close()


def who_is_late_is_told(path):
    raw = Raw(path, False)
    kind, flags, request, error = raw.read()
    check((kind, request, error.code, error.detail) == (0, 0, 4, 10), str(error))
    check("limits.handshake_ms" in error.message and raw.closed(), "closed after it")
    raw = Raw(path)
    raw.say(header()[:10])
    kind, flags, request, error = raw.read()
    check((kind, request, error.code, error.detail) == (0, 0, 4, 31), str(error))
    check("limits.stall_ms" in error.message and raw.closed(), "closed after it")


def the_golden_error_is_the_daemons(path):
    with open("proto/README.md", encoding="utf-8") as f:
        dump = re.search("```hex error-reply\n(.*?)```", f.read(), re.S).group(1)
    wanted = bytes.fromhex(" ".join(line.split("|")[0][4:] for line in dump.splitlines()))
    c = greeted(path, "golden")
    c.socket.sendall(c.frame("Knn", 4, {"queries": ROWS[:1]}, collection="rows", k=2))
    got = c.read(len(wanted))
    check(got == wanted, "%r, not %r" % (got, wanted))
    c.close()


def an_error_is_read_after_a_failed_write(path):
    """What the client reads when its write fails is why."""
    c = greeted(path)
    c.socket.sendall(b"X" * 64)
    until = time.monotonic() + 60  # that only ends a broken run
    try:
        while time.monotonic() < until:
            c.send("Ping")
        check(False, "never closed")
    except Refused as error:
        check(error.request == 0 and error.detail == 1, str(error))
    except Lost as error:
        check(False, "the daemon said why, and it was not read: %s" % error)


def listens(path):
    try:
        Raw(path)
        return True
    except OSError:
        return False


def everything(path, late):
    every_operation(path)
    for sentence in (refusals_that_close, refusals_that_leave_it_open, padding_is_checked,
                     ids_in_flight_are_unique, no_row_and_no_node_has_the_fillers_id,
                     a_tensor_may_have_no_rows, floats_are_finite, offsets_never_fall,
                     writes_expect_a_version, a_recall_wants_cosine,
                     the_golden_error_is_the_daemons, an_error_is_read_after_a_failed_write):
        before = checks.failures
        try:
            sentence(path)
        except (Refused, Lost, OSError) as error:
            check(False, "%s: %r" % (sentence.__name__, error))
        if checks.failures > before:
            print("FAILED in", sentence.__name__)
    who_is_late_is_told(late)


def main():
    cli.BUILD = os.path.abspath(cli.BUILD)
    with tempfile.TemporaryDirectory() as folder:
        load_schema(folder)
        common = ("gpu.devices=none", "memory.max_mib=512")
        daemons = [cli.start_daemon(folder + "/socket", *common),
                   cli.start_daemon(folder + "/late", *common, "limits.handshake_ms=300",
                                    "limits.stall_ms=300")]
        try:
            for path in folder + "/socket", folder + "/late":
                cli.until("a daemon that listens", lambda path=path: listens(path))
            everything(folder + "/socket", folder + "/late")
        finally:
            for daemon in daemons:
                daemon.kill()
                daemon.wait()
    print("%d checks failed" % checks.failures)
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
