"""cli_token: a daemon that asks for a token, the files that one may lie in, and what the tool says."""
import os
import subprocess
import sys
import tempfile
import threading

import checks
import cli
from cli import check

TOKEN = "open-sesame"


def write(name, text, mode=0o600):
    with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(text)
    os.chmod(name, mode)
    return name


def with_environment(t, path, *words):
    return subprocess.run(t.start + list(words), capture_output=True, text=True,
                          env=dict(os.environ, ENGRAM_ACCEL_TOKEN_FILE=path))


def says_one(t):
    p = t.run("ping", code=1)
    check("--token-file" in p.stderr and "token is missing or wrong" in p.stderr, p.stderr)
    p = t.run("--token-file", write("wrong", "open-sesamE"), "ping", code=1)
    check("token is missing or wrong" in p.stderr and "--token-file" not in p.stderr, p.stderr)
    t.run("--token-file", "token", "ping")
    t.run("ping", "--token-file", "token")
    check(with_environment(t, "token", "ping").returncode == 0, "the environment's")
    check(with_environment(t, "", "ping").returncode == 1, "an empty name is none")
    p = with_environment(t, "wrong", "--token-file", "token", "ping")
    check(p.returncode == 0, "the option wins: " + p.stderr)
    check(with_environment(t, "token", "bench", "--seconds", "0.1", "--rows", "64", "--connections",
                           "3").returncode == 0,
          "all connections of a bench say it")
    check(t.json("--token-file", "token", "reload")[0]["changed"] == 0, "reload")
    offered = t.run_bare("__complete", "--socket", "socket", "--token-file", "token", "knn", "")
    check(offered.stdout == "rows\tcollection\n", "completion: %r" % offered.stdout)


def files(t):
    def refused(path, why):
        p = t.run("--token-file", path, "ping", code=4)
        check("token file %s: " % path in p.stderr and why in p.stderr, p.stderr)
        check(TOKEN not in p.stderr, "it says the token")

    refused("nowhere", "No such file")
    refused(".", "Is a directory")
    refused(write("empty", "\n"), "empty")
    refused(write("long", "x" * 256), "1 to 255 bytes")
    refused(write("open", TOKEN, 0o604), "others may read")
    refused(write("group", TOKEN, 0o620), "its group may change")
    os.mkfifo("pipe", 0o644)
    writer = threading.Thread(target=lambda: write("pipe", TOKEN + "\n"))
    writer.start()
    t.run("--token-file", "pipe", "ping")
    writer.join()
    p = t.run("--json", "--token-file", "nowhere", "ping", code=4)
    check('"exit":4' in p.stdout, p.stdout)
    p = subprocess.run(t.start + ["--token-file", "a\033[2J\u202eb\udcff", "ping"],
                       capture_output=True)
    check(b"a?[2J???b?: " in p.stderr, "made plain: %r" % p.stderr)


def refused_daemons():
    for mode, why in (0o644, "others may read or change it"), (0o620, "its group may change it"):
        p = subprocess.run([os.path.join(cli.BUILD, "engram-acceld"), "--socket", "other", "--set",
                            "auth.token_file=" + write("bad", TOKEN, mode)],
                           capture_output=True, text=True, timeout=60)
        check(p.returncode == 2 and "auth.token_file: bad: " + why in p.stderr, p.stderr)


def warns():
    """Loopback TCP is open to every local user, unless a token is asked for."""
    for token, warned in ([], True), (["--set", "auth.token_file=token"], False):
        with open("log", "w+") as log:
            d = subprocess.Popen([os.path.join(cli.BUILD, "engram-acceld"), "--set", "socket.path=",
                                  "--set", "tcp.enabled=true", "--set", "tcp.port=0", "--set",
                                  "gpu.devices=none", "--set", "memory.max_mib=256"] + token,
                                 stderr=log)
            cli.until("a port", lambda: "listening on 127.0.0.1" in open("log").read())
            d.terminate()
            check(d.wait(60) == 0, "stopped")
            log.seek(0)
            said = log.read()
        check(("every user of this machine gets in" in said) == warned, said)


def main():
    cli.BUILD = os.path.abspath(cli.BUILD)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("token", TOKEN + "\n")
        daemon = cli.start_daemon("socket", "gpu.devices=none", "auth.token_file=token")
        t = cli.Tool("socket")
        try:
            t.run("--token-file", "token", "collection", "create", "rows", "-d", "4", "-m", "dot")
            says_one(t)
            files(t)
        finally:
            daemon.kill()
            daemon.wait()
        refused_daemons()
        warns()
        os.chdir("/")
    print("%d checks failed" % checks.failures)
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
