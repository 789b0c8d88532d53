"""wire_frames: the frames that the reference client sends when it tries every operation."""
import os
import tempfile

import cli
import wire_operations
import wire_client
import wire_page


class Recorder(wire_client.Client):
    def __init__(self, *arguments, **more):
        self.frames = []
        super().__init__(*arguments, **more)

    def frame(self, operation, *arguments, **more):
        frame = super().frame(operation, *arguments, **more)
        self.frames.append((operation, frame))
        return frame


def record(path):
    """Of a daemon that is asked there: (operation, frame) in the order in which they were sent."""
    client = Recorder(wire_operations.schema, path, space="strangers")
    for _, try_it in wire_operations.TRIES:
        try_it(client)
    client.close()
    return client.frames


def recorded(build):
    """The same of a daemon that lives for it."""
    cli.BUILD = os.path.abspath(build)
    with tempfile.TemporaryDirectory() as folder:
        wire_operations.load_schema(folder)
        daemon = cli.start_daemon(folder + "/socket", "gpu.devices=none")
        try:
            cli.until("a daemon that listens", lambda: wire_page.listens(folder + "/socket"))
            return record(folder + "/socket")
        finally:
            daemon.kill()
            daemon.wait()
