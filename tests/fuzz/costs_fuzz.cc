// SPDX-License-Identifier: Apache-2.0

// Texts of measured durations: costs of operations, a calibrated profile, choices of kernels. Any
// text is read or refused, and what was read prints to a text that reads the same.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/tuning/tunings.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/engine/cost/profile.h"
#include "worker/engine/cost/table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  stretto::CostTable::Parse(text).status().IgnoreError();
  const auto profile = stretto::ParseCostProfile(text);
  if (profile.ok()) {
    const std::string print = stretto::Print(*profile);
    const auto again = stretto::ParseCostProfile(print);
    STRETTO_CHECK(again.ok() && stretto::Print(*again) == print);
  }
  stretto::cuda::Tunings tunings("NVIDIA H200", 130100);
  if (!tunings.Parse(text).ok()) return 0;
  stretto::cuda::Tunings again("NVIDIA H200", 130100);
  STRETTO_CHECK(again.Parse(tunings.Print()).ok() && again.Print() == tunings.Print());
  return 0;
}
