// SPDX-License-Identifier: Apache-2.0
#pragma once
// A batch through Attention and its gradient.

#include <vector>

#include "tests/kernels/documents.h"
#include "tests/kernels/testing.h"

namespace stretto {

struct AttentionBatch {
  AttentionShape shape;
  Dropout dropout;
  int64_t rows;
  Tensor qkv, dcontext, context, lse, dqkv, documents;

  // Inputs are seeded values that bf16 can hold, whatever the type.
  AttentionBatch(DType dtype, const AttentionShape& shape, const Dropout& dropout,
                 int64_t sequences, const DocumentBegins& begins = {})
      : shape(shape),
        dropout(dropout),
        rows(sequences * shape.sequence_length),
        qkv(dtype, rows, shape.qkv_columns()),
        dcontext(dtype, rows, shape.context_columns()),
        context(dtype, rows, shape.context_columns()),
        lse(DType::kF32, sequences * shape.heads, shape.sequence_length),
        dqkv(dtype, rows, shape.qkv_columns()),
        documents(TensorOf(begins, shape.sequence_length)) {
    Fill(&qkv, 1, 2);
    Fill(&dcontext, 2, 1);
  }

  // Sequences [first, first + count).
  void Run(Ops& ops, int64_t first, int64_t count) {
    const int64_t from = first * shape.sequence_length, n = count * shape.sequence_length;
    Tensor keys = KeysOf(11, 22, 7, 1000), scratch(DType::kF32, 1, AttentionScratch(shape, n));
    TensorView logs = lse.Rows(first * shape.heads, count * shape.heads);
    const TensorView apart = OperandOf(documents, from, n);
    Dropout draws = dropout;
    draws.first_token += from;
    ops.Attention(shape, draws, keys.view(), apart, qkv.Rows(from, n), context.Rows(from, n), logs,
                  scratch.view());
    scratch.Poison();
    ops.AttentionGrad(shape, draws, keys.view(), apart, dcontext.Rows(from, n), qkv.Rows(from, n),
                      context.Rows(from, n), logs, dqkv.Rows(from, n), scratch.view());
  }
  void Run(Ops& ops) { Run(ops, 0, rows / shape.sequence_length); }

  std::vector<unsigned char> Bits() const {
    std::vector<unsigned char> all = context.bytes();
    for (const Tensor* tensor : {&lse, &dqkv})
      all.insert(all.end(), tensor->bytes().begin(), tensor->bytes().end());
    return all;
  }

 private:
  static void Fill(Tensor* tensor, uint32_t seed, double scale) {
    const Doubles values = Tensor(DType::kBF16, 1, tensor->count()).Fill(seed, scale).doubles();
    for (size_t i = 0; i < values.size(); ++i) tensor->Set(static_cast<int64_t>(i), values[i]);
  }
};

}  // namespace stretto
