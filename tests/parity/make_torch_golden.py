#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/torch_*.txt and torch_*.gradients.f32: tiny GPTs and Llamas trained by plain PyTorch.

An independent implementation of what the engine trains: PyTorch's layers, autograd, AdamW and gradient clipping. Weights
and tokens are drawn with the same counter-based generator (Philox4x32-10, Salmon et al. 2011), here in numpy, so that no
build is needed. How Llama 3 stretches its rotary positions comes from transformers. Made with Python 3.11, torch 2.15.0
(run on the CPU), numpy 2.4.6 and transformers 5.23.0:

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy transformers
    /tmp/torch/bin/python tests/parity/make_torch_golden.py [NAME...]

torch_NAME.txt has a line "versions ...", a line "FIELD VALUE" for each field of the configuration that is set, ten lines "loss STEP
VALUE" and a line "tensor NAME ELEMENTS" for each gradient of the first step; torch_NAME.gradients.f32 has these
gradients in that order, row-major, little-endian float32.
"""

import dataclasses
import math
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional

SEED, TOKEN_SEED, STEPS, BATCH = 1, 99, 10, 4
LEARNING_RATE, BETAS, EPSILON, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 0.25


@dataclasses.dataclass(frozen=True)
class Model:
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn_hidden: int
    sequence_length: int
    vocab_size: int
    rotary_base: int = 10000
    norm_epsilon: float = 1e-5
    tied_head: int = -1  # -1: as the family
    # As in `rope_type: llama3` of transformers; 0: none.
    rotary_factor: float = 0
    rotary_low: float = 1
    rotary_high: float = 4
    rotary_original: int = 0

    @property
    def gpt(self):
        return self.family == "gpt"

    @property
    def tied(self):
        return self.gpt if self.tied_head < 0 else self.tied_head == 1

    @property
    def head_dim(self):
        return self.hidden // self.heads

    @property
    def padded_vocab(self):
        return (self.vocab_size + 127) // 128 * 128


MODELS = {
    "gpt": Model("gpt", layers=2, hidden=32, heads=4, kv_heads=4, ffn_hidden=128, sequence_length=16, vocab_size=61),
    # Odd sizes, a vocabulary that crosses a multiple of 128.
    "gpt_odd": Model("gpt", layers=3, hidden=18, heads=6, kv_heads=6, ffn_hidden=26, sequence_length=11, vocab_size=131),
    "gpt_untied": Model("gpt", layers=2, hidden=24, heads=4, kv_heads=4, ffn_hidden=56, sequence_length=12, vocab_size=61,
                        norm_epsilon=1e-6, tied_head=0),
    "llama_grouped": Model("llama", layers=2, hidden=32, heads=8, kv_heads=4, ffn_hidden=44, sequence_length=16,
                           vocab_size=61),
    # A short base turns every pair of columns visibly within a short sequence.
    "llama": Model("llama", layers=3, hidden=24, heads=4, kv_heads=4, ffn_hidden=32, sequence_length=12, vocab_size=101,
                   rotary_base=50),
    # As Llama 3.2 1B. One pair of columns keeps its wavelength, one lies in between, two are stretched whole.
    "llama_tied": Model("llama", layers=2, hidden=32, heads=4, kv_heads=2, ffn_hidden=44, sequence_length=16, vocab_size=61,
                        rotary_base=100, norm_epsilon=1e-6, tied_head=1, rotary_factor=8.0, rotary_original=32),
    # Layers for two folded stages, four chunks.
    "gpt_deep": Model("gpt", layers=4, hidden=16, heads=4, kv_heads=4, ffn_hidden=40, sequence_length=8, vocab_size=61),
    "llama_deep": Model("llama", layers=4, hidden=16, heads=4, kv_heads=2, ffn_hidden=24, sequence_length=8, vocab_size=61,
                        rotary_base=50),
}


def philox(key, low, high):
    """Four arrays of 32-bit draws for a key, an array of low counters and a high counter."""
    mask = np.uint64(0xFFFFFFFF)
    low = np.asarray(low, dtype=np.uint64)
    high = np.full_like(low, high)
    c = [low & mask, low >> np.uint64(32), high & mask, high >> np.uint64(32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & mask,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def uniform(bits):
    return (bits >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def normal(shape, std, index):
    bits = philox(SEED, np.arange(math.prod(shape)), index)
    u = np.float32(1) - uniform(bits[0])
    angle = np.float32(2 * math.pi) * uniform(bits[1])
    return (np.float32(std) * np.sqrt(np.float32(-2) * np.log(u)) * np.cos(angle)).reshape(shape)


def layer_shapes(m):
    """Name, shape, initial value or standard deviation of a layer's parameters; biases are GPT's."""
    residual = 0.02 / math.sqrt(2 * m.layers)
    # Per key/value head: its queries, its key, its value.
    qkv = (m.kv_heads, (m.heads // m.kv_heads + 2) * m.head_dim)
    fc1 = (m.ffn_hidden,) if m.gpt else (2, m.ffn_hidden)  # gate, up
    table = [("ln1.weight", (m.hidden,), "one"), ("ln1.bias", (m.hidden,), "zero"),
             ("attention.qkv.weight", qkv + (m.hidden,), 0.02), ("attention.qkv.bias", qkv, "zero"),
             ("attention.proj.weight", (m.hidden, m.hidden), residual), ("attention.proj.bias", (m.hidden,), "zero"),
             ("ln2.weight", (m.hidden,), "one"), ("ln2.bias", (m.hidden,), "zero"),
             ("mlp.fc1.weight", fc1 + (m.hidden,), 0.02), ("mlp.fc1.bias", fc1, "zero"),
             ("mlp.fc2.weight", (m.hidden, m.ffn_hidden), residual), ("mlp.fc2.bias", (m.hidden,), "zero")]
    return [row for row in table if m.gpt or not row[0].endswith("bias")]


def parameters(m):
    """Name to initial tensor, in the engine's order."""
    table = [("embedding.token.weight", (m.padded_vocab, m.hidden), 0.02)]
    if m.gpt:
        table += [("embedding.position.weight", (m.sequence_length, m.hidden), 0.02)]
    for layer in range(m.layers):
        table += [(f"layers.{layer}.{name}", shape, init) for name, shape, init in layer_shapes(m)]
    table += [("final_norm.weight", (m.hidden,), "one")]
    table += [("final_norm.bias", (m.hidden,), "zero")] if m.gpt else []
    table += [] if m.tied else [("head.weight", (m.padded_vocab, m.hidden), 0.02)]
    result = {}
    for index, (name, shape, init) in enumerate(table):
        if init == "one":
            values = np.ones(shape, np.float32)
        elif init == "zero":
            values = np.zeros(shape, np.float32)
        else:
            values = normal(shape, init, index)
        if name in ("embedding.token.weight", "head.weight"):
            values[m.vocab_size:] = 0
        result[name] = torch.tensor(values, requires_grad=True)
    return result


