"""receive_seeds: inputs for fuzz_receive to begin with, one for each operation: a greeting, what the
operation needs, and the operation itself. Out of the reference client's frames.

    /usr/bin/python3 -B tests/fuzz/receive_seeds.py build/release tests/fuzz/corpus/receive
"""
import os
import sys

sys.path[:0] = ["tests/integration", "docs/examples"]
import wire_page  # noqa: E402
from wire_client import HEADER, padded  # noqa: E402
from wire_frames import recorded  # noqa: E402

HELLO, FRAME, RUN = 0, 4, 16  # fuzz_receive.c, act: on the first client
OPERATOR = 3  # the last client
FOR_OPERATORS = ("ConfigSet", "ConfigReload", "Save")
ALONE = ("rows", "links", "memory")


def action(frame, client=0):
    kind, text, body = frame[5], HEADER.unpack(frame[:32])[5], HEADER.unpack(frame[:32])[7]
    at = 32 + text
    return (bytes([FRAME + client, kind, text]) + (body // 64).to_bytes(2, "little") +
            frame[32:at] + frame[at + padded(at):] + bytes([RUN]))


def main():
    folder = sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    before = {}
    for operation, frame in recorded(sys.argv[1]):
        needed = b"".join(before.get(name, b"") for name in ALONE if name.encode() in frame)
        if operation in ("CollectionCreate", "Upsert", "GraphCreate", "GraphAddEdges",
                         "AttractorCreate"):
            for name in ALONE:
                if name.encode() in frame:
                    before[name] = before.get(name, b"") + action(frame)
        with open(os.path.join(folder, operation), "wb") as f:
            client = OPERATOR if operation in FOR_OPERATORS else 0
            hellos = bytes([0, HELLO] + ([HELLO + client] if client else []))
            f.write(hellos + needed + action(frame, client))


if __name__ == "__main__":
    assert wire_page
    main()
