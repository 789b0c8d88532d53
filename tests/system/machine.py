"""machine: a Debian of its own, made by debootstrap and booted by systemd-nspawn, in which a test
installs packages and breaks things. It has a network of its own, of which there is only loopback.
Needs root; what is missing is told by why_not(). Trees are kept under FOLDER and copied for each
run; a machine is stopped by its own process id."""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.request

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = ["env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8", "TERM=dumb",
               "DEBIAN_FRONTEND=noninteractive", "PAGER=cat", "SYSTEMD_COLORS=0"]


def why_not(suite):
    """What keeps this machine from booting another in a container, or None."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("systemd-nspawn", "debootstrap", "nsenter"):
        if not shutil.which(program, path=PATH):
            return f"there is no {program} (.ci/install-deps system)"
    try:
        urllib.request.urlopen(f"{MIRROR}/dists/{suite}/Release", timeout=30).close()
    except OSError as why:
        return f"{MIRROR} cannot be reached: {why}"
    return None


def base_tree(folder, suite):
    """The folder with a bare Debian, made once."""
    tree = pathlib.Path(folder, suite)
    if not (tree / ".whole").exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        print(f"system: debootstrap {suite}, a minute or two", flush=True)
        done = subprocess.run(["debootstrap", "--variant=minbase",
                               "--include=systemd,systemd-sysv,dbus", suite, str(tree), MIRROR],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit("debootstrap failed:\n" + done.stdout[-2000:] + done.stderr[-2000:])
        (tree / ".whole").touch()
    return tree


class Machine:
    """A copy of a tree; run() works when it is booted, and install_run() before."""

    def __init__(self, base, where):
        self.tree = pathlib.Path(where)
        self.leader = self.nspawn = None
        remove_tree(self.tree)
        subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(self.tree)], check=True)
        (self.tree / ".whole").unlink()

    def offline(self, command):
        """Runs a command in the tree with this machine's network, before it is booted."""
        return subprocess.run(["systemd-nspawn", "--quiet", "--pipe", "--register=no",
                               "--keep-unit", "-D", str(self.tree), *ENVIRONMENT,
                               "sh", "-c", command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)

    def boot(self):
        self.log = open(str(self.tree) + ".console", "wb")
        self.nspawn = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit",
             "--private-network", "--console=pipe", "-D", str(self.tree)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            start_new_session=True)
        self.wait(self._find_leader, "the container's first process", 120)
        # Which ends when there is nothing left to start; 1: some unit failed.
        self.wait(lambda: self.run("systemctl is-system-running --wait").stdout.strip() in
                  ("running", "degraded"), "the container to boot", 300)

    def _find_leader(self):
        if self.nspawn.poll() is not None:
            raise SystemExit("systemd-nspawn ended: " +
                             pathlib.Path(str(self.tree) + ".console").read_text()[-2000:])
        for pid in children(self.nspawn.pid):
            if namespace_ids(pid)[-1:] == [1] and comm(pid) == "systemd":
                self.leader = pid
                return True
        return False

    def run(self, command, timeout=600):
        """Runs a shell command inside; the result has returncode, stdout and stderr."""
        return subprocess.run(["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p",
                               "-r", *ENVIRONMENT, "bash", "-c",
                               command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=timeout)

    def start(self, command):
        """As run(), but goes on at once; the result is a Popen."""
        return subprocess.Popen(["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p",
                                 "-r", *ENVIRONMENT, "bash", "-c", command],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def wait(self, ready, what, seconds):
        """Waits for an event; the time only ends a run that is broken."""
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                raise SystemExit(f"system: waited {seconds} s for {what}")
            time.sleep(0.2)

    def outside(self, inside):
        """This machine's number of the process that has number `inside` in the container."""
        own = os.readlink(f"/proc/{self.leader}/ns/pid")
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/pid") == own and \
                        namespace_ids(int(entry))[-1] == inside:
                    return int(entry)
            except (OSError, IndexError):
                continue
        raise SystemExit(f"system: no process {inside} in the container")

    def stop(self):
        if self.nspawn and self.nspawn.poll() is None:
            self.nspawn.terminate()
            try:
                self.nspawn.wait(120)
            except subprocess.TimeoutExpired:
                os.kill(self.leader, signal.SIGKILL)
                self.nspawn.wait(120)
            self.log.close()
        remove_tree(self.tree)


def children(pid):
    try:
        return [int(word) for word in
                pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def namespace_ids(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(word) for word in line.split()[1:]]
    except OSError:
        pass
    return []


def remove_tree(tree):
    if tree.exists():
        subprocess.run(["rm", "-rf", "--one-file-system", str(tree)], check=True)
