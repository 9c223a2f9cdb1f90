// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every operation on one batch, whole or in slices.

#include <initializer_list>
#include <vector>

#include "tests/kernels/testing.h"

namespace stretto {

// One batch with the inputs and outputs of every operation; outputs start as NaN, sums as 0.
// Widths are no multiple of a vector, rows no multiple of a GEMM block.
class Batch {
 public:
  static constexpr int64_t kSequences = 6, kLength = 33, kRows = kSequences * kLength;
  static constexpr int64_t kHidden = 44, kVocab = 50;

  explicit Batch(DType dtype, uint32_t seed = 0) {
    const auto add = [&](std::vector<Tensor>* list, DType type, int64_t rows, int64_t columns) {
      list->emplace_back(type, rows, columns).Fill(static_cast<uint32_t>(tensors_++) + seed * 100);
    };
    add(&position_and_weight_, dtype, kLength, kHidden);
    add(&position_and_weight_, dtype, kHidden, kHidden);
    add(&position_and_weight_, dtype, 1, kHidden);
    for (int i = 0; i < 4; ++i) add(&inputs_, dtype, kRows, kHidden);
    add(&inputs_, dtype, kRows, 3 * kHidden);
    add(&inputs_, dtype, kRows, kVocab);
    tokens_.FillIndices(seed, kVocab);
    for (int i = 0; i < 9; ++i) outputs_.emplace_back(dtype, kRows, kHidden);
    outputs_.emplace_back(dtype, kRows, 3 * kHidden);
    for (int i = 0; i < 4; ++i) outputs_.emplace_back(dtype, kRows, kHidden);
    for (int i = 0; i < 2; ++i) outputs_.emplace_back(dtype, kRows, kHidden / 2);
    for (int i = 0; i < 3; ++i) outputs_.emplace_back(dtype, kRows, kHidden);
    for (int i = 0; i < 8; ++i) scalars_out_.emplace_back(DType::kF32, kRows, 2);
    for (int i = 0; i < 7; ++i) sums_.emplace_back(DType::kF32, kVocab, kHidden).Zero();
    scalars_.Fill(7);
  }

  // Everything forward and backward that works row by row, on some sequences.
  void Run(Ops& ops, int64_t first_sequence, int64_t sequences) {
    const int64_t first = first_sequence * kLength, rows = sequences * kLength;
    const auto in = [&](size_t i) { return inputs_[i].Rows(first, rows); };
    const auto out = [&](size_t i) { return outputs_[i].Rows(first, rows); };
    const auto stat = [&](size_t i) { return scalars_out_[i].Rows(first, rows); };
    const auto column = [&](size_t i) {
      TensorView view = scalars_out_[i].Rows(0, kRows);
      view.data = view.as<float>() + first;
      view.shape = {rows, 1, 1, 1};
      return view;
    };
    const auto sum = [&](size_t i, int64_t n) { return sums_[i].Rows(0, n); };
    const TensorView position = position_and_weight_[0].view(),
                     weight = position_and_weight_[1].view();
    const TensorView vector = position_and_weight_[2].view();
    const AttentionShape shape{
        .sequence_length = kLength, .heads = 2, .kv_heads = 2, .head_dim = kHidden / 2};
    Tensor scratch(DType::kF32, 1, AttentionScratch(shape, rows));
    const VocabShard vocab{.start = 0, .size = 45};
    const TensorView tokens = tokens_.Rows(first, rows);

    ops.Gemm(in(0), weight, vector, out(0));
    ops.GemmDgrad(in(1), weight, 0, out(1));
    ops.Embed(tokens, weight, vocab, out(2));
    ops.AddPosition(position, first, out(2));
    ops.LayerNorm(in(0), vector, vector, kNormEpsilon, out(3), stat(0));
    ops.LayerNormDgrad(in(1), in(0), vector, stat(0), in(2), out(4));
    const Dropout dropout{.threshold = 1 << 30, .site = 1, .first_token = first};
    ops.BiasResidual(in(0), vector, in(1), dropout, keys_.view(), out(5));
    ops.DropElements(in(0), dropout, keys_.view(), out(10));
    ops.RmsNorm(in(0), vector, kNormEpsilon, out(11), column(5));
    ops.BiasResidualLayerNorm(in(0), vector, in(1), dropout, keys_.view(), out(16), vector, vector,
                              kNormEpsilon, out(17), stat(6));
    ops.BiasResidualRmsNorm(in(0), vector, in(1), dropout, keys_.view(), out(16), vector,
                            kNormEpsilon, out(18), column(7));
    ops.RmsNormDgrad(in(1), in(0), vector, column(5), in(2), out(12));
    ops.Gelu(in(0), out(6));
    ops.GeluGrad(in(0), in(1), out(7));
    ops.SwiGlu(in(0), out(14));
    ops.SwiGluGrad(in(0), out(14), out(13));
    ops.Rotary(shape, {}, false, in(4));
    ops.Attention(shape, dropout, keys_.view(), {}, in(4), out(8), stat(1), scratch.view());
    ops.AttentionGrad(shape, dropout, keys_.view(), {}, in(3), in(4), out(8), stat(1), out(9),
                      scratch.view());
    ops.GemmDgrad(in(1), weight, kHidden / 2, out(15));
    ops.CrossEntropyMax(in(5), vocab, column(2));
    ops.CrossEntropySum(in(5), column(2), tokens, vocab, stat(3));
    ops.CrossEntropyLoss(stat(3), column(4));
    ops.CrossEntropyGrad(column(2), stat(3), tokens, scalars_.view(), vocab, in(5));
    // Sums over rows.
    ops.BiasGrad(in(1), sum(0, 1));
    ops.EmbedGrad(tokens, in(1), vocab, sum(1, kVocab));
    ops.PositionGrad(in(1), first, sum(2, kLength));
    ops.LayerNormWgrad(in(1), in(0), stat(0), sum(3, 1), sum(4, 1));
    ops.RmsNormWgrad(in(1), in(0), column(5), sum(6, 1));
  }
  void RunWeightGradient(Ops& ops) {
    ops.GemmWgrad(inputs_[0].view(), inputs_[1].view(), sums_[5].Rows(0, kHidden));
  }

  // Of everything that belongs to a row.
  std::vector<unsigned char> RowBits() const {
    return BitsOf({&inputs_, &outputs_, &scalars_out_});
  }
  std::vector<unsigned char> Bits() const {
    return BitsOf({&inputs_, &outputs_, &scalars_out_, &sums_});
  }
  const std::vector<Tensor>& sums() const { return sums_; }

  bool OutputsAreWritten() const {
    for (const Tensor& tensor : outputs_) {
      for (int64_t i = 0; i < tensor.count(); ++i) {
        if (std::isnan(tensor.At(i))) return false;
      }
    }
    return true;
  }

 private:
  static std::vector<unsigned char> BitsOf(
      std::initializer_list<const std::vector<Tensor>*> lists) {
    std::vector<unsigned char> all;
    for (const std::vector<Tensor>* list : lists) {
      for (const Tensor& tensor : *list)
        all.insert(all.end(), tensor.bytes().begin(), tensor.bytes().end());
    }
    return all;
  }

  int tensors_ = 1;
  std::vector<Tensor> position_and_weight_, inputs_, outputs_, scalars_out_, sums_;
  Tensor tokens_{DType::kI32, kRows, 1}, scalars_{DType::kF32, 1, kScalarCount};
  Tensor keys_ = KeysOf(1, 2, 3, 4);
};

}  // namespace stretto
