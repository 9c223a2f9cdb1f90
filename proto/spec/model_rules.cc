// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/model_rules.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace stretto::spec {
namespace {

constexpr int64_t kMaxParameters = 1'000'000'000'000;

int64_t CountParameters(const Dimensions& model) {
  const Architecture& architecture = model.architecture;
  const int64_t hidden = model.hidden, vocabulary = PaddedVocabulary(model.vocab_size);
  const int64_t keys = hidden / model.heads * model.kv_heads;
  const int64_t mlp = (IsGated(architecture.activation) ? 3 : 2) * hidden * model.ffn_hidden;
  const int64_t layer = 2 * hidden * (hidden + keys) + mlp;
  const bool learned = architecture.positions == PositionKind::kLearned;
  const int64_t ends =
      (model.tied_head ? 1 : 2) * vocabulary + (learned ? model.sequence_length : 0);
  return model.layers * layer + ends * hidden;
}

}  // namespace

std::optional<FieldViolation> RuleBrokenBy(const Dimensions& model) {
  Violations violations;
  const auto expect = [&](bool ok, const char* field, const auto& found,
                          const std::string& expected) {
    return violations.Expect(ok, field, found, expected);
  };
  const bool rotary = model.architecture.positions == PositionKind::kRotary;
  const int head_dim = model.hidden / model.heads;
  const double low = model.low_frequency_factor, high = model.high_frequency_factor;
  const int64_t parameters = CountParameters(model);
  if (expect(model.hidden % model.heads == 0, "model.heads", model.heads,
             absl::StrCat("a divisor of hidden ", model.hidden)) &&
      expect(model.heads % model.kv_heads == 0, "model.kv_heads", model.kv_heads,
             absl::StrCat("a divisor of heads ", model.heads)) &&
      expect(!rotary || head_dim % 2 == 0, "model.heads", model.heads,
             absl::StrCat("heads of an even dimension, which rotary positions need, not ",
                          head_dim)) &&
      expect(high == 0 || high > low, "model.rotary_scaling.high_frequency_factor", high,
             absl::StrCat("more than low_frequency_factor ", low)) &&
      expect(parameters <= kMaxParameters, "model",
             absl::StrCat("about ", parameters, " parameters"),
             absl::StrCat("at most ", kMaxParameters))) {
    return std::nullopt;
  }
  return violations.list().front();
}

}  // namespace stretto::spec
