// SPDX-License-Identifier: Apache-2.0
#pragma once
// The frequency at which each pair of columns of a head rotates with the position (Su et al. 2021),
// and the scaling of frequencies for sequences longer than those of the original training.

#include <cmath>
#include <cstdint>

namespace stretto {

// kLinear divides each frequency by `factor`. kLlama3 divides those whose wavelength is above
// original / low, keeps those below original / high, and interpolates in between (Llama 3.1,
// `rope_type: llama3`).
struct RotaryScaling {
  enum class Kind : uint8_t { kNone, kLinear, kLlama3 };
  Kind kind = Kind::kNone;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int original_sequence_length = 0;

  bool operator==(const RotaryScaling&) const = default;
};

struct RotarySpeed {
  int64_t base = 10000;
  RotaryScaling scaling = {};

  bool operator==(const RotarySpeed&) const = default;
};

// Returns a frequency as scaled by Llama 3.1. Frequencies with fewer than `low` waves in the
// original length are divided by the factor, those with more than `high` waves are kept.
inline double Llama3Frequency(const RotaryScaling& scaling, double frequency) {
  const double stretched = frequency / scaling.factor;
  const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
  const double waves = scaling.original_sequence_length * frequency / (2 * M_PI);
  if (waves < low) return stretched;
  if (waves > high) return frequency;
  const double kept = (waves - low) / (high - low);
  return (1 - kept) * stretched + kept * frequency;
}

// Returns the radians per position by which column pair i of `pairs` rotates: base^(-i/pairs),
// scaled.
inline double RotaryFrequency(const RotarySpeed& speed, int64_t i, int64_t pairs) {
  const double frequency = std::pow(static_cast<double>(speed.base),
                                    -static_cast<double>(i) / static_cast<double>(pairs));
  const RotaryScaling& scaling = speed.scaling;
  switch (scaling.kind) {
    case RotaryScaling::Kind::kNone:
      return frequency;
    case RotaryScaling::Kind::kLinear:
      return frequency / scaling.factor;
    case RotaryScaling::Kind::kLlama3:
      return Llama3Frequency(scaling, frequency);
  }
  return frequency;
}

}  // namespace stretto
