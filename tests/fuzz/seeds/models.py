# SPDX-License-Identifier: Apache-2.0
"""Files of models and data: checkpoints, tensors, configs, data sets, tokenizers."""
import json
import pathlib
import struct

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"


def changed(document, path, value):
    """Returns `document` as text with `value` at `path`, or without it where that is `...`."""
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return json.dumps(copy)


def checkpoint():
    manifest = json.loads((GOLDEN / "manifest" / "loss.json").read_text())
    attachment = dict(manifest["files"][0], name="config.json")
    shards = ("tensors", 0, "shards")
    for name, path, value in (
            ("version", ("version",), 3), ("version-zero", ("version",), 0), ("version-text", ("version",), "1"),
            ("no-step", ("step",), ...),
            ("step", ("step",), -1), ("step-fraction", ("step",), 0.5), ("seed", ("seed",), "x"), ("field", ("other",), 1),
            ("uid", ("job_uid",), 5),
            ("parent", ("parent",), []), ("parent-field", ("parent", "epoch"), "x"), ("held-out", ("held_out",), 5),
            ("held-out-loss", ("held_out", "loss"), "nan"), ("held-out-best", ("held_out", "best_loss"), 5),
            ("held-out-field", ("held_out", "x"), 1),
            ("files", ("files",), {}), ("files-number", ("files",), [5]), ("file-name", ("files", 0, "name"), "a/b"),
            ("file-dot", ("files", 0, "name"), ".a"),
            ("file-crc", ("files", 0, "crc32c"), 1 << 40), ("file-sha", ("files", 0, "sha256"), "a"),
            ("file-twice", ("files", 1, "name"), "rank-00000.safetensors"),
            ("attachment", ("attachments",), [attachment]), ("attachments", ("attachments",), 5),
            ("attachment-field", ("attachments",), [{}]),
            ("attachment-twice", ("attachments",), [attachment, attachment]), ("tensors", ("tensors",), [5]),
            ("tensor-dtype", ("tensors", 0, "dtype"), "F5"), ("tensor-shape", ("tensors", 0, "shape"), [-1]),
            ("tensor-far", ("tensors", 0, "shape"), [1 << 62, 4]),
            ("tensor-bits", ("tensors", 0, "dtype"), "F4"), ("tensor-empty", ("tensors", 0, "shape"), [0, 2]),
            ("tensor-twice", ("tensors", 1, "name"), "w"),
            ("shards", shards, 5), ("shard-field", (*shards, 0, "x"), 1), ("shard-rank", (*shards, 0, "starts"), [0]),
            ("shard-box", (*shards, 0, "extents"), [9, 9]), ("shard-file", (*shards, 0, "file"), "x"),
            ("shard-end", (*shards, 0, "offset"), 90),
            ("shard-key", (*shards, 0, "key"), "k"), ("shard-over", (*shards, 1, "starts"), [1, 0]), ("shard-none", shards, []),
            ("shard-beside", shards, [{"file": "rank-00000.safetensors", "offset": 64, "starts": [0, at],
            "extents": [4, 1]} for at in (0, 1)])):
        yield name, changed(manifest, path, value)
    yield "tensor-bits-odd", changed(manifest, ("tensors", 0), dict(manifest["tensors"][0], dtype="F4", shape=[1]))
    state = {key: value for key, value in manifest.items() if key not in ("version", "files", "tensors")}
    yield "state", json.dumps(state)
    yield "state-math", json.dumps(state | {"math_hash": "m"})
    yield "state-field", json.dumps(state | {"x": 1})
    info = {"file": manifest["files"][0], "tensors": [dict(manifest["tensors"][0], shards=manifest["tensors"][0]["shards"][:1])]}
    yield "shard-info", json.dumps(info)
    yield from ((f"shard-info-{name}", changed(info, path, value)) for name, path, value in (
        ("file", ("file",), 5), ("file-name", ("file", "name"), ""), ("tensors", ("tensors", 0, "name"), 5),
        ("field", ("x",), 1)))
    for name, header in headers():
        yield f"header-{name}", header


TWO = {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
       "b": {"dtype": "BF16", "shape": [0, 3], "data_offsets": [16, 16]}}


