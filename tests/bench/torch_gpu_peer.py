#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `stretto-bench kernels` and `stretto-bench step` measure, in PyTorch on the same GPU.

  torch_gpu_peer.py kernels --like kernels.json    copy, products, attention, norms, cross-entropy
  torch_gpu_peer.py step --like step.json          the training step (torch_gpu_step.py)

`--like` is the JSON of the command of ours, the first of these files that is there: shapes, types
and tokens are taken from it. Data is random. Every row is printed, and the JSON written again, as
soon as it is measured; one that fails is a row with its reason. Attention is measured by each of
PyTorch's backends in turn. Exit: 0; 1 nothing could be measured; 2 arguments; 77 no PyTorch or no
GPU.
"""

import argparse
import json
import pathlib
import sys

WORK = ("family", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "sequence_length",
        "padded_vocab", "micro_batch_size", "micro_batches")
MODES = ("compile", "eager")
BACKENDS = ("cudnn", "flash", "efficient", "math")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["kernels", "step"])
    add = parser.add_argument
    add("--like", type=pathlib.Path, nargs="+", required=True, help="JSON of stretto-bench")
    add("--json", type=pathlib.Path, help="file for the result")
    add("--device-index", type=int, default=0)
    add("--dry-run", action="store_true", help="on the CPU, once: shows that everything runs")
    add("--repeats", type=int, default=10, help="of a kernel")
    add("--warm-up", type=int, default=3, help="of a kernel")
    add("--working-set-mib", type=int, default=256)
    add("--backends", default="cudnn,flash,efficient", help="of the kernels' attention")
    add("--variants", default="compile.cudnn,compile.flash,compile.efficient,eager.flash",
        help="of the step, each MODE.BACKEND of compile, eager and the backends of attention")
    add("--warm-up-seconds", type=float, default=10)
    add("--seconds", type=float, default=30)
    o = parser.parse_args(arguments)
    o.backends, o.variants = o.backends.split(","), o.variants.split(",")
    for name in o.backends:
        if name not in BACKENDS:
            parser.error(f"--backends: found '{name}', expected some of {','.join(BACKENDS)}")
    for name in o.variants:
        mode, _, backend = name.partition(".")
        if mode not in MODES or backend not in BACKENDS:
            parser.error(f"--variants: found '{name}', expected MODE.BACKEND with one of "
                         f"{','.join(MODES)} and one of {','.join(BACKENDS)}")
    if o.dry_run:
        o.repeats, o.warm_up, o.working_set_mib, o.warm_up_seconds, o.seconds = 1, 0, 1, 0, 0
    for name in ("repeats", "working_set_mib"):
        if getattr(o, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: found {getattr(o, name)}, expected at least 1")
    read(o, parser)
    return o


def read(o, parser):
    """Sets `ours`, `work` and `device`."""
    file = next((path for path in o.like if path.exists()), o.like[0])
    try:
        o.ours = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        parser.error(f"--like: {file}: {error}")
    missing = [key for key in WORK if key not in o.ours.get("work", {})]
    if missing:
        parser.error(f"--like: {file}: found no work.{missing[0]}, expected the JSON of "
                     f"stretto-bench {o.command}")
    o.work = argparse.Namespace(**o.ours["work"])
    if o.ours.get("tp_size", 1) != 1:
        parser.error(f"--like: {file}: found tp_size {o.ours['tp_size']}, expected 1")
    o.device = "cpu" if o.dry_run else "cuda"


def need_gpu(o):
    try:
        import torch
    except ImportError as error:
        print(f"skipped: no PyTorch: {error}")
        sys.exit(77)
    if o.device == "cpu":
        return torch
    if not torch.cuda.is_available() or torch.cuda.device_count() <= o.device_index:
        print(f"skipped: PyTorch {torch.__version__} sees no GPU {o.device_index}")
        sys.exit(77)
    torch.cuda.set_device(o.device_index)
    return torch


def main():
    o = parse(sys.argv[1:])
    torch = need_gpu(o)
    report = {"peer": "torch", "version": torch.__version__, "cuda": torch.version.cuda,
              "cudnn": torch.backends.cudnn.version(), "work": vars(o.work),
              "device": o.device if o.dry_run else torch.cuda.get_device_name(o.device_index)}
    print(f"PyTorch {report['version']}, CUDA {report['cuda']}, cuDNN {report['cudnn']}, "
          f"{report['device']}", flush=True)
    if o.command == "kernels":
        from torch_gpu_kernels import measure
    else:
        from torch_gpu_step import measure
    rows = []
    for row in measure(torch, o):
        rows.append(row)
        print("  ".join(f"{value:.5g}" if isinstance(value, float) else str(value)
                        for value in row.values()), flush=True)
        report["kernels" if o.command == "kernels" else "variants"] = rows
        if o.json:
            o.json.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(0 if any("failed" not in row for row in rows) else 1)


if __name__ == "__main__":
    main()
