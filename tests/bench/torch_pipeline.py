#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step that `stretto-bench pipeline` times, in PyTorch: its peer.

The GPT of torch_step.py, one stage for each rank, over gloo, by torch.distributed.pipelining. The
variants are

  1f1b   Schedule1F1B
  gpipe  ScheduleGPipe

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
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    from torch.nn.functional import cross_entropy

    from torch_modules import Model
    from torch_step import batch

    known = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}

    def make(name, shape):
        model = Model(shape, o.rank, o.ranks)
        stage = PipelineStage(model, o.rank, o.ranks, torch.device("cpu"))
        batches = [batch(shape, i) for i in range(o.micro_batches)]
        return {"name": name, "model": model,
                "schedule": known[name](stage, o.micro_batches, loss_fn=cross_entropy),
                "tokens": torch.cat([tokens for tokens, _ in batches]),
                "targets": torch.cat([targets for _, targets in batches])}

    def accumulate(variant):
        model, schedule = variant["model"], variant["schedule"]
        inputs = (variant["tokens"],) if model.first else ()
        targets = {"target": variant["targets"], "losses": []} if model.last else {}
        schedule.step(*inputs, **targets)
        if model.first != model.last:
            dist.all_reduce(model.token.grad, group=ends)

    def check(name):
        tiny = torch_ranks.tiny_shape(layers=o.ranks)
        variant = make(name, tiny)
        accumulate(variant)
        model = variant["model"]
        # Both ends have the whole gradient of the token embedding. It counts once.
        squares = torch.as_tensor(sum(
            (p.grad.double() ** 2).sum() for label, p in model.named_parameters()
            if label != "token" or model.first))
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
    run(torch_ranks.parse(__doc__, micro_batch=1, micro_batches=8, of="a step"))
