"""metrics_daemon: a daemon that serves HTTP, and clients of that, for tests."""
import atexit
import base64
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

GIVE_UP_S = 60  # ends a broken run; nothing is judged by it
NVML = []  # the stand-in, once it is compiled


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=GIVE_UP_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(GIVE_UP_S)
        self.sock.connect(self.path)


def bearer(token):
    return {"Authorization": "Bearer " + token}


def basic(token, user="prometheus"):
    return {"Authorization": "Basic " + base64.b64encode((user + ":" + token).encode()).decode()}


class Daemon:
    """config: the settings' file as a text, or None; settings: "key=value" texts."""

    def __init__(self, build, *settings, config=None):
        self.build = build
        self.folder = tempfile.mkdtemp(prefix="engram-http-")
        self.socket = self.folder + "/s"
        self.log_path = self.folder + "/log"
        self.config_path = self.folder + "/settings.json"
        self.settings = ["gpu.devices=none", "memory.max_mib=256", "sched.calibrate=false"]
        self.settings += settings
        self.config = config
        self.files = None  # how many it may open
        self.process = None

    def write_config(self, text):
        with open(self.config_path, "w", encoding="utf-8") as f:
            f.write(text)

    def write_token(self, text, mode=0o600, name="token"):
        path = self.folder + "/" + name
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w",
                  encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def command(self):
        words = ["prlimit", "--nofile=%d" % self.files] if self.files else []
        words += [self.build + "/engram-acceld", "--socket", self.socket]
        if self.config is not None:
            self.write_config(self.config)
            words += ["--config", self.config_path]
        for s in self.settings:
            words += ["--set", s]
        return words

    def refuses(self):
        """Runs it until it ends by itself. Returns its exit code and what it said."""
        p = subprocess.run(self.command(), capture_output=True, text=True, timeout=GIVE_UP_S,
                           check=False)
        return p.returncode, p.stderr

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log)
        atexit.register(self.process.kill)  # a test that fails leaves no daemon behind
        self.tool("ping", "--wait", str(GIVE_UP_S))
        return self

    def tool(self, *words):
        p = self.tool_any(*words)
        assert p.returncode == 0, (words, p.stdout, p.stderr)
        return p.stdout

    def tool_any(self, *words):
        """It may take long to connect, too: a second is too short where all processors are busy."""
        return subprocess.run([self.build + "/engram-accel", "--socket", self.socket, "--timeout",
                               str(GIVE_UP_S), *words],
                              capture_output=True, text=True, timeout=2 * GIVE_UP_S, check=False)

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def address(self):
        """(host, port) of the last line that says so."""
        end = time.monotonic() + GIVE_UP_S
        while not re.search(r"metrics on \S+:\d+\n", self.log()):
            assert time.monotonic() < end, self.log()
            time.sleep(0.005)
        host, port = re.findall(r"metrics on (\S+):(\d+)", self.log())[-1]
        return host.strip("[]"), int(port)

    def reload(self):
        """SIGHUP, and waits for its line; returns that."""
        before = self.log().count("SIGHUP:")
        self.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + GIVE_UP_S
        while self.log().count("SIGHUP:") == before or not self.log().endswith("\n"):
            assert time.monotonic() < end, "no line on SIGHUP"
            time.sleep(0.005)
        return [line for line in self.log().splitlines() if "SIGHUP:" in line][-1]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(GIVE_UP_S)
        said = self.log()
        shutil.rmtree(self.folder)
        assert "Sanitizer" not in said, said
        return code


def make_nvml(folder, text="61"):
    """A stand-in for NVML, from which simulated cards of daemons that are started now have their
    sensors. Returns the file that says what they are like (fake_nvml.c)."""
    library, state = folder + "/nvml.so", folder + "/nvml.state"
    if not NVML:
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                        "tests/integration/fake_nvml.c"], check=True)
        with open(library, "rb") as f:
            NVML.append(f.read())
    with open(library, "wb") as f:
        f.write(NVML[0])
    with open(state, "w", encoding="utf-8") as f:
        f.write(text)
    os.environ["ENGRAM_ACCEL_NVML"], os.environ["ENGRAM_FAKE_NVML"] = library, state
    return state


def ask(where, path, method="GET", headers=None, body=None):
    """where: (host, port), or the path of a socket. Returns status, text, headers. A loop that did
    not turn for a second, which a busy machine may do to it, is asked again."""
    end = time.monotonic() + GIVE_UP_S
    while True:
        c = UnixHttp(where) if isinstance(where, str) else http.client.HTTPConnection(
            *where, timeout=GIVE_UP_S)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            found = r.status, r.read().decode(), r.headers
        finally:
            c.close()
        if found[:2] != (503, "loop\n") or time.monotonic() > end:
            return found


def connect(where):
    s = socket.socket(socket.AF_UNIX if isinstance(where, str) else
                      socket.AF_INET6 if ":" in where[0] else socket.AF_INET)
    s.settimeout(GIVE_UP_S)
    s.connect(where)
    return s


def ask_raw(where, data):
    """Sends bytes and returns all that comes until the daemon closes."""
    said = b""
    with connect(where) as s:
        try:
            s.sendall(data)
            while True:
                more = s.recv(65536)
                if not more:
                    break
                said += more
        except (ConnectionResetError, BrokenPipeError):
            pass
    return said


def series(text):
    """A page as {"name{labels}": value}."""
    found = {}
    for line in text.splitlines():
        if line and line[0] != "#":
            name, value = line.rsplit(" ", 1)
            assert name not in found, "twice: " + name
            found[name] = float(value)
    return found
