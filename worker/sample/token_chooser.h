// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which token comes next.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace stretto {

struct ChoiceOptions {
  double temperature = 1;  // 0: the likeliest token
  double top_p = 1;        // (0, 1]
  uint64_t seed = 0;
};

// InvalidArgument, naming the option, what was found and what is expected.
absl::Status Validate(const ChoiceOptions& options);

struct WeightedToken {
  int32_t token = 0;
  double probability = 0;  // of those that are kept; they sum to 1
};

// softmax(logits / temperature), temperature > 0, cut to the nucleus: the fewest likeliest tokens
// whose probabilities sum to top_p or more (Holtzman et al. 2020), the lower token first among
// equals. In no particular order where top_p is 1.
std::vector<WeightedToken> Nucleus(absl::Span<const float> logits, double temperature,
                                   double top_p);

// The token for `position`, in [0, logits.size()). At temperature 0 the lowest of the likeliest;
// else drawn by Philox with key (seed) and counter (position), so that the same seed gives the same
// text. Errors: InvalidArgument (a logit that is not finite: names token and position).
absl::StatusOr<int32_t> ChooseToken(absl::Span<const float> logits, int64_t position,
                                    const ChoiceOptions& options);

}  // namespace stretto
