// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the next token.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace stretto {

struct ChoiceOptions {
  double temperature = 1;  // 0: the most likely token
  double top_p = 1;        // (0, 1]
  uint64_t seed = 0;
};

// Errors: InvalidArgument, naming the option, what was found and what is expected.
absl::Status Validate(const ChoiceOptions& options);

struct WeightedToken {
  int32_t token = 0;
  double probability = 0;  // among the kept tokens; they sum to 1
};

// Returns softmax(logits / temperature), temperature > 0, reduced to the nucleus: the smallest set
// of most likely tokens whose probabilities sum to top_p or more (Holtzman et al. 2020); among
// equals the lower token comes first. The order is unspecified if top_p is 1.
std::vector<WeightedToken> Nucleus(absl::Span<const float> logits, double temperature,
                                   double top_p);

// Returns the token for `position`, in [0, logits.size()). At temperature 0 it is the most likely
// one, the lowest among equals; else it is drawn by Philox with key (seed) and counter (position),
// so that the same seed gives the same text. Errors: InvalidArgument (a logit is not finite; names
// token and position).
absl::StatusOr<int32_t> ChooseToken(absl::Span<const float> logits, int64_t position,
                                    const ChoiceOptions& options);

}  // namespace stretto
