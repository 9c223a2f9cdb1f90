#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step that `stretto-bench overlap` times, in PyTorch: the peer of the overlap benchmark.

A GPT or a Llama (torch_step.py) with Megatron's tensor parallelism. With two ranks or more the
variants are

  sync   every all-reduce is waited for where it is called
  async  the all-reduce of a column-parallel linear's input gradient runs under its weight gradient

and with one rank `eager` and `compile` (torch.compile). Times are seconds, medians over repeats
taken in turn (sync async sync async ...), each the slowest rank's; t_step is forward and backward
of all micro-batches in turn, the optimizer is timed apart. One process per rank, one thread each;
pin it from outside. Prints one JSON object on rank 0. Before anything is timed, every variant's
loss and gradients on a tiny model must equal those of plain autograd on one rank.
"""

import argparse
import pathlib


def numbers(text):
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"found '{text}', expected numbers, as 1,4") from None


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
    add("--family", choices=["gpt", "llama"], default="gpt")
    add("--layers", type=int, default=6)
    add("--hidden", type=int, default=768)
    add("--heads", type=int, default=12)
    add("--kv-heads", type=int, help="heads of keys and values (default: --heads)")
    add("--ffn", type=int, help="width of the MLP (default: four times --hidden)")
    add("--sequence", type=int, default=256)
    add("--batch", type=int, default=8, help="sequences of a micro-batch")
    add("--micro-batches", type=int, default=1, help="of a step")
    add("--divide", type=numbers, default=[],
        help="numbers of micro-batches that the sequences of a step are divided into, each measured "
        "for itself (default: --micro-batches)")
    add("--vocab", type=int, default=512)
    add("--json", type=pathlib.Path, help="also write the JSON here")
    o = parser.parse_args()
    o.kv_heads = o.kv_heads or o.heads
    o.ffn = o.ffn or 4 * o.hidden
    known = ["eager", "compile"] if o.ranks == 1 else ["sync", "async"]
    o.variants = o.variants.split(",") if o.variants else known
    for name in o.variants:
        if name not in known:
            parser.error(f"--variants: found {name}, expected {' or '.join(known)} "
                         f"with {o.ranks} rank(s)")
    if o.ranks > 1 and o.rendezvous is None:
        parser.error("--rendezvous: expected a folder with --ranks above 1")

    def expect_multiple(flag, value, of, number):
        if value % number:
            parser.error(f"{flag}: found {value}, expected a multiple of {of}, {number}")

    for number in o.divide:
        if number < 1 or o.batch * o.micro_batches % number:
            parser.error(f"--divide: found {number}, expected a divisor of "
                         f"{o.batch * o.micro_batches}, the sequences of a step")
    expect_multiple("--hidden", o.hidden, "--heads", o.heads)
    expect_multiple("--heads", o.heads, "--kv-heads", o.kv_heads)
    for flag, value in (("--kv-heads", o.kv_heads), ("--ffn", o.ffn), ("--vocab", o.vocab)):
        expect_multiple(flag, value, "--ranks", o.ranks)
    return o


def main():
    o = parse()
    import torch_times  # with PyTorch, which wrong arguments do not need
    torch_times.run(o)


if __name__ == "__main__":
    main()