def headers():
    """Headers of tensors, the first of which is right for 16 bytes."""
    yield "two", json.dumps(TWO)
    yield from ((name, changed(TWO, path, value)) for name, path, value in (
        ("metadata", ("__metadata__",), 5), ("metadata-number", ("__metadata__", "format"), 5), ("tensor", ("a",), 5),
        ("one-offset", ("a", "data_offsets"), [0]),
        ("turned", ("a", "data_offsets"), [16, 0]), ("dtype", ("a", "dtype"), "x"), ("bytes", ("a", "data_offsets"), [0, 15]),
        ("begin", ("a", "data_offsets"), [4, 20]), ("far", ("a",),
        {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}),
        ("shape", ("a", "shape"), [2, "x"]), ("shape-less", ("a", "shape"), ...), ("shape-text", ("a", "shape"), "x"),
        ("short", ("a",), {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]})))
    yield "list", "[]"
    yield "cut", "{"
    yield "twice", '{"a": 1, "a": 2}'


def framed(header, data=b""):
    return struct.pack("<Q", len(header)) + header.encode() + data


def safetensors():
    yield "nothing", b"abc"
    yield "length", struct.pack("<Q", 1 << 40)
    for name, header in headers():
        yield name, framed(header, bytes(16))


LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 96, "max_position_embeddings": 256, "vocab_size": 257, "rms_norm_eps": 1e-5, "head_dim": 16,
         "rope_theta": 500000.0,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 64}}
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 16, "vocab_size": 257}


def note(**changes):
    fields = {"family": "llama", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn_hidden": 128, "sequence_length": 128,
              "vocab_size": 256, "norm_epsilon": 1e-5, "tied_head": False, "rotary_base": 10000,
              "rotary_scaling": {"kind": "llama3", "factor": 8, "low_frequency_factor": 1, "high_frequency_factor": 4,
                                 "original_sequence_length": 64},
              "weights": "BF16", "tokenizer": "bytes"}
    return json.dumps({key: value for key, value in (fields | changes).items() if value is not None})


def hf_config():
    yield "note", note()
    yield "note-linear", note(rotary_scaling={"kind": "linear", "factor": 2})
    yield "note-none", note(rotary_scaling={"kind": "none"})
    yield "note-order", note(rotary_scaling={"kind": "llama3", "factor": 8, "low_frequency_factor": 4, "high_frequency_factor": 4,
                                             "original_sequence_length": 64})
    yield "note-gpt", note(family="gpt", rotary_base=None, rotary_scaling=None, kv_heads=4)
    yield "note-wrong", note(family="x", layers=0, weights="x")
    yield "note-flag", note(tied_head=5)
    yield "note-number", note(norm_epsilon="x")
    yield "note-far", note(norm_epsilon=7)
    yield "note-scaling", note(rotary_scaling=5)
    yield "note-kind", note(rotary_scaling={"kind": "x"})
    yield "note-heads", note(heads=3, kv_heads=3)
    yield "note-field", note(other=1)
    yield "list", "[]"
    yield "llama", json.dumps(LLAMA)
    rope = "rope_scaling"
    yield from ((f"llama-{name}", changed(LLAMA, path, value)) for name, path, value in (
        ("no-size", ("hidden_size",), ...), ("size", ("hidden_size",), 0.5), ("size-text", ("hidden_size",), "x" * 80),
        ("heads", ("num_attention_heads",), 3),
        ("groups", ("num_key_value_heads",), 3), ("odd", ("num_attention_heads",), 64), ("head-dim", ("head_dim",), 8),
        ("epsilon", ("rms_norm_eps",), 7),
        ("tied", ("tie_word_embeddings",), 5), ("act", ("hidden_act",), "relu"), ("act-number", ("hidden_act",), 5),
        ("bias", ("attention_bias",), True),
        ("window", ("sliding_window",), 4), ("quantized", ("quantization_config",), {"bits": 4}),
        ("code", ("auto_map",), {"AutoModelForCausalLM": "x"}),
        ("partial", ("partial_rotary_factor",), 0.5), ("no-rope", (rope,), ...), ("rope", (rope,), 5),
        ("rope-layers", (rope,), {"full": {"factor": 2}}),
        ("rope-type", (rope, "rope_type"), "yarn"), ("rope-linear", (rope,), {"type": "linear", "factor": 2}),
        ("rope-factor", (rope, "factor"), 0.5),
        ("rope-no-factor", (rope, "factor"), ...), ("rope-order", (rope, "high_freq_factor"), 1.0),
        ("type", ("model_type",), "bert"),
        ("layers", ("num_hidden_layers",), 1 << 30)))
    yield "gpt2", json.dumps(GPT2)
    yield from ((f"gpt2-{name}", changed(GPT2, path, value)) for name, path, value in (
        ("heads", ("n_head",), 3), ("act", ("activation_function",), "relu"), ("scale", ("scale_attn_weights",), False),
        ("pruned", ("pruned_heads",), {"0": [1]})))
    yield "index-escape", json.dumps({"weight_map": {"a": "../b"}})
    yield "index-number", json.dumps({"weight_map": {"a": 1}})
    yield "index-none", json.dumps({"weight_map": {}})
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    tensors = framed(json.dumps({"a": empty, "b": empty}))
    for name, index in (("whole", {"a": "x", "b": "x"}), ("elsewhere", {"a": "x", "b": "y"}), ("unlisted", {"a": "x"}),
                        ("lacking", {"a": "x", "b": "x", "c": "x"}), ("alone", {"a": "model.safetensors"}), ("wrong", {"a": "/"}),
                        ("itself", {"a": "model.safetensors.index.json"})):
        yield f"folder-{name}", json.dumps({"weight_map": index}).encode() + b"\n==\n" + tensors
    yield "folder-single", b"\n==\n" + tensors
    yield "folder-broken", b"\n==\nx"


