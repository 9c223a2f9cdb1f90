# SPDX-License-Identifier: Apache-2.0
"""The step of torch_peer.py: a model and its tensor parallelism in PyTorch.

GPT: learned positions, pre-norm LayerNorm, GELU by tanh, biases, tied head. Llama: rotary
positions, RMSNorm, SwiGLU, grouped queries, no bias, a head of its own. Both have Megatron's tensor
parallelism (Shoeybi et al. 2019) over torch.distributed's gloo, and cross-entropy over a vocabulary
cut over the ranks.
"""

import functools
import math
import sys
import time
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F

ROTARY_BASE = 10000.0

# The dimension in which a tensor is cut over the ranks, by the end of its name.
CUT = {"token": 0, "head": 0, "qkv.weight": 0, "qkv.bias": 0, "fc1.weight": 0, "fc1.bias": 0,
       "proj.weight": 1, "fc2.weight": 1}


class Shape(NamedTuple):
    family: str  # gpt or llama
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    sequence: int
    batch: int
    vocab: int

    @property
    def llama(self):
        return self.family == "llama"

    @property
    def head_dim(self):
        return self.hidden // self.heads

    @property
    def tokens(self):
        return self.batch * self.sequence


class Wire:
    """All-reduces over the ranks, in `dtype` on the wire."""

    def __init__(self, dtype, overlap):
        self.dtype, self.overlap = dtype, overlap

    def start(self, tensor, op=dist.ReduceOp.SUM, exact=False):
        """Reduces in place. Done once what it returns has been called; not before, if `overlap`."""
        sent = tensor if exact or tensor.dtype == self.dtype else tensor.to(self.dtype)
        work = dist.all_reduce(sent, op, async_op=self.overlap)

        def finish():
            if work is not None:
                work.wait()
            if sent is not tensor:
                tensor.copy_(sent)

        return finish

    def all_reduce(self, tensor, op=dist.ReduceOp.SUM, exact=False):
        self.start(tensor, op, exact)()
        return tensor


class ColumnLinear(torch.autograd.Function):
    """x [n,k] times w [c,k], cut by c: the gradient of x is a sum over the ranks."""

    @staticmethod
    def forward(ctx, x, w, b, wire):
        ctx.save_for_backward(x, w)
        ctx.wire, ctx.bias = wire, b is not None
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dx = dy @ w
        finish = ctx.wire.start(dx)
        dw = dy.t() @ x
        db = dy.sum(0) if ctx.bias else None
        finish()
        return dx, dw, db, None


class SumOverRanks(torch.autograd.Function):
    """Behind a row-parallel linear or the embedding; its gradient is the same on every rank."""

    @staticmethod
    def forward(ctx, x, wire):
        return wire.all_reduce(x.clone())

    @staticmethod
    def backward(ctx, dy):
        return dy, None


class CrossEntropy(torch.autograd.Function):
    """Mean loss from logits [n,v] of which this rank has columns [first, first + v)."""

    @staticmethod
    def forward(ctx, logits, targets, first, wire):
        top = wire.all_reduce(logits.max(-1).values, dist.ReduceOp.MAX, exact=True)
        shifted = logits - top[:, None]
        local = targets - first
        mine = (local >= 0) & (local < logits.shape[1])
        column = local.clamp(0, logits.shape[1] - 1)[:, None]
        exp = shifted.exp()
        sums = torch.stack((exp.sum(-1), shifted.gather(1, column)[:, 0] * mine))
        wire.all_reduce(sums, exact=True)
        ctx.save_for_backward(exp, sums, mine, column)
        return (sums[0].log() - sums[1]).mean()

    @staticmethod
    def backward(ctx, dloss):
        exp, sums, mine, column = ctx.saved_tensors
        d = exp / sums[0][:, None]
        d.scatter_add_(1, column, -mine.to(d.dtype)[:, None])
        return d * (dloss / d.shape[0]), None, None, None


