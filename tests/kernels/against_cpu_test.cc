// SPDX-License-Identifier: Apache-2.0

// The CUDA operations against the CPU's, over the shapes that a device tells apart: rows that are
// and are not whole packs, shorter and longer than a block, more rows than blocks. Each call is
// made three times and must give the same bits: as it is, with every operand moved by one element
// (no 16-byte access fits), and on one SM.
#include <utility>

#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using Tensors = std::vector<Tensor>;
using Views = std::vector<TensorView>;
using Call = std::function<void(Ops&, const Views& in, const Views& out)>;

Tensor AsF32(Tensor tensor) {
  if (tensor.dtype() == DType::kI32) return tensor;
  Tensor wide(DType::kF32, tensor.view().rows(), tensor.view().columns());
  for (int64_t i = 0; i < tensor.count(); ++i) wide.Set(i, tensor.At(i));
  return wide;
}

// A tensor's elements elsewhere, `offset` elements off the address that an allocation has.
class Placed {
 public:
  Placed(Tensor& from, int64_t offset)
      : memory_(from.dtype(), 1, from.count() + offset), view_(from.view()) {
    view_.data = static_cast<char*>(memory_.view().data) +
                 static_cast<size_t>(offset) * SizeOf(from.dtype());
    std::memcpy(view_.data, from.view().data, static_cast<size_t>(view_.bytes()));
  }
  const TensorView& view() const { return view_; }
  void CopyTo(Tensor& to) const {
    std::memcpy(to.view().data, view_.data, static_cast<size_t>(view_.bytes()));
  }

 private:
  Tensor memory_;
  TensorView view_;
};

// Runs `call` on copies; returns the outputs.
Tensors Outcome(Ops& ops, Tensors in, Tensors out, const Call& call, int64_t offset = 0) {
  std::vector<Placed> placed;
  Views ins, outs;
  for (Tensors* tensors : {&in, &out}) {
    for (Tensor& tensor : *tensors) placed.emplace_back(tensor, offset);
  }
  for (size_t i = 0; i < placed.size(); ++i)
    (i < in.size() ? ins : outs).push_back(placed[i].view());
  call(ops, ins, outs);
  for (size_t i = 0; i < out.size(); ++i) placed[in.size() + i].CopyTo(out[i]);
  return out;
}

class AgainstCpuTest : public OpsTest {
 protected:
  // The reference is the CPU in f32 on the same values, so that only one side rounds.
  void Compare(const Tensors& in, const Tensors& out, const Call& call, double absolute = 1e-5) {
    Tensors wide_in, wide_out;
    for (const Tensor& tensor : in) wide_in.push_back(AsF32(tensor));
    for (const Tensor& tensor : out) wide_out.push_back(AsF32(tensor));
    const Tensors want = Outcome(*cpu_, wide_in, wide_out, call);
    const Tensors got = Outcome(*ops_, in, out, call);
    for (size_t i = 0; i < out.size(); ++i) ExpectNear(got[i], want[i].doubles(), absolute);

    const auto expect_bits = [&](const Tensors& again, const char* what) {
      for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(again[i].bytes(), got[i].bytes()) << what;
    };
    expect_bits(Outcome(*ops_, in, out, call, 1), "moved by one element");
    GetParam().limit_sms(*ops_, 1);
    expect_bits(Outcome(*ops_, in, out, call), "on one SM");
    GetParam().limit_sms(*ops_, 0);
  }

  // Norms hold rows of 64 KiB at most.
  Tensors Shapes() {
    Tensors shapes;
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{3, 1},
          {70, 5},
          {300, 8},
          {3, 33},
          {37, 64},
          {5, 768},
          {3, 1020},
          {2, 5120},
          {1, 65536 / static_cast<int64_t>(SizeOf(GetParam().dtype))}}) {
      shapes.push_back(Of(rows, columns));
    }
    return shapes;
  }
  Tensor Like(Tensor& shape, uint32_t seed, double scale = 1) {
    return Of(shape.view().rows(), shape.view().columns()).Fill(seed, scale);
  }
  Tensor Vector(int64_t columns, uint32_t seed) { return Of(1, columns).Fill(seed); }
  Tensor Sums(int64_t rows, int64_t columns, uint32_t seed) {
    return F32(rows, columns).Fill(seed);
  }

  const std::unique_ptr<Ops> cpu_ = MakeCpuOps();
};
STRETTO_ALL_MODES(AgainstCpuTest);

