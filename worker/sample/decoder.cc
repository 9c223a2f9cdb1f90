// SPDX-License-Identifier: Apache-2.0

// Runs a piece of tokens through the layers with the CPU kernels. Keys and values of each layer are
// appended to a cache, and queries of the piece attend to all of it. Work is divided among threads
// by columns of a product or by rows. Long inputs are processed in pieces, so that activations are
// small.

#include "worker/sample/decoder.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/matmul.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/sample/rotary_turns.h"

namespace stretto {
namespace {

// Minimum work that is worth a thread.
constexpr int64_t kColumnsPerThread = 32, kRowsPerThread = 8;

AttentionShape ShapeOf(const ModelSpec& model) {
  return {.sequence_length = model.sequence_length,
          .heads = model.heads,
          .kv_heads = model.key_heads(),
          .head_dim = model.head_dim()};
}

int ThreadsOf(const DecoderOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max<int>(1, std::thread::hardware_concurrency());
}

TensorView View(const float* data, int64_t rows, int64_t columns) {
  return {.data = const_cast<float*>(data), .shape = {rows, columns}, .rank = 2};
}

}  // namespace

// Of one piece: x is the residual stream, y the output of a norm or attention.
struct Decoder::Activations {
  Activations(const ModelSpec& model, const AttentionShape& shape, int64_t rows) {
    const auto floats = [rows](int64_t columns) { return std::vector<float>(rows * columns); };
    const bool gated = IsGated(model.architecture.activation);
    x = floats(model.hidden);
    y = floats(model.hidden);
    stats = floats(2);
    qkv = floats(shape.qkv_columns());
    up = floats(gated ? 2 * model.ffn_hidden : model.ffn_hidden);
    activated = floats(model.ffn_hidden);
  }
  std::vector<float> x, y, stats, qkv, up, activated;
};

Decoder::Decoder(const ModelSource& source, const DecoderOptions& options)
    : name_(source.name()),
      model_(source.model()),
      cancelled_(options.cancelled),
      parameters_(ParametersOf(model_, 1, 0)),
      ids_(IndexOf(parameters_, model_.layers)),
      shape_(ShapeOf(model_)),
      ops_(MakeCpuOps()),
      team_(ThreadsOf(options)),
      weights_(parameters_.size()),
      caches_(model_.layers) {}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Load(const ModelSource& source,
                                                       const DecoderOptions& options) {
  std::unique_ptr<Decoder> decoder(new Decoder(source, options));
  RETURN_IF_ERROR(decoder->ReadWeights(source, options));
  return decoder;
}

absl::Status Decoder::Append(absl::Span<const int32_t> tokens, absl::Span<float> logits) {
  const auto count = static_cast<int64_t>(tokens.size());
  const auto wanted = static_cast<int64_t>(logits.size()) / model_.vocab_size;
  STRETTO_CHECK(logits.size() % model_.vocab_size == 0 && wanted <= count);
  for (const int32_t token : tokens) {
    if (token >= 0 && token < model_.vocab_size) continue;
    return absl::InvalidArgumentError(absl::StrCat(name_, ": found token ", token,
                                                   ", expected one in [0, ", model_.vocab_size,
                                                   ") of its vocabulary"));
  }
  if (position_ + count > model_.sequence_length) {
    return absl::OutOfRangeError(absl::StrCat(name_, ": found ", position_ + count,
                                              " tokens, expected at most ", model_.sequence_length,
                                              ", its sequence length"));
  }
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t rows = std::min(kPiece, count - begin);
    const int64_t first = std::max(begin, count - wanted);  // first row with logits
    const int64_t with_logits = std::max<int64_t>(0, begin + rows - first);
    RETURN_IF_ERROR(AppendPiece(
        tokens.subspan(begin, rows),
        logits.subspan(with_logits == 0 ? 0 : (first - (count - wanted)) * model_.vocab_size,
                       with_logits * model_.vocab_size)));
  }
  return absl::OkStatus();
}

absl::Status Decoder::AppendPiece(absl::Span<const int32_t> tokens, absl::Span<float> logits) {
  const auto rows = static_cast<int64_t>(tokens.size());
  Activations a(model_, shape_, rows);
  Embed(tokens, a.x.data());
  std::vector<float> turns;
  switch (model_.architecture.positions) {
    case PositionKind::kLearned:  // added by Embed
      break;
    case PositionKind::kRotary: {
      const RotarySpeed speed{.base = model_.rotary_base, .scaling = model_.rotary_scaling};
      turns = TurnTable(speed, shape_.head_dim, position_, rows);
      break;
    }
  }
  for (int layer = 0; layer < model_.layers; ++layer) {
    RETURN_IF_ERROR(CheckGoingOn());
    switch (model_.architecture.attention) {
      case AttentionKind::kCausal:
        Attention(layer, rows, turns, &a);
        break;
    }
    switch (model_.architecture.mlp) {
      case MlpKind::kDense:
        Mlp(layer, rows, &a);
        break;
    }
  }
  position_ += rows;
  const int64_t last = static_cast<int64_t>(logits.size()) / model_.vocab_size;
  if (last == 0) return absl::OkStatus();
  const float* const x = a.x.data() + (rows - last) * model_.hidden;
  Norm(ids_.final_w, ids_.final_b, last, x, a.y.data(), a.stats.data());
  Multiply(ids_.head, -1, model_.vocab_size, last, a.y.data(), false, logits.data());
  return absl::OkStatus();
}

