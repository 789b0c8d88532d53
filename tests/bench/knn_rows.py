"""knn_rows: the vectors that bench_peers.py asks about. Gaussian ones, and real ones: texts of
WordNet (words, glosses, examples, relations) through MiniLM-L6, where a model and the texts are at
hand: --texts names a folder with WordNet's data.noun ..., --model one with MiniLM's config.json,
tokenizer.json, and model.safetensors or model_int8.npz (packed by tests/gpu/peers/pack). All rows
have length 1, so that a peer's dot product is the cosine."""
import concurrent.futures
import glob
import json
import os
import re

import numpy as np

CHUNK = 1 << 15


class Missing(Exception):
    """Why there are no such rows here."""


def normalise(rows):
    for first in range(0, len(rows), CHUNK):
        part = rows[first:first + CHUNK]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def gaussian(count, dimension, seed):
    rows = np.empty((count, dimension), np.float32)

    def fill(first):
        part = rows[first:first + CHUNK]
        np.random.default_rng([seed, first]).standard_normal(dtype=np.float32, out=part)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(0, count, CHUNK)))
    return normalise(rows)


# ---- texts ----

SYNSET = re.compile(r"^(\d{8}) \d\d ([nvasr]) ([0-9a-f]{2}) (.*?) \| (.*)$")
RELATIONS = {"@": "is a kind of", "~": "has the kind", "#m": "is a member of",
             "#p": "is a part of", "#s": "is a substance of", "%m": "has the member",
             "%p": "has the part", "%s": "has the substance", "!": "is the opposite of",
             "&": "is similar to", "+": "is derived from", "=": "is an attribute of",
             "*": "entails", ">": "causes", ";c": "belongs to the field of",
             "@i": "is an instance of", "~i": "has the instance"}


def read_synsets(folder):
    files = sorted(glob.glob(os.path.join(folder, "data.*")))
    if not files:
        raise Missing(f"no texts of WordNet in {folder}")
    synsets = {}
    for path in files:
        with open(path, encoding="utf-8") as file:
            for line in file:
                found = SYNSET.match(line)
                if not found:
                    continue
                at, kind, words, rest, gloss = found.groups()
                fields = rest.split()
                count = int(words, 16)
                names = [w.replace("_", " ") for w in fields[0:2 * count:2]]
                pointers = fields[2 * count + 1:]
                synsets[at, "a" if kind == "s" else kind] = (names, pointers, gloss.strip())
    return synsets


def texts(folder):
    """Every text once, in the order of the files."""
    synsets = read_synsets(folder)
    found = {}
    for names, pointers, gloss in synsets.values():
        for name in names:
            found[name] = None
        parts = gloss.split('"')
        found[f"{names[0]}: {parts[0].rstrip('; ')}"] = None
        for example in parts[1::2]:
            found[example] = None
    for names, pointers, _ in synsets.values():
        for i in range(0, len(pointers) - 3, 4):
            said = RELATIONS.get(pointers[i])
            other = synsets.get((pointers[i + 1], pointers[i + 2]))
            if said and other:
                for name in names[:2]:
                    found[f"{name} {said} {other[0][0]}"] = None
    return list(found)


# ---- the model: BERT of 6 layers, mean of the tokens ----

def load_weights(folder, torch, device, dtype):
    plain = os.path.join(folder, "model.safetensors")
    packed = os.path.join(folder, "model_int8.npz")
    if os.path.exists(packed):
        z = np.load(packed)
        out = {}
        for name in z.files:
            if name.endswith(":codes"):
                base = name[:-len(":codes")]
                value = z[name].astype(np.float32) * z[base + ":scales"].astype(np.float32)
            elif name.endswith(":scales"):
                continue
            else:
                base, value = name, z[name].astype(np.float32)
            out[base] = torch.from_numpy(value).to(device, dtype)
        return out
    if not os.path.exists(plain):
        raise Missing(f"no model in {folder}")
    import safetensors.torch
    return {name: value.to(device, dtype)
            for name, value in safetensors.torch.load_file(plain).items()}


