"""packages: the life of the Debian packages: installed on a bare system, used, upgraded while the
daemon runs, reloaded, removed, purged."""
import json
import pathlib
import re
import shutil
import subprocess

import checks

UNIT = "engram-acceld.service"
NAMES = ("engram-acceld", "engram-accel")

# What a purge may leave, and why.
EXPLAINED = (
    (r"/var/(cache|lib)/apt/|/var/cache/debconf/|/var/cache/ldconfig/", "of apt, debconf and ldconfig"),
    (r"/var/lib/dpkg/(status|available|lock|triggers|diversions|statoverride)", "of dpkg"),
    (r"/var/log/", "logs of apt and dpkg"),
    (r"/etc/(passwd|group|shadow|gshadow)-$|/etc/\.pwd\.lock$", "the older copies of /etc/passwd"),
    (r"/root/debs/", "the packages themselves"),
    (r"/etc/ld\.so\.cache$|/var/lib/systemd/|/etc/machine-id$", "of systemd and ldconfig"),
)

ROWS = r"""awk 'BEGIN { srand(1); print "id,x"; for (i = 0; i < 20000; i++) {
    line = i; for (k = 0; k < 16; k++) line = line "," rand() - .5; print line } }' >/root/rows.csv"""


def debs(folder, name):
    found = [f for f in pathlib.Path(folder).glob(f"{name}_*.deb")]
    if len(found) != 1:
        raise SystemExit(f"system: {folder} has {len(found)} packages {name}: make deb")
    return found[0]


def older(deb, into, work):
    """The same package as of an older version, so that there is something to upgrade from."""
    tree = work / "unpacked"
    shutil.rmtree(tree, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-R", str(deb), str(tree)], check=True)
    control = tree / "DEBIAN/control"
    text = control.read_text()
    version = re.search(r"^Version: (.*)$", text, re.M).group(1)
    control.write_text(text.replace(f"Version: {version}", f"Version: {version}~older").replace(
        f"(= {version})", f"(= {version}~older)"))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree),
                    str(into / ("older_" + deb.name))], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return version


def prepare(here, folder, work):
    """Puts the packages into the tree, and what they depend on into apt's cache."""
    into = here.tree / "root/debs"
    into.mkdir(parents=True)
    state = {}
    for name in NAMES:
        deb = debs(folder, name)
        shutil.copy(deb, into)
        state["version"] = older(deb, into, work)
    got = here.offline("apt-get -qq update && apt-get -qq -y --no-install-recommends "
                       "--download-only install /root/debs/older_*.deb")
    if got.returncode:
        raise SystemExit("system: cannot fetch what the packages need:\n" + got.stderr[-2000:])
    return state


def install(here, which, options=""):
    return here.run(f"apt-get -y --no-install-recommends {options} install {which} </dev/null 2>&1")


def show(here, what, unit=UNIT):
    return here.run(f"systemctl show -P {what} {unit}").stdout.strip()


def files(here):
    """Every file of the tree and what accounts there are."""
    listed = here.run("find / -xdev ! -path '/proc/*' ! -path '/sys/*' ! -path '/dev/*' "
                      "! -path '/run/*' ! -path '/tmp/*'; find /run -xdev -path '*engram*'; "
                      "find /tmp -name '*engram*'; sed 's/^/account /' /etc/passwd /etc/group "
                      "/etc/shadow /etc/gshadow; systemctl list-unit-files --no-legend "
                      "'engram*' | sed 's/^/unit /'; systemctl list-units --all --no-legend "
                      "'engram*' | sed 's/^/unit /'; ps -eo user,comm | grep engram | "
                      "sed 's/^/process /'; ss -lnx 2>/dev/null | grep engram")
    return set(listed.stdout.splitlines())


def answers(here):
    return here.run("engram-accel --format csv knn rows --query-id 7 --query-id 11 -k 5").stdout


