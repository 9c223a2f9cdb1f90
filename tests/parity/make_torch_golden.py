#!/usr/bin/env python3
"""Writes tests/golden/torch_gpt.txt and torch_gpt.gradients.f32: a tiny GPT trained by plain PyTorch.

An independent implementation of what the engine trains: its own forward, PyTorch's autograd, AdamW and gradient
clipping. Weights and tokens are drawn with the same counter-based generator (Philox4x32-10, Salmon et al. 2011), here
in numpy, so that no build is needed. Made with Python 3.11, torch 2.15.0 (run on the CPU) and numpy 2.4.6:

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    /tmp/torch/bin/python tests/parity/make_torch_golden.py

torch_gpt.txt has a line "versions ...", ten lines "loss STEP VALUE" and a line "tensor NAME ELEMENTS" for each gradient
of the first step; torch_gpt.gradients.f32 has these gradients in that order, row-major, little-endian float32.
"""

import math
import pathlib
import sys

import numpy as np
import torch

LAYERS, HIDDEN, HEADS, FFN, SEQUENCE, VOCAB, BATCH, STEPS = 2, 32, 4, 128, 16, 61, 4, 10
PADDED = (VOCAB + 127) // 128 * 128
SEED, TOKEN_SEED = 1, 99
LEARNING_RATE, BETAS, EPSILON, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 0.25


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


def parameters():
    """Name to initial tensor, in the engine's order."""
    residual = 0.02 / math.sqrt(2 * LAYERS)
    table = [("embedding.token.weight", (PADDED, HIDDEN), 0.02), ("embedding.position.weight", (SEQUENCE, HIDDEN), 0.02)]
    for layer in range(LAYERS):
        table += [(f"layers.{layer}.{name}", shape, init) for name, shape, init in [
            ("ln1.weight", (HIDDEN,), "one"), ("ln1.bias", (HIDDEN,), "zero"),
            ("attention.qkv.weight", (3, HIDDEN, HIDDEN), 0.02), ("attention.qkv.bias", (3, HIDDEN), "zero"),
            ("attention.proj.weight", (HIDDEN, HIDDEN), residual), ("attention.proj.bias", (HIDDEN,), "zero"),
            ("ln2.weight", (HIDDEN,), "one"), ("ln2.bias", (HIDDEN,), "zero"),
            ("mlp.fc1.weight", (FFN, HIDDEN), 0.02), ("mlp.fc1.bias", (FFN,), "zero"),
            ("mlp.fc2.weight", (HIDDEN, FFN), residual), ("mlp.fc2.bias", (HIDDEN,), "zero")]]
    table += [("final_norm.weight", (HIDDEN,), "one"), ("final_norm.bias", (HIDDEN,), "zero")]
    result = {}
    for index, (name, shape, init) in enumerate(table):
        if init == "one":
            values = np.ones(shape, np.float32)
        elif init == "zero":
            values = np.zeros(shape, np.float32)
        else:
            values = normal(shape, init, index)
        if name == "embedding.token.weight":
            values[VOCAB:] = 0
        result[name] = torch.tensor(values, requires_grad=True)
    return result


def batch():
    sequence, position = np.divmod(np.arange(BATCH * (SEQUENCE + 1)), SEQUENCE + 1)
    draws = philox(TOKEN_SEED, sequence * 1000 + position, 0)[0]
    tokens = torch.tensor((draws % np.uint64(VOCAB)).astype(np.int64).reshape(BATCH, SEQUENCE + 1))
    return tokens[:, :-1], tokens[:, 1:]


def forward(p, tokens):
    def norm(x, name):
        return torch.nn.functional.layer_norm(x, (HIDDEN,), p[name + ".weight"], p[name + ".bias"], eps=1e-5)

    x = p["embedding.token.weight"][tokens] + p["embedding.position.weight"]
    causal = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool).tril()
    for layer in range(LAYERS):
        w = {k.removeprefix(f"layers.{layer}."): v for k, v in p.items() if k.startswith(f"layers.{layer}.")}
        y = norm(x, f"layers.{layer}.ln1")
        q, k, v = (torch.einsum("bsh,oh->bso", y, w["attention.qkv.weight"][i]) + w["attention.qkv.bias"][i]
                   for i in range(3))
        q, k, v = (t.view(BATCH, SEQUENCE, HEADS, HIDDEN // HEADS).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(HIDDEN // HEADS)
        context = scores.masked_fill(~causal, -math.inf).softmax(-1) @ v
        context = context.transpose(1, 2).reshape(BATCH, SEQUENCE, HIDDEN)
        x = x + context @ w["attention.proj.weight"].T + w["attention.proj.bias"]
        y = norm(x, f"layers.{layer}.ln2") @ w["mlp.fc1.weight"].T + w["mlp.fc1.bias"]
        x = x + torch.nn.functional.gelu(y, approximate="tanh") @ w["mlp.fc2.weight"].T + w["mlp.fc2.bias"]
    logits = norm(x, "final_norm") @ p["embedding.token.weight"].T
    return logits[..., :VOCAB]  # padded columns take no part


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    p = parameters()
    decayed = [v for k, v in p.items() if k.endswith(("qkv.weight", "proj.weight", "fc1.weight", "fc2.weight")) or
               k.startswith("embedding.")]
    others = [v for v in p.values() if not any(v is d for d in decayed)]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)
    folder = pathlib.Path(__file__).resolve().parent.parent / "golden"
    lines = [f"versions python={sys.version.split()[0]} torch={torch.__version__} numpy={np.__version__}"]
    tokens, targets = batch()  # the same in every step: the loss falls, so that the optimizer shows
    for step in range(STEPS):
        loss = torch.nn.functional.cross_entropy(forward(p, tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        lines.append(f"loss {step} {loss.item():.9g}")
        if step == 0:
            tensors = [f"tensor {k} {v.numel()}" for k, v in p.items()]
            (folder / "torch_gpt.gradients.f32").write_bytes(
                b"".join(v.grad.numpy().astype("<f4").tobytes() for v in p.values()))
        torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP)
        optimizer.step()
    (folder / "torch_gpt.txt").write_text("\n".join(lines + tensors) + "\n")


if __name__ == "__main__":
    main()
