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

import contextlib

import torch_ranks


def run(o):
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    from torch_modules import Layer, Model
    from torch_step import batch

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
                (cross_entropy(model(tokens), targets) / len(batches)).backward()

    def batches(shape, count):
        return [batch(shape, i * o.ranks + o.rank) for i in range(count)]

    def check(name):
        tiny = torch_ranks.tiny_shape(layers=2)
        model = wrap(name, tiny)
        accumulate(model, batches(tiny, 2))
        squares = torch.as_tensor(sum((p.grad.double() ** 2).sum() for p in model.parameters()
                                      if p.grad is not None and p.grad.numel()))
        if name == "fsdp":
            dist.all_reduce(squares)
        expected = torch_ranks.plain_norm(Model(tiny), tiny, 2 * o.ranks)
        return torch_ranks.expect_norm("torch_replicas", name, squares.sqrt().item(), expected)

    torch_ranks.start(o, "torch_replicas")
    shape = torch_ranks.shape_of(o)
    variants = []
    for name in ("ddp", "fsdp"):
        try:
            checked = check(name)
        except (NotImplementedError, RuntimeError) as error:
            lines = str(error).strip().splitlines() or [""]
            variants.append({"name": name, "skipped": f"{type(error).__name__}: {lines[0]}"})
            continue
        model = wrap(name, shape)
        variants.append({"name": name, "differs": checked, "model": model,
                         "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)})
    work = batches(shape, o.micro_batches)

    torch_ranks.compare(o, shape, variants, lambda v: accumulate(v["model"], work))


if __name__ == "__main__":
    run(torch_ranks.parse(__doc__, micro_batch=4, micro_batches=1, of="a step and replica"))