def batch(m):
    sequence, position = np.divmod(np.arange(BATCH * (m.sequence_length + 1)), m.sequence_length + 1)
    draws = philox(TOKEN_SEED, sequence * 1000 + position, 0)[0]
    tokens = (draws % np.uint64(m.vocab_size)).astype(np.int64).reshape(BATCH, m.sequence_length + 1)
    return torch.tensor(tokens[:, :-1]), torch.tensor(tokens[:, 1:])


def frequencies(m):
    """Radians that each pair of columns turns a position further on."""
    half = m.head_dim // 2
    if m.rotary_factor == 0:
        return m.rotary_base ** (-torch.arange(half, dtype=torch.float64) / half)
    import transformers
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    rope = {"rope_type": "llama3", "rope_theta": float(m.rotary_base), "factor": m.rotary_factor, "low_freq_factor": m.rotary_low,
            "high_freq_factor": m.rotary_high, "original_max_position_embeddings": m.rotary_original}
    config = transformers.LlamaConfig(hidden_size=m.hidden, num_attention_heads=m.heads, rope_parameters=rope)
    return ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")[0].to(torch.float64)


def rotate(m, x):
    """x is [batch, head, position, column]; column i and i + half are the parts of a complex number."""
    half = m.head_dim // 2
    angle = torch.outer(torch.arange(m.sequence_length, dtype=torch.float64), frequencies(m))
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
    turned = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat([turned.real, turned.imag], dim=-1)


