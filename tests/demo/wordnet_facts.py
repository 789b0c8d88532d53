#!/usr/bin/python3
"""wordnet_facts: WordNet's pointers of a few hundred animals as bound pairs of a role (hypernym, part
...) and a filler (a synset), for the demo.

    wordnet_facts.py make DATA FOLDER [WORDNET]   writes what the tool reads:
        roles.npy, fillers.npy    ids, a pair of them for each pointer, synset by synset
        lists.npy                 where each synset's pairs begin
        synsets.npy               each synset's id; codebook.npy: all ids that can be meant
        asked.npy, by.npy         questions: each synset with each role that it has
    wordnet_facts.py tell DATA FOLDER             reads answers.ids.npy, prints hits and examples
"""
import os
import sys

import numpy as np

from wordnet_graph import read_pointers

SYNSETS = 300
TOP = "carnivore.n.01"
ROLES = {"@": "hypernym", "~": "kind", "#m": "group", "%m": "member", "#p": "whole", "%p": "part",
         "#s": "product", "%s": "substance", ";c": "field", "+": "derived word", "@i": "class"}
SYMBOLS = list(ROLES)
EXAMPLES = [("dog.n.01", "hypernym"), ("dog.n.01", "part"), ("bear.n.01", "kind")]


def save(folder, name, numbers):
    np.save(os.path.join(folder, name + ".npy"), np.array(numbers, dtype=np.uint64))


def choose(pointers, top):
    """The synsets below top, level by level, with what they point at."""
    chosen, seen = [top], {top}
    for synset in chosen:
        for symbol, target in pointers[synset]:
            if symbol == "~" and target not in seen and len(chosen) < SYNSETS:
                seen.add(target)
                chosen.append(target)
    return chosen


def make(data, folder, source):
    pointers, ids = {}, {}
    for number, name, list_of in read_pointers(source):
        ids[name] = number
        pointers[number] = list(dict.fromkeys(p for p in list_of if p[0] in ROLES))
    chosen = choose(pointers, ids[TOP])
    pairs = [(SYMBOLS.index(symbol), target) for s in chosen for symbol, target in pointers[s]]
    ends = np.cumsum([0] + [len(pointers[s]) for s in chosen])
    asked = [(s, role) for s in chosen
             for role in sorted({SYMBOLS.index(symbol) for symbol, _ in pointers[s]})]
    save(folder, "roles", [role for role, _ in pairs])
    save(folder, "fillers", [target for _, target in pairs])
    save(folder, "lists", ends)
    save(folder, "synsets", chosen)
    save(folder, "codebook", sorted(set(chosen) | {target for _, target in pairs}))
    save(folder, "asked", [s for s, _ in asked])
    save(folder, "by", [role for _, role in asked])


def load(folder, name):
    return np.load(os.path.join(folder, name + ".npy"))


def tell(data, folder):
    with open(os.path.join(data, "labels.txt"), encoding="utf-8") as f:
        names = dict((int(n), name) for n, name in (line.rstrip("\n").split("\t") for line in f))
    ends, right = load(folder, "lists"), {}
    roles, fillers = load(folder, "roles"), load(folder, "fillers")
    for i, synset in enumerate(load(folder, "synsets")):
        for pair in range(int(ends[i]), int(ends[i + 1])):
            right.setdefault((int(synset), int(roles[pair])), set()).add(int(fillers[pair]))
    asked = list(zip(load(folder, "asked").tolist(), load(folder, "by").tolist()))
    answers = dict(zip(asked, load(folder, "answers.ids")[:, 0].tolist()))
    for name, role in EXAMPLES:
        for (synset, number), answer in answers.items():
            if names[synset] == name and ROLES[SYMBOLS[number]] == role:
                print("%s of %s: %s%s" % (role, name, names[answer], "" if answer in right[
                    synset, number] else "  (wrong)"))
    hits = sum(answer in right[question] for question, answer in answers.items())
    print("%d hits of %d questions about %d synsets, whose %d pairs lie in one vector each; at most "
          "%d in one" % (hits, len(asked), len(ends) - 1, len(roles), max(np.diff(ends.astype(int)))))
    return 0 if hits * 100 >= len(asked) * 95 else 1


def main():
    what, data, folder = sys.argv[1:4]
    if what == "make":
        make(data, folder, sys.argv[4] if len(sys.argv) > 4 else "/usr/share/wordnet")
        return 0
    return tell(data, folder)


if __name__ == "__main__":
    sys.exit(main())