def full_parameters(shape):
    """Name to initial tensor, the same on every rank."""
    generator = torch.Generator().manual_seed(1)
    h, f = shape.hidden, shape.ffn
    qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    residual = 0.02 / math.sqrt(2 * shape.layers)

    def normal(std, *size):
        return std * torch.randn(*size, generator=generator)

    fc1 = (2, f, h) if shape.llama else (f, h)  # of SwiGLU: gate and up, in one product
    p = {"token": normal(0.02, shape.vocab, h)}
    if shape.llama:
        p["head"] = normal(0.02, shape.vocab, h)
    else:
        p["position"] = normal(0.02, shape.sequence, h)
    for layer in range(shape.layers):
        p |= {f"{layer}.{name}": tensor for name, tensor in {
            "ln1.weight": torch.ones(h), "ln1.bias": torch.zeros(h),
            "qkv.weight": normal(0.02, qkv, h), "qkv.bias": torch.zeros(qkv),
            "proj.weight": normal(residual, h, h), "proj.bias": torch.zeros(h),
            "ln2.weight": torch.ones(h), "ln2.bias": torch.zeros(h),
            "fc1.weight": normal(0.02, *fc1), "fc1.bias": torch.zeros(f),
            "fc2.weight": normal(residual, h, f), "fc2.bias": torch.zeros(h)}.items()}
    p |= {"norm.weight": torch.ones(h), "norm.bias": torch.zeros(h)}
    return {name: t for name, t in p.items() if not (shape.llama and name.endswith(".bias"))}


def shard(name, tensor, ranks, rank):
    dimension = next((d for end, d in CUT.items() if name.endswith(end)), None)
    if tensor.dim() == 3:
        dimension = 1  # gate and up are cut alike
    part = tensor if dimension is None else tensor.chunk(ranks, dimension)[rank]
    return part.clone(memory_format=torch.contiguous_format)


def parameters(shape, ranks, rank):
    return {name: shard(name, tensor, ranks, rank).requires_grad_()
            for name, tensor in full_parameters(shape).items()}


def batch(shape, index=0):
    """Tokens [batch, sequence] and targets [batch * sequence] of a micro-batch."""
    generator = torch.Generator().manual_seed(2 + index)
    drawn = torch.randint(shape.vocab, (shape.batch, shape.sequence + 1), generator=generator)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].flatten()


