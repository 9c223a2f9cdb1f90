#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models on disk, looked at without Stretto and without packages.

    model_files.py same-hf A B             two Hugging Face folders hold the same tensors, byte for byte
    model_files.py same-llmc A B           two llm.c checkpoints do
    model_files.py logits GOLDEN FILE      prints the greatest difference of float32 logits from the golden folder's; fails above 1e-4
    model_files.py prompt GOLDEN           the golden folder's first sequence, as numbers between commas
    model_files.py tokens GOLDEN FILE      all its sequences again and again, as a token file of llm.c

Names of tensors are compared without the prefix that only some writers put in front, and without what is no weight (the masks
of attention) or is there twice (a head that is the embedding).
"""

import array
import json
import pathlib
import re
import struct
import sys

LIMIT = 1e-4  # of logits, in float32
TOKENS = 2000


def tensors_of(folder):
    """Name to (dtype, shape, bytes)."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("model*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8:8 + length]).items():
            if name == "__metadata__" or re.search(r"\.attn\.(bias|masked_bias)$|rotary_emb\.inv_freq$", name):
                continue
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            found[re.sub(r"^(transformer|model)\.", "", name)] = (entry["dtype"], entry["shape"], data[begin:end])
    if not found:
        sys.exit(f"{folder}: found no tensors")
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    if config.get("tie_word_embeddings", config["model_type"] == "gpt2"):
        found.pop("lm_head.weight", None)
    return found


def same_hf(a, b):
    one, other = tensors_of(a), tensors_of(b)
    if one.keys() != other.keys():
        sys.exit(f"{b}: found tensors {sorted(other.keys() - one.keys())} beyond and {sorted(one.keys() - other.keys())} "
                 f"missing, expected those of {a}")
    for name, (dtype, shape, data) in one.items():
        if other[name][:2] != (dtype, shape):
            sys.exit(f"{b}: {name}: found {other[name][:2]}, expected {(dtype, shape)} as in {a}")
        if other[name][2] != data:
            sys.exit(f"{b}: {name}: found other bytes than in {a}")
    print(f"{len(one)} tensors, equal bytes")


def same_llmc(a, b):
    one, other = (pathlib.Path(path).read_bytes() for path in (a, b))
    if one[:32] != other[:32]:
        sys.exit(f"{b}: found header {struct.unpack('<8i', other[:32])}, expected {struct.unpack('<8i', one[:32])} as in {a}")
    if one[1024:] != other[1024:]:
        sys.exit(f"{b}: found other tensors than in {a}")
    print(f"{len(one) - 1024} bytes of tensors, equal")


def floats(data):
    values = array.array("f", data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def logits(golden, path):
    _, positions, vocabulary = json.loads((pathlib.Path(golden) / "golden.json").read_text())["logits_shape"]
    count = positions * vocabulary
    expected = floats((pathlib.Path(golden) / "logits.f32").read_bytes())[:count]
    found = floats(pathlib.Path(path).read_bytes())
    if len(found) != count:
        sys.exit(f"{path}: found {len(found)} logits, expected {count}")
    # A number that is none is no difference to max, so it is told apart.
    difference = max(abs(x - y) for x, y in zip(found, expected))
    print(f"{difference:.2e}")
    if any(x != x for x in found) or not difference <= LIMIT:
        sys.exit(f"{path}: found a difference of {difference} from {golden}, expected at most {LIMIT}")


def sequences(golden):
    return json.loads((pathlib.Path(golden) / "golden.json").read_text())["input_ids"]


def tokens(golden, path):
    ids = [token for sequence in sequences(golden) for token in sequence]
    ids = (ids * (TOKENS // len(ids) + 1))[:TOKENS]
    header = struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253)
    pathlib.Path(path).write_bytes(header + struct.pack(f"<{len(ids)}H", *ids))


def main():
    commands = {"same-hf": (same_hf, 2), "same-llmc": (same_llmc, 2), "logits": (logits, 2), "tokens": (tokens, 2),
                "prompt": (lambda golden: print(",".join(map(str, sequences(golden)[0]))), 1)}
    run, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if run is None or len(sys.argv) != 2 + count:
        sys.exit(__doc__)
    run(*sys.argv[2:])


if __name__ == "__main__":
    main()
