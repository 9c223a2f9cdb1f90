# SPDX-License-Identifier: Apache-2.0
"""What torch_peer.py does once its arguments are right: checks, times and prints."""

import json
import math
import os
import statistics
import time

import torch
import torch.distributed as dist

from torch_step import Shape, Wire, accumulate, batch, check, forward, parameters


def shape_of(o):
    return Shape(**{name: getattr(o, name) for name in Shape._fields})


def wire_dtype(o):
    return torch.bfloat16 if o.wire == "bf16" else torch.float32


class Timed:
    """One variant of the step, with parameters and an optimizer of its own."""

    def __init__(self, name, options, shape, micro_batches):
        self.name, self.options, self.shape = name, options, shape
        self.wire = Wire(wire_dtype(options), overlap=name == "async")
        self.parameters = parameters(shape, options.ranks, options.rank)
        self.optimizer = torch.optim.AdamW(self.parameters.values(), lr=1e-4, fused=True)
        self.forward = torch.compile(forward) if name == "compile" else forward
        self.batches = [batch(shape, index) for index in range(micro_batches)]
        if options.divide:
            self.name += f", {micro_batches} x {shape.batch}"
        self.losses, self.samples = [], []

    def step(self):
        o = self.options
        if o.ranks > 1:
            dist.barrier()
        begin = time.perf_counter()
        loss, t_forward, t_backward = accumulate(self.batches, lambda *inputs: self.forward(
            self.parameters, self.shape, o.ranks, o.rank, self.wire, *inputs))
        middle = time.perf_counter()
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds = torch.tensor([t_forward, t_backward, middle - begin,
                                time.perf_counter() - middle], dtype=torch.float64)
        if o.ranks > 1:
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
        self.losses.append(loss)
        self.samples.append(seconds.tolist())

    def report(self):
        timed = self.samples[self.options.warmup:]
        t_forward, t_backward, t_step, t_optimizer = map(statistics.median, zip(*timed))
        return {"name": self.name, "t_forward": t_forward, "t_backward": t_backward,
                "t_step": t_step, "t_optimizer": t_optimizer,
                "tokens_per_second": len(self.batches) * self.shape.tokens / t_step,
                "loss_first": self.losses[0], "loss_last": self.losses[-1],
                "samples": timed}  # rows of forward, backward, both, optimizer


def divided(o):
    """(shape, number of micro-batches) of each division of the sequences of a step."""
    whole = shape_of(o)
    return [(whole._replace(batch=o.batch * o.micro_batches // number), number)
            for number in o.divide or [o.micro_batches]]


def measure(o):
    """Reports of the variants, or the reasons why there are none."""
    results, running = {}, []
    variants = [(name, Timed(name, o, *of)) for name in o.variants for of in divided(o)]
    for name, variant in variants:
        try:
            for _ in range(o.warmup):
                variant.step()
        except Exception as error:  # no compiler that torch.compile could use, for one
            if name != "compile":
                raise
            lines = str(error).strip().splitlines() or [""]
            results[variant] = {"name": variant.name,
                                "skipped": f"{type(error).__name__}: {lines[0]}"}
            continue
        running.append(variant)
    for _ in range(o.repeats):
        for variant in running:
            variant.step()
    results |= {variant: variant.report() for variant in running}
    return [results[variant] for _, variant in variants]


def run(o):
    """Checks, measures and prints; `o` are the arguments of torch_peer.py."""
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    checked = {}
    if o.ranks > 1:
        if o.interface:
            os.environ["GLOO_SOCKET_IFNAME"] = o.interface
        dist.init_process_group("gloo", init_method=f"file://{o.rendezvous.resolve()}/torch_peer",
                                rank=o.rank, world_size=o.ranks)
        # bf16 keeps 8 bits of each summand and of the sum: 2^-8 for each collective on the way.
        tiny = Shape(o.family, layers=2, hidden=32 * o.ranks, heads=4 * o.ranks, kv_heads=2 * o.ranks,
                     ffn=48 * o.ranks, sequence=16, batch=2, vocab=32 * o.ranks)
        tolerance = 1e-5 if o.wire == "f32" else 2**-8 * 4 * tiny.layers
        for name in o.variants:
            wire = Wire(wire_dtype(o), name == "async")
            checked[name] = check(tiny, o.ranks, o.rank, wire, tolerance, o.micro_batches)
    results = measure(o)
    if o.rank == 0:
        report = {"peer": "torch", "version": torch.__version__, "ranks": o.ranks, "dtype": "f32",
                  "wire": o.wire, **shape_of(o)._asdict(), "micro_batches": o.micro_batches,
                  "loss_expected_first": math.log(o.vocab), "equal_to_one_rank": checked,
                  "variants": results}
        text = json.dumps(report)
        if o.json:
            o.json.write_text(text + "\n")
        print(text)
    if o.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()