@functools.cache
def rotations(sequence, dim):
    """Cosines and sines [sequence, dim] that turn the halves of a head (Su et al. 2021)."""
    angles = torch.outer(torch.arange(sequence), ROTARY_BASE ** (-torch.arange(dim // 2) / (dim // 2)))
    return angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)


def rotate(x):
    """x [batch, heads, sequence, dim] by its positions."""
    cos, sin = rotations(x.shape[2], x.shape[3])
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def attention(qkv, shape, ranks):
    """qkv [tokens, kv_heads x (queries, key, value) x dim] of this rank's heads."""
    kv, group = shape.kv_heads // ranks, shape.heads // shape.kv_heads
    parts = qkv.view(shape.batch, shape.sequence, kv, group + 2, shape.head_dim)
    q, k, v = (x.flatten(2, 3).transpose(1, 2) for x in parts.split((group, 1, 1), 3))
    if shape.llama:
        q, k = rotate(q), rotate(k)
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return context.transpose(1, 2).reshape(shape.tokens, -1)


def norm(p, name, x, shape):
    weight = p[name + ".weight"]
    if shape.llama:
        return F.rms_norm(x, (shape.hidden,), weight, eps=1e-5)
    return F.layer_norm(x, (shape.hidden,), weight, p[name + ".bias"], eps=1e-5)


def column(x, w, b, ranks, wire):
    w = w.flatten(0, -2)
    return F.linear(x, w, b) if ranks == 1 else ColumnLinear.apply(x, w, b, wire)


def row(x, w, b, ranks, wire):
    y = F.linear(x, w) if ranks == 1 else SumOverRanks.apply(F.linear(x, w), wire)
    return y if b is None else y + b


def activation(u, shape):
    if not shape.llama:
        return F.gelu(u, approximate="tanh")
    gate, up = u.chunk(2, -1)
    return F.silu(gate) * up


def block(p, layer, x, shape, ranks, wire):
    """One layer, of the parameters whose names begin with its number."""
    w = {k.removeprefix(f"{layer}."): v for k, v in p.items() if k.startswith(f"{layer}.")}
    qkv = column(norm(w, "ln1", x, shape), w["qkv.weight"], w.get("qkv.bias"), ranks, wire)
    x = x + row(attention(qkv, shape, ranks), w["proj.weight"], w.get("proj.bias"), ranks, wire)
    u = column(norm(w, "ln2", x, shape), w["fc1.weight"], w.get("fc1.bias"), ranks, wire)
    return x + row(activation(u, shape), w["fc2.weight"], w.get("fc2.bias"), ranks, wire)


def forward(p, shape, ranks, rank, wire, tokens, targets):
    """The mean loss. With one rank plain PyTorch, without any of the classes above."""
    first = rank * (shape.vocab // ranks)
    if ranks == 1:
        x = F.embedding(tokens.flatten(), p["token"])
    else:
        local = tokens.flatten() - first
        mine = (local >= 0) & (local < p["token"].shape[0])
        x = F.embedding(local.clamp(0, p["token"].shape[0] - 1), p["token"]) * mine[:, None]
        x = SumOverRanks.apply(x, wire)
    if not shape.llama:
        x = (x.view(-1, shape.sequence, shape.hidden) + p["position"]).view(-1, shape.hidden)
    for layer in range(shape.layers):
        x = block(p, layer, x, shape, ranks, wire)
    head = p["head" if shape.llama else "token"]
    logits = column(norm(p, "norm", x, shape), head, None, ranks, wire)
    if ranks == 1:
        return F.cross_entropy(logits, targets)
    return CrossEntropy.apply(logits, targets, first, wire)


def accumulate(batches, forward_of):
    """Adds up the gradients of micro-batches. Returns the mean loss and the seconds of forward and
    of backward."""
    loss, t_forward, t_backward = 0.0, 0.0, 0.0
    for tokens, targets in batches:
        begin = time.perf_counter()
        mine = forward_of(tokens, targets)
        middle = time.perf_counter()
        (mine / len(batches)).backward()
        t_forward += middle - begin
        t_backward += time.perf_counter() - middle
        loss += mine.item() / len(batches)
    return loss, t_forward, t_backward


def check(tiny, ranks, rank, wire, tolerance, micro_batches):
    """Largest difference from one rank's plain autograd, relative to each tensor's norm."""
    batches = [batch(tiny, index) for index in range(micro_batches)]
    whole, mine = parameters(tiny, 1, 0), parameters(tiny, ranks, rank)
    expected, *_ = accumulate(batches, lambda *b: forward(whole, tiny, 1, 0, None, *b))
    found, *_ = accumulate(batches, lambda *b: forward(mine, tiny, ranks, rank, wire, *b))
    worst = abs(found - expected) / expected
    for name, p in mine.items():
        if name.endswith("qkv.bias"):
            continue  # the key's part is zero by mathematics, so only rounding would be compared
        e = shard(name, whole[name].grad, ranks, rank)
        worst = max(worst, ((p.grad - e).norm() / e.norm()).item())
    largest = torch.tensor(worst)
    dist.all_reduce(largest, dist.ReduceOp.MAX)  # every rank goes on, or none
    if not largest.item() <= tolerance:
        sys.exit(f"torch_peer: loss or gradients differ from one rank's by {largest.item():.3g} of "
                 f"their norm, expected at most {tolerance:g}")
    return largest.item()
