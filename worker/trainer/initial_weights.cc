// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/initial_weights.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/exit_reason.h"

namespace stretto::trainer {
namespace {

// Formats a number in the fewest digits that parse to the same value.
std::string Show(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr};
}

std::string Show(const RotaryScaling& scaling) {
  switch (scaling.kind) {
    case RotaryScaling::Kind::kNone:
      return "none";
    case RotaryScaling::Kind::kLinear:
      return absl::StrCat("{linear, factor ", Show(scaling.factor), "}");
    case RotaryScaling::Kind::kLlama3:
      return absl::StrCat("{llama3, factor ", Show(scaling.factor), ", low_frequency_factor ",
                          Show(scaling.low_frequency_factor), ", high_frequency_factor ",
                          Show(scaling.high_frequency_factor), ", original_sequence_length ",
                          scaling.original_sequence_length, "}");
  }
  return "";
}

const char* Show(bool value) { return value ? "true" : "false"; }

// Returns the file that has the model's dimensions.
std::string FileOf(const ModelSource& source) {
  absl::string_view path = source.name();
  if (absl::ConsumePrefix(&path, "hf:")) return absl::StrCat(path, "/config.json");
  absl::ConsumePrefix(&path, "llmc:");
  return std::string(path);
}

}  // namespace

absl::Status CheckSameModel(const ModelSource& source, const ModelSpec& expected) {
  const ModelSpec& found = source.model();
  std::vector<std::string> differences;
  const auto differ = [&](const char* field, const auto& is, const auto& should) {
    differences.push_back(absl::StrCat("model.", field, ": found ", is, ", expected ", should));
  };
  const auto compare = [&](const char* field, const auto& is, const auto& should) {
    if (is != should) differ(field, is, should);
  };
  compare("family", std::string(found.architecture.name), std::string(expected.architecture.name));
  compare("layers", found.layers, expected.layers);
  compare("hidden", found.hidden, expected.hidden);
  compare("heads", found.heads, expected.heads);
  compare("kv_heads", found.key_heads(), expected.key_heads());
  compare("ffn_hidden", found.ffn_hidden, expected.ffn_hidden);
  compare("vocab_size", found.vocab_size, expected.vocab_size);
  if (found.sequence_length < expected.sequence_length) {
    compare("sequence_length", absl::StrCat("at most ", found.sequence_length),
            absl::StrCat(expected.sequence_length));
  }
  // Kernels compute with an f32 number, and some tools write it with all its digits.
  for (const ModelNumber& number : kModelNumbers) {
    const double is = found.*number.member, should = expected.*number.member;
    if (static_cast<float>(is) != static_cast<float>(should)) {
      differ(number.name, Show(is), Show(should));
    }
  }
  compare("tied_head", std::string(Show(found.head_is_tied())),
          std::string(Show(expected.head_is_tied())));
  // Models without rotary positions have no meaningful rotary fields to compare.
  if (found.architecture.positions == PositionKind::kRotary &&
      expected.architecture.positions == PositionKind::kRotary) {
    compare("rotary_base", found.rotary_base, expected.rotary_base);
    if (found.rotary_scaling != expected.rotary_scaling) {
      differ("rotary_scaling", Show(found.rotary_scaling), Show(expected.rotary_scaling));
    }
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(FileOf(source), ": ", absl::StrJoin(differences, "; "), ", as the job says"));
}

absl::StatusOr<std::unique_ptr<ModelSource>> OpenInitialWeights(const JobConfig& config) {
  absl::StatusOr<std::unique_ptr<ModelSource>> source = OpenModel(config.initial_weights);
  if (!source.ok()) return OfWeights(source.status());
  RETURN_IF_ERROR(OfWeights(CheckSameModel(**source, config.engine.model)));
  return source;
}

absl::Status ReadWeights(const ModelSource& source, RankEngine& engine) {
  RETURN_IF_ERROR(engine.SetState([&](const Parameter& box, Slot slot, float* values) {
    if (slot == Slot::kMaster) {
      return OfWeights(source.Read(box.name, box.starts, box.extents, values));
    }
    std::fill_n(values, box.count(), 0.0f);
    return absl::OkStatus();
  }));
  spdlog::info("weights read from {}", source.name());
  return absl::OkStatus();
}

}  // namespace stretto::trainer
