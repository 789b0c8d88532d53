"""metrics_selectors: the selectors of config/prometheus and config/grafana."""
import json
import re

RULES = "config/prometheus/engram-accel.rules.yml"
DASHBOARD = "config/grafana/engram-accel.json"
# Labels that Prometheus adds, not the daemon.
ADDED = ("instance", "job")


def rules_text():
    """The expressions of all rules, and nothing else of the file."""
    with open(RULES, encoding="utf-8") as f:
        text = f.read()
    return "\n".join(re.findall(r"expr: (?:>-\n)?((?:.|\n)*?)\n +(?:for|labels|- |annotations)",
                                text + "\n  - "))


def records():
    with open(RULES, encoding="utf-8") as f:
        return set(re.findall(r"- record: (\S+)", f.read()))


def alerts():
    with open(RULES, encoding="utf-8") as f:
        return re.findall(r"- alert: (\S+)", f.read())


def panels():
    """(title, expression) of each target of the dashboard."""
    with open(DASHBOARD, encoding="utf-8") as f:
        dashboard = json.load(f)
    return [(p["title"], t["expr"]) for p in dashboard["panels"] for t in p.get("targets", [])]


def selectors(text):
    """Names with their matchers: ("up", [("job", "=", "engram-accel")])."""
    found = []
    for name, inside in re.findall(
            r"\b((?:engram|process)_[a-z0-9_:]+|up)\b(?:\{([^}]*)\})?", text):
        found.append((name, re.findall(r'([a-z_]+)(=~|!=|!~|=)"([^"]*)"', inside)))
    return found


def everything():
    found = selectors(rules_text())
    for _, expression in panels():
        found += selectors(expression)
    return found


def is_served(selector, keys):
    """Whether a page has a series that the selector matches, but for what Prometheus adds."""
    name, matchers = selector
    for key in keys:
        if key.split("{")[0] != name:
            continue
        labels = dict(re.findall(r'[{,]([a-z_]+)="([^"]*)"', key))
        if all(label in ADDED or fits(labels.get(label, ""), how, value)
               for label, how, value in matchers):
            return True
    return False


def fits(have, how, value):
    same = have == value if how in ("=", "!=") else bool(re.fullmatch(value, have))
    return same == (how in ("=", "=~"))