TEST_P(AgainstCpuTest, LayerNorm) {
  for (Tensor& shape : Shapes()) {
    const int64_t rows = shape.view().rows(), h = shape.view().columns();
    SCOPED_TRACE(h);
    const Tensor x = Like(shape, 1, 3), w = Vector(h, 2), b = Vector(h, 3), dy = Like(shape, 4);
    Tensors forward = {shape, F32(rows, 2)};
    const Call norm = [](Ops& ops, const Views& in, const Views& out) {
      ops.LayerNorm(in[0], in[1], in[2], kNormEpsilon, out[0], out[1]);
    };
    Compare({x, w, b}, forward, norm);
    const Tensor stats = Outcome(*ops_, {x, w, b}, forward, norm)[1];
    Compare({dy, x, w, stats, Like(shape, 5)}, {shape},
            [](Ops& ops, const Views& in, const Views& out) {
              ops.LayerNormDgrad(in[0], in[1], in[2], in[3], in[4], out[0]);
            });
    Compare({dy, x, stats}, {Sums(1, h, 6), Sums(1, h, 7)},
            [](Ops& ops, const Views& in, const Views& out) {
              ops.LayerNormWgrad(in[0], in[1], in[2], out[0], out[1]);
            });
    Compare({dy, x, w, stats, Like(shape, 5)}, {shape, Sums(1, h, 6), Sums(1, h, 7)},
            [](Ops& ops, const Views& in, const Views& out) {
              ops.LayerNormGrads(in[0], in[1], in[2], in[3], in[4], out[0], out[1], out[2]);
            });
  }
}

TEST_P(AgainstCpuTest, RmsNorm) {
  for (Tensor& shape : Shapes()) {
    const int64_t rows = shape.view().rows(), h = shape.view().columns();
    SCOPED_TRACE(h);
    const Tensor x = Like(shape, 1, 3), w = Vector(h, 2), dy = Like(shape, 4);
    const Tensors forward = {shape, F32(rows, 1)};
    const Call norm = [](Ops& ops, const Views& in, const Views& out) {
      ops.RmsNorm(in[0], in[1], kNormEpsilon, out[0], out[1]);
    };
    Compare({x, w}, forward, norm);
    const Tensor rstd = Outcome(*ops_, {x, w}, forward, norm)[1];
    Compare({dy, x, w, rstd}, {shape}, [](Ops& ops, const Views& in, const Views& out) {
      ops.RmsNormDgrad(in[0], in[1], in[2], in[3], {}, out[0]);
    });
    Compare({dy, x, rstd}, {Sums(1, h, 6)}, [](Ops& ops, const Views& in, const Views& out) {
      ops.RmsNormWgrad(in[0], in[1], in[2], out[0]);
    });
    Compare({dy, x, w, rstd}, {shape, Sums(1, h, 6)},
            [](Ops& ops, const Views& in, const Views& out) {
              ops.RmsNormGrads(in[0], in[1], in[2], in[3], {}, out[0], out[1]);
            });
  }
}

TEST_P(AgainstCpuTest, BiasResidualAndDropout) {
  const Dropout dropout{.threshold = 1 << 30, .site = 2, .first_token = 3};
  for (Tensor& shape : Shapes()) {
    const int64_t h = shape.view().columns();
    SCOPED_TRACE(h);
    const Tensor r = Like(shape, 1), bias = Vector(h, 2), x = Like(shape, 3);
    const Tensor keys = KeysOf(5, 6, 7, 8);
    Compare({r, bias, x, keys}, {shape}, [&](Ops& ops, const Views& in, const Views& out) {
      ops.BiasResidual(in[0], in[1], in[2], dropout, in[3], out[0]);
    });
    Compare({x, keys}, {shape}, [&](Ops& ops, const Views& in, const Views& out) {
      ops.DropElements(in[0], dropout, in[1], out[0]);
    });
    Compare({r}, {Sums(1, h, 4)},
            [](Ops& ops, const Views& in, const Views& out) { ops.BiasGrad(in[0], out[0]); });
  }
}

