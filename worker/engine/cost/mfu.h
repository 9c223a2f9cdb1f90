// SPDX-License-Identifier: Apache-2.0
#pragma once
// Model FLOP/s utilisation: the share of a device's peak that the mathematics of the model uses.
// Pure functions of numbers.

#include <optional>
#include <string>

#include "worker/engine/spec/spec.h"

namespace stretto {

// Returns the FLOP of forward and backward for one token: 6 N + 6 L h S, where N is the number of
// weights in matrix products. The head counts with the tokenizer's vocabulary; the embedding's
// lookup does not count. Causal attention counts only its unmasked half, and recomputation does not
// count.
double FlopsPerToken(const ModelSpec& model);

// Returns the dense bf16 peak of a device in FLOP/s by its name, or nothing if it is not in the
// table.
std::optional<double> PeakFlops(const std::string& device_name);

// Returns the MFU of `ranks` ranks that share the model, each on a device of that peak.
// `tokens_per_second` is the rate of all ranks together.
double Mfu(double tokens_per_second, double flops_per_token, int ranks, double peak_flops);

}  // namespace stretto
