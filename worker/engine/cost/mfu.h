// SPDX-License-Identifier: Apache-2.0
#pragma once
// Model FLOP/s utilisation: the share of a device's peak that a model's own mathematics takes up.
// Pure functions of numbers.

#include <optional>
#include <string>

#include "worker/engine/spec/spec.h"

namespace stretto {

// Of forward and backward, for one token: 6 N + 6 L h S, N the weights of matrix products. The head
// counts with the tokenizer's vocabulary, the embedding's look-up not; causal attention counts once
// (its masked half not), nothing that is recomputed does.
double FlopsPerToken(const ModelSpec& model);

// Dense bf16, FLOP/s, by the device's name; none for one that is not in the table.
std::optional<double> PeakFlops(const std::string& device_name);

// `tokens_per_second` of all `ranks` that share the model, each on a device of that peak.
double Mfu(double tokens_per_second, double flops_per_token, int ranks, double peak_flops);

}  // namespace stretto
