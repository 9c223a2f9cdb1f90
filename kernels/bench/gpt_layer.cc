#include "kernels/bench/gpt_layer.h"

#include <algorithm>

#include "kernels/bf16.h"

namespace stretto {

namespace {

constexpr int64_t kAlignment = 64;
constexpr float kWeightScale = 0.04f;  // keeps activations of order 1

TensorView Rows(TensorView view, int64_t first, int64_t rows) {
  view.data = static_cast<char*>(view.data) +
              first * view.columns() * static_cast<int64_t>(SizeOf(view.dtype));
  view.shape[0] = rows;
  return view;
}

Dropout From(Dropout dropout, int64_t first_token) {
  dropout.first_token = first_token;
  return dropout;
}

// Makes tensors and operations; what it makes refers to `ops` and `memory`, not to itself.
class Builder {
 public:
  Builder(const LayerConfig& config, Ops* ops, Memory* memory)
      : config_(config), ops_(ops), memory_(memory) {}

  std::vector<TimedOp> Layer();
  std::vector<TimedOp> Ends();

 private:
  struct Linear {
    const char* name;
    TensorView w, b, dw, db;
  };

  TensorView Of(int64_t columns) { return memory_->Make(config_.dtype, config_.tokens, columns); }
  TensorView F32(int64_t rows, int64_t columns) {
    return memory_->Make(DType::kF32, rows, columns);
  }
  Linear MakeLinear(const char* name, int64_t n, int64_t k, bool bias) {
    return {.name = name,
            .w = memory_->Make(config_.dtype, n, k, kWeightScale),
            .b = bias ? memory_->Make(config_.dtype, 1, n) : TensorView{},
            .dw = F32(n, k),
            .db = F32(1, n)};
  }

  // Adds f(rows of each tensor) for every slice.
  void Add(const std::string& name, bool gemm, int64_t work, std::vector<TensorView> tensors,
           const std::function<void(const std::vector<TensorView>&, int64_t first)>& f) {
    const int64_t rows = config_.slice_rows();
    for (int64_t first = 0; first < config_.tokens; first += rows) {
      std::vector<TensorView> parts;
      for (const TensorView& tensor : tensors) parts.push_back(Rows(tensor, first, rows));
      list_.push_back({name, gemm, work / config_.slices, [=] { f(parts, first); }});
    }
  }
  void AddLoop(const std::string& name, std::vector<TensorView> tensors,
               const std::function<void(const std::vector<TensorView>&, int64_t)>& f) {
    int64_t bytes = 0;
    for (const TensorView& tensor : tensors) bytes += tensor.bytes();
    Add(name, false, bytes, std::move(tensors), f);
  }

  void Forward(const Linear& linear, TensorView x, TensorView y) {
    Add(std::string(linear.name) + " forward", true, 2 * config_.tokens * linear.w.count(), {x, y},
        [=, ops = ops_](const auto& t, int64_t) { ops->Gemm(t[0], linear.w, linear.b, t[1]); });
  }
  void Wgrad(const Linear& linear, TensorView dy, TensorView x) {
    const std::string name = linear.name;
    Add(name + " wgrad", true, 2 * config_.tokens * linear.w.count(), {dy, x},
        [=, ops = ops_](const auto& t, int64_t) { ops->GemmWgrad(t[0], t[1], linear.dw); });
    AddLoop(name + " bias_grad", {dy},
            [=, ops = ops_](const auto& t, int64_t) { ops->BiasGrad(t[0], linear.db); });
  }
  void Dgrad(const Linear& linear, TensorView dy, TensorView dx) {
    Add(std::string(linear.name) + " dgrad", true, 2 * config_.tokens * linear.w.count(), {dy, dx},
        [=, ops = ops_](const auto& t, int64_t) { ops->GemmDgrad(t[0], linear.w, 0, t[1]); });
  }
  Dropout DropoutAt(int64_t site) const {
    return {.threshold = static_cast<int64_t>(config_.dropout * 4294967296.0), .site = site};
  }
  void BiasResidual(const char* name, TensorView r, TensorView bias, TensorView x, TensorView y) {
    AddLoop(name, {r, x, y},
            [=, ops = ops_, keys = keys_, drop = DropoutAt(1)](const auto& t, int64_t first) {
              ops->BiasResidual(t[0], bias, t[1], From(drop, first), keys, t[2]);
            });
  }
  TensorView DropGrad(TensorView dy) {
    if (config_.dropout == 0) return dy;
    const TensorView dx = Of(config_.hidden);
    AddLoop("dropout grad", {dy, dx},
            [=, ops = ops_, keys = keys_, drop = DropoutAt(1)](const auto& t, int64_t first) {
              ops->DropElements(t[0], From(drop, first), keys, t[1]);
            });
    return dx;
  }

