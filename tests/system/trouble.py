"""trouble: the unit when things go wrong: a loop that stands still, workers that do, crashes in a
row, a broken settings file. The watchdog's 30 s are those of the unit as it is installed."""
import time

import checks
import held_threads
from packages import UNIT, answers, show

SETTINGS = "/etc/engram-accel/engram-accel.json"


def restarts(here):
    return int(show(here, "NRestarts") or 0)


def wait_up(here, before, meanwhile=lambda: None):
    here.wait(lambda: meanwhile() or restarts(here) > before and show(here, "ActiveState") == "active" and
              show(here, "SubState") == "running", "the unit to be started again", 240)
    asked = here.run("engram-accel ping --wait 60")
    checks.check(asked.returncode == 0, "ping after a restart: " + asked.stderr)


def wait_watchdog(here, before, since, meanwhile=lambda: None):
    """Waits for a restart by the watchdog; how long that took."""
    began = time.monotonic()
    wait_up(here, before, meanwhile)
    took = time.monotonic() - began
    said = here.run(f"journalctl -q -u {UNIT} --since '{since}' -o cat").stdout
    checks.check("Watchdog timeout" in said, "it was not the watchdog:\n" + said[-1500:])
    return took


def now(here):
    return here.run("date '+%F %T'").stdout.strip()


def step_loop(here, state):
    before, since = restarts(here), now(here)
    here.run(f"kill -STOP {show(here, 'MainPID')}")
    took = wait_watchdog(here, before, since)
    checks.check(answers(here) == state["answers"], "after the watchdog: other answers")
    return f"restarted by the watchdog after {took:.0f} s, the same answers"


def step_workers(here, state):
    before, since = restarts(here), now(here)
    held = held_threads.HeldThreads(here.outside(int(show(here, "MainPID"))), "worker")
    checks.check(held.count > 0, "no thread is called worker")
    asked = here.start("engram-accel --timeout 200 knn rows --queries /root/rows.csv -k 5 "
                       "--out /tmp/out")
    # The loop turns: it answers, and the watchdog must see the workers.
    answered = here.run("engram-accel --timeout 20 ping")
    checks.check(answered.returncode == 0, "ping beside stuck workers: " + answered.stderr)
    took = wait_watchdog(here, before, since, held.let_die)
    asked.kill()
    asked.wait()
    checks.check(answers(here) == state["answers"], "after the watchdog: other answers")
    return f"{held.count} workers held, ping answered, restarted by the watchdog after {took:.0f} s"


def step_crashes(here, state):
    before, crashes = restarts(here), 0
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pid = show(here, "MainPID")
        if pid not in ("", "0"):
            crashes += here.run(f"kill -SEGV {pid}").returncode == 0
        time.sleep(1)
    wait_up(here, before)
    checks.check(crashes >= 10, f"only {crashes} crashes")
    checks.check(answers(here) == state["answers"], "after crashes: other answers")
    return f"{crashes} crashes in a minute, {restarts(here) - before} restarts; up by itself"


def step_reload(here, state):
    pid, before = show(here, "MainPID"), here.run(f"cat {SETTINGS}").stdout
    here.run(f"cp {SETTINGS} /root/good.json; echo '{{\"batch\": 7' >{SETTINGS}")
    broken = here.run(f"systemctl reload {UNIT}")
    checks.check(broken.returncode != 0, "reload took a broken file")
    checks.check(show(here, "MainPID") == pid and show(here, "ActiveState") == "active",
                 "the service did not survive a broken file")
    checks.check(answers(here) == state["answers"], "after a refused reload: other answers")
    why = here.run(f"journalctl -q -u {UNIT} -n 20 -o cat").stdout
    checks.check(SETTINGS in why, "the journal does not name the file:\n" + why)
    here.run(f"sed 's/\"slow_ms\": 100/\"slow_ms\": 0.5/' /root/good.json >{SETTINGS}")
    wrong = here.run(f"systemctl reload {UNIT}")
    checks.check(wrong.returncode != 0, "reload took a value that is none")
    here.run(f"cp /root/good.json {SETTINGS}; rm /root/good.json")
    good = here.run(f"systemctl reload {UNIT}")
    checks.check(good.returncode == 0 and show(here, "MainPID") == pid,
                 "reload of a good file: " + good.stderr)
    checks.check(here.run(f"cat {SETTINGS}").stdout == before, "the test lost the settings")
    return "reload fails and the journal names the file, the same process serves on; mended: reloads"


def step_start_broken(here, state):
    """A restart changes nothing about a wrong setting: it is not tried for ever."""
    here.run(f"cp {SETTINGS} /root/good.json; echo '{{' >{SETTINGS}")
    here.run(f"systemctl restart {UNIT}")
    here.wait(lambda: show(here, "ActiveState") == "failed", "the unit to give up", 120)
    checks.check(show(here, "ExecMainStatus") == "2", "exit status " +
                 show(here, "ExecMainStatus"))
    here.run(f"cp /root/good.json {SETTINGS}; rm /root/good.json; systemctl start {UNIT}")
    checks.check(here.run("engram-accel ping --wait 60").returncode == 0, "not up again")
    checks.check(answers(here) == state["answers"], "after a failed start: other answers")
    return "exit status 2, not tried again; mended: starts, data is there"


def step_delays(here, state):
    """The example of growing delays, which systemd 252 does not know and does not stumble over."""
    folder = f"/etc/systemd/system/{UNIT}.d"
    version = int(here.run("systemctl --version").stdout.split()[1])
    put = here.run(f"install -D -m 644 -t {folder} "
                   "/usr/share/doc/engram-acceld/examples/restart-steps.conf && "
                   f"systemctl daemon-reload && systemctl restart {UNIT}")
    checks.check(put.returncode == 0, "the drop-in: " + put.stderr)
    delays = []
    for _ in range(3):
        before = restarts(here)
        here.run(f"kill -SEGV {show(here, 'MainPID')}")
        wait_up(here, before)
        delays.append(show(here, "RestartUSecNext" if version >= 254 else "RestartUSec"))
    if version >= 254:
        checks.check(len(set(delays)) == 3, "delays do not grow: " + ", ".join(delays))
    else:
        checks.check(delays == ["2s"] * 3, "other delays: " + ", ".join(delays))
    here.run(f"rm -r {folder} && systemctl daemon-reload && systemctl restart {UNIT}")
    checks.check(here.run("engram-accel ping --wait 60").returncode == 0, "not up again")
    return f"systemd {version}: next delays {', '.join(delays)}"


STEPS = [("the loop stopped (SIGSTOP)", step_loop, False),
         ("all workers stuck", step_workers, False),
         ("a crash every second for a minute", step_crashes, False),
         ("growing delays (restart-steps.conf)", step_delays, False),
         ("a broken file at reload", step_reload, False),
         ("a broken file at start", step_start_broken, False)]
