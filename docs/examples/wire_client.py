"""wire_client: engram-acceld's protocol in one file, written from proto/README.md alone.

It is there to be read and copied by whoever writes a client in another language; programs in C link
libengram_accel. Needed: numpy, protobuf, and the schema compiled for Python:

    protoc -I proto --python_out=. proto/engram_accel.proto

    import engram_accel_pb2 as schema, numpy as np
    client = wire_client.Client(schema, "/run/engram-accel/engram-accel.sock")
    client.ask("CollectionCreate", name="rows", dimension=4, metric=1)
    client.ask("Upsert", {"ids": np.arange(2, dtype="u8"), "rows": rows}, collection="rows")
    found = client.ask("Knn", {"queries": rows}, collection="rows", k=1)
    found.message.meta.run_ns, found.tensors["ids"], found.tensors["scores"]

A client is for one thread. ask() sends and waits; send() and receive() pipeline.
"""
import re
import socket
import struct

import numpy as np

MAGIC, VERSION, ALIGN = 0x4C434145, 1, 64
HEADER = struct.Struct("<IBBHQIIQ")
REPLY, ERROR, PROGRESS = 1, 2, 4  # flags
FEATURE_PROGRESS = 1
MESSAGE_BYTES_MAX = 65536
DTYPES = {1: "<f4", 2: "<u8", 3: "<u4", 4: "u1", 5: "<f8"}
NUMBERS = {np.dtype(name): number for number, name in DTYPES.items()}
# Operations whose reply is not the message of their own name.
REPLIES = {
    "Holographic": ["Bind", "Unbind", "BindMany", "Superpose", "Permute", "Random"],
    "GraphChange": ["GraphAddEdges", "GraphAddCsr", "GraphRemoveEdges", "GraphSetNodes",
                    "GraphRemoveNodes", "GraphScale", "GraphPrune"],
}


class Refused(Exception):
    """An Error of the daemon. request: its id, 0 where it is about the connection."""

    def __init__(self, request, error):
        super().__init__("%d/%d: %s" % (error.code, error.detail, error.message))
        self.request, self.error = request, error
        self.code, self.detail, self.retryable = error.code, error.detail, error.retryable


class Lost(Exception):
    """The connection is at its end, or is given up because what came is no reply."""


class Reply:
    """A request's answer: its message, and its tensors by their fields' names."""

    def __init__(self, request, message, tensors):
        self.request, self.message, self.tensors = request, message, tensors


def padded(count):
    return -count % ALIGN


def reply_name(operation):
    for message, operations in REPLIES.items():
        if operation in operations:
            return message + "Reply"
    return operation + "Reply"


def field_of(message, path):
    """The message that a dotted path leads to, and the last name: "filter.ids"."""
    *above, last = path.split(".")
    for name in above:
        message = getattr(message, name)
    return message, last


def set_fields(message, fields):
    for path, value in fields.items():
        into, name = field_of(message, path)
        setattr(into, name, value)


def lay_out(message, tensors):
    """Describes tensors in the message; returns the body. They are in the order of the page."""
    body = bytearray()
    for path, array in tensors.items():
        array = np.ascontiguousarray(array)
        if array.ndim == 1:
            array = array[:, None]
        into, name = field_of(message, path)
        tensor = getattr(into, name)
        tensor.dtype = NUMBERS[array.dtype.newbyteorder("<")]
        tensor.rows, tensor.columns = array.shape
        body += array.astype(DTYPES[tensor.dtype], copy=False).tobytes()
        body += bytes(padded(len(body)))
    return body


def take_apart(message, body):
    """The tensors of a reply, in the order of its fields."""
    tensors, at = {}, 0
    for field in message.DESCRIPTOR.fields:
        is_tensor = field.message_type is not None and field.message_type.name == "Tensor"
        if not is_tensor or not message.HasField(field.name):
            continue
        tensor = getattr(message, field.name)
        if tensor.dtype not in DTYPES:
            raise Lost("%s: dtype %d" % (field.name, tensor.dtype))
        dtype, count = np.dtype(DTYPES[tensor.dtype]), tensor.rows * tensor.columns
        size = count * dtype.itemsize
        if at + size > len(body):
            raise Lost("%s runs past the body" % field.name)
        array = np.frombuffer(body, dtype, count, at)
        tensors[field.name] = array.reshape(tensor.rows, tensor.columns)
        at += size + padded(size)
    if at != len(body):
        raise Lost("the tensors fill %d of %d bytes" % (at, len(body)))
    return tensors


