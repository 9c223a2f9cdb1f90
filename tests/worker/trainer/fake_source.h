// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights that are nowhere: every element is told by its parameter and its place.

#include <string>
#include <utility>
#include <vector>

#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_source.h"

namespace stretto::trainer {

class FakeSource final : public ModelSource {
 public:
  FakeSource(std::string name, ModelSpec model) : name_(std::move(name)), model_(model) {}

  const std::string& name() const override { return name_; }
  const ModelSpec& model() const override { return model_; }
  const std::string& dtype() const override { return dtype_; }
  std::vector<std::string> tokenizer_files() const override { return files; }

  absl::Status Read(absl::string_view parameter, const std::vector<int64_t>& starts,
                    const std::vector<int64_t>& extents, float* out) const override {
    if (parameter == damaged) return absl::DataLossError("fake.safetensors: found the end");
    for (const Parameter& whole : ParametersOf(model_, 1, 0)) {
      if (whole.name != parameter) continue;
      std::vector<int64_t> at = starts;
      const int64_t count = Count(extents);
      for (int64_t i = 0; i < count; ++i) {
        out[i] = Value(whole, at);
        for (size_t d = at.size(); d-- > 0;) {
          if (++at[d] < starts[d] + extents[d]) break;
          at[d] = starts[d];
        }
      }
      return absl::OkStatus();
    }
    return absl::NotFoundError(std::string(parameter));
  }

  // Of an element of the full tensor.
  static float Value(const Parameter& whole, const std::vector<int64_t>& at) {
    int64_t index = 0;
    for (size_t d = 0; d < at.size(); ++d) index = index * 1000 + at[d];
    return static_cast<float>(index) + 0.5f * static_cast<float>(whole.name.size());
  }

  std::string damaged;             // the parameter that cannot be read
  std::vector<std::string> files;  // of its tokenizer

 private:
  static int64_t Count(const std::vector<int64_t>& extents) {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    return count;
  }

  std::string name_, dtype_ = "BF16";
  ModelSpec model_;
};

}  // namespace stretto::trainer