def llmc_model():
    fields = [20240326, 5, 1, 2, 1, 1, 1, 128]  # magic, version, length, vocabulary, layers, heads, channels, padded
    for name, at, value in (("magic", 0, 1), ("version", 1, 4), ("length", 2, 0), ("vocabulary", 3, 1 << 30), ("heads", 5, 2),
        ("padded", 7, 256),
                            ("bytes", 1, 3)):
        yield name, struct.pack("<8i", *(value if i == at else field for i, field in enumerate(fields))) + bytes(3000)
    yield "size", struct.pack("<8iq", *fields, 5)
    yield "heads-many", struct.pack("<8i", 20240326, 5, 1, 2, 1, 3, 4, 128) + bytes(64)


def index_of(kind, lengths, pointers, documents, magic=b"MMIDIDX\0\0", version=1, counts=None):
    sequences, boundaries = counts or (len(lengths), len(documents))
    return (magic + struct.pack("<QBQQ", version, kind, sequences, boundaries) + struct.pack(f"<{len(lengths)}i", *lengths) +
            struct.pack(f"<{len(pointers)}q", *pointers) + struct.pack(f"<{len(documents)}q", *documents))


def dataset():
    """Beside 64 bytes of tokens. Type 8 has two bytes a token, 4 has four."""
    yield "whole", index_of(8, [16, 16], [0, 32], [0, 1, 2])
    yield "gap", index_of(8, [8, 8, 4], [0, 32, 16], [0, 1, 1, 3])
    yield "header", b"MMIDIDX"
    yield "magic", index_of(8, [16], [0], [0, 1], magic=b"XXXXXXX\0\0")
    yield "version", index_of(8, [16], [0], [0, 1], version=2)
    yield "type", index_of(6, [16], [0], [0, 1])
    yield "sequences", index_of(8, [16], [0], [0, 1], counts=(1 << 40, 2))
    yield "documents", index_of(8, [16], [0], [0, 1], counts=(1, 3))
    yield "extra", index_of(8, [16], [0], [0, 1]) + b"x"
    yield "no-document", index_of(8, [16], [0], [])
    yield "length", index_of(8, [-1], [0], [0, 1])
    yield "pointer", index_of(8, [16], [60], [0, 1])
    yield "pointer-negative", index_of(8, [16], [-1], [0, 1])
    yield "empty", index_of(8, [0], [0], [0, 1])
    yield "first", index_of(8, [16], [0], [1, 1])
    yield "descends", index_of(8, [8, 8], [0, 16], [0, 2, 1])
    yield "last", index_of(8, [8, 8], [0, 16], [0, 1, 1])
    for kind in (1, 2, 3, 4, 5):
        yield f"type-{kind}", index_of(kind, [8], [0], [0, 1])
    yield "token-far", index_of(4, [8, 8], [0, 32], [0, 2])


def token_file(magic, version, count, tokens, size):
    return struct.pack("<3i", magic, version, count) + bytes(1024 - 12) + b"".join(token.to_bytes(size,
        "little") for token in tokens)


