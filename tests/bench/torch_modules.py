# SPDX-License-Identifier: Apache-2.0
"""The GPT of torch_step.py as modules, whole or the layers of one stage."""

import torch.nn.functional as F
from torch import nn

import torch_step


class Layer(nn.Module):
    def __init__(self, shape, tensors):
        super().__init__()
        self.shape = shape
        self.p = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(t)
                                   for name, t in tensors.items()})

    def forward(self, x):
        named = {f"0.{name.replace('_', '.')}": t for name, t in self.p.items()}
        return torch_step.block(named, 0, x, self.shape, 1, None)


class Model(nn.Module):
    """Logits [tokens, vocab] from tokens [batch, sequence]. A stage passes on x [tokens, hidden],
    and the first and the last one each hold the token embedding, which is also the head."""

    def __init__(self, shape, stage=0, stages=1):
        super().__init__()
        self.shape, self.first, self.last = shape, stage == 0, stage == stages - 1
        whole = torch_step.full_parameters(shape)
        if self.first or self.last:
            self.token = nn.Parameter(whole["token"])
        if self.first:
            self.position = nn.Parameter(whole["position"])
        if self.last:
            self.norm_weight = nn.Parameter(whole["norm.weight"])
            self.norm_bias = nn.Parameter(whole["norm.bias"])
        begin, end = (i * shape.layers // stages for i in (stage, stage + 1))
        self.layers = nn.ModuleList(
            Layer(shape, {k.removeprefix(f"{layer}."): t for k, t in whole.items()
                          if k.startswith(f"{layer}.")}) for layer in range(begin, end))

    def forward(self, x):
        h = self.shape.hidden
        if self.first:
            x = (F.embedding(x, self.token) + self.position).view(-1, h)
        for layer in self.layers:
            x = layer(x)
        if not self.last:
            return x
        x = F.layer_norm(x, (h,), self.norm_weight, self.norm_bias, eps=1e-5)
        return F.linear(x, self.token)
