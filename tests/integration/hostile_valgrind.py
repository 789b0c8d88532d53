"""hostile_valgrind: requests of every operation, mutated, to a daemon under valgrind: no error in
how it uses memory, and none left at its end that nobody holds.

    hostile_valgrind.py BUILD [COUNT] [SEED]

COUNT (2,000) requests in all, by turns of each operation that the reference client sends, whose own
requests come first. It takes minutes; run_valgrind.sh runs a few.
"""
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile

sys.path[:0] = ["docs/examples"]
import cli  # noqa: E402
import wire_page  # noqa: E402
from wire_client import HEADER, padded  # noqa: E402
from wire_operations import load_schema  # noqa: E402
from wire_frames import record  # noqa: E402

GIVE_UP_S = 600  # ends a broken run; nothing is judged by it
IN_HEADER = 0.1  # of the requests are changed there, or cut short


def bend(frame, first, end, chance):
    """Bits, bytes and numbers are changed."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(first, end)
        kind = chance.randrange(3)
        if kind == 0:
            frame[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            frame[at] = chance.choice([0, 1, 0x7f, 0x80, 0xff])
        else:
            frame[at:min(at + 4, end)] = chance.randbytes(min(4, end - at))


def mutated(operation, frame, chance):
    """(bytes, whether they still are one frame). The body of a Save names a folder, and any that it
    came to name would be written to."""
    frame = bytearray(frame)
    end = HEADER.size + HEADER.unpack_from(frame)[5] if operation == "Save" else len(frame)
    if chance.random() < IN_HEADER:
        if chance.random() < 0.5:
            del frame[chance.randrange(1, len(frame)):]
        else:
            bend(frame, 0, HEADER.size, chance)
        return bytes(frame), False
    if end > HEADER.size:
        bend(frame, HEADER.size, end, chance)
    return bytes(frame), True


class Sender:
    """A connection that is made anew where the daemon closed it."""

    def __init__(self, path, hello):
        self.path, self.hello, self.socket = path, hello, None
        self.opened = self.replies = self.errors = 0

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                return None
            data += part
        return data

    def read_reply(self):
        """False: the daemon has closed."""
        header = self.read(HEADER.size)
        if header is None:
            return False
        flags, text, body = (HEADER.unpack(header)[i] for i in (3, 5, 7))
        rest = text + padded(HEADER.size + text) + body
        if rest and self.read(rest) is None:
            return False
        if flags & 4:  # how far it is
            return self.read_reply()
        self.replies += 1
        self.errors += flags >> 1 & 1
        return True

    def connect(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(GIVE_UP_S)
        self.socket.connect(self.path)
        self.socket.sendall(self.hello)
        assert self.read_reply()
        self.opened += 1

    def send(self, frame, is_frame):
        if not self.socket:
            self.connect()
        self.socket.sendall(frame)
        if is_frame and self.read_reply():
            return
        if not is_frame:
            self.socket.shutdown(socket.SHUT_WR)
            while self.read_reply():
                pass
        self.socket.close()
        self.socket = None


def judge(log):
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    errors = re.findall(r"ERROR SUMMARY: (\d+) errors", text)
    lost = [what for what, count in
            re.findall(r"(definitely|indirectly|possibly) lost: ([\d,]+) bytes", text)
            if count != "0"]
    if errors[-1:] != ["0"] or lost:
        print(text[-12000:])
        return 1
    return 0


def start(path, log, settings):
    with open(settings, "w", encoding="utf-8") as f:
        f.write("{}")
    words = ["valgrind", "--log-file=" + log, "--leak-check=full", "--num-callers=24",
             "--errors-for-leak-kinds=definite,possible",
             os.path.join(cli.BUILD, "engram-acceld"), "--config", settings, "--socket", path]
    for setting in ("gpu.devices=none", "memory.max_mib=128", "workers.count=2", "kernels=avx2",
                    "sched.calibrate=false", "log.level=error", "peers.log_lines=10"):
        words += ["--set", setting]
    return subprocess.Popen(words)


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    chance = random.Random(seed)
    cli.BUILD = os.path.abspath(build)
    with tempfile.TemporaryDirectory() as folder:
        load_schema(folder)
        path, log = folder + "/socket", folder + "/valgrind"
        daemon = start(path, log, folder + "/settings")
        try:
            cli.until("a daemon that listens", lambda: wire_page.listens(path))
            frames = record(path)
            sender, sent = Sender(path, frames[0][1]), set()
            for i in range(count):
                operation, frame = frames[i % len(frames)]
                # what others need is there now and then: each third time it goes as it is
                as_it_is = i // len(frames) % 3 == 2
                sender.send(*((frame, True) if as_it_is else mutated(operation, frame, chance)))
                sent.add(operation)
        finally:
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait()
        print("%d requests of %d operations, %d connections, %d replies of which %d errors, seed "
              "%d; the daemon ended with %d" % (count, len(sent), sender.opened, sender.replies,
                                                sender.errors, seed, code))
        return judge(log) or code


if __name__ == "__main__":
    sys.exit(main())