def token_files():
    """Two bytes have the length of the first file."""
    gpt2, llama3 = token_file(20240520, 1, 3, [50256, 1, 50256], 2), token_file(20240801, 7, 2, [128000, 1], 4)
    for name, first, second in (
            ("two", gpt2, gpt2), ("unlike", gpt2, llama3), ("long", token_file(20240801, 7, 9, range(9), 4), llama3),
            ("magic", token_file(5, 1, 1, [1], 2), b""), ("version", token_file(20240520, 7, 1, [1], 2), b""),
            ("none", token_file(20240520, 1, 0, [], 2), b""),
            ("count", token_file(20240520, 1, 5, [1], 2), b""), ("header", b"abc", b""),
            ("far", token_file(20240801, 7, 9, [1 << 30] * 9, 4), b""),
            ("documents", token_file(20240520, 1, 9, [50256, 1, 1, 50256, 1, 1, 1, 1, 1], 2), gpt2)):
        yield name, len(first).to_bytes(2, "big") + first + second


def alphabet():
    """The characters that stand for the 256 bytes in a tokenizer of the byte level."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def tokenizer_json():
    vocabulary = {character: token for token, character in enumerate(alphabet())} | {"ab": 256}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": "[a-z]+|."}, "behavior": "Isolated", "invert": False}
    whole = {"normalizer": {"type": "Sequence", "normalizers": []},
        "added_tokens": [{"id": 257, "content": "<end>", "lstrip": False}],
             "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
             "model": {"type": "BPE", "ignore_merges": True, "vocab": vocabulary, "merges": ["a b", ["a", "b"]]}}
    yield "whole", json.dumps(whole)
    # What is wrong before the vocabulary is read needs none.
    small = whole | {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<end>": 3, "\u2603": 4}, "merges": ["a b"]}}
    pre = ("pre_tokenizer", "pretokenizers")
    yield from ((name, changed(small, path, value)) for name, path, value in (
        ("no-byte", ("x",), 1), ("normalizer", ("normalizer",), {"type": "NFC"}), ("model", ("model",), 5),
        ("type", ("model", "type"), "x"),
        ("fallback", ("model", "byte_fallback"), True), ("dropout", ("model", "dropout"), 0.5),
        ("vocabulary", ("model", "vocab"), []),
        ("token", ("model", "vocab", "a"), -1), ("token-far", ("model", "vocab", "a"), 1 << 30),
        ("merges", ("model", "merges"), 5),
        ("merge-word", ("model", "merges"), ["ab"]), ("merge-number", ("model", "merges"), [5]),
        ("merge-piece", ("model", "merges"), [["\u2603", "a"]]),
        ("merge-right", ("model", "merges"), [["a", "\u2603"]]), ("no-added", ("added_tokens",), None),
        ("added", ("added_tokens",), 5),
        ("added-content", ("added_tokens", 0, "content"), ""), ("added-id", ("added_tokens", 0, "id"), "x"),
        ("added-strip", ("added_tokens", 0, "lstrip"), True),
        ("pre", ("pre_tokenizer",), None), ("pre-type", ("pre_tokenizer",), {"type": "x" * 90}), ("parts", pre, []),
        ("split", (*pre, 0, "type"), "x"),
        ("behavior", (*pre, 0, "behavior"), "Removed"), ("pattern", (*pre, 0, "pattern"), {"String": " "}),
        ("horizontal", (*pre, 0, "pattern", "Regex"), "\\h"),
        ("level", (*pre, 1, "type"), "x"), ("level-space", (*pre, 1, "add_prefix_space"), True),
        ("level-regex", (*pre, 1, "use_regex"), True),
        ("level-alone", ("pre_tokenizer",), {"type": "ByteLevel"}), ("level-none", ("pre_tokenizer",), byte_level)))
    yield "merge-unknown", changed(whole, ("model", "merges"), ["a c"])
    yield "expression", changed(whole, (*pre, 0, "pattern", "Regex"), "[")
    yield "list", "[]"


def encode():
    yield "words", "the training in rain ran running  \n\n  a<|endoftext|><|endoftext|>"
    yield "bytes", bytes(range(32)) + "\u00ad\u2603\u4f60\u597d".encode()
    for number, bytes_ in enumerate((b"\xff", b"a\xe2\x82", b"\xed\xa0\x80")):
        yield f"not-utf8-{number}", bytes_
