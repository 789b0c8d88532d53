"""cli_snapshot: snapshots are checked without a daemon, every damage is named, and what they have is
put into a daemon that runs, whole or not at all."""
import glob
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import checks
import cli
from cli import BUILD, Tool, check, write_npy

ROWS, DIMENSION = 700, 16


def fill(t):
    values = [random.gauss(0, 1) for _ in range(ROWS * DIMENSION)]
    write_npy("v.npy", "f", "(%d, %d)" % (ROWS, DIMENSION), values)
    write_npy("w.npy", "f", "(8, 8)", [-0.25] * 64)
    with open("g.tsv", "w", encoding="utf-8") as f:
        f.writelines("%d\t%d\t%g\n" % (i % 40, i * 7 % 41, i / 64) for i in range(300))
    t.run("--space", "alpha", "load", "v", "v.npy", "--create", "--metric", "dot")
    t.run("--space", "beta", "graph", "load", "g", "g.tsv", "--create")
    t.run("--space", "beta", "attractor", "create", "a", "--dim", "8")
    t.run("--space", "beta", "attractor", "set", "a", "w.npy")
    t.run("save")


def answers(t, alpha, beta):
    return [t.run("--space", alpha, "knn", "v", "--query-id", "7", "-k", "9", "--json").stdout,
            t.run("--space", beta, "graph", "show", "g", "5").stdout,
            t.run("--space", beta, "attractor", "describe", "a", "--json").stdout.split('"version"')[0]]


def hits(text):
    return json.loads(text.splitlines()[0])["hits"] if "hits" in text else text.splitlines()[-9:]


def whole(t, newest):
    said = t.run("verify", "data").stdout
    check(said.count("ok ") == 3 and said.endswith(": ok\n"), "verify: %s" % said)
    about = t.json("verify", newest)[0]
    check(about["whole"] and len(about["objects"]) == 3 and about["damaged"] == 0, "%s" % about)
    check(about["instance"] == t.json("info")[0]["instance"], "its instance")
    t.run("verify", "v.npy", code=4)
    t.run("verify", ".", code=4)
    t.run("verify", code=2)


def damaged(t, newest):
    """A byte of any file, a cut, a link, a byte of the manifest: each is found and named."""
    names = sorted(os.listdir(newest))
    for name in names:
        shutil.rmtree("bad", ignore_errors=True)
        shutil.copytree(newest, "bad")
        path = os.path.join("bad", name)
        data = bytearray(open(path, "rb").read())
        at = random.randrange(len(data))
        data[at] ^= 1 << random.randrange(8)
        with open(path, "wb") as f:
            f.write(data)
        p = t.run("verify", "bad", code=1)
        check(name in p.stdout + p.stderr, "byte %d of %s: %s" % (at, name, p.stdout + p.stderr))
        t.run("verify", "bad", "--json", code=1)
        with open(path, "wb") as f:
            f.write(data[:random.randrange(len(data))])
        t.run("verify", "bad", code=1)
        os.unlink(path)
        t.run("verify", "bad", code=4 if name == "manifest.json" else 1)
        os.symlink("/etc/passwd", path)
        said = t.run("verify", "bad", code=1)
        check("symbolic link" in said.stdout + said.stderr, said.stdout + said.stderr)
    shutil.copytree(newest, "worse")
    rows = glob.glob("worse/*-rows.npy")[0]
    with open(rows, "r+b") as f:
        f.seek(os.path.getsize(rows) - 3)
        f.write(b"\xff")
    said = t.run("--space", "alpha", "restore", "worse", "--as", "delta", code=1).stderr
    check("damaged" in said and "rows.npy: byte 0" in said, said)
    check('"v"' not in t.run("--space", "delta", "collection", "list", "--json").stdout,
          "nothing of it is there")


def restored(t):
    before = answers(t, "alpha", "beta")
    said = t.run("restore", "data", code=1).stderr
    check(said.count("is there (--replace") == 3 and "nothing was restored" in said, said)
    instance = t.json("info")[0]["instance"]
    t.run("--space", "alpha", "delete", "v", "7")
    done = t.json("restore", "data", "--replace")
    check(len(done) == 3 and all(d["replaced"] for d in done), "%s" % done)
    after = answers(t, "alpha", "beta")
    check(hits(after[0]) == hits(before[0]) and after[1:] == before[1:], "the same answers")
    check(t.json("info")[0]["instance"] == instance, "instance stays")
    said = t.run("--space", "alpha", "restore", "data", "--as", "gamma", "--dry-run").stdout
    check("gamma/v: collection, 700 rows of 16" in said and "would come" in said, said)
    check('"v"' not in t.run("--space", "gamma", "collection", "list", "--json").stdout,
          "a dry run makes nothing")
    t.run("--space", "alpha", "restore", "data", "--as", "gamma")
    check(hits(answers(t, "gamma", "beta")[0]) == hits(before[0]), "under another name")
    t.run("--space", "nobody", "restore", "data", code=1)
    t.run("restore", "data", "--as", "gamma", code=2)


