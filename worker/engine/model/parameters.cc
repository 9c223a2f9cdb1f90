// SPDX-License-Identifier: Apache-2.0

// Builder lists the parameters in a fixed order with their shapes, initial values and shards. An
// initial value is a function of the seed, the parameter and the element's index in the full
// tensor, so every layout draws the same model and a rank computes only its own shard.

#include "worker/engine/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/random.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

constexpr float kStd = 0.02f;  // GPT-2
constexpr char kEmbeddings[] = "embedding.";

class Builder {
 public:
  Builder(const ModelSpec& model, int tp_size, GroupRank tp_rank)
      : model_(model),
        features_(model.architecture),
        tp_size_(tp_size),
        tp_rank_(tp_rank),
        // The residual branches start smaller in deeper models (GPT-2, section 2.3).
        residual_std_(kStd / std::sqrt(2.0f * static_cast<float>(model_.layers))) {}

  std::vector<Parameter> Run() {
    AddVocabulary("embedding.token.weight");
    AddPositions();
    for (int layer = 0; layer < model_.layers; ++layer) {
      AddNorm(layer, "ln1");
      AddAttention(layer);
      const size_t first_half_end = parameters_.size();
      AddNorm(layer, "ln2");
      AddMlp(layer);
      for (size_t i = first_half_end; i < parameters_.size(); ++i)
        parameters_[i].second_half = true;
    }
    AddNorm(-1, "final_norm");
    if (!model_.head_is_tied()) AddVocabulary("head.weight");
    return std::move(parameters_);
  }

 private:
  void AddVocabulary(absl::string_view name) {
    Add(-1, name, {model_.padded_vocab(), model_.hidden}, 0, Init::kNormal, kStd, true);
    parameters_.back().padding_from = model_.vocab_size;
  }

  void AddPositions() {
    switch (features_.positions) {
      case PositionKind::kLearned:
        Add(-1, "embedding.position.weight", {model_.sequence_length, model_.hidden}, -1,
            Init::kNormal, kStd, true);
        return;
      case PositionKind::kRotary:
        return;
    }
  }

  void AddNorm(int layer, absl::string_view name) {
    Add(layer, absl::StrCat(name, ".weight"), {model_.hidden}, -1, Init::kOne);
    switch (features_.norm) {
      case NormKind::kLayerNorm:
        Add(layer, absl::StrCat(name, ".bias"), {model_.hidden}, -1, Init::kZero);
        return;
      case NormKind::kRmsNorm:
        return;
    }
  }

  void AddAttention(int layer) {
    const int64_t h = model_.hidden, kv = model_.key_heads();
    // Each key/value head has the columns of its queries, its key and its value.
    const int64_t columns = int64_t{model_.heads / model_.key_heads() + 2} * model_.head_dim();
    switch (features_.attention) {
      case AttentionKind::kCausal:
        AddLinear(layer, "attention.qkv", {kv, columns, h}, 0, kStd, features_.qkv_bias);
        AddLinear(layer, "attention.proj", {h, h}, 1, residual_std_, features_.proj_bias);
        return;
    }
  }

  void AddMlp(int layer) {
    const int64_t h = model_.hidden, f = model_.ffn_hidden;
    const bool gated = IsGated(features_.activation);
    const std::vector<int64_t> fc1 = gated ? std::vector<int64_t>{2, f, h} : std::vector{f, h};
    switch (features_.mlp) {
      case MlpKind::kDense:
        // A gated fc1 is cut within each half, so that a rank has the gates of its own values.
        AddLinear(layer, "mlp.fc1", fc1, gated ? 1 : 0, kStd, features_.mlp_bias);
        AddLinear(layer, "mlp.fc2", {h, f}, 1, residual_std_, features_.mlp_bias);
        return;
    }
  }

  // Adds a product's weight, whose last dimension is its inputs, and its bias, one number for each
  // output. The bias is sharded like the outputs, and replicated when the inputs are sharded.
  void AddLinear(int layer, absl::string_view name, std::vector<int64_t> shape, int shard,
                 float std, bool bias) {
    std::vector<int64_t> outputs(shape.begin(), shape.end() - 1);
    const bool by_output = std::cmp_less(shard, outputs.size());
    Add(layer, absl::StrCat(name, ".weight"), std::move(shape), shard, Init::kNormal, std, true);
    if (!bias) return;
    Add(layer, absl::StrCat(name, ".bias"), std::move(outputs), by_output ? shard : -1,
        Init::kZero);
  }

  // shard: the dimension cut over TP, -1 for a replicated parameter.
  void Add(int layer, absl::string_view name, std::vector<int64_t> shape, int shard, Init init,
           float std = 0, bool decay = false) {
    Parameter p;
    p.name = layer < 0 ? std::string(name) : absl::StrCat("layers.", layer, ".", name);
    p.index = static_cast<int>(parameters_.size());
    p.layer = layer;
    p.shape = shape;
    p.starts.assign(shape.size(), 0);
    p.extents = std::move(shape);
    if (shard >= 0) {
      // A stage between the first and the last has no vocabulary, and its TP size need not divide
      // it.
      int64_t& extent = p.extents[shard];
      extent /= tp_size_;
      p.starts[shard] = extent * tp_rank_.value();
    }
    p.init = init;
    p.init_std = std;
    p.decay = decay;
    parameters_.push_back(std::move(p));
  }

  const ModelSpec& model_;
  const Architecture& features_;
  const int tp_size_;
  const GroupRank tp_rank_;
  const float residual_std_;
  std::vector<Parameter> parameters_;
};