void Decoder::Embed(absl::Span<const int32_t> tokens, float* x) {
  const auto rows = static_cast<int64_t>(tokens.size());
  const TensorView out = View(x, rows, model_.hidden);
  const TensorView ids{.data = const_cast<int32_t*>(tokens.data()),
                       .dtype = DType::kI32,
                       .shape = {rows},
                       .rank = 1};
  ops_->Embed(ids, ViewOf(ids_.token_embedding), {0, model_.vocab_size}, out);
  if (ids_.position_embedding >= 0) {
    ops_->AddPosition(ViewOf(ids_.position_embedding), position_, out);
  }
}

void Decoder::Attention(int layer, int64_t rows, const std::vector<float>& turns, Activations* a) {
  const LayerParameters& ids = ids_.layers[layer];
  Norm(ids.ln1_w, ids.ln1_b, rows, a->x.data(), a->y.data(), a->stats.data());
  Multiply(ids.qkv_w, ids.qkv_b, shape_.qkv_columns(), rows, a->y.data(), false, a->qkv.data());
  if (!turns.empty()) TurnRows(shape_, turns, rows, a->qkv.data());
  AttendCached(shape_, position_, rows, a->qkv.data(), &caches_[layer], a->y.data(), &team_);
  Multiply(ids.proj_w, ids.proj_b, model_.hidden, rows, a->y.data(), true, a->x.data());
}

void Decoder::Mlp(int layer, int64_t rows, Activations* a) {
  const LayerParameters& ids = ids_.layers[layer];
  const ActivationKind activation = model_.architecture.activation;
  const int64_t columns = IsGated(activation) ? 2 * model_.ffn_hidden : model_.ffn_hidden;
  Norm(ids.ln2_w, ids.ln2_b, rows, a->x.data(), a->y.data(), a->stats.data());
  Multiply(ids.fc1_w, ids.fc1_b, columns, rows, a->y.data(), false, a->up.data());
  team_.Run(rows, kRowsPerThread, [&](int64_t begin, int64_t end) {
    const TensorView in = View(a->up.data() + begin * columns, end - begin, columns);
    const TensorView out =
        View(a->activated.data() + begin * model_.ffn_hidden, end - begin, model_.ffn_hidden);
    switch (activation) {
      case ActivationKind::kGelu:
        return ops_->Gelu(in, out);
      case ActivationKind::kSwiGlu:
        return ops_->SwiGlu(in, out);
    }
  });
  Multiply(ids.fc2_w, ids.fc2_b, model_.hidden, rows, a->activated.data(), true, a->x.data());
}

void Decoder::Norm(int weight, int bias, int64_t rows, const float* x, float* y, float* stats) {
  const auto epsilon = static_cast<float>(model_.norm_epsilon);
  const int64_t h = model_.hidden;
  team_.Run(rows, kRowsPerThread, [&](int64_t begin, int64_t end) {
    const TensorView in = View(x + begin * h, end - begin, h);
    const TensorView out = View(y + begin * h, end - begin, h);
    switch (model_.architecture.norm) {
      case NormKind::kLayerNorm:
        return ops_->LayerNorm(in, ViewOf(weight), ViewOf(bias), epsilon, out,
                               View(stats + 2 * begin, end - begin, 2));
      case NormKind::kRmsNorm:
        return ops_->RmsNorm(in, ViewOf(weight), epsilon, out, View(stats + begin, end - begin, 1));
    }
  });
}

void Decoder::Multiply(int weight, int bias, int64_t weight_rows, int64_t rows, const float* x,
                       bool add, float* y) {
  const Parameter& parameter = parameters_[weight];
  const int64_t k = parameter.shape.back();
  STRETTO_CHECK(weight_rows * k <= parameter.count());
  const float* const w = DataOf(weight);
  const float* const b = bias < 0 ? nullptr : DataOf(bias);
  team_.Run(weight_rows, kColumnsPerThread, [&](int64_t begin, int64_t end) {
    cpu::Multiply(rows, end - begin, k, 1, {.data = x, .ld = k},
                  {.data = w + begin * k, .ld = k, .transposed = true}, add ? 1 : 0, y + begin,
                  weight_rows);
    if (b == nullptr) return;
    for (int64_t row = 0; row < rows; ++row) {
      float* const out = y + row * weight_rows;
      for (int64_t i = begin; i < end; ++i) out[i] += b[i];
    }
  });
}

const float* Decoder::DataOf(int parameter) const { return weights_[parameter].get(); }

TensorView Decoder::ViewOf(int parameter) const {
  const Parameter& p = parameters_[parameter];
  const int64_t columns = p.shape.back();
  return View(DataOf(parameter), p.count() / columns, columns);
}

}  // namespace stretto
