#!/usr/bin/python3
"""wordnet: real vectors for the demo, from Debian's packages alone.

Every synset of WordNet 3.0 (wordnet-base) becomes one row: its lemmas and gloss as TF-IDF, brought
down to 384 dimensions by truncated SVD, of length 1. Written once to FOLDER, kept there:
  synsets.npy  float32 n x 384      ids.npy  uint64 n
  names.txt    id<TAB>dog.n.01 (dog, domestic dog): a member of the ...
The id is WordNet's own: part of speech (1 noun, 2 verb, 3 adjective, 4 adverb) and offset in its
data file. The same machine and packages give the same bytes.
"""
import collections
import os
import sys
import time

import numpy as np

DIMENSION = 384
NAME_SHOWN = 68  # beside rank, id and score it fits 100 columns
PARTS = [("noun", "n", 1), ("verb", "v", 2), ("adj", "a", 3), ("adv", "r", 4)]


def read_senses(folder, part):
    """offset -> [(lemma, sense number)]; index files list a lemma's synsets by rising sense."""
    senses = collections.defaultdict(list)
    with open(os.path.join(folder, "index." + part), encoding="ascii") as f:
        for line in f:
            if line.startswith(" "):
                continue
            words = line.split()
            count = int(words[2])
            for number, offset in enumerate(words[-count:], 1):
                senses[int(offset)].append((words[0], number))
    return senses


def read_synsets(folder):
    """(id, name, lemmas, gloss) of every synset."""
    for part, letter, digit in PARTS:
        senses = read_senses(folder, part)
        with open(os.path.join(folder, "data." + part), encoding="latin-1") as f:
            for line in f:
                if line.startswith(" "):
                    continue
                head, _, gloss = line.partition(" | ")
                fields = head.split()
                offset, count = int(fields[0]), int(fields[3], 16)
                # Adjectives carry a marker of their place: "galore(ip)".
                lemmas = [w.partition("(")[0] for w in fields[4:4 + 2 * count:2]]
                first = lemmas[0].lower()
                number = dict(senses[offset]).get(first, 0)
                yield (digit * 10**8 + offset, "%s.%s.%02d" % (first, letter, number),
                       [w.replace("_", " ") for w in lemmas], gloss.strip())


def make(folder, source):
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    started = time.monotonic()
    synsets = list(read_synsets(source))
    texts = ["%s %s" % (" ".join(lemmas), gloss) for _, _, lemmas, gloss in synsets]
    tfidf = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=2, dtype=np.float32)
    matrix = tfidf.fit_transform(texts)
    print("wordnet: %d synsets, %d words, %.1f s" %
          (matrix.shape[0], matrix.shape[1], time.monotonic() - started), flush=True)
    rows = TruncatedSVD(DIMENSION, n_iter=1, random_state=7).fit_transform(matrix)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.ascontiguousarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)

    # names.txt is renamed last: a folder that has it is whole.
    np.save(os.path.join(folder, "synsets.npy"), rows)
    np.save(os.path.join(folder, "ids.npy"), np.array([s[0] for s in synsets], dtype=np.uint64))
    names = os.path.join(folder, "names.txt")
    with open(names + ".new", "w", encoding="utf-8") as f:
        for number, name, lemmas, gloss in synsets:
            text = "%s (%s): %s" % (name, ", ".join(lemmas), gloss)
            if len(text) > NAME_SHOWN:
                text = text[:NAME_SHOWN - 3].rstrip() + "..."
            f.write("%d\t%s\n" % (number, text))
    os.rename(names + ".new", names)
    print("wordnet: %d x %d float32 in %.1f s, kept in %s" %
          (*rows.shape, time.monotonic() - started, folder), flush=True)


def main():
    folder = sys.argv[1]
    source = sys.argv[2] if len(sys.argv) > 2 else "/usr/share/wordnet"
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "names.txt")):
        make(folder, source)


if __name__ == "__main__":
    main()
