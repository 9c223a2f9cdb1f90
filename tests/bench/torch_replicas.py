#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step that `stretto-bench replicas` times, in PyTorch: its peer.

The GPT of torch_step.py, one replica for each rank, over gloo. The variants are

  ddp   DistributedDataParallel: all-reduces of buckets under backward
  fsdp  FullyShardedDataParallel with SHARD_GRAD_OP, wrapped layer by layer: reduce-scatters, and
        all-gathers under the next forward pass

Times are seconds of a whole step, the optimizer included: medians over repeats taken in turn, each
the slowest rank's. One process per rank, one thread each; pin it from outside. Prints one JSON
object on rank 0. Before anything is timed, the summed gradient of every variant on a tiny model
must equal that of plain autograd.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--ranks", type=int, default=2)
    add("--rank", type=int, default=0)
    add("--rendezvous", type=pathlib.Path, required=True, help="folder that all ranks see")
    add("--interface", help="network interface to use, as eth0")
    add("--repeats", type=int, default=5)
    add("--layers", type=int, default=6)
    add("--hidden", type=int, default=768)
    add("--heads", type=int, default=12)
    add("--ffn", type=int, help="width of the MLP (default: four times --hidden)")
    add("--sequence", type=int, default=256)
    add("--micro-batch", type=int, default=4, help="sequences of a micro-batch")
    add("--micro-batches", type=int, default=1, help="of a step and replica")
    add("--vocab", type=int, default=512)
    add("--json", type=pathlib.Path, help="also write the JSON here")
    o = parser.parse_args()
    o.ffn = o.ffn or 4 * o.hidden
    if o.hidden % o.heads:
        parser.error(f"--hidden: found {o.hidden}, expected a multiple of --heads, {o.heads}")
    return o


def run(o):
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.nn.parallel import DistributedDataParallel

    import torch_step
    from torch_step import Shape

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)

    class Layer(nn.Module):
        def __init__(self, shape, tensors):
            super().__init__()
            self.shape = shape
            self.p = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(t)
                                       for name, t in tensors.items()})

        def forward(self, x):
            named = {f"0.{name.replace('_', '.')}": t for name, t in self.p.items()}
            return torch_step.block(named, 0, x, self.shape, 1, None)

    class Model(nn.Module):
        def __init__(self, shape):
            super().__init__()
            self.shape = shape
            whole = torch_step.full_parameters(shape)
            self.token = nn.Parameter(whole["token"])
            self.position = nn.Parameter(whole["position"])
            self.norm_weight = nn.Parameter(whole["norm.weight"])
            self.norm_bias = nn.Parameter(whole["norm.bias"])
            self.layers = nn.ModuleList(
                Layer(shape, {k.removeprefix(f"{layer}."): v for k, v in whole.items()
                              if k.startswith(f"{layer}.")}) for layer in range(shape.layers))

        def forward(self, tokens, targets):
            f, h = nn.functional, self.shape.hidden
            x = f.embedding(tokens, self.token) + self.position
            x = x.view(-1, h)
            for layer in self.layers:
                x = layer(x)
            x = f.layer_norm(x, (h,), self.norm_weight, self.norm_bias, eps=1e-5)
            return f.cross_entropy(f.linear(x, self.token), targets)

    def wrap(name, shape):
        model = Model(shape)
        if name == "ddp":
            return DistributedDataParallel(model)
        return FullyShardedDataParallel(
            model, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, use_orig_params=True,
            auto_wrap_policy=ModuleWrapPolicy({Layer}), device_id=torch.device("cpu"))

    def accumulate(model, batches):
        for i, (tokens, targets) in enumerate(batches):
            last = i + 1 == len(batches)
            with contextlib.nullcontext() if last else model.no_sync():
                (model(tokens, targets) / len(batches)).backward()

    def batches(shape, count, first):
        generator = torch.Generator().manual_seed(2)
        drawn = torch.randint(shape.vocab, (8 * o.ranks * count, shape.sequence + 1),
                              generator=generator)
        found = []
        for i in range(count):
            start = (first + i * o.ranks) * shape.batch % (len(drawn) - shape.batch + 1)
            part = drawn[start:start + shape.batch]
            found.append((part[:, :-1].contiguous(), part[:, 1:].flatten()))
        return found

    def norm_of(model, name):
        """Of the whole gradient."""
        squares = sum((p.grad.double() ** 2).sum() for p in model.parameters()
                      if p.grad is not None and p.grad.numel())
        squares = torch.as_tensor(squares)
        if name == "fsdp":
            dist.all_reduce(squares)
        return squares.sqrt().item()

    def check(name):
        """Relative difference of the gradient's norm from plain autograd's on all batches."""
        tiny = Shape("gpt", layers=2, hidden=32, heads=4, kv_heads=4, ffn=64, sequence=8, batch=2,
                     vocab=32)
        plain = Model(tiny)
        for replica in range(o.ranks):
            for tokens, targets in batches(tiny, 2, replica):
                (plain(tokens, targets) / (2 * o.ranks)).backward()
        model = wrap(name, tiny)
        accumulate(model, batches(tiny, 2, o.rank))
        expected = norm_of(plain, "plain")
        worst = abs(norm_of(model, name) - expected) / expected
        if not worst <= 1e-5:
            sys.exit(f"torch_replicas: {name}: the gradient's norm differs from plain autograd's by "
                     f"{worst:.3g} of it, expected at most 1e-5")
        return worst

    if o.interface:
        os.environ["GLOO_SOCKET_IFNAME"] = o.interface
    dist.init_process_group("gloo", init_method=f"file://{o.rendezvous.resolve()}/torch_replicas",
                            rank=o.rank, world_size=o.ranks)
    shape = Shape("gpt", o.layers, o.hidden, o.heads, o.heads, o.ffn, o.sequence, o.micro_batch,
                  o.vocab)
    variants = {}
    for name in ("ddp", "fsdp"):
        try:
            checked = check(name)
        except (NotImplementedError, RuntimeError) as error:
            lines = str(error).strip().splitlines() or [""]
            variants[name] = {"name": name, "skipped": f"{type(error).__name__}: {lines[0]}"}
            continue
        model = wrap(name, shape)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        variants[name] = {"name": name, "differs": checked, "model": model, "optimizer": optimizer,
                          "samples": []}
    work = batches(shape, o.micro_batches, o.rank)
    running = [v for v in variants.values() if "skipped" not in v]
    for repeat in range(o.repeats + 1):  # the first is not counted
        for variant in running:
            dist.barrier()
            begin = time.perf_counter()
            accumulate(variant["model"], work)
            variant["optimizer"].step()
            variant["optimizer"].zero_grad()
            seconds = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
            if repeat > 0:
                variant["samples"].append(seconds.item())
    for variant in running:
        del variant["model"], variant["optimizer"]
        variant["step_seconds"] = statistics.median(variant["samples"])
    if o.rank == 0:
        text = json.dumps({"peer": "torch", "version": torch.__version__, "ranks": o.ranks,
                           "dtype": "f32", **shape._asdict(), "micro_batches": o.micro_batches,
                           "variants": list(variants.values())})
        if o.json:
            o.json.write_text(text + "\n")
        print(text)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    run(parse())