// Returns a standard normal number: Box-Muller over one Philox draw.
float Normal(uint64_t key, uint64_t index, uint64_t stream) {
  const auto bits = Philox(key, index, stream);
  const float u = 1.0f - ToUniform(bits[0]);  // (0, 1]
  return std::sqrt(-2.0f * std::log(u)) *
         std::cos(2 * std::numbers::pi_v<float> * ToUniform(bits[1]));
}

// Returns the initial value of an element, by its index in the full tensor.
float InitialValue(const Parameter& p, uint64_t seed, int64_t element) {
  switch (p.init) {
    case Init::kZero:
      return 0;
    case Init::kOne:
      return 1;
    case Init::kNormal:
      return p.init_std *
             Normal(seed, static_cast<uint64_t>(element), static_cast<uint64_t>(p.index));
  }
  return 0;
}

}  // namespace

int64_t Parameter::count() const {
  int64_t n = 1;
  for (int64_t extent : extents) n *= extent;
  return n;
}

std::vector<Parameter> ParametersOf(const ModelSpec& model, int tp_size, GroupRank tp_rank) {
  return Builder(model, tp_size, tp_rank).Run();
}

std::vector<Parameter> ParametersOf(const EngineSpec& spec, Rank rank) {
  const Place place = PlaceOf(spec, rank);
  const std::vector<Chunk> chunks = ChunksOf(spec, place.stage);
  std::vector<Parameter> parameters =
      ParametersOf(spec.model, TpSizeOf(spec, place.stage), place.tp_rank);
  const ModelParameters ids = IndexOf(parameters, spec.model.layers);
  std::erase_if(parameters, [&](const Parameter& p) {
    if (p.layer >= 0) {
      return std::none_of(chunks.begin(), chunks.end(), [&](const Chunk& chunk) {
        return p.layer >= chunk.first_layer && p.layer < chunk.end_layer;
      });
    }
    const bool embeds = p.index == ids.token_embedding || p.index == ids.position_embedding;
    const bool predicts = p.index == ids.head || p.index == ids.final_w || p.index == ids.final_b;
    return !(embeds && chunks.front().embeds) && !(predicts && chunks.back().predicts);
  });
  for (Parameter& p : parameters) {
    p.copy = p.index == ids.token_embedding && !chunks.front().embeds;
  }
  return parameters;
}

int OwnerOf(const EngineSpec& spec, const Parameter& parameter) {
  if (parameter.layer < 0) return parameter.name.starts_with(kEmbeddings) ? 0 : HeadStageOf(spec);
  const int last = spec.pp_size - 1;
  for (int stage = 0; stage < last; ++stage) {
    for (const Chunk& chunk : ChunksOf(spec, stage)) {
      if (parameter.layer >= chunk.first_layer && parameter.layer < chunk.end_layer) return stage;
    }
  }
  return last;
}

std::vector<Parameter> BoxesOf(const Parameter& shard, ElementRange range) {
  std::vector<Parameter> parts;
  for (Box& box : BoxesOf(shard.extents, range)) {
    Parameter& part = parts.emplace_back(shard);
    for (size_t i = 0; i < part.starts.size(); ++i) part.starts[i] += box.starts[i];
    part.extents = std::move(box.extents);
  }
  return parts;
}

ModelParameters IndexOf(const std::vector<Parameter>& parameters, int layers) {
  std::map<std::string, int> index;
  for (size_t i = 0; i < parameters.size(); ++i) index[parameters[i].name] = i;
  const auto find = [&](const std::string& name) {
    const auto it = index.find(name);
    return it == index.end() ? -1 : it->second;
  };
  ModelParameters ids{.token_embedding = find("embedding.token.weight"),
                      .position_embedding = find("embedding.position.weight"),
                      .layers = {},
                      .final_w = find("final_norm.weight"),
                      .final_b = find("final_norm.bias"),
                      .head = find("head.weight")};
  if (ids.head < 0) ids.head = ids.token_embedding;
  for (int layer = 0; layer < layers; ++layer) {
    const auto at = [&](const char* name) { return find(absl::StrCat("layers.", layer, name)); };
    ids.layers.push_back({at(".ln1.weight"), at(".ln1.bias"), at(".attention.qkv.weight"),
                          at(".attention.qkv.bias"), at(".attention.proj.weight"),
                          at(".attention.proj.bias"), at(".ln2.weight"), at(".ln2.bias"),
                          at(".mlp.fc1.weight"), at(".mlp.fc1.bias"), at(".mlp.fc2.weight"),
                          at(".mlp.fc2.bias")});
  }
  return ids;
}

void Initialise(const Parameter& p, uint64_t seed, int64_t begin, int64_t end, float* values) {
  // The shard as exactly three dimensions, so that one loop handles every shape.
  std::vector<int64_t> shape = p.shape, starts = p.starts, extents = p.extents;
  while (shape.size() < 3) {
    shape.insert(shape.begin(), 1);
    starts.insert(starts.begin(), 0);
    extents.insert(extents.begin(), 1);
  }
  const int64_t first_padding =
      p.padding_from < 0 ? std::numeric_limits<int64_t>::max()
                         : p.padding_from * (shape[0] * shape[1] * shape[2] / p.shape[0]);
  for (int64_t i = begin; i < end;) {
    const int64_t row = i / extents[2], column = i % extents[2];
    const int64_t a = starts[0] + row / extents[1], b = starts[1] + row % extents[1];
    // The index in the full tensor of the shard's element i; consecutive to the end of its row.
    int64_t element = (a * shape[1] + b) * shape[2] + starts[2] + column;
    for (const int64_t stop = std::min(end, i + extents[2] - column); i < stop; ++i, ++element) {
      values[i] = element < first_padding ? InitialValue(p, seed, element) : 0.0f;
    }
  }
}

}  // namespace stretto