def attention(m, w, y):
    shape = (BATCH, m.sequence_length, m.kv_heads, m.heads // m.kv_heads + 2, m.head_dim)
    bias = w["attention.qkv.bias"].flatten() if m.gpt else None
    qkv = functional.linear(y, w["attention.qkv.weight"].flatten(0, 1), bias).view(shape)
    q, k, v = qkv[..., :-2, :], qkv[..., -2, :], qkv[..., -1, :]
    q = q.flatten(2, 3).transpose(1, 2)
    # Every query of a group has its key and value.
    k, v = (t.repeat_interleave(m.heads // m.kv_heads, dim=2).transpose(1, 2) for t in (k, v))
    if not m.gpt:
        q, k = rotate(m, q), rotate(m, k)
    context = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    context = context.transpose(1, 2).flatten(2)
    return functional.linear(context, w["attention.proj.weight"], w.get("attention.proj.bias"))


def mlp(m, w, y):
    if m.gpt:
        a = functional.gelu(functional.linear(y, w["mlp.fc1.weight"], w["mlp.fc1.bias"]), approximate="tanh")
    else:
        gate, up = (functional.linear(y, part) for part in w["mlp.fc1.weight"])
        a = functional.silu(gate) * up
    return functional.linear(a, w["mlp.fc2.weight"], w.get("mlp.fc2.bias"))


def forward(m, p, tokens):
    def norm(x, name):
        if m.gpt:
            return functional.layer_norm(x, (m.hidden,), p[name + ".weight"], p[name + ".bias"], eps=m.norm_epsilon)
        return functional.rms_norm(x, (m.hidden,), p[name + ".weight"], eps=m.norm_epsilon)

    x = p["embedding.token.weight"][tokens]
    if m.gpt:
        x = x + p["embedding.position.weight"]
    for layer in range(m.layers):
        prefix = f"layers.{layer}."
        w = {k.removeprefix(prefix): v for k, v in p.items() if k.startswith(prefix)}
        x = x + attention(m, w, norm(x, prefix + "ln1"))
        x = x + mlp(m, w, norm(x, prefix + "ln2"))
    head = p["embedding.token.weight" if m.tied else "head.weight"]
    return functional.linear(norm(x, "final_norm"), head)[..., :m.vocab_size]  # padded columns take no part


def train(name, m):
    p = parameters(m)
    matrices = [v for k, v in p.items() if k.endswith("weight") and "norm" not in k and ".ln" not in k]
    others = [v for v in p.values() if not any(v is matrix for matrix in matrices)]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)
    lines = [f"versions python={sys.version.split()[0]} torch={torch.__version__} numpy={np.__version__}"]
    lines += [f"{field.name} {value}" for field in dataclasses.fields(m)
              if (value := getattr(m, field.name)) != field.default]
    tokens, targets = batch(m)  # the same in every step: the loss falls, so that the optimizer shows
    for step in range(STEPS):
        loss = functional.cross_entropy(forward(m, p, tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        lines.append(f"loss {step} {loss.item():.9g}")
        if step == 0:
            tensors = [f"tensor {k} {v.numel()}" for k, v in p.items()]
            gradients = b"".join(v.grad.numpy().astype("<f4").tobytes() for v in p.values())
        torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP)
        optimizer.step()
    path = pathlib.Path(__file__).resolve().parent.parent / "golden" / f"torch_{name}"
    path.with_suffix(".txt").write_text("\n".join(lines + tensors) + "\n")
    path.with_suffix(".gradients.f32").write_bytes(gradients)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or MODELS:
        train(name, MODELS[name])
