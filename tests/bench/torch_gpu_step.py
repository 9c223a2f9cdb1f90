# SPDX-License-Identifier: Apache-2.0
"""The variants of `torch_gpu_peer.py step`: a training step as ours, in PyTorch.

Weights and gradients are bf16, and the optimizer's masters and moments f32 (16 bytes a parameter:
100 GiB for 7B, 52 GiB for 16 of its layers, before activations). Gradients are converted to f32 for
one layer at a time, since all of them at once would not fit beside 7B. PyTorch's fused AdamW updates
the masters. The time of a step includes drawing the batch on the host, copying it to the device,
gradient accumulation, the clip of the gradient norm and the optimizer.
"""

import math
import statistics
import time

from torch_gpu_kernels import attention_backend, first_line


class Masters:
    """f32 masters of a model's weights, and the optimizer that updates both, a part at a time."""

    def __init__(self, torch, parts):
        """`parts`: lists of parameters."""
        self.torch, self.parts = torch, []
        for parameters in parts:
            masters = [p.detach().float().clone() for p in parameters]
            self.parts.append((parameters, masters, torch.optim.AdamW(
                masters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)))

    def step(self):
        with self.torch.no_grad():
            for parameters, masters, optimizer in self.parts:
                for p, master in zip(parameters, masters):
                    master.grad = p.grad.float()
                optimizer.step()
                for p, master in zip(parameters, masters):
                    p.copy_(master)
                    master.grad = None

    def bytes_per_parameter(self):
        """Of weights, gradients, masters and moments."""
        count = total = 0
        for parameters, masters, optimizer in self.parts:
            for p, master in zip(parameters, masters):
                state = [t for t in optimizer.state[master].values() if t.numel() == p.numel()]
                count += p.numel()
                total += sum(t.numel() * t.element_size() for t in (p, p.grad, master, *state))
        return total / count


def model_of(torch, w, device, dtype):
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
            self.turns = None
            if llama:
                angle = torch.outer(torch.arange(w.sequence_length).float(),
                                    10000.0 ** (-torch.arange(0, d, 2).float() / d))
                self.turns = (angle.cos(), angle.sin())

        def parts(self):
            """Parameters by layer, and the others."""
            layers = [list(layer.parameters()) for layer in self.layers]
            known = {id(p) for part in layers for p in part}
            return [*layers, [p for p in self.parameters() if id(p) not in known]]

        def forward(self, tokens, targets):
            x = self.token(tokens)
            if self.position is not None:
                x = x + self.position.weight
            for layer in self.layers:
                x = layer(x, self.turns)
            return self.loss(x, targets)

        def loss(self, x, targets):
            logits = self.head(self.norm(x)).flatten(0, 1)
            return F.cross_entropy(logits.float(), targets.flatten())

        def compile_parts(self):
            """Each layer by itself, as torchtitan does: the first one's code serves all of them."""
            for layer in self.layers:
                layer.compile()
            self.loss = torch.compile(self.loss)

    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return Model()
    finally:
        torch.set_default_dtype(torch.float32)


class Variant:
    """A model, its optimizer, and the steps that were taken."""

    def __init__(self, torch, o, name):
        self.torch, self.o, self.name = torch, o, name
        mode, self.backend = name.split(".")
        torch.manual_seed(1)
        dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[o.ours["dtype"]]
        self.model = model_of(torch, o.work, o.device, dtype)
        if mode == "compile":
            self.model.compile_parts()
        self.masters = Masters(torch, self.model.parts())
        self.generator = torch.Generator().manual_seed(2)
        self.losses = []

    def step(self):
        w, torch = self.o.work, self.torch
        vocabulary = self.o.ours["work"].get("vocab_size", w.padded_vocab)
        drawn = torch.randint(vocabulary, (w.micro_batches, w.micro_batch_size, w.sequence_length + 1),
                              generator=self.generator).to(self.o.device)
        total = 0
        for each in drawn:
            with attention_backend(torch, self.backend):
                loss = self.model(each[:, :-1].contiguous(), each[:, 1:].contiguous())
                (loss / w.micro_batches).backward()
            total += loss.detach() / w.micro_batches
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.masters.step()
        self.model.zero_grad(set_to_none=False)
        self.losses.append(total.item())  # waits for the device
        if not math.isfinite(self.losses[-1]):
            raise RuntimeError(f"a loss is not finite: {self.losses}")

    def until(self, seconds):
        """Steps, three at least, until the seconds have passed. Returns the seconds of each."""
        begin, samples = time.perf_counter(), []
        while len(samples) < 3 or time.perf_counter() - begin < seconds:
            started = time.perf_counter()
            self.step()
            samples.append(time.perf_counter() - started)
        return samples

    def measure(self):
        o, w = self.o, self.o.work
        self.until(o.warm_up_seconds)
        samples = self.until(o.seconds)
        tokens = w.micro_batches * w.micro_batch_size * w.sequence_length
        on_gpu = o.device == "cuda"
        return {"name": self.name, "tokens_per_second": tokens * len(samples) / sum(samples),
                "step_seconds_p50": statistics.median(samples), "steps": len(samples),
                "loss_first": self.losses[0], "loss_last": self.losses[-1],
                "memory_bytes": self.torch.cuda.max_memory_allocated() if on_gpu else 0,
                "bytes_per_parameter": self.masters.bytes_per_parameter()}


def measure(torch, o):
    for name in o.variants:
        try:
            row = Variant(torch, o, name).measure()
        except Exception as error:  # memory that is too small or a backend that lacks the shape
            row = {"name": name, "failed": first_line(error)}
        yield row
        torch._dynamo.reset()
        if o.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