def compressed(t):
    """Files of zstd beside plain ones, which are linked, are verified and restored alike."""
    t.run("save")
    t.run("config", "set", "persist.zstd", "19")
    t.run("--space", "alpha", "delete", "v", "9")
    before = answers(t, "alpha", "beta")
    t.run("save")
    newest = sorted(glob.glob("data/snapshot-*"))[-1]
    names = sorted(n for n in os.listdir(newest) if n.endswith(".zst"))
    check(len(names) == 2 and len(os.listdir(newest)) == 12, "%s" % os.listdir(newest))
    check(t.run("verify", newest).stdout.endswith(": ok\n"), "verify: zstd")
    check(os.path.getsize("%s/%s" % (newest, names[0])) < 8 * ROWS, "ids become smaller")
    t.run("--space", "alpha", "delete", "v", "11")
    t.run("restore", newest, "--replace")
    check(hits(answers(t, "alpha", "beta")[0]) == hits(before[0]), "the same answers from zstd")
    for name in names:
        shutil.rmtree("bad", ignore_errors=True)
        shutil.copytree(newest, "bad")
        with open("bad/" + name, "r+b") as f:
            f.seek(os.path.getsize("bad/" + name) // 2)
            f.write(b"damage")
        said = t.run("verify", "bad", code=1).stdout
        check(name in said, said)


def signed(t):
    with open("key", "wb") as f:
        f.write(b"secret")
    with open("other", "wb") as f:
        f.write(b"secreT")
    said = t.run("verify", "data", "--key-file", "key", code=1).stderr
    check("hmac_sha256" in said, said)
    t.run("verify", "data", "--key-file", "nowhere", code=4)


def newer(newest):
    """A snapshot of a later format is whole, and not for this tool."""
    with open(newest + "/manifest.json") as f:
        text = f.read()
    head = text[:text.rindex(',\n\t"sha256":')].replace('"format_version":\t1',
                                                       '"format_version":\t3')
    os.mkdir("newer")
    with open("newer/manifest.json", "w") as f:
        f.write('%s,\n\t"sha256":\t"%s"\n}\n' % (head, hashlib.sha256(head.encode()).hexdigest()))
    for words in ("verify", "newer"), ("restore", "newer"):
        said = Tool("none").run(*words, code=4).stderr
        check("of a newer daemon" in said and "damaged" not in said, said)


def refused(t, folder):
    """What the daemon answers is no connection that failed, and names a folder once."""
    said = t.run("save", "--to", folder + "/key/below", code=1).stderr
    check("running" not in said and said.count(folder) == 1, said)


def key_signs():
    with tempfile.TemporaryDirectory(prefix="engram-key-") as folder:
        path = os.path.join(folder, "socket")
        with open(folder + "/key", "wb") as f:
            f.write(b"secret")
        os.chmod(folder + "/key", 0o600)
        daemon = subprocess.Popen(
            [os.path.join(BUILD, "engram-acceld"), "-S", path, "-s", "gpu.devices=none",
             "-s", "workers.pin=false", "-s", "persist.dir=%s/data" % folder,
             "-s", "persist.key_file=%s/key" % folder], stderr=subprocess.DEVNULL)
        t = Tool(path)
        t.run("ping", "--wait", "60")
        t.run("collection", "create", "c", "--dim", "3", "--metric", "dot")
        t.run("save")
        refused(t, folder)
        check("signed (--key-file" in t.run("verify", folder + "/data").stdout, "signed")
        said = t.run("verify", folder + "/data", "--key-file", folder + "/key").stdout
        check(", signed: ok" in said, said)
        t.run("verify", folder + "/data", "--key-file", "other", code=1)
        daemon.terminate()
        check(daemon.wait(60) == 0, "it stops")


def everything(t):
    fill(t)
    newest = sorted(glob.glob("data/snapshot-*"))[-1]
    whole(t, newest)
    damaged(t, newest)
    newer(newest)
    restored(t)
    compressed(t)
    signed(t)
    key_signs()


def main():
    with tempfile.TemporaryDirectory(prefix="engram-snap-") as folder:
        global BUILD
        cli.BUILD = BUILD = os.path.abspath(BUILD)
        os.chdir(folder)
        daemon = subprocess.Popen(
            [os.path.join(BUILD, "engram-acceld"), "-S", folder + "/socket", "-s",
             "gpu.devices=none", "-s", "workers.pin=false", "-s", "persist.dir=%s/data" % folder],
            stderr=subprocess.DEVNULL)
        try:
            t = Tool(folder + "/socket")
            t.run("ping", "--wait", "60")
            everything(t)
        finally:
            daemon.terminate()
            check(daemon.wait(60) == 0, "it stops")
            os.chdir("/")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
