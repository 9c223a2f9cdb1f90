#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `stretto-bench kernels` and `stretto-bench step` measure, in PyTorch on the same GPU.

  torch_gpu_peer.py kernels --like kernels.json    copy, products, attention, norms, cross-entropy
  torch_gpu_peer.py step --like step.json          the training step, eager and torch.compile

`--like` is the JSON of the command of ours: shapes, types, tokens and times are taken from it. Data
is random. Kernels go through as many buffers as hold --working-set-mib together and are timed by
events, medians over --repeats. The step has f32 parameters, gradients and AdamW state under bf16
autocast, PyTorch's fused attention and optimizer, and gradient accumulation; its time includes
drawing the batch on the host, copying it to the device, the clip of the gradient norm and the
optimizer. Prints one JSON object. Exit: 0; 1 failed; 2 arguments; 77 no PyTorch or no GPU.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

WORK = ("family", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "sequence_length",
        "padded_vocab", "micro_batch_size", "micro_batches")
VARIANTS = ("eager", "compile")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["kernels", "step"])
    add = parser.add_argument
    add("--like", type=pathlib.Path, required=True, help="JSON of stretto-bench")
    add("--json", type=pathlib.Path, help="also write the JSON here")
    add("--device-index", type=int, default=0)
    add("--repeats", type=int, default=10, help="of a kernel")
    add("--warm-up", type=int, default=3, help="of a kernel")
    add("--working-set-mib", type=int, default=256)
    add("--variants", default=",".join(VARIANTS), help="of the step")
    add("--warm-up-seconds", type=float, default=10)
    add("--seconds", type=float, default=30)
    o = parser.parse_args(arguments)
    o.variants = o.variants.split(",")
    for name in o.variants:
        if name not in VARIANTS:
            parser.error(f"--variants: found '{name}', expected some of {','.join(VARIANTS)}")
    for name in ("repeats", "working_set_mib"):
        if getattr(o, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: found {getattr(o, name)}, expected at least 1")
    try:
        o.ours = json.loads(o.like.read_text())
    except (OSError, ValueError) as error:
        parser.error(f"--like: {o.like}: {error}")
    missing = [key for key in WORK if key not in o.ours.get("work", {})]
    if missing:
        parser.error(f"--like: {o.like}: found no work.{missing[0]}, expected the JSON of "
                     f"stretto-bench {o.command}")
    o.work = argparse.Namespace(**o.ours["work"])
    if o.ours.get("tp_size", 1) != 1:
        parser.error(f"--like: {o.like}: found tp_size {o.ours['tp_size']}, expected 1")
    return o


def need_gpu(index):
    try:
        import torch
    except ImportError as error:
        print(f"skipped: no PyTorch: {error}")
        sys.exit(77)
    if not torch.cuda.is_available() or torch.cuda.device_count() <= index:
        print(f"skipped: PyTorch {torch.__version__} sees no GPU {index}")
        sys.exit(77)
    torch.cuda.set_device(index)
    return torch


class Kernels:
    """Each row: a name, what it moves or computes, and its median time."""

    def __init__(self, torch, o):
        self.torch, self.o, self.rows = torch, o, []
        self.dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[o.ours["dtype"]]

    def random(self, *shape, dtype=None):
        return self.torch.rand(*shape, device="cuda", dtype=dtype or self.dtype) * 2 - 1

    def time(self, name, make, run, flops=0, moved=0):
        """`make` gives the operands of one call; `run` takes them."""
        torch, o = self.torch, self.o
        first = make()
        size = sum(t.numel() * t.element_size() for t in first if torch.is_tensor(t))
        copies = min(64, max(2, (o.working_set_mib << 20) // max(size, 1) + 1))
        operands = [first] + [make() for _ in range(copies - 1)]
        samples = []
        for repeat in range(o.warm_up + o.repeats):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for each in operands:
                run(*each)
            end.record()
            torch.cuda.synchronize()
            if repeat >= o.warm_up:
                samples.append(begin.elapsed_time(end) * 1e-3 / copies)
        seconds = statistics.median(samples)
        self.rows.append({"operation": name, "seconds": seconds, "bytes": moved, "flops": flops,
                          "bytes_per_second": moved / seconds, "flops_per_second": flops / seconds})

    def backward(self, name, inputs, forward, flops=0, moved=0):
        """The gradient alone: the graph is made once per set of operands and kept."""
        def make():
            leaves = [t.requires_grad_() for t in inputs()]
            out = forward(*leaves)
            return [out, self.torch.rand_like(out) if out.dim() else self.torch.ones_like(out),
                    *leaves]

        self.time(name, make, lambda out, grad, *leaves: self.torch.autograd.grad(
            out, leaves, grad, retain_graph=True), flops, moved)

    def product(self, name, n, k, c):
        self.time(f"{name} [{n},{k}] x [{c},{k}]", lambda: (self.random(n, k), self.random(c, k)),
                  self.torch.nn.functional.linear, flops=2 * n * k * c)

    def run(self):
        torch, w, o = self.torch, self.o.work, self.o
        F = torch.nn.functional
        element = torch.empty((), dtype=self.dtype).element_size()
        n, h, d = w.micro_batch_size * w.sequence_length, w.hidden, w.hidden // w.heads
        size = round((o.ours["copy"]["bytes"] / 2 / element) ** 0.5)
        self.time(f"copy [{size},{size}]", lambda: (self.random(size, size), self.random(size, size)),
                  lambda a, b: b.copy_(a), moved=2 * size * size * element)
        self.product("product", size, size, size)
        qkv = (w.heads + 2 * w.kv_heads) * d
        up = w.ffn_hidden * (2 if w.family == "llama" else 1)
        for name, k, c in (("qkv", h, qkv), ("proj", h, h), ("fc1", h, up), ("fc2", w.ffn_hidden, h),
                           ("head", h, w.padded_vocab)):
            self.product(name, n, k, c)
        # Causal: the half of the scores that counts, two products forward, five backward.
        score = 2 * w.micro_batch_size * w.heads * d * w.sequence_length * (w.sequence_length + 1) / 2

        def heads():
            return tuple(self.random(w.micro_batch_size, w.heads, w.sequence_length, d)
                         for _ in range(3))

        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        self.time(f"attention forward S={w.sequence_length} d={d}", heads, attend, flops=2 * score)
        self.backward(f"attention backward S={w.sequence_length} d={d}", heads, attend, flops=5 * score)
        row = n * h * element
        self.time("layer_norm forward", lambda: (self.random(n, h), self.random(h), self.random(h)),
                  lambda x, a, b: F.layer_norm(x, (h,), a, b), moved=2 * row)
        self.backward("layer_norm backward",
                      lambda: (self.random(n, h), self.random(h), self.random(h)),
                      lambda x, a, b: F.layer_norm(x, (h,), a, b), moved=3 * row)
        self.time("rms_norm forward", lambda: (self.random(n, h), self.random(h)),
                  lambda x, a: F.rms_norm(x, (h,), a), moved=2 * row)

        def logits():
            return (self.random(n, w.padded_vocab),
                    torch.randint(w.padded_vocab, (n,), device="cuda"))

        self.time("cross_entropy forward", logits, F.cross_entropy,
                  moved=n * w.padded_vocab * element)
        targets = torch.randint(w.padded_vocab, (n,), device="cuda")
        self.backward("cross_entropy backward", lambda: (self.random(n, w.padded_vocab),),
                      lambda x: F.cross_entropy(x, targets), moved=2 * n * w.padded_vocab * element)
        return self.rows


def model_of(torch, w):
    """GPT (learned positions, LayerNorm, GELU by tanh, tied head) or Llama (rotary, RMSNorm, SwiGLU)."""
    nn, F = torch.nn, torch.nn.functional
    llama, d = w.family == "llama", w.hidden // w.heads

    def linear(k, c):
        return nn.Linear(k, c, bias=not llama)

    def norm():
        return nn.RMSNorm(w.hidden, eps=1e-5) if llama else nn.LayerNorm(w.hidden)

    def rotary(x, turns):
        a, b = x.chunk(2, -1)
        cos, sin = turns
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = norm(), norm()
            self.qkv = linear(w.hidden, (w.heads + 2 * w.kv_heads) * d)
            self.proj = linear(w.hidden, w.hidden)
            self.fc1 = linear(w.hidden, w.ffn_hidden * (2 if llama else 1))
            self.fc2 = linear(w.ffn_hidden, w.hidden)

        def forward(self, x, turns):
            b, s, _ = x.shape
            qkv = self.qkv(self.norm1(x)).view(b, s, -1, d).transpose(1, 2)
            q, k, v = qkv.split((w.heads, w.kv_heads, w.kv_heads), 1)
            if llama:
                q, k = rotary(q, turns), rotary(k, turns)
            context = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                     enable_gqa=w.heads != w.kv_heads)
            x = x + self.proj(context.transpose(1, 2).reshape(b, s, -1))
            u = self.fc1(self.norm2(x))
            if llama:
                gate, up = u.chunk(2, -1)
                return x + self.fc2(F.silu(gate) * up)
            return x + self.fc2(F.gelu(u, approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(w.padded_vocab, w.hidden)
            self.position = None if llama else nn.Embedding(w.sequence_length, w.hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(w.layers))
            self.norm = norm()
            self.head = nn.Linear(w.hidden, w.padded_vocab, bias=False)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)
            if not llama:
                self.head.weight = self.token.weight
            angle = torch.outer(torch.arange(w.sequence_length, device="cuda").float(),
                                10000.0 ** (-torch.arange(0, d, 2, device="cuda").float() / d))
            self.turns = (angle.cos(), angle.sin())

        def forward(self, tokens, targets):
            x = self.token(tokens)
            if self.position is not None:
                x = x + self.position.weight
            for layer in self.layers:
                x = layer(x, self.turns)
            return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())

    with torch.device("cuda"):
        return Model()


def step_variant(torch, o, name):
    w = o.work
    torch.manual_seed(1)
    model = model_of(torch, w)
    run = torch.compile(model) if name == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    generator = torch.Generator().manual_seed(2)
    vocabulary = o.ours["work"].get("vocab_size", w.padded_vocab)

    def step():
        drawn = torch.randint(vocabulary, (w.micro_batches, w.micro_batch_size, w.sequence_length + 1),
                              generator=generator).to("cuda")
        total = 0
        for each in drawn:
            with torch.autocast("cuda", torch.bfloat16):
                loss = run(each[:, :-1].contiguous(), each[:, 1:].contiguous()) / w.micro_batches
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return total.item()  # waits for the device

    losses, samples = [], []

    def until(seconds, into):
        begin = time.perf_counter()
        while len(into) < 3 or time.perf_counter() - begin < seconds:
            started = time.perf_counter()
            losses.append(step())
            into.append(time.perf_counter() - started)

    until(o.warm_up_seconds, [])
    until(o.seconds, samples)
    tokens = w.micro_batches * w.micro_batch_size * w.sequence_length
    if not all(map(lambda loss: loss == loss and abs(loss) != float("inf"), losses)):
        raise RuntimeError(f"{name}: a loss is not finite: {losses}")
    return {"name": name, "steps": len(samples), "seconds": sum(samples),
            "step_seconds_p50": statistics.median(samples),
            "tokens_per_second": tokens * len(samples) / sum(samples),
            "loss_first": losses[0], "loss_last": losses[-1],
            "memory_bytes": torch.cuda.max_memory_allocated()}


def step_variants(torch, o):
    results = []
    for name in o.variants:
        try:
            results.append(step_variant(torch, o, name))
        except torch.cuda.OutOfMemoryError as error:
            results.append({"name": name, "skipped": f"out of memory: {str(error).splitlines()[0]}"})
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return results


def main():
    o = parse(sys.argv[1:])
    torch = need_gpu(o.device_index)
    report = {"peer": "torch", "version": torch.__version__, "cuda": torch.version.cuda,
              "cudnn": torch.backends.cudnn.version(),
              "device": torch.cuda.get_device_name(o.device_index), "work": vars(o.work)}
    if o.command == "kernels":
        report["kernels"] = Kernels(torch, o).run()
    else:
        report["variants"] = step_variants(torch, o)
    text = json.dumps(report, indent=2)
    if o.json:
        o.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