class Client:
    def __init__(self, schema, address, space="", token=b"", name="wire_client", timeout=60):
        """address: the path of a Unix socket, or (host, port)."""
        self.schema, self.next_id, self.limits = schema, 1, None
        self.asked = {}  # request id -> name of the operation, in flight
        self.kinds = {}  # CollectionCreate -> 16
        for name_of, number in schema.Kind.items():
            words = re.sub("^KIND_", "", name_of).split("_")
            self.kinds["".join(word.capitalize() for word in words)] = number
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        # Nothing else goes out before the answer: the limits hold from the first frame on.
        hello = self.ask("Hello", version_min=VERSION, version_max=VERSION, client_name=name,
                         space=space, token=token, features=FEATURE_PROGRESS).message
        if hello.version != VERSION:
            raise Lost("the daemon chose version %d" % hello.version)
        self.hello, self.limits = hello, hello.limits

    def close(self):
        self.socket.close()

    # ---- out

    def frame(self, operation, request, tensors=None, deadline_us=0, progress=False, **fields):
        """The bytes of a request. fields: of its message, submessages' by a dict of dotted names."""
        message = getattr(self.schema, operation + "Request")()
        set_fields(message, fields.pop("fields", {}))
        set_fields(message, fields)
        body = lay_out(message, tensors or {})
        text = message.SerializeToString()
        if len(text) > MESSAGE_BYTES_MAX:
            raise ValueError("a message of %d bytes" % len(text))
        if self.limits and len(body) > self.limits.body_bytes_max:
            raise ValueError("a body of %d bytes" % len(body))
        head = HEADER.pack(MAGIC, VERSION, self.kinds[operation], PROGRESS if progress else 0,
                           request, len(text), deadline_us, len(body))
        return head + text + bytes(padded(len(head) + len(text))) + bytes(body)

    def send(self, operation, tensors=None, **more):
        """Sends a request without waiting; returns its id. At most limits.in_flight_max may wait
        for their replies. The daemon may have said why before it closed: what is there to be read
        is read also after a write that failed."""
        request = self.next_id
        self.next_id += 1
        frame = self.frame(operation, request, tensors, **more)
        self.asked[request] = operation
        try:
            self.socket.sendall(frame)
        except OSError as error:
            self.lose("write: %s" % error)
        return request

    # ---- in

    def read(self, count):
        part = bytearray(count)
        view, got = memoryview(part), 0
        while got < count:
            n = self.socket.recv_into(view[got:])
            if n == 0:
                raise Lost("the daemon closed the connection")
            got += n
        return bytes(part)

    def lose(self, why):
        """A write failed: an Error that came before says more than that."""
        try:
            while True:
                self.receive()
        except (Lost, OSError):
            raise Lost(why)

    def receive_frame(self):
        """The next frame: its kind, flags, request id, message and body."""
        magic, version, kind, flags, request, text, _, body = HEADER.unpack(self.read(HEADER.size))
        if magic != MAGIC or version != VERSION or body % ALIGN:
            raise Lost("not a frame")
        message = self.read(text + padded(HEADER.size + text))[:text]
        return kind, flags, request, message, self.read(body)

    def receive(self, on_progress=None):
        """The next reply, to whichever request; an Error is raised. on_progress(id, Progress)."""
        while True:
            kind, flags, request, text, body = self.receive_frame()
            if flags == REPLY | PROGRESS:
                if on_progress and request in self.asked:
                    on_progress(request, self.schema.Progress.FromString(text))
                continue
            if flags == REPLY | ERROR:
                self.asked.pop(request, None)
                raise Refused(request, self.schema.Error.FromString(text))
            if flags != REPLY or request not in self.asked:
                raise Lost("a reply to nothing")
            operation = self.asked.pop(request)
            if kind != self.kinds[operation]:
                raise Lost("a reply of another kind")
            message = getattr(self.schema, reply_name(operation)).FromString(text)
            return Reply(request, message, take_apart(message, body))

    def ask(self, operation, tensors=None, on_progress=None, **more):
        """Sends a request and waits for its reply. Nothing else may be in flight."""
        self.send(operation, tensors, progress=on_progress is not None, **more)
        return self.receive(on_progress)
