// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/model_limits.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/spec/fields.h"
#include "proto/spec/model_rules.h"

namespace stretto {
namespace {

spec::Violations OutOfRange(const ModelSpec& model) {
  spec::Violations violations;
  const std::pair<const char*, double> numbers[] = {
      {"model.layers", model.layers},         {"model.hidden", model.hidden},
      {"model.heads", model.heads},           {"model.kv_heads", model.key_heads()},
      {"model.ffn_hidden", model.ffn_hidden}, {"model.sequence_length", model.sequence_length},
      {"model.vocab_size", model.vocab_size}, {"model.rotary_base", model.rotary_base}};
  const auto expect = [&](absl::string_view field, double number) {
    const Range& range = RangeOf(field);
    violations.Expect(range.Contains(number), field, number, range.Text());
  };
  for (const auto& [field, number] : numbers) expect(field, number);
  for (const ModelNumber& number : kModelNumbers) {
    expect(absl::StrCat("model.", number.name), model.*number.member);
  }
  return violations;
}

}  // namespace

int64_t MaxOf(absl::string_view field) {
  return static_cast<int64_t>(RangeOf(absl::StrCat("model.", field)).high);
}

absl::Status CheckModel(const ModelSpec& model, const std::string& path) {
  spec::Violations violations = OutOfRange(model);
  if (violations.list().empty()) {
    const bool llama3 = model.rotary_scaling.kind == RotaryScaling::Kind::kLlama3;
    violations.Add(spec::RuleBrokenBy(
        {.architecture = model.architecture,
         .layers = model.layers,
         .hidden = model.hidden,
         .heads = model.heads,
         .kv_heads = model.key_heads(),
         .ffn_hidden = model.ffn_hidden,
         .sequence_length = model.sequence_length,
         .vocab_size = model.vocab_size,
         .tied_head = model.head_is_tied(),
         .low_frequency_factor = llama3 ? model.rotary_scaling.low_frequency_factor : 0,
         .high_frequency_factor = llama3 ? model.rotary_scaling.high_frequency_factor : 0}));
  }
  if (violations.list().empty()) return absl::OkStatus();
  const std::string message = spec::MessageOf(violations.list());
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", absl::StripPrefix(message, "spec.")));
}

}  // namespace stretto
