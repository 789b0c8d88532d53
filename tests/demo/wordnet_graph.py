#!/usr/bin/python3
"""wordnet_graph: WordNet's typed pointers as a graph, for the demo, from Debian's wordnet-base alone.

Every pointer of WordNet 3.0 becomes one directed edge between two synsets, 377,592 in all; a pointer
between words is one between their synsets, so two synsets may have several. Written once to FOLDER
and kept there; ids are those of wordnet.py:
  edges.tsv   source<TAB>target<TAB>weight
  nodes.tsv   id<TAB>kind: an instance (Paris, Mozart: it has an instance hypernym) is an episode,
              every other synset a concept
  labels.txt  id<TAB>dog.n.01
The weight says how far a thought follows a pointer of that type; WEIGHTS has them, chosen by hand.
"""
import os
import sys

from wordnet import PARTS, read_senses

WEIGHTS = {
    "@": 0.5, "@i": 0.7,                # what it is a kind of, an instance of
    "~": 0.5, "~i": 0.4,                # its kinds, its instances
    "#m": 0.6, "#s": 0.6, "#p": 0.6,    # what it is a member, the stuff, a part of
    "%m": 0.5, "%s": 0.6, "%p": 0.7,    # its members, stuff, parts
    "&": 0.8, "$": 0.7, "^": 0.6,       # alike, verbs of one group, see also
    "+": 0.9, "\\": 0.8, "<": 0.8,      # words that derive from each other
    "*": 0.7, ">": 0.7, "=": 0.6,       # entails, causes, is a value of
    "!": 0.5,                           # opposites
    ";c": 0.6, "-c": 0.5,               # its field of knowledge (chess: checkmate), and back
    ";r": 0.3, "-r": 0.2,               # where it is said
    ";u": 0.2, "-u": 0.1,               # how it is said
}
DIGIT = {letter: digit for _, letter, digit in PARTS} | {"s": 3}


def read_pointers(folder):
    """(id, name, [(pointer's symbol, target's id)]) of every synset."""
    for part, letter, digit in PARTS:
        senses = read_senses(folder, part)
        with open(os.path.join(folder, "data." + part), encoding="latin-1") as f:
            for line in f:
                if line.startswith(" "):
                    continue
                fields = line.partition(" | ")[0].split()
                offset, words = int(fields[0]), int(fields[3], 16)
                first = fields[4].partition("(")[0].lower()
                at = 5 + 2 * words
                pointers = [(fields[i], DIGIT[fields[i + 2]] * 10**8 + int(fields[i + 1]))
                            for i in range(at, at + 4 * int(fields[at - 1]), 4)]
                number = dict(senses[offset]).get(first, 0)
                yield digit * 10**8 + offset, "%s.%s.%02d" % (first, letter, number), pointers


def make(folder, source):
    synsets = list(read_pointers(source))
    total = sum(len(pointers) for _, _, pointers in synsets)
    with open(os.path.join(folder, "edges.tsv"), "w", encoding="ascii") as f:
        f.write("# WordNet 3.0: source, target, weight by the pointer's type\n")
        for number, _, pointers in synsets:
            f.writelines("%d\t%d\t%g\n" % (number, target, WEIGHTS[symbol])
                         for symbol, target in pointers)
    with open(os.path.join(folder, "nodes.tsv"), "w", encoding="ascii") as f:
        for number, _, pointers in synsets:
            instance = any(symbol == "@i" for symbol, _ in pointers)
            f.write("%d\t%s\n" % (number, "episode" if instance else "concept"))
    # labels.txt is renamed last: a folder that has it is whole.
    labels = os.path.join(folder, "labels.txt")
    with open(labels + ".new", "w", encoding="utf-8") as f:
        f.writelines("%d\t%s\n" % (number, name) for number, name, _ in synsets)
    os.rename(labels + ".new", labels)
    print("wordnet: %d pointers among %d synsets, kept in %s" % (total, len(synsets), folder),
          flush=True)


def main():
    folder = sys.argv[1]
    source = sys.argv[2] if len(sys.argv) > 2 else "/usr/share/wordnet"
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "labels.txt")):
        make(folder, source)


if __name__ == "__main__":
    main()