  const LayerConfig config_;
  Ops* const ops_;
  Memory* const memory_;
  const TensorView keys_ = memory_->Make(DType::kI32, 1, kKeyCount);
  std::vector<TimedOp> list_;
};

std::vector<TimedOp> Builder::Layer() {
  const int64_t n = config_.tokens, h = config_.hidden, heads = config_.heads / config_.tp;
  const AttentionShape shape{.sequence_length = config_.sequence,
                             .heads = heads,
                             .kv_heads = heads,
                             .head_dim = h / config_.heads};
  const int64_t width = shape.context_columns(), inner = 4 * h / config_.tp;
  const int64_t pairs = n * (config_.sequence + 1) / 2 * width;  // causal
  const Linear qkv = MakeLinear("qkv", 3 * width, h, true),
               proj = MakeLinear("proj", h, width, false), fc1 = MakeLinear("fc1", inner, h, true),
               fc2 = MakeLinear("fc2", h, inner, false);
  const TensorView b = memory_->Make(config_.dtype, 1, h), g = memory_->Make(config_.dtype, 1, h);
  const TensorView dw = F32(1, h), db = F32(1, h), scratch = F32(1, AttentionScratch(shape, n));
  const TensorView x = Of(h), y1 = Of(h), q = Of(3 * width), context = Of(width), r1 = Of(h);
  const TensorView x2 = Of(h), y2 = Of(h), u = Of(inner), a = Of(inner), r2 = Of(h), out = Of(h);
  const TensorView stats1 = F32(n, 2), stats2 = F32(n, 2), lse = F32(n, heads);
  Ops* const ops = ops_;
  const TensorView keys = keys_;
  const Dropout drop = DropoutAt(2);
  const auto norm = [&](const char* name, TensorView in, TensorView to, TensorView stats) {
    AddLoop(name, {in, to, stats},
            [=](const auto& t, int64_t) { ops->LayerNorm(t[0], g, b, t[1], t[2]); });
  };
  const auto norm_grad = [&](const std::string& name, TensorView dy, TensorView in,
                             TensorView stats, TensorView residual, TensorView dx) {
    AddLoop(name + " dgrad", {dy, in, stats, residual, dx},
            [=](const auto& t, int64_t) { ops->LayerNormDgrad(t[0], t[1], g, t[2], t[3], t[4]); });
    AddLoop(name + " wgrad", {dy, in, stats},
            [=](const auto& t, int64_t) { ops->LayerNormWgrad(t[0], t[1], t[2], dw, db); });
  };

  norm("norm1", x, y1, stats1);
  Forward(qkv, y1, q);
  Add("attention forward", false, 4 * pairs, {q, context, lse}, [=](const auto& t, int64_t first) {
    ops->Attention(shape, From(drop, first), keys, t[0], t[1], t[2], scratch);
  });
  Forward(proj, context, r1);
  BiasResidual("residual1", r1, b, x, x2);
  norm("norm2", x2, y2, stats2);
  Forward(fc1, y2, u);
  AddLoop("gelu", {u, a}, [=](const auto& t, int64_t) { ops->Gelu(t[0], t[1]); });
  Forward(fc2, a, r2);
  BiasResidual("residual2", r2, b, x2, out);

  const TensorView d = Of(h), da = Of(inner), du = Of(inner), dy2 = Of(h), dx2 = Of(h);
  const TensorView dcontext = Of(width), dq = Of(3 * width), dy1 = Of(h), dx = Of(h);
  const TensorView d2 = DropGrad(d);
  Dgrad(fc2, d2, da);
  Wgrad(fc2, d2, a);
  AddLoop("gelu grad", {u, da, du},
          [=](const auto& t, int64_t) { ops->GeluGrad(t[0], t[1], t[2]); });
  Wgrad(fc1, du, y2);
  Dgrad(fc1, du, dy2);
  norm_grad("norm2", dy2, x2, stats2, d, dx2);
  const TensorView d1 = DropGrad(dx2);
  Dgrad(proj, d1, dcontext);
  Wgrad(proj, d1, context);
  Add("attention backward", false, 10 * pairs, {dcontext, q, context, lse, dq},
      [=](const auto& t, int64_t first) {
        ops->AttentionGrad(shape, From(drop, first), keys, t[0], t[1], t[2], t[3], t[4], scratch);
      });
  Wgrad(qkv, dq, y1);
  Dgrad(qkv, dq, dy1);
  norm_grad("norm1", dy1, x, stats1, dx2, dx);
  return std::move(list_);
}

std::vector<TimedOp> Builder::Ends() {
  const int64_t n = config_.tokens, h = config_.hidden, v = config_.vocab / config_.tp;
  const VocabShard vocab{.start = 0, .size = v};
  const Linear head = MakeLinear("head", v, h, false);
  const TensorView tokens = memory_->Make(DType::kI32, n, 1), y = Of(h), logits = Of(v), dy = Of(h);
  const TensorView max = F32(n, 1), sums = F32(n, 2), scalars = F32(1, kScalarCount);
  Ops* const ops = ops_;
  AddLoop("embed", {y, y}, [=](const auto& t, int64_t first) {
    ops->Embed(Rows(tokens, first, t[0].rows()), head.w, vocab, t[0]);
  });
  Forward(head, y, logits);
  AddLoop("loss max", {logits, max},
          [=](const auto& t, int64_t) { ops->CrossEntropyMax(t[0], vocab, t[1]); });
  AddLoop("loss sum", {logits, max, tokens, sums},
          [=](const auto& t, int64_t) { ops->CrossEntropySum(t[0], t[1], t[2], vocab, t[3]); });
  AddLoop("loss grad", {logits, logits, max, tokens, sums}, [=](const auto& t, int64_t) {
    ops->CrossEntropyGrad(t[2], t[4], t[3], scalars, vocab, t[0]);
  });
  Wgrad(head, logits, y);
  Dgrad(head, logits, dy);
  AddLoop("embed grad", {dy, dy}, [=](const auto& t, int64_t first) {
    ops->EmbedGrad(Rows(tokens, first, t[0].rows()), t[0], vocab, head.dw);
  });

  const int64_t count = 4 * h * h / config_.tp;
  const TensorView g = F32(count, 1), m = F32(count, 1), square = F32(count, 1);
  const TensorView master = F32(count, 1), weight = memory_->Make(config_.dtype, count, 1);
  const TensorView out = F32(1, 1), state = F32(1, kClipStateCount);
  std::fill_n(square.as<float>(), count, 0.5f);
  std::fill_n(scalars.as<float>(), static_cast<int64_t>(kScalarCount), 0.5f);
  std::fill_n(state.as<float>(), static_cast<int64_t>(kClipStateCount), 1.0f);
  list_.push_back({"sum_squares", false, g.bytes(), [=] { ops->SumSquares(g, out); }});
  list_.push_back({"adamw", false, 7 * g.bytes() + weight.bytes(),
                   [=] { ops->AdamW(g, state, scalars, true, master, m, square, weight); }});
  return std::move(list_);
}

}  // namespace

TensorView Memory::Make(DType dtype, int64_t rows, int64_t columns, float scale) {
  TensorView view{.dtype = dtype, .shape = {rows, columns, 1, 1}, .rank = 2};
  std::vector<float>& storage =
      storage_.emplace_back(static_cast<size_t>(rows * columns + kAlignment));
  const auto address = reinterpret_cast<uintptr_t>(storage.data());
  view.data = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  uint32_t state = 1;
  for (int64_t i = 0; i < view.count(); ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
    if (dtype == DType::kI32) view.as<int32_t>()[i] = static_cast<int32_t>(state >> 8) % 4096;
    if (dtype == DType::kF32) view.as<float>()[i] = value;
    if (dtype == DType::kBF16) view.as<BF16>()[i] = ToBF16(value);
  }
  return view;
}

std::vector<TimedOp> GptLayer(const LayerConfig& config, Ops* ops, Memory* memory) {
  return Builder(config, ops, memory).Layer();
}

std::vector<TimedOp> GptEnds(const LayerConfig& config, Ops* ops, Memory* memory) {
  return Builder(config, ops, memory).Ends();
}

}  // namespace stretto
