#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step that `stretto-bench pipeline` times, in PyTorch: its peer.

The GPT of torch_step.py, one stage for each rank, over gloo, by torch.distributed.pipelining. The
variants are

  1f1b                  Schedule1F1B
  gpipe                 ScheduleGPipe
  interleaved_1f1b x C  ScheduleInterleaved1F1B, for each number C of --chunks: a rank holds C
                        stages of pipelining, which are the chunks of its stage

The first and the last stage add up their gradients of the tied embedding, which pipelining leaves
to its user. Times are seconds of a whole step, the optimizer included: medians over repeats taken
in turn, each the slowest rank's. One process per rank, one thread each; pin it from outside. Prints
one JSON object on rank 0. Before anything is timed, the gradient of every variant on a tiny model
must equal that of plain autograd.
"""

import torch_ranks


def run(o):
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import (
        PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B)
    from torch.nn.functional import cross_entropy

    from torch_modules import Model
    from torch_step import batch

    # Name to schedule and chunks of a rank.
    known = {"1f1b": (Schedule1F1B, 1), "gpipe": (ScheduleGPipe, 1)}
    known |= {f"interleaved_1f1b x {c}": (ScheduleInterleaved1F1B, c) for c in o.chunks}

    def make(name, shape):
        kind, chunks = known[name]
        total = chunks * o.ranks
        places = range(o.rank, total, o.ranks)
        model = torch.nn.ModuleList(Model(shape, place, total) for place in places)
        stages = [PipelineStage(chunk, place, total, torch.device("cpu"))
                  for place, chunk in zip(places, model)]
        batches = [batch(shape, i) for i in range(o.micro_batches)]
        return {"name": name, "model": model,
                "schedule": kind(stages if chunks > 1 else stages[0], o.micro_batches,
                                 loss_fn=cross_entropy),
                "tokens": torch.cat([tokens for tokens, _ in batches]),
                "targets": torch.cat([targets for _, targets in batches])}

    def accumulate(variant):
        first, last, schedule = variant["model"][0], variant["model"][-1], variant["schedule"]
        inputs = (variant["tokens"],) if first.first else ()
        targets = {"target": variant["targets"], "losses": []} if last.last else {}
        schedule.step(*inputs, **targets)
        if first.first != last.last:
            dist.all_reduce((first if first.first else last).token.grad, group=ends)

    def check(name):
        tiny = torch_ranks.tiny_shape(layers=known[name][1] * o.ranks)
        variant = make(name, tiny)
        accumulate(variant)
        # Both ends have the whole gradient of the token embedding. It counts once.
        squares = torch.as_tensor(sum(
            (p.grad.double() ** 2).sum() for chunk in variant["model"]
            for label, p in chunk.named_parameters() if label != "token" or chunk.first))
        dist.all_reduce(squares)
        expected = torch_ranks.plain_norm(Model(tiny), tiny, o.micro_batches)
        return torch_ranks.expect_norm("torch_pipeline", name, squares.sqrt().item(), expected)

    torch_ranks.start(o, "torch_pipeline")
    ends = dist.new_group([0, o.ranks - 1]) if o.ranks > 1 else None
    shape = torch_ranks.shape_of(o)
    variants = []
    for name in known:
        checked = check(name)
        variant = make(name, shape) | {"differs": checked}
        variant["optimizer"] = torch.optim.AdamW(variant["model"].parameters(), lr=1e-4, fused=True)
        variants.append(variant)

    torch_ranks.compare(o, shape, variants, accumulate)


if __name__ == "__main__":
    run(torch_ranks.parse(__doc__, micro_batch=1, micro_batches=8, of="a step", chunked=True))
