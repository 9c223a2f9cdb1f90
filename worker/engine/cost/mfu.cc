// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/mfu.h"

#include "absl/strings/match.h"

namespace stretto {
namespace {

struct Peak {
  const char* part;  // of the name
  double flops;
};

// From the data sheets, dense bf16. The first match wins, so the slower PCIe boards come first.
constexpr Peak kPeaks[] = {
    {"H100 PCIe", 756.4e12},   {"H100 NVL", 835.5e12},    {"H200 NVL", 835.5e12},
    {"NVIDIA H100", 989.4e12}, {"NVIDIA H200", 989.4e12}, {"A100", 312e12},
};

double MlpWeights(const ModelSpec& m) {
  switch (m.architecture.mlp) {
    case MlpKind::kDense:
      return (IsGated(m.architecture.activation) ? 3.0 : 2.0) * m.hidden * m.ffn_hidden;
  }
  return 0;
}

}  // namespace

double FlopsPerToken(const ModelSpec& m) {
  const double layers = m.layers, h = m.hidden, sequence = m.sequence_length;
  // Training needs three times the forward pass, and a multiply-add is 2 FLOP: 6 per weight. Causal
  // scores and context are 2 products over S / 2 positions on average, of h columns: 6 h S.
  const double qkv = h * (m.heads + 2 * m.key_heads()) * m.head_dim();
  const double weights = layers * (qkv + h * h + MlpWeights(m)) + h * m.vocab_size;
  return 6 * weights + 6 * layers * h * sequence;
}

std::optional<double> PeakFlops(const std::string& device_name) {
  for (const Peak& peak : kPeaks) {
    if (absl::StrContains(device_name, peak.part)) return peak.flops;
  }
  return std::nullopt;
}

double Mfu(double tokens_per_second, double flops_per_token, int ranks, double peak_flops) {
  return tokens_per_second * flops_per_token / (ranks * peak_flops);
}

}  // namespace stretto
