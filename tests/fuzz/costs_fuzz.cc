// SPDX-License-Identifier: Apache-2.0

// Texts of measured durations: costs of operations, a calibrated profile, choices of kernels. Any
// text is read or refused, and what was read prints to a text that reads the same. A program is
// asked for its costs.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/tuning/tunings.h"
#include "proto/base/check.h"
#include "proto/base/files.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/engine/cost/profile.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/program/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const stretto::Program program =
      stretto::Parse(
          *stretto::ReadFile(STRETTO_SOURCE_DIR "/tests/golden/schedule/gpt_with_buffers.txt"))
          .value_or(stretto::Program());
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  const auto table = stretto::CostTable::Parse(text);
  for (const stretto::Op& op : program.ops) {
    if (!table.ok()) break;
    const double* seconds = table->Find(program, op);
    STRETTO_CHECK(seconds == nullptr || *seconds >= 0);
  }
  const auto profile = stretto::ParseCostProfile(text);
  if (profile.ok()) {
    const std::string print = stretto::Print(*profile);
    const auto again = stretto::ParseCostProfile(print);
    STRETTO_CHECK(again.ok() && stretto::Print(*again) == print);
    stretto::ModelOf(*profile);
    STRETTO_CHECK(stretto::ExpectMachine(*profile, profile->machine).ok());
    STRETTO_CHECK(!stretto::ExpectMachine(*profile, profile->machine + "'s").ok());
    stretto::ExpectOperations(*profile, program).IgnoreError();
  }
  stretto::cuda::Tunings tunings("NVIDIA H200", 130100);
  if (!tunings.Parse(text).ok()) return 0;
  stretto::cuda::Tunings again("NVIDIA H200", 130100);
  STRETTO_CHECK(again.Parse(tunings.Print()).ok() && again.Print() == tunings.Print());
  return 0;
}
