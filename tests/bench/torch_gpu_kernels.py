# SPDX-License-Identifier: Apache-2.0
"""The rows of `torch_gpu_peer.py kernels`, with the places of those of `stretto-bench kernels`.

A row is timed over as many operands as hold --working-set-mib together, so that each call finds
them in memory and not in a cache: the median of --repeats runs.
"""

import statistics
import time


def clock(torch, o):
    """Returns a function that gives the seconds of `run()` on the device."""
    if o.device == "cpu":
        def on_cpu(run):
            begin = time.perf_counter()
            run()
            return time.perf_counter() - begin
        return on_cpu

    def on_gpu(run):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3
    return on_gpu


def attention_backend(torch, name):
    """The context in which attention uses this backend and no other."""
    backends = torch.nn.attention.SDPBackend
    return torch.nn.attention.sdpa_kernel({"cudnn": backends.CUDNN_ATTENTION,
                                           "flash": backends.FLASH_ATTENTION,
                                           "efficient": backends.EFFICIENT_ATTENTION,
                                           "math": backends.MATH}[name])


def first_line(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


class Kernels:
    def __init__(self, torch, o):
        self.torch, self.o, self.seconds_of = torch, o, clock(torch, o)
        self.dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[o.ours["dtype"]]

    def random(self, *shape):
        return self.torch.rand(*shape, device=self.o.device, dtype=self.dtype) * 2 - 1

    def time(self, place, make, run, flops=0, moved=0, **named):
        """`make` gives the operands of one call; `run` takes them. Returns the row."""
        row = {"place": place, **named}
        try:
            seconds = self.median(make, run)
        except Exception as error:  # a backend that lacks this shape, for one
            return row | {"failed": first_line(error)}
        return row | {"seconds": seconds, "bytes": moved, "flops": flops}

    def median(self, make, run):
        torch, o = self.torch, self.o
        first = make()
        size = sum(t.numel() * t.element_size() for t in first if torch.is_tensor(t))
        copies = min(64, max(2, (o.working_set_mib << 20) // max(size, 1) + 1))
        operands = [first] + [make() for _ in range(copies - 1)]

        def run_all():
            for each in operands:
                run(*each)

        samples = [self.seconds_of(run_all) / copies for _ in range(o.warm_up + o.repeats)]
        return statistics.median(samples[o.warm_up:])

    def backward(self, place, inputs, forward, flops=0, moved=0, **named):
        """The gradient alone: the graph is made once per set of operands and kept."""
        def make():
            leaves = [t.requires_grad_() for t in inputs()]
            out = forward(*leaves)
            return [out, self.torch.rand_like(out) if out.dim() else self.torch.ones_like(out),
                    *leaves]

        return self.time(place, make, lambda out, grad, *leaves: self.torch.autograd.grad(
            out, leaves, grad, retain_graph=True), flops, moved, **named)

    def product(self, place, n, k, c):
        return self.time(place, lambda: (self.random(n, k), self.random(c, k)),
                         self.torch.nn.functional.linear, flops=2 * n * k * c)

    def products(self):
        w, o = self.o.work, self.o
        element = self.torch.empty((), dtype=self.dtype).element_size()
        n, h, d = w.micro_batch_size * w.sequence_length, w.hidden, w.hidden // w.heads
        size = round((o.ours["copy"]["bytes"] / 2 / element) ** 0.5)
        yield self.time("copy", lambda: (self.random(size, size), self.random(size, size)),
                        lambda a, b: b.copy_(a), moved=2 * size * size * element)
        yield self.product("product", size, size, size)
        up = w.ffn_hidden * (2 if w.family == "llama" else 1)
        for name, k, c in (("qkv", h, (w.heads + 2 * w.kv_heads) * d), ("proj", h, h),
                           ("fc1", h, up), ("fc2", w.ffn_hidden, h), ("head", h, w.padded_vocab)):
            yield self.product(f"fwd {name} gemm", n, k, c)

    def attention(self, backend):
        w = self.o.work
        d = w.hidden // w.heads
        # Causal: the half of the scores that counts, two products forward, five backward.
        score = 2 * w.micro_batch_size * w.heads * d * w.sequence_length * (w.sequence_length + 1) / 2

        def heads():
            return tuple(self.random(w.micro_batch_size, count, w.sequence_length, d)
                         for count in (w.heads, w.kv_heads, w.kv_heads))

        def attend(q, k, v):
            with attention_backend(self.torch, backend):
                return self.torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=True, enable_gqa=w.heads != w.kv_heads)

        yield self.time("fwd attention attention", heads, attend, flops=2 * score, backend=backend)
        yield self.backward("bwd attention attention_grad", heads, attend, flops=5 * score,
                            backend=backend)

    def others(self):
        torch, w = self.torch, self.o.work
        F = torch.nn.functional
        element = torch.empty((), dtype=self.dtype).element_size()
        n, h = w.micro_batch_size * w.sequence_length, w.hidden
        row, scores = n * h * element, n * w.padded_vocab * element
        yield self.time("layer_norm", lambda: (self.random(n, h), self.random(h), self.random(h)),
                        lambda x, a, b: F.layer_norm(x, (h,), a, b), moved=2 * row)
        yield self.backward("layer_norm_grad",
                            lambda: (self.random(n, h), self.random(h), self.random(h)),
                            lambda x, a, b: F.layer_norm(x, (h,), a, b), moved=3 * row)
        yield self.time("rms_norm", lambda: (self.random(n, h), self.random(h)),
                        lambda x, a: F.rms_norm(x, (h,), a), moved=2 * row)

        def targets():
            return torch.randint(w.padded_vocab, (n,), device=self.o.device)

        yield self.time("cross_entropy", lambda: (self.random(n, w.padded_vocab), targets()),
                        F.cross_entropy, moved=scores)
        drawn = targets()
        yield self.backward("cross_entropy_grad", lambda: (self.random(n, w.padded_vocab),),
                            lambda x: F.cross_entropy(x, drawn), moved=2 * scores)


def measure(torch, o):
    kernels = Kernels(torch, o)
    yield from kernels.products()
    for backend in o.backends:
        yield from kernels.attention(backend)
    yield from kernels.others()
