#!/usr/bin/env python3
"""pack_model.py FROM TO: MiniLM-L6 (a folder with config.json, tokenizer.json, model.safetensors)
in a quarter of its bytes: each line of a matrix in int8 with a scale, as tests/bench/knn_rows.py
reads it."""
import json
import os
import shutil
import struct
import sys

import numpy as np

source, target = sys.argv[1:]
os.makedirs(target, exist_ok=True)
out = {}
with open(os.path.join(source, "model.safetensors"), "rb") as file:
    head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
for name, what in head.items():
    if name == "__metadata__" or what["dtype"] != "F32":
        continue
    first, last = what["data_offsets"]
    value = np.frombuffer(data[first:last], np.float32).reshape(what["shape"])
    if value.ndim == 2 and value.size > 1 << 16:
        scales = np.abs(value).max(axis=1, keepdims=True) / 127
        scales[scales == 0] = 1
        out[name + ":codes"] = np.rint(value / scales).astype(np.int8)
        out[name + ":scales"] = scales
    else:
        out[name] = value
np.savez(os.path.join(target, "model_int8.npz"), **out)
for name in ("config.json", "tokenizer.json"):
    shutil.copy(os.path.join(source, name), target)
