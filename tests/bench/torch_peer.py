#!/usr/bin/env python3
"""The step that `stretto-bench overlap` times, in PyTorch: the peer of the overlap benchmark.

A GPT (learned positions, pre-norm LayerNorm, GELU by tanh, tied head and cross-entropy over a
vocabulary cut over the ranks) with Megatron's tensor parallelism (Shoeybi et al. 2019) over
torch.distributed's gloo. With two ranks or more the variants are

  sync   every all-reduce is waited for where it is called
  async  the all-reduce of a column-parallel linear's input gradient runs under its weight gradient

and with one rank `eager` and `compile` (torch.compile). Times are seconds, medians over repeats
taken in turn (sync async sync async ...), each the slowest rank's; t_step is forward and backward,
the optimizer is timed apart. One process per rank, one thread each; pin it from outside. Prints one
JSON object on rank 0. Before anything is timed, every variant's loss and gradients on a tiny model
must equal those of plain autograd on one rank.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import time
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Shape(NamedTuple):
    layers: int
    hidden: int
    heads: int
    sequence: int
    batch: int
    vocab: int

    @property
    def tokens(self):
        return self.batch * self.sequence


TINY = Shape(layers=2, hidden=64, heads=4, sequence=16, batch=2, vocab=32)

# The dimension in which a tensor is cut over the ranks, by the end of its name.
CUT = {"token": 0, "qkv.weight": 0, "qkv.bias": 0, "fc1.weight": 0, "fc1.bias": 0,
       "proj.weight": 1, "fc2.weight": 1}


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
    h, f = shape.hidden, 4 * shape.hidden
    residual = 0.02 / math.sqrt(2 * shape.layers)

    def normal(std, *size):
        return std * torch.randn(*size, generator=generator)

    p = {"token": normal(0.02, shape.vocab, h), "position": normal(0.02, shape.sequence, h)}
    for layer in range(shape.layers):
        p |= {f"{layer}.{name}": tensor for name, tensor in {
            "ln1.weight": torch.ones(h), "ln1.bias": torch.zeros(h),
            "qkv.weight": normal(0.02, 3 * h, h), "qkv.bias": torch.zeros(3 * h),
            "proj.weight": normal(residual, h, h), "proj.bias": torch.zeros(h),
            "ln2.weight": torch.ones(h), "ln2.bias": torch.zeros(h),
            "fc1.weight": normal(0.02, f, h), "fc1.bias": torch.zeros(f),
            "fc2.weight": normal(residual, h, f), "fc2.bias": torch.zeros(h)}.items()}
    return p | {"norm.weight": torch.ones(h), "norm.bias": torch.zeros(h)}


def shard(name, tensor, ranks, rank):
    dimension = next((d for end, d in CUT.items() if name.endswith(end)), None)
    part = tensor if dimension is None else tensor.chunk(ranks, dimension)[rank]
    return part.clone(memory_format=torch.contiguous_format)


def parameters(shape, ranks, rank):
    return {name: shard(name, tensor, ranks, rank).requires_grad_()
            for name, tensor in full_parameters(shape).items()}


def batch(shape):
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randint(shape.vocab, (shape.batch, shape.sequence + 1), generator=generator)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].flatten()


def forward(p, shape, ranks, rank, wire, tokens, targets):
    """The mean loss. With one rank plain PyTorch, without any of the classes above."""
    h, heads = shape.hidden, shape.heads // ranks
    first = rank * (shape.vocab // ranks)

    def norm(x, name):
        return F.layer_norm(x, (h,), p[name + ".weight"], p[name + ".bias"], eps=1e-5)

    def column(x, w, b=None):
        return F.linear(x, w, b) if ranks == 1 else ColumnLinear.apply(x, w, b, wire)

    def row(x, w):
        return F.linear(x, w) if ranks == 1 else SumOverRanks.apply(F.linear(x, w), wire)

    if ranks == 1:
        x = F.embedding(tokens.flatten(), p["token"])
    else:
        local = tokens.flatten() - first
        mine = (local >= 0) & (local < p["token"].shape[0])
        x = F.embedding(local.clamp(0, p["token"].shape[0] - 1), p["token"]) * mine[:, None]
        x = SumOverRanks.apply(x, wire)
    x = (x.view(-1, shape.sequence, h) + p["position"]).view(-1, h)
    for layer in range(shape.layers):
        w = {k.removeprefix(f"{layer}."): v for k, v in p.items() if k.startswith(f"{layer}.")}
        qkv = column(norm(x, f"{layer}.ln1"), w["qkv.weight"], w["qkv.bias"])
        q, k, v = qkv.view(shape.batch, shape.sequence, heads, 3, -1).permute(3, 0, 2, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        context = context.transpose(1, 2).reshape(shape.tokens, -1)
        x = x + row(context, w["proj.weight"]) + w["proj.bias"]
        u = column(norm(x, f"{layer}.ln2"), w["fc1.weight"], w["fc1.bias"])
        x = x + row(F.gelu(u, approximate="tanh"), w["fc2.weight"]) + w["fc2.bias"]
    logits = column(norm(x, "norm"), p["token"])
    if ranks == 1:
        return F.cross_entropy(logits, targets)
    return CrossEntropy.apply(logits, targets, first, wire)


def check(ranks, rank, wire, tolerance):
    """Largest difference from one rank's plain autograd, relative to each tensor's norm."""
    tokens, targets = batch(TINY)
    whole, mine = parameters(TINY, 1, 0), parameters(TINY, ranks, rank)
    expected = forward(whole, TINY, 1, 0, None, tokens, targets)
    found = forward(mine, TINY, ranks, rank, wire, tokens, targets)
    expected.backward()
    found.backward()
    worst = abs(found.item() - expected.item()) / expected.item()
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


class Timed:
    """One variant of the step, with parameters and an optimizer of its own."""

    def __init__(self, name, options, shape):
        self.name, self.options, self.shape = name, options, shape
        self.wire = Wire(options.wire_dtype, overlap=name == "async")
        self.parameters = parameters(shape, options.ranks, options.rank)
        self.optimizer = torch.optim.AdamW(self.parameters.values(), lr=1e-4, fused=True)
        self.forward = torch.compile(forward) if name == "compile" else forward
        self.inputs = batch(shape)
        self.losses, self.samples = [], []

    def step(self):
        o = self.options
        if o.ranks > 1:
            dist.barrier()
        times = [time.perf_counter()]
        loss = self.forward(self.parameters, self.shape, o.ranks, o.rank, self.wire, *self.inputs)
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        self.optimizer.step()
        self.optimizer.zero_grad()
        times.append(time.perf_counter())
        seconds = torch.tensor([times[1] - times[0], times[2] - times[1], times[2] - times[0],
                                times[3] - times[2]], dtype=torch.float64)
        if o.ranks > 1:
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
        self.losses.append(loss.item())
        self.samples.append(seconds.tolist())

    def report(self):
        timed = self.samples[self.options.warmup:]
        t_forward, t_backward, t_step, t_optimizer = map(statistics.median, zip(*timed))
        return {"name": self.name, "t_forward": t_forward, "t_backward": t_backward,
                "t_step": t_step, "t_optimizer": t_optimizer,
                "tokens_per_second": self.shape.tokens / t_step,
                "loss_first": self.losses[0], "loss_last": self.losses[-1],
                "samples": timed}  # rows of forward, backward, both, optimizer


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--ranks", type=int, default=1)
    add("--rank", type=int, default=0)
    add("--rendezvous", type=pathlib.Path, help="folder that all ranks see")
    add("--interface", help="network interface to use, as eth0")
    add("--variants", help="sync,async or eager,compile (default: both)")
    add("--wire", choices=["f32", "bf16"], default="f32", help="type of what is sent")
    add("--repeats", type=int, default=5)
    add("--warmup", type=int, default=1, help="steps of each variant that are not counted")
    add("--layers", type=int, default=6)
    add("--hidden", type=int, default=768)
    add("--heads", type=int, default=12)
    add("--sequence", type=int, default=256)
    add("--batch", type=int, default=8)
    add("--vocab", type=int, default=512)
    add("--json", type=pathlib.Path, help="also write the JSON here")
    o = parser.parse_args()
    known = ["eager", "compile"] if o.ranks == 1 else ["sync", "async"]
    o.variants = o.variants.split(",") if o.variants else known
    for name in o.variants:
        if name not in known:
            parser.error(f"--variants: found {name}, expected {' or '.join(known)} "
                         f"with {o.ranks} rank(s)")
    if o.ranks > 1 and o.rendezvous is None:
        parser.error("--rendezvous: expected a folder with --ranks above 1")
    for name in ("heads", "vocab"):
        if getattr(o, name) % o.ranks:
            parser.error(f"--{name}: found {getattr(o, name)}, expected a multiple of --ranks")
    o.wire_dtype = torch.bfloat16 if o.wire == "bf16" else torch.float32
    return o


def measure(o):
    """Variant name to its report, or to the reason why there is none."""
    shape = Shape(o.layers, o.hidden, o.heads, o.sequence, o.batch, o.vocab)
    results, running = {}, []
    for name in o.variants:
        variant = Timed(name, o, shape)
        try:
            for _ in range(o.warmup):
                variant.step()
        except Exception as error:  # no compiler that torch.compile could use, for one
            if name != "compile":
                raise
            lines = str(error).strip().splitlines() or [""]
            results[name] = {"name": name, "skipped": f"{type(error).__name__}: {lines[0]}"}
            continue
        running.append(variant)
    for _ in range(o.repeats):
        for variant in running:
            variant.step()
    return results | {variant.name: variant.report() for variant in running}


def main():
    o = parse()
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    checked = {}
    if o.ranks > 1:
        if o.interface:
            os.environ["GLOO_SOCKET_IFNAME"] = o.interface
        dist.init_process_group("gloo", init_method=f"file://{o.rendezvous.resolve()}/torch_peer",
                                rank=o.rank, world_size=o.ranks)
        # bf16 keeps 8 bits of each summand and of the sum: 2^-8 for each collective on the way.
        tolerance = 1e-5 if o.wire == "f32" else 2**-8 * 4 * TINY.layers
        for name in o.variants:
            checked[name] = check(o.ranks, o.rank, Wire(o.wire_dtype, name == "async"), tolerance)
    results = measure(o)
    if o.rank == 0:
        report = {"peer": "torch", "version": torch.__version__, "ranks": o.ranks, "dtype": "f32",
                  "wire": o.wire, "layers": o.layers, "hidden": o.hidden, "heads": o.heads,
                  "sequence": o.sequence, "batch": o.batch, "vocab": o.vocab,
                  "loss_expected_first": math.log(o.vocab), "equal_to_one_rank": checked,
                  "variants": [results[name] for name in o.variants]}
        text = json.dumps(report)
        if o.json:
            o.json.write_text(text + "\n")
        print(text)
    if o.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
