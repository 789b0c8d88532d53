"""surroundings: the daemon is started where something is amiss around it. It either says in one
sentence what that is and ends, or serves; it never hangs, and no signal ends it."""
import contextlib
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

import numpy

import checks
from checks import check

BUILD = sys.argv[1]
PROGRAM = os.path.abspath(os.path.join(BUILD, "engram-acceld"))
TOOL = os.path.abspath(os.path.join(BUILD, "engram-accel"))
GIVE_UP_S = 120  # ends a broken run; nothing is judged by it
NOBODY = 65534
KEPT = 12  # descriptors that connections of operators leave


class Daemon:
    """One that may, or may not, come to serve."""

    def __init__(self, *settings, config=None, before=None, log=None, start=(), keep=(),
                 set_path=True):
        self.folder = tempfile.mkdtemp(prefix="engram-rim-")
        self.path = self.folder + "/s"
        self.log_path = log or self.folder + "/log"
        self.words = [*start, PROGRAM]
        if config:
            self.words += ["--config", config]
        base = ["gpu.devices=none", "memory.max_mib=64", "workers.count=1", "sched.calibrate=false"]
        for s in base + (["socket.path=" + self.path] if set_path else []) + list(settings):
            self.words += ["--set", s]
        self.before, self.keep = before, keep

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.words, stderr=log, stdout=log,
                                            stdin=subprocess.DEVNULL, preexec_fn=self.before,
                                            pass_fds=self.keep)
        return self

    def said(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def end(self, sign=signal.SIGTERM):
        self.process.send_signal(sign)
        return self.process.wait(GIVE_UP_S)

    def clean(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        subprocess.run(["rm", "-rf", self.folder], check=True)


@contextlib.contextmanager
def daemon(*settings, **more):
    d = Daemon(*settings, **more).start()
    try:
        yield d
    finally:
        d.clean()


def wait_until(what, ready, d):
    until = time.monotonic() + GIVE_UP_S
    while not ready():
        if time.monotonic() > until or d.process.poll() is not None:
            check(False, "%s: the daemon %s: %s" % (what, d.process.poll(), d.said()[-600:]))
            return False
        time.sleep(0.005)
    return True


def connects(path):
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(path)
        except OSError:
            return False
    return True


def expect_serving(what, d):
    """It answers."""
    if wait_until(what, lambda: connects(d.path), d):
        p = subprocess.run([TOOL, "--socket", d.path, "ping"], capture_output=True, text=True,
                           timeout=GIVE_UP_S)
        check(p.returncode == 0, "%s: ping: %s" % (what, p.stderr))


def create(d, name):
    words = ["collection", "create", name, "--dim", "4", "--metric", "dot"]
    p = subprocess.run([TOOL, "--socket", d.path, *words], capture_output=True, text=True)
    check(p.returncode == 0, "%s: %s" % (words, p.stderr))


def expect_stop(what, d):
    code = d.end()
    check(code == 0, "%s: the stop ended with %s: %s" % (what, code, d.said()[-600:]))


def expect_refusal(what, d, code, *words):
    """It ends by itself and says why."""
    try:
        got = d.process.wait(GIVE_UP_S)
    except subprocess.TimeoutExpired:
        check(False, "%s: it neither ends nor says anything: %s" % (what, d.said()))
        return
    said = d.said()
    check(got == code, "%s: exit %s, not %d: %s" % (what, got, code, said[-600:]))
    for w in words:
        check(w in said, "%s: '%s' is not said: %s" % (what, w, said[-600:]))


def limit(which, soft, hard=None):
    return lambda: resource.setrlimit(which, (soft, hard or soft))


# ------------------------------------------------------------------------------ limits


def file_sizes():
    """RLIMIT_FSIZE counts for memory that is shared, too: SIGXFSZ used to end the start without a
    word."""
    with daemon(before=limit(resource.RLIMIT_FSIZE, 1 << 16)) as d:
        expect_refusal("RLIMIT_FSIZE", d, 1, "memory.max_mib: cannot map 64 MiB",
                       "only 65536 bytes (RLIMIT_FSIZE)")
    with daemon(before=limit(resource.RLIMIT_FSIZE, 1 << 16, resource.RLIM_INFINITY)) as d:
        expect_serving("a soft RLIMIT_FSIZE", d)
        expect_stop("a soft RLIMIT_FSIZE", d)


def addresses():
    """RLIMIT_AS: fewer than the 64 GiB that are reserved where nothing forbids it; it serves, and
    16 MiB of rows are read. Too few for the bound end the start."""
    with open(PROGRAM, "rb") as f:
        if b"__asan_init" in f.read():
            print("SKIP RLIMIT_AS: the address sanitizer itself takes 20 TiB of addresses")
            return
    with daemon(before=limit(resource.RLIMIT_AS, 3 << 30)) as d:
        expect_serving("3 GiB of addresses", d)
        with tempfile.NamedTemporaryFile(suffix=".npy") as f:
            numpy.save(f, numpy.ones((1 << 16, 64), numpy.float32))
            f.flush()
            p = subprocess.run([TOOL, "--socket", d.path, "load", "c", f.name, "--create",
                                "--metric", "dot"], capture_output=True, text=True,
                               timeout=GIVE_UP_S)
        check(p.returncode == 0, "3 GiB of addresses: a load: %s" % p.stderr)
        expect_stop("3 GiB of addresses", d)
    with daemon(before=limit(resource.RLIMIT_AS, 600 << 20)) as d:
        expect_refusal("600 MiB of addresses", d, 1, "memory.max_mib: cannot map 64 MiB",
                       "only 600 MiB of them (RLIMIT_AS)")


def stacks():
    """RLIMIT_STACK: 64 KiB used to end the daemon by a signal once a worker ran. It takes what it
    may have; where that is too little it says so."""
    for hard, serves in ((resource.RLIM_INFINITY, True), (1 << 18, True), (1 << 17, False)):
        what = "stacks of 64 KiB, at most %d" % hard
        with daemon("workers.count=2", before=limit(resource.RLIMIT_STACK, 1 << 16, hard)) as d:
            if serves:
                expect_serving(what, d)
                create(d, "c")
                expect_stop(what, d)
            else:
                expect_refusal(what, d, 1, "only 128 KiB (RLIMIT_STACK)")


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(GIVE_UP_S)
    s.connect(path)
    return s


def open_descriptors(d):
    return len(os.listdir("/proc/%d/fd" % d.process.pid))


def descriptors():
    """64 descriptors, 200 clients: those that find none are told so, and the log is, once."""
    with daemon(before=limit(resource.RLIMIT_NOFILE, 64)) as d:
        expect_serving("64 descriptors", d)
        clients = [connect(d.path) for _ in range(200)]
        refused = []
        for c in clients[::-1]:  # those that were let in are silent, so ask the last ones first
            c.setblocking(False)
        deadline = time.monotonic() + GIVE_UP_S
        before = -1
        while len(refused) != before and time.monotonic() < deadline:
            before = len(refused)
            p = subprocess.run([TOOL, "--socket", d.path, "ping"], capture_output=True, text=True)
            check(p.returncode != 0 and "RLIMIT_NOFILE" in p.stderr,
                  "64 descriptors: a client is told: %s" % p.stderr)
            for c in list(clients):
                try:
                    text = c.recv(4096)
                except BlockingIOError:
                    continue
                refused.append(text)
                clients.remove(c)
        check(all(b"RLIMIT_NOFILE" in r for r in refused),
              "64 descriptors: %d of %d were told nothing" %
              (sum(b"RLIMIT_NOFILE" not in r for r in refused), len(refused)))
        check(len(refused) + len(clients) == 200 and len(clients) >= 16,
              "64 descriptors: %d refused, %d served" % (len(refused), len(clients)))
        wait_until("64 descriptors: 12 are left", lambda: open_descriptors(d) == 64 - KEPT, d)
        for c in clients:
            c.close()
        expect_serving("64 descriptors, free again", d)
        said = d.said()
        check(said.count("the last 24 are kept") == 1, "64 descriptors: said once: %s" % said)
        expect_stop("64 descriptors", d)
    with daemon(before=limit(resource.RLIMIT_NOFILE, 9)) as d:
        expect_refusal("9 descriptors", d, 1, "only 9 descriptors may be open", "cannot start: ")


# ------------------------------------------------------------------------------ files


def no_file_at_all():
    """A pipe that nobody writes to, a device, a file without an end, a folder, a loop of links:
    as settings, also when they are read again."""
    with tempfile.TemporaryDirectory(prefix="engram-rim-") as folder:
        odd = {name: folder + "/" + name for name in ("fifo", "huge", "loop", "folder", "socket")}
        os.mkfifo(odd["fifo"])
        os.truncate(os.open(odd["huge"], os.O_CREAT | os.O_WRONLY), 1 << 40)
        os.symlink(odd["loop"], odd["loop"])
        os.mkdir(odd["folder"])
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(odd["socket"])
        odd["null"], odd["zero"], odd["tty"] = "/dev/null", "/dev/zero", "/dev/tty"
        why = {"fifo": "not a regular file", "huge": "larger than 1048576 bytes",
               "loop": "Too many levels of symbolic links", "folder": "Is a directory",
               "socket": "No such device", "null": "not a regular file",
               "zero": "not a regular file", "tty": ""}
        for name, path in odd.items():
            with daemon(config=path) as d:
                expect_refusal("settings from " + name, d, 2, path, why[name])
        good = folder + "/good.json"
        reload_of(good, odd, why)
        bound.close()


def reload_of(good, odd, why):
    with open(good, "w", encoding="utf-8") as f:
        json.dump({"log": {"level": "info"}}, f)
    with daemon(config=good) as d:
        expect_serving("good settings", d)
        for name in ("fifo", "huge", "loop", "folder", "null", "zero"):
            os.unlink(good)
            os.symlink(odd[name], good)
            p = subprocess.run([TOOL, "--socket", d.path, "reload"], capture_output=True, text=True,
                               timeout=GIVE_UP_S)
            check(p.returncode != 0 and why[name] in p.stderr,
                  "reload of %s: exit %d: %s" % (name, p.returncode, p.stderr))
        d.process.send_signal(signal.SIGHUP)
        wait_until("SIGHUP", lambda: "SIGHUP: " in d.said(), d)
        expect_serving("after seven bad reloads", d)
        expect_stop("after seven bad reloads", d)


def full_outputs():
    """/dev/full: what is printed in vain is a failure; a log that is lost is none."""
    for words in (["--print-config"], ["--help-config"], ["--help"], ["--version"],
                  ["--check-config", "-s", "gpu.devices=none"], ["--print-man"]):
        with open("/dev/full", "wb") as full:
            p = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
        check(p.returncode == 1 and "standard output: No space left" in p.stderr,
              "%s > /dev/full: exit %d: %s" % (words, p.returncode, p.stderr))
    with daemon(log="/dev/full") as d:
        expect_serving("a log on a full disk", d)
        check(d.end() == 0, "a log on a full disk: the stop")


# Descriptor argv[1], or none, becomes the one that a service manager hands over.
HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3) if int(sys.argv[1]) >= 0 else os.closerange(3, 4)
os.environ["LISTEN_FDS"], os.environ["LISTEN_PID"] = "1", str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


def handed(s):
    fd = s.fileno() if s else -1
    return {"start": (sys.executable, "-c", HAND_OVER, str(fd)), "keep": (fd,) if s else ()}


def odd_inheritance():
    """A descriptor from the service manager that is no Unix socket: TCP's clients were all one user
    whose number is 2^32 - 1, and without any the daemon listened elsewhere than was asked."""
    with tempfile.TemporaryDirectory(prefix="engram-rim-") as folder, socket.socket() as tcp, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams, \
            socket.socket(socket.AF_UNIX) as good, open("/dev/null", "rb") as null:
        tcp.bind(("127.0.0.1", 0))
        good.bind(folder + "/s")
        for odd in (tcp, datagrams, null):
            with daemon(**handed(odd)) as d:
                expect_refusal("inherits %s" % odd, d, 2, "no Unix stream socket")
        with daemon(**handed(None)) as d:
            expect_refusal("inherits nothing", d, 1, "LISTEN_FDS", "Bad file descriptor")
        with daemon(**handed(good)) as d:
            d.path = folder + "/s"
            expect_serving("inherits a socket", d)
            expect_stop("inherits a socket", d)


def as_nobody(folder):
    """Run without rights, so that a folder's mode counts."""
    def drop():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    os.chmod(folder, 0o755)
    return drop


def closed_folders():
    """A state folder that cannot be written: the model is not kept, which is said; data that could
    not be saved stop the start; a socket's folder that cannot be written, too."""
    with tempfile.TemporaryDirectory(prefix="engram-rim-") as state:
        drop = as_nobody(state)
        for name, words in (("sched.model_file", []), ("persist.dir", ["persist.dir"])):
            d = Daemon("%s=%s/sub" % (name, state), before=drop)
            os.chmod(d.folder, 0o777)
            d.start()
            try:
                if words:
                    expect_refusal(name, d, 1, state, "Permission denied")
                else:
                    expect_serving(name, d)
                    expect_stop(name, d)
            finally:
                d.clean()
        with daemon("socket.path=%s/s" % state, before=drop) as d:
            expect_refusal("socket.path", d, 1, state + "/s.lock", "Permission denied")


def open_umask():
    """A umask of 0: nobody else may write what it makes, or read what is secret."""
    with tempfile.TemporaryDirectory(prefix="engram-rim-") as state:
        settings = ["persist.dir=%s/data" % state, "sched.model_file=%s/model" % state,
                    "metrics.listen=%s/http" % state, "metrics.open=true", "socket.mode=0600"]
        with daemon(*settings, before=lambda: os.umask(0)) as d:
            expect_serving("a umask of 0", d)
            check(stat.S_IMODE(os.stat(d.path).st_mode) == 0o600, "a umask of 0: the socket")
            check(stat.S_IMODE(os.stat(state + "/http").st_mode) == 0o600, "a umask of 0: HTTP's")
            create(d, "c")
            expect_stop("a umask of 0", d)
        made = 0
        for folder, folders, files in os.walk(state):
            for name in folders + files:
                mode = os.lstat(os.path.join(folder, name)).st_mode
                made += 1
                check(not mode & 0o027, "a umask of 0: %s/%s has mode %o" % (folder, name, mode))
        check(made >= 4, "a umask of 0: %d files were made" % made)


# ------------------------------------------------------------------------------ /proc, time


def without_proc():
    """No /proc: it serves, its GPU process starts, and metrics are fewer."""
    unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
               "mount -t tmpfs none /proc && exec \"$@\"", "sh"]
    if subprocess.run(unshare + ["true"], capture_output=True).returncode:
        print("SKIP no /proc: this user may not mount a folder over it")
        return
    d = Daemon("gpu.devices=sim", "metrics.open=true", start=unshare)
    http = d.folder + "/http"
    d.words += ["--set", "metrics.listen=" + http]
    d.start()
    try:
        expect_serving("no /proc", d)
        wait_until("no /proc: the GPU", lambda: "; ready after" in d.said(), d)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(http)
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            page = b""
            while part := s.recv(65536):
                page += part
        check(b" 200 " in page and b"engram_" in page, "no /proc: /metrics: %r" % page[:200])
        expect_stop("no /proc", d)
    finally:
        d.clean()


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
/* The time of day, and nothing else, jumps by what the file says, at each look. */
static long jump(void)
{
    const char *path = getenv("ENGRAM_TEST_JUMP");
    char text[32] = "";
    if (readlink(path, text, sizeof text - 1) < 0) return 0;
    return strtol(text, NULL, 10);
}
int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(id, t);
    if (!rc && id == CLOCK_REALTIME) t->tv_sec += jump();
    return rc;
}
time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
"""


def jumping_clock():
    """The time of day jumps by years, both ways, also before 1970: requests go on, a snapshot that
    was saved last is the one that is loaded."""
    compiler = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory(prefix="engram-rim-") as folder:
        with open(folder + "/clock.c", "w", encoding="utf-8") as f:
            f.write(CLOCK)
        made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", folder + "/clock.so",
                               folder + "/clock.c", "-ldl"], capture_output=True, text=True)
        if made.returncode:
            print("SKIP a clock that jumps: no compiler: %s" % made.stderr[:200])
            return
        jump, start = folder + "/jump", ["env", "LD_PRELOAD=" + folder + "/clock.so",
                                         "ENGRAM_TEST_JUMP=" + folder + "/jump"]
        for turn, seconds in enumerate((0, 10 ** 9, -10 ** 9, -3 * 10 ** 9)):
            set_jump(jump, seconds)
            with daemon("persist.dir=" + folder + "/data", start=start) as d:
                what = "a clock that is off by %d s" % seconds
                expect_serving(what, d)
                tool = [TOOL, "--socket", d.path]
                subprocess.run(tool + ["ping", "--wait", "60"], capture_output=True, check=True)
                p = subprocess.run(tool + ["collection", "list", "--json"], capture_output=True,
                                   text=True, check=True)
                for n in range(turn):
                    check('"c%d"' % n in p.stdout, "%s: c%d is there: %s" % (what, n, p.stdout))
                for n, by in enumerate((-2 * 10 ** 9, 2 * 10 ** 9)):
                    set_jump(jump, seconds + by)
                    expect_serving("%s, then %d s" % (what, by), d)
                create(d, "c%d" % turn)
                set_jump(jump, seconds)
                expect_stop(what, d)


def set_jump(path, seconds):
    """At once: a link is read whole."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + "2")
    os.symlink(str(seconds), path + "2")
    os.rename(path + "2", path)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for case in (file_sizes, addresses, stacks, descriptors, no_file_at_all, full_outputs,
                 odd_inheritance, closed_folders, open_umask, without_proc, jumping_clock):
        case()
    return 1 if checks.failures else 0


sys.exit(main())
