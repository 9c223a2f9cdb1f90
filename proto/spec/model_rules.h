// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rules between the dimensions of a model, for models of job specs and models from files.

#include <cstdint>
#include <optional>

#include "proto/spec/architecture.h"
#include "proto/spec/violations.h"

namespace stretto::spec {

// Each value is within its range (RangeOf).
struct Dimensions {
  Architecture architecture;
  int layers, hidden, heads, kv_heads, ffn_hidden, sequence_length, vocab_size;
  bool tied_head;
  // Of rotary scaling of kind llama3; 0 without it.
  double low_frequency_factor = 0, high_frequency_factor = 0;
};

// Returns the first broken rule; nullopt if all hold.
std::optional<FieldViolation> RuleBrokenBy(const Dimensions& model);

}  // namespace stretto::spec