TEST_P(AgainstCpuTest, Activations) {
  for (Tensor& shape : Shapes()) {
    const int64_t rows = shape.view().rows(), f = shape.view().columns();
    SCOPED_TRACE(f);
    const Tensor u = Of(rows, 2 * f).Fill(1, 4), da = Like(shape, 2);
    Compare({u}, {Of(rows, 2 * f)},
            [](Ops& ops, const Views& in, const Views& out) { ops.Gelu(in[0], out[0]); });
    Compare({da, Like(shape, 3, 4)}, {shape}, [](Ops& ops, const Views& in, const Views& out) {
      ops.GeluGrad(in[1], in[0], out[0]);
    });
    Compare({u}, {shape},
            [](Ops& ops, const Views& in, const Views& out) { ops.SwiGlu(in[0], out[0]); });
    Compare({u, da}, {Of(rows, 2 * f)}, [](Ops& ops, const Views& in, const Views& out) {
      ops.SwiGluGrad(in[0], in[1], out[0]);
    });
  }
}

TEST_P(AgainstCpuTest, Embedding) {
  const VocabShard vocab{.start = 4, .size = 40};
  for (Tensor& shape : Shapes()) {
    const int64_t rows = shape.view().rows(), h = shape.view().columns();
    SCOPED_TRACE(h);
    const Tensor tokens = Index(rows).FillIndices(1, 20), table = Of(12, h).Fill(2);
    const Tensor dx = Like(shape, 3);
    Compare({tokens, table}, {shape}, [&](Ops& ops, const Views& in, const Views& out) {
      ops.Embed(in[0], in[1], vocab, out[0]);
    });
    Compare({tokens, dx}, {Sums(12, h, 4)}, [&](Ops& ops, const Views& in, const Views& out) {
      ops.EmbedGrad(in[0], in[1], vocab, out[0]);
    });
    Compare({Of(7, h).Fill(5)}, {dx}, [](Ops& ops, const Views& in, const Views& out) {
      ops.AddPosition(in[0], 16, out[0]);
    });
    Compare({dx}, {Sums(7, h, 6)}, [](Ops& ops, const Views& in, const Views& out) {
      ops.PositionGrad(in[0], 16, out[0]);
    });
  }
}

// Rows of a token are added one by one, in their order: the bits of the CPU.
TEST_P(AgainstCpuTest, EmbeddingGradientHasTheBitsOfAscendingRows) {
  // Rows are sorted in runs that are merged: one, two, three and six of them.
  for (const int64_t rows : {700, 2048, 2500, 5200}) {
    SCOPED_TRACE(rows);
    const Tensors in = {Index(rows).FillIndices(1, 50), Of(rows, 24).Fill(2)};
    const Tensors out = {Sums(20, 24, 3)};
    const Call call = [](Ops& ops, const Views& in, const Views& out) {
      ops.EmbedGrad(in[0], in[1], {.start = 10, .size = 50}, out[0]);
    };
    EXPECT_EQ(Outcome(*ops_, in, out, call)[0].bytes(), Outcome(*cpu_, in, out, call)[0].bytes());
  }
}

TEST_P(AgainstCpuTest, Rotary) {
  for (const AttentionShape& shape :
       {AttentionShape{.sequence_length = 7, .heads = 2, .kv_heads = 2, .head_dim = 80},
        {.sequence_length = 11, .heads = 6, .kv_heads = 2, .head_dim = 64},
        {.sequence_length = 3, .heads = 5, .kv_heads = 1, .head_dim = 256},
        {.sequence_length = 13, .heads = 1, .kv_heads = 1, .head_dim = 2},
        {.sequence_length = 5, .heads = 8, .kv_heads = 4, .head_dim = 42}}) {
    for (const bool inverse : {false, true}) {
      SCOPED_TRACE(shape.head_dim);
      const Tensor qkv = Of(13 * shape.sequence_length, shape.qkv_columns()).Fill(1);
      Compare({}, {qkv}, [&](Ops& ops, const Views&, const Views& out) {
        ops.Rotary(shape, {}, inverse, out[0]);
      });
    }
  }
}

// Wavelengths of all three ranges: stretched whole, in between, left alone.
TEST_P(AgainstCpuTest, ScaledRotary) {
  const AttentionShape shape{.sequence_length = 96, .heads = 4, .kv_heads = 2, .head_dim = 64};
  const Tensor qkv = Of(2 * shape.sequence_length, shape.qkv_columns()).Fill(1);
  for (const RotaryScaling::Kind kind :
       {RotaryScaling::Kind::kLinear, RotaryScaling::Kind::kLlama3}) {
    const RotarySpeed speed{.base = 500000,
                            .scaling = {.kind = kind, .factor = 8, .original_sequence_length = 32}};
    for (const bool inverse : {false, true}) {
      Compare({}, {qkv}, [&](Ops& ops, const Views&, const Views& out) {
        ops.Rotary(shape, speed, inverse, out[0]);
      });
    }
  }
}

