#!/usr/bin/python3
"""words: the demo's questions, by name.

    words.py ids DATA NAME...               the ids, one a line
    words.py rows DATA NPY NAME...          their vectors, float32, into NPY
    words.py third DATA NPY                 which third of a vector's numbers is known, bool, into NPY
    words.py candidates NPY ID...           the ids, uint64, into NPY
    words.py table DATA SCORES_NPY NAME...  of the scores that `similarity --out` wrote, those of the
                                            names among themselves
"""
import sys

import numpy as np


def ids_of(data, names):
    found = dict.fromkeys(names)
    with open(data + "/names.txt", encoding="utf-8") as f:
        for line in f:
            number, _, text = line.partition("\t")
            name = text.split(" ", 1)[0]
            if name in found:
                found[name] = int(number)
    missing = [n for n in names if found[n] is None]
    if missing:
        sys.exit("words: not in WordNet: " + ", ".join(missing))
    return [found[n] for n in names]


def write_rows(data, path, names):
    ids = np.load(data + "/ids.npy")
    rows = np.load(data + "/synsets.npy", mmap_mode="r")
    places = [int(np.flatnonzero(ids == i)[0]) for i in ids_of(data, names)]
    np.save(path, np.asarray(rows[places], dtype=np.float32))


def write_third(data, path):
    dimension = np.load(data + "/synsets.npy", mmap_mode="r").shape[1]
    known = np.zeros(dimension, dtype=bool)
    known[np.random.default_rng(1).permutation(dimension)[:dimension // 3]] = True
    np.save(path, known)


def print_table(data, path, names):
    scores = np.load(path, mmap_mode="r")
    columns = np.load(path[:-len(".npy")] + ".ids.npy")
    print("%-16s" % "" + "".join("%16s" % n for n in names))
    for row, name in enumerate(names):
        cells = [scores[row, np.flatnonzero(columns == i)[0]] for i in ids_of(data, names)]
        print("%-16s" % name + "".join("%16.6f" % c for c in cells))


def main():
    what, *rest = sys.argv[1:]
    if what == "ids":
        print("\n".join(str(i) for i in ids_of(rest[0], rest[1:])))
    elif what == "rows":
        write_rows(rest[0], rest[1], rest[2:])
    elif what == "third":
        write_third(rest[0], rest[1])
    elif what == "candidates":
        np.save(rest[0], np.array(rest[1:], dtype=np.uint64))
    elif what == "table":
        print_table(rest[0], rest[1], rest[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
