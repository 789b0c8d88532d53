"""prometheus_live BUILD [as-shipped]: Debian's Prometheus scrapes daemons: one that is well, where
every selector finds a series and no alert fires, and some with faults, for which each alert does.
As shipped, the rules' times are minutes, and it takes half an hour."""
import os
import resource
import shutil
import sys
import time

import alert_faults
import checks
import metrics_selectors as selectors
from checks import check
from metrics_daemon import Daemon, GIVE_UP_S, ask, make_nvml
from prometheus_server import Server, free_port, promtool

BUILD, AS_SHIPPED = sys.argv[1], sys.argv[2:] == ["as-shipped"]
FIRES_S = 3600 if AS_SHIPPED else 2 * GIVE_UP_S  # ends a broken run
# With the times of a test, a machine that is busy enough is reason for these.
MAY_FIRE = set() if AS_SHIPPED else {"EngramAccelDown", "EngramAccelNotReady", "EngramAccelSlow"}
PAUSE_S = 0.5 if AS_SHIPPED else 0.05


def instance(d):
    return "%s:%d" % d.address()


class Seen:
    """What Prometheus has seen of a daemon."""

    def __init__(self, server, d):
        self.server, self.instance = server, instance(d)

    def has(self, expression):
        return bool(self.server.found(expression % ('instance="%s"' % self.instance)))

    def fired(self, alert):
        return self.has('count_over_time(ALERTS{alertname="%s",alertstate="firing",%%s}[2h])' % alert)


def start(*settings, files=None):
    d = Daemon(BUILD, "metrics.open=true", "metrics.listen=127.0.0.1:%d" % free_port())
    d.settings += [s.replace("FOLDER", d.folder) for s in settings]
    os.mkdir(d.folder + "/data")
    d.files, d.nvml = files, make_nvml(d.folder, "61 0 0x5")
    return d.start()


def end(d):
    d.process.kill()
    d.process.wait(GIVE_UP_S)
    shutil.rmtree(d.folder)


def selectors_find(server, d):
    """Each a series of a daemon that has had some of each kind of request."""
    alert_faults.load(d)
    d.tool("fetch", "rows", "7")
    left, give_up = selectors.everything(), time.monotonic() + GIVE_UP_S
    while left and time.monotonic() < give_up:
        d.tool("knn", "rows", "--query-id", "8", "-k", "3")
        time.sleep(0.2)
        left = [s for s in left if not server.found(
            s[0] + "{" + ",".join('%s%s"%s"' % (n, how, value.replace("$instance", instance(d)))
                                  for n, how, value in s[1]) + "}")]
    check(not left, "no series for %s" % left[:10])
    for title, expression in selectors.panels():
        shown = expression.replace("$instance", ".*").replace("$__rate_interval", "3s")
        check(server.get("/api/v1/query", query=shown)["resultType"] == "vector", title)
    promtool("check", "metrics", text=ask(d.address(), "/metrics")[1])


def alerts_fire(server, faulty):
    """faulty: a daemon for each fault."""
    stories = {name: f.story(faulty[name], Seen(server, faulty[name]))
               for name, f in alert_faults.FAULTS.items()}
    wanted = {(alert, instance(faulty[name])): name
              for name, f in alert_faults.FAULTS.items() for alert in f.alerts}
    begun, fired = time.monotonic(), set()
    try:
        while not wanted.keys() <= fired and time.monotonic() < begun + FIRES_S:
            for name in {name for key, name in wanted.items() if key not in fired}:
                next(stories[name])
            time.sleep(PAUSE_S)
            for key in server.fired() - fired:
                fired.add(key)
                if key in wanted:
                    print("%6.1f s: %s by %s" % (time.monotonic() - begun, key[0], wanted[key]))
    finally:
        for story in stories.values():
            story.close()
    for key in wanted.keys() - fired:
        check(False, "%s: did not fire by %s" % (key[0], wanted[key]))
    return fired


def main():
    promtool("check", "rules", selectors.RULES)
    promtool("test", "rules", "config/prometheus/engram-accel.tests.yml")
    left = set(selectors.alerts()) - {a for f in alert_faults.FAULTS.values() for a in f.alerts}
    check(not left, "no fault for %s" % left)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files[1], files[1]))
    well = start("gpu.devices=sim", "gpu.force=gpu", *alert_faults.JOURNAL)
    faulty = {name: start(*f.settings, files=f.files) for name, f in alert_faults.FAULTS.items()}
    server = Server([d.address() for d in (well, *faulty.values())], AS_SHIPPED)
    try:
        selectors_find(server, well)
        fired = alerts_fire(server, faulty)
        wrong = {alert for alert, where in fired if where == instance(well)} - MAY_FIRE
        check(not wrong, "nothing is wrong, and yet fired: %s" % wrong)
    finally:
        server.stop()
        for d in (well, *faulty.values()):
            end(d)
    sys.exit(checks.failures > 0)


main()