// Column 0 turns by one radian a position: 16,000 of them are beyond what f32 angles can tell.
TEST_P(AgainstCpuTest, RotaryOfFarPositionsKeepsItsPrecision) {
  const AttentionShape shape{.sequence_length = 16000, .heads = 1, .kv_heads = 1, .head_dim = 4};
  const Tensor qkv = Of(shape.sequence_length, shape.qkv_columns()).Fill(1);
  const Call call = [&](Ops& ops, const Views&, const Views& out) {
    ops.Rotary(shape, {}, false, out[0]);
  };
  ExpectNear(Outcome(*ops_, {}, {qkv}, call)[0],
             Outcome(*cpu_, {}, {AsF32(qkv)}, call)[0].doubles(), 1e-6);
}

TEST_P(AgainstCpuTest, CrossEntropy) {
  for (Tensor& shape : Shapes()) {
    const int64_t rows = shape.view().rows(), v = shape.view().columns();
    SCOPED_TRACE(v);
    // The last column is padding, where there is another.
    const VocabShard vocab{.start = 3, .size = 3 + std::max<int64_t>(v - 1, 1)};
    const Tensor logits = Like(shape, 1, 5);
    const Tensor targets = Index(rows).FillIndices(2, static_cast<int32_t>(vocab.size));
    const Call max_of = [&](Ops& ops, const Views& in, const Views& out) {
      ops.CrossEntropyMax(in[0], vocab, out[0]);
    };
    const Call sum_of = [&](Ops& ops, const Views& in, const Views& out) {
      ops.CrossEntropySum(in[0], in[1], in[2], vocab, out[0]);
    };
    Compare({logits}, {F32(rows, 1)}, max_of, 0);
    const Tensor max = Outcome(*ops_, {logits}, {F32(rows, 1)}, max_of)[0];
    Compare({logits, max, targets}, {F32(rows, 2)}, sum_of);
    const Tensor sums = Outcome(*ops_, {logits, max, targets}, {F32(rows, 2)}, sum_of)[0];
    Compare({sums}, {F32(rows, 1)}, [](Ops& ops, const Views& in, const Views& out) {
      ops.CrossEntropyLoss(in[0], out[0]);
    });
    Tensor scalars = F32(1, kScalarCount).Fill(3);
    scalars.Set(kLossWeight, 0.25);
    Compare({max, sums, targets, scalars}, {logits},
            [&](Ops& ops, const Views& in, const Views& out) {
              ops.CrossEntropyGrad(in[0], in[1], in[2], in[3], vocab, out[0]);
            });
  }
}

TEST_P(AgainstCpuTest, Optimizer) {
  for (const int64_t count : {1, 4, 133, 4096, 70000}) {
    SCOPED_TRACE(count);
    const Tensor x = F32(1, count).Fill(1);
    Compare(
        {x}, {F32(1, 1)},
        [](Ops& ops, const Views& in, const Views& out) { ops.SumSquares(in[0], out[0]); }, 1e-7);
    Compare(
        {x}, {F32(1, 1)},
        [](Ops& ops, const Views& in, const Views& out) { ops.Sum(in[0], out[0]); }, 1e-7);
    Tensor state = F32(1, kClipStateCount), scalars = F32(1, kScalarCount).Fill(2);
    for (const int at : {kClipScale, kUpdate}) state.Set(at, 1);
    for (const auto& [at, value] : {std::pair<int, double>{kLearningRate, 1e-2},
                                    {kBeta1, 0.9},
                                    {kBeta2, 0.95},
                                    {kEpsilon, 1e-2},
                                    {kWeightDecay, 0.1},
                                    {kBiasCorrection1, 0.1},
                                    {kBiasCorrection2, 0.05}}) {
      scalars.Set(at, value);
    }
    Tensor v = F32(1, count).Fill(3);
    for (int64_t i = 0; i < count; ++i) v.Set(i, std::abs(v.At(i)));
    Compare({x, state, scalars}, {F32(1, count).Fill(4), F32(1, count).Fill(5), v, Of(1, count)},
            [](Ops& ops, const Views& in, const Views& out) {
              ops.AdamW(in[0], in[1], in[2], true, out[0], out[1], out[2], out[3]);
            });
  }
}

}  // namespace
}  // namespace stretto