class Model:
    def __init__(self, folder):
        try:
            import tokenizers
            import torch
        except ImportError as error:
            raise Missing(f"no model can be run: {error}") from error
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.dtype = torch.float16 if self.device == "cuda" else torch.float32
        self.weights = load_weights(folder, torch, self.device, self.dtype)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.enable_truncation(64)
        self.tokenizer.no_padding()

    def normed(self, x, name):
        w = self.weights
        return self.torch.nn.functional.layer_norm(
            x, x.shape[-1:], w[name + ".LayerNorm.weight"], w[name + ".LayerNorm.bias"], 1e-12)

    def linear(self, x, name):
        return self.torch.nn.functional.linear(x, self.weights[name + ".weight"],
                                               self.weights[name + ".bias"])

    def layer(self, x, at, mask):
        count, length, width = x.shape

        def parts(name):
            y = self.linear(x, f"{at}.attention.self.{name}")
            return y.view(count, length, self.heads, width // self.heads).transpose(1, 2)

        seen = self.torch.nn.functional.scaled_dot_product_attention(
            parts("query"), parts("key"), parts("value"), attn_mask=mask)
        seen = seen.transpose(1, 2).reshape(count, length, width)
        x = self.normed(x + self.linear(seen, f"{at}.attention.output.dense"),
                        f"{at}.attention.output")
        y = self.torch.nn.functional.gelu(self.linear(x, f"{at}.intermediate.dense"))
        return self.normed(x + self.linear(y, f"{at}.output.dense"), f"{at}.output")

    def of_tokens(self, ids, known):
        w = self.weights
        x = (w["embeddings.word_embeddings.weight"][ids] +
             w["embeddings.position_embeddings.weight"][:ids.shape[1]] +
             w["embeddings.token_type_embeddings.weight"][0])
        x = self.normed(x, "embeddings")
        mask = known[:, None, None, :]
        for i in range(self.layers):
            x = self.layer(x, f"encoder.layer.{i}", mask)
        known = known[:, :, None].float()
        return (x.float() * known).sum(1) / known.sum(1)

    def embed(self, some, batch=4096):
        torch = self.torch
        tokens = [e.ids for e in self.tokenizer.encode_batch(some)]
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        rows = None
        with torch.inference_mode():
            for first in range(0, len(order), batch):
                at = order[first:first + batch]
                length = max(len(tokens[i]) for i in at)
                ids = np.zeros((len(at), length), np.int64)
                known = np.zeros((len(at), length), bool)
                for line, i in enumerate(at):
                    ids[line, :len(tokens[i])] = tokens[i]
                    known[line, :len(tokens[i])] = True
                out = self.of_tokens(torch.from_numpy(ids).to(self.device),
                                     torch.from_numpy(known).to(self.device)).cpu().numpy()
                if rows is None:
                    rows = np.empty((len(some), out.shape[1]), np.float32)
                rows[at] = out
        return normalise(rows)


def real(count, queries, text_folder, model_folder, cache):
    """(rows, queries): the rows are the first `count` texts of a fixed shuffle, the queries the
    next. cache: a file that a run before made, or that this one makes; None: none."""
    if cache and os.path.exists(cache):
        rows = np.load(cache)
    else:
        if not text_folder or not model_folder:
            raise Missing("no texts and no model were named (--texts, --model)")
        some = texts(text_folder)
        order = np.random.default_rng(17).permutation(len(some))[:count + queries]
        rows = Model(model_folder).embed([some[i] for i in order])
        if cache:
            np.save(cache + ".part.npy", rows)
            os.replace(cache + ".part.npy", cache)
    if len(rows) < 10 * queries:
        raise Missing(f"{len(rows)} texts are too few")
    queries = min(queries, len(rows) // 10)
    asked = np.ascontiguousarray(rows[-queries:])
    return rows[:min(count, len(rows) - queries)], asked
