// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights that nobody trained, large enough that every one of them moves the logits.

#include <string>
#include <utility>
#include <vector>

#include "proto/base/random.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Elements are a function of the parameter's place and theirs. Reads whole parameters.
class DrawnModel final : public ModelSource {
 public:
  explicit DrawnModel(ModelSpec model)
      : model_(std::move(model)), parameters_(ParametersOf(model_, 1, 0)) {}

  const std::string& name() const override { return name_; }
  const ModelSpec& model() const override { return model_; }
  const std::string& dtype() const override { return dtype_; }
  std::vector<std::string> tokenizer_files() const override { return {}; }
  absl::Status Read(absl::string_view parameter, const std::vector<int64_t>&,
                    const std::vector<int64_t>&, float* out) const override {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].name != parameter) continue;
      const std::vector<float> values = Values(i);
      std::copy(values.begin(), values.end(), out);
      return absl::OkStatus();
    }
    return absl::NotFoundError(std::string(parameter));
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<float> Values(size_t index) const {
    const Parameter& parameter = parameters_[index];
    std::vector<float> values(static_cast<size_t>(parameter.count()));
    const int64_t row = parameter.count() / parameter.shape[0];
    for (size_t i = 0; i < values.size(); ++i) {
      const bool padding =
          parameter.padding_from >= 0 && static_cast<int64_t>(i) / row >= parameter.padding_from;
      const float draw = 2 * ToUniform(Philox(5, i, index)[0]) - 1;
      values[i] = padding ? 0 : (parameter.init == Init::kOne ? 1 : 0) + 0.4f * draw;
    }
    return values;
  }

 private:
  const std::string name_ = "drawn", dtype_ = "F32";
  const ModelSpec model_;
  const std::vector<Parameter> parameters_;
};

inline ModelSpec TinyGpt() {
  return {.architecture = ArchitectureOf(Family::kGpt),
          .layers = 2,
          .hidden = 24,
          .heads = 3,
          .ffn_hidden = 40,
          .sequence_length = 300,
          .vocab_size = 90};
}

// Grouped queries.
inline ModelSpec TinyLlama() {
  return {.architecture = ArchitectureOf(Family::kLlama),
          .layers = 2,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 2,
          .ffn_hidden = 48,
          .sequence_length = 300,
          .vocab_size = 90};
}

// Every option that a model has, away from its default.
inline ModelSpec OddGpt() {
  ModelSpec model = TinyGpt();
  model.norm_epsilon = 1e-2;
  model.tied_head = false;
  return model;
}
inline ModelSpec OddLlama() {
  ModelSpec model = TinyLlama();
  model.norm_epsilon = 1e-2;
  model.tied_head = true;
  model.rotary_base = 500;
  model.rotary_scaling = {.kind = RotaryScaling::Kind::kLlama3,
                          .factor = 4,
                          .low_frequency_factor = 1,
                          .high_frequency_factor = 4,
                          .original_sequence_length = 64};
  return model;
}

inline std::vector<int32_t> DrawnTokens(int64_t count, const ModelSpec& model, uint64_t seed = 3) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] =
        static_cast<int32_t>(Philox(seed, i, 0)[0] % static_cast<uint32_t>(model.vocab_size));
  }
  return tokens;
}

}  // namespace stretto
