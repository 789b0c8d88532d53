"""page: each sentence of proto/README.md with "must", "never" or "always" names a test that exists.

page.py PAGE: prints what is wrong; exit 1 when something is."""
import re
import sys


def sentences(text):
    """The page's sentences, a row of a table or an item of a list being one at least."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    for line in text.splitlines():
        if not line.startswith("[^"):
            yield from re.split(r"(?<=[.;:!?])\s+(?=[A-Z*`])", line)


def exists(path, name):
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    except OSError:
        return False
    pattern = r"^Test\(\w+, %s\b" if path.endswith(".c") else r"^def %s\("
    return re.search(pattern % re.escape(name), text, re.M) is not None


def wrongs(text):
    notes = dict(re.findall(r"^\[\^(\w+)\]: (.*)$", text, re.M))
    used = set()
    for sentence in sentences(text):
        named = re.findall(r"\[\^(\w+)\]", sentence)
        used.update(named)
        if re.search(r"\b(must|never|always)\b", sentence, re.I) and not named:
            yield "names no test: " + sentence
    for name in sorted(used - set(notes)):
        yield "[^%s] stands for nothing" % name
    for name, note in notes.items():
        place = re.fullmatch(r"`([\w./]+)` (\w+)", note)
        if not place or not exists(*place.groups()):
            yield "[^%s]: no such test: %s" % (name, note)
        if name not in used:
            yield "[^%s] is named by no sentence" % name


MADE_UP = """It must be so. It is never [^a] so! It may be.
| 1 | always [^b] |
```hex x
must
```
[^a]: `tests/house/page.py` exists
[^c]: `tests/house/page.py` nothing
"""


def main():
    found = [wrong.split(":")[0] for wrong in wrongs(MADE_UP)]
    assert found == ["names no test", "[^b] stands for nothing", "[^c]", "[^c] is named by no "
                     "sentence"], found
    with open(sys.argv[1], encoding="utf-8") as f:
        found = list(wrongs(f.read()))
    for wrong in found:
        print("%s: %s" % (sys.argv[1], wrong))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
