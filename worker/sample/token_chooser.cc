// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/token_chooser.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/random.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

// Uniform in [0, 1) with 53 bits.
double Draw(uint64_t seed, int64_t position) {
  const auto words = Philox(seed, static_cast<uint64_t>(position), 0);
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

absl::Status CheckFinite(absl::Span<const float> logits, int64_t position) {
  for (size_t token = 0; token < logits.size(); ++token) {
    if (std::isfinite(logits[token])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("position ", position, ": found ", logits[token], " as the logit of token ",
                     token, ", expected a finite number: the weights are damaged"));
  }
  return absl::OkStatus();
}

// Whether `a` comes after `b`, for a heap whose top is the most likely.
bool Later(const WeightedToken& a, const WeightedToken& b) {
  return a.probability != b.probability ? a.probability < b.probability : a.token > b.token;
}

}  // namespace

absl::Status Validate(const ChoiceOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    return absl::InvalidArgumentError(absl::StrCat("temperature: found ", options.temperature,
                                                   ", expected 0 or a positive number"));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-p: found ", options.top_p, ", expected a number in (0, 1]"));
  }
  return absl::OkStatus();
}

std::vector<WeightedToken> Nucleus(absl::Span<const float> logits, double temperature,
                                   double top_p) {
  STRETTO_CHECK(!logits.empty() && temperature > 0);
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<WeightedToken> tokens(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    tokens[i] = {static_cast<int32_t>(i), std::exp((logits[i] - top) / temperature)};
    sum += tokens[i].probability;
  }
  if (top_p < 1) {
    // Pops the most likely to the end until they suffice.
    std::make_heap(tokens.begin(), tokens.end(), Later);
    double kept = 0;
    auto end = tokens.end();
    while (end != tokens.begin() && kept < top_p * sum) {
      std::pop_heap(tokens.begin(), end, Later);
      kept += (--end)->probability;
    }
    tokens.erase(tokens.begin(), end);
    std::reverse(tokens.begin(), tokens.end());
    sum = kept;
  }
  for (WeightedToken& token : tokens) token.probability /= sum;
  return tokens;
}

absl::StatusOr<int32_t> ChooseToken(absl::Span<const float> logits, int64_t position,
                                    const ChoiceOptions& options) {
  RETURN_IF_ERROR(CheckFinite(logits, position));
  if (options.temperature == 0) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  const auto tokens = Nucleus(logits, options.temperature, options.top_p);
  double left = Draw(options.seed, position);
  for (const WeightedToken& token : tokens) {
    left -= token.probability;
    if (left < 0) return token.token;
  }
  // Reached only by rounding.
  return std::max_element(tokens.begin(), tokens.end(), Later)->token;
}

}  // namespace stretto
