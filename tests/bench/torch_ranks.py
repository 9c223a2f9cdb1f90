# SPDX-License-Identifier: Apache-2.0
"""What the peers of several ranks share: their flags, the model as modules, rounds and the report.

Imports PyTorch where it is first needed, so that wrong arguments do not need it.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

# Of the norm of the whole gradient, between a variant on a tiny model and plain autograd.
NORM_TOLERANCE = 1e-5


def parse(description, micro_batch, micro_batches, of, chunked=False):
    """The flags; the defaults of a micro-batch's sequences and of a step's micro-batches `of`;
    --chunks if `chunked`."""
    parser = argparse.ArgumentParser(description=description,
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
    add("--micro-batch", type=int, default=micro_batch, help="sequences of a micro-batch")
    add("--micro-batches", type=int, default=micro_batches, help=f"of {of}")
    add("--vocab", type=int, default=512)
    if chunked:
        add("--chunks", type=lambda text: [int(c) for c in text.split(",")], default=[],
            help="numbers of chunks of a stage, as 2,3")
    add("--json", type=pathlib.Path, help="also write the JSON here")
    o = parser.parse_args()
    o.ffn = o.ffn or 4 * o.hidden
    if o.hidden % o.heads:
        parser.error(f"--hidden: found {o.hidden}, expected a multiple of --heads, {o.heads}")
    for chunks in o.chunks if chunked else []:
        # Stages of pipelining then have the layers of our chunks.
        if chunks < 2 or o.layers % (chunks * o.ranks):
            parser.error(f"--chunks: found {chunks}, expected at least 2, and --layers, {o.layers}, "
                         f"a multiple of chunks x ranks, {chunks * o.ranks}")
    return o


def start(o, name):
    """Joins the other ranks, with one thread for computation."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    if o.interface:
        os.environ["GLOO_SOCKET_IFNAME"] = o.interface
    dist.init_process_group("gloo", init_method=f"file://{o.rendezvous.resolve()}/{name}",
                            rank=o.rank, world_size=o.ranks)


def shape_of(o):
    from torch_step import Shape
    return Shape("gpt", o.layers, o.hidden, o.heads, o.heads, o.ffn, o.sequence, o.micro_batch,
                 o.vocab)


def tiny_shape(layers):
    from torch_step import Shape
    return Shape("gpt", layers=layers, hidden=32, heads=4, kv_heads=4, ffn=64, sequence=8, batch=2,
                 vocab=32)


def plain_norm(model, shape, count):
    """The gradient's norm of `count` batches, by plain autograd."""
    from torch.nn.functional import cross_entropy

    from torch_step import batch
    for tokens, targets in (batch(shape, i) for i in range(count)):
        (cross_entropy(model(tokens), targets) / count).backward()
    return sum((p.grad.double() ** 2).sum() for p in model.parameters()).sqrt().item()


def expect_norm(program, variant, found, expected):
    """Returns the relative difference. Ends the program if it is too large."""
    worst = abs(found - expected) / expected
    if not worst <= NORM_TOLERANCE:
        sys.exit(f"{program}: {variant}: the gradient's norm differs from plain autograd's by "
                 f"{worst:.3g} of it, expected at most {NORM_TOLERANCE:g}")
    return worst


def run_rounds(o, variants, step):
    """Times step(variant) in turn. A time is the median over rounds of the slowest rank's."""
    import torch
    import torch.distributed as dist

    samples = {v["name"]: [] for v in variants if "skipped" not in v}
    for _ in range(o.repeats + 1):  # the first is not counted
        for variant in variants:
            if "skipped" in variant:
                continue
            dist.barrier()
            begin = time.perf_counter()
            step(variant)
            seconds = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
            samples[variant["name"]].append(seconds.item())
    for variant in variants:
        if "skipped" not in variant:
            variant["samples"] = samples[variant["name"]][1:]
            variant["step_seconds"] = statistics.median(variant["samples"])


def compare(o, shape, variants, accumulate):
    """Times a step of every variant, accumulate(variant) and its optimizer, and reports."""
    def step(variant):
        accumulate(variant)
        variant["optimizer"].step()
        variant["optimizer"].zero_grad()

    run_rounds(o, variants, step)
    finish(o, shape, variants)


def finish(o, shape, variants):
    """Prints one JSON object on rank 0, of the variants' plain values, and leaves the others."""
    import torch
    import torch.distributed as dist

    kept = ("name", "skipped", "differs", "samples", "step_seconds")
    if o.rank == 0:
        text = json.dumps({"peer": "torch", "version": torch.__version__, "ranks": o.ranks,
                           "dtype": "f32", **shape._asdict(), "micro_batches": o.micro_batches,
                           "variants": [{k: v[k] for k in kept if k in v} for v in variants]})
        if o.json:
            o.json.write_text(text + "\n")
        print(text)
    dist.barrier()
    dist.destroy_process_group()