def step_install(here, state):
    state["before"] = files(here)
    done = install(here, "/root/debs/older_engram-accel*.deb")
    checks.check(done.returncode == 0, "install: " + done.stdout[-1500:])
    checks.check(show(here, "ActiveState") == "active", "the unit is not active after install")
    checks.check(here.run(f"systemctl is-enabled {UNIT}").stdout.strip() == "enabled",
                 "the unit is not enabled after install")
    checks.check(here.run("systemctl is-enabled engram-acceld.socket").stdout.strip() == "disabled",
                 "the socket is enabled, which is optional")
    asked = here.run("engram-accel ping --wait 60")
    checks.check(asked.returncode == 0, "ping: " + asked.stderr)
    verified = here.run("systemd-analyze verify --man=no engram-acceld.service "
                        "engram-acceld.socket engram-acceld@x.service 2>&1")
    checks.check(verified.stdout == "", "systemd-analyze verify: " + verified.stdout)
    secure = here.run(f"systemd-analyze security {UNIT} --no-pager | tail -1").stdout
    level = re.search(r"([0-9.]+) [A-Z]", secure)
    checks.check(level and float(level.group(1)) <= 2.0, "systemd-analyze security: " + secure)
    refused = here.run("setpriv --reuid nobody --regid nogroup --clear-groups engram-accel ping")
    checks.check(refused.returncode != 0 and "ermission" in refused.stderr,
                 "a user of no group: " + refused.stdout + refused.stderr)
    return (f"active, enabled, answers ping; systemd-analyze security "
            f"{level.group(1) if level else '?'}, verify says nothing")


def step_load(here, state):
    here.run(ROWS)
    loaded = here.run("engram-accel load rows /root/rows.csv --create --metric cosine 2>&1")
    checks.check(loaded.returncode == 0, "load: " + loaded.stdout)
    state["answers"] = answers(here)
    # Each row is nearest to itself.
    checks.check(state["answers"].count("\n") >= 10 and "7,1,7,1" in state["answers"] and
                 "11,1,11,1" in state["answers"], "knn: " + state["answers"][:500])
    return "20,000 rows loaded, two queries answered"


def step_metrics(here, state):
    page = here.run("exec 3<>/dev/tcp/127.0.0.1/7424; printf 'GET /metrics HTTP/1.1\\r\\nHost: "
                    "127.0.0.1:7424\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3").stdout
    checks.check(page.startswith("HTTP/1.1 200") and "engram_accel_build_info" in page,
                 "the packaged settings serve no metrics: " + page[:300])
    ready = here.run("exec 3<>/dev/tcp/127.0.0.1/7424; printf 'GET /readyz HTTP/1.1\\r\\nHost: "
                     "127.0.0.1:7424\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3").stdout
    checks.check(ready.startswith("HTTP/1.1 200"), "readyz: " + ready[:300])
    return f"/metrics has {page.count(chr(10))} lines on 127.0.0.1:7424, /readyz is 200"


def step_upgrade(here, state):
    here.run("sed -i 's/\"window\": 100/\"window\": 101/' "
             "/etc/engram-accel/engram-accel.json")
    pid, text = show(here, "MainPID"), here.run("cat /etc/engram-accel/engram-accel.json").stdout
    done = install(here, "/root/debs/engram-accel*.deb")
    checks.check(done.returncode == 0, "upgrade: " + done.stdout[-1500:])
    has = here.run("dpkg-query -W -f '${Version}' engram-acceld").stdout
    checks.check(has == state["version"], f"upgrade: version is {has}")
    checks.check(show(here, "MainPID") not in (pid, "0"), "upgrade: the daemon was not restarted")
    asked = here.run("engram-accel ping --wait 60")
    checks.check(asked.returncode == 0, "ping after the upgrade: " + asked.stderr)
    checks.check(answers(here) == state["answers"], "upgrade: other answers: " + answers(here)[:500])
    checks.check(here.run("cat /etc/engram-accel/engram-accel.json").stdout == text,
                 "upgrade: changed settings were overwritten")
    checks.check(show(here, "NRestarts") == "0", "upgrade: it had to be restarted")
    return "restarted, data and answers are there again bit for bit, changed settings kept"


def named(here):
    """Whose data they are, and their version."""
    told = json.loads(here.run("engram-accel --json changes").stdout)
    return {key: told[key] for key in ("instance", "generation", "version")}


def step_hand_over(here, state):
    """systemctl restart: the next daemon goes on with what the last one had in memory."""
    before, pid = named(here), show(here, "MainPID")
    done = here.run(f"systemctl restart {UNIT}")
    checks.check(done.returncode == 0, "restart: " + done.stderr)
    asked = here.run("engram-accel ping --wait 60")
    checks.check(asked.returncode == 0, "ping after the restart: " + asked.stderr)
    now = show(here, "MainPID")
    checks.check(now not in ("0", pid), "restart: the same process")
    log = here.run(f"journalctl -q _PID={now} -o cat").stdout
    adopted = re.search(r"hand-over: 1 object, \d+ MiB, adopted in [0-9.]+ ms", log)
    checks.check(adopted, "nothing was adopted:\n" + log[-1500:])
    checks.check(named(here) == before, f"restart: {named(here)}, was {before}")
    checks.check(answers(here) == state["answers"], "restart: other answers: " + answers(here)[:500])
    checks.check(show(here, "NFileDescriptorStore") == "0", "systemd still keeps what was adopted")
    return f"{adopted.group(0) if adopted else 'not adopted'}; the same instance and versions"


def step_instance(here, state):
    here.run("sed 's/\"listen\": \"127.0.0.1:7424\"/\"listen\": \"\"/' "
             "/etc/engram-accel/engram-accel.json >/etc/engram-accel/second.json")
    started = here.run("systemctl start engram-acceld@second 2>&1")
    checks.check(started.returncode == 0, "instance: " + started.stdout)
    asked = here.run("engram-accel --socket /run/engram-accel-second/engram-accel.sock ping --wait 60")
    checks.check(asked.returncode == 0, "instance: " + asked.stderr)
    pid = show(here, "MainPID", "engram-acceld@second.service")
    again = install(here, "/root/debs/engram-accel*.deb", "--reinstall")
    checks.check(again.returncode == 0, "reinstall: " + again.stdout[-1500:])
    now = show(here, "MainPID", "engram-acceld@second.service")
    checks.check(now not in ("0", pid), "reinstall: the instance was not restarted")
    return "engram-acceld@second runs beside it, and is restarted with it"


def step_remove(here, state):
    done = here.run("apt-get -y remove engram-acceld </dev/null 2>&1")
    checks.check(done.returncode == 0, "remove: " + done.stdout[-1500:])
    running = here.run("ps -eo comm | grep engram").stdout
    checks.check(running == "", "remove: still runs: " + running)
    kept = here.run("ls /etc/engram-accel/engram-accel.json /var/lib/engram-accel/snapshots")
    checks.check(kept.returncode == 0, "remove: settings or data are gone")
    return "stopped; settings and snapshots stay"


def step_purge(here, state):
    done = here.run("apt-get -y --purge autoremove 'engram-accel*' </dev/null 2>&1")
    checks.check(done.returncode == 0, "purge: " + done.stdout[-1500:])
    here.run("rm -f /root/rows.csv; systemctl daemon-reload")
    left = sorted(files(here) - state["before"])
    gone = sorted(state["before"] - files(here))
    # What was installed for ours and stays, since another package suggests it, is apt's to decide.
    others = set(here.run("cat /var/lib/dpkg/info/*.list").stdout.splitlines())
    ours = here.run("dpkg-query -W '*engram*' 2>/dev/null").stdout
    checks.check(ours == "", "purge left packages: " + ours)
    why = {}
    unexplained = []
    for line in left:
        if line in others or line.startswith("/var/lib/dpkg/info/"):
            why["of packages that apt keeps"] = why.get("of packages that apt keeps", 0) + 1
            continue
        for pattern, reason in EXPLAINED:
            if re.match(pattern, line):
                why[reason] = why.get(reason, 0) + 1
                break
        else:
            unexplained.append(line)
    checks.check(not unexplained, "purge left:\n" + "\n".join(unexplained[:40]))
    gone = [line for line in gone if not any(re.match(p, line) for p, _ in EXPLAINED)]
    checks.check(not gone, "purge took away:\n" + "\n".join(gone[:40]))
    failed = here.run("systemctl --failed --no-legend").stdout
    checks.check("engram" not in failed, "failed units: " + failed)
    said = "; ".join(f"{count} {reason}" for reason, count in sorted(why.items()))
    return f"nothing left of ours, no account, no unit; explained: {said or 'nothing'}"


# Name, step, whether later steps need it.
BEFORE = [("bare Debian: installed, started, pinged", step_install, True),
          ("loaded and asked", step_load, True),
          ("metrics and readiness as packaged", step_metrics, False),
          ("upgraded while it runs", step_upgrade, True),
          ("restarted: handed over in memory", step_hand_over, False)]
AFTER = [("an instance beside it, reinstalled", step_instance, False),
         ("removed", step_remove, True),
         ("purged", step_purge, True)]
