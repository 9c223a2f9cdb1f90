// SPDX-License-Identifier: Apache-2.0

// Any text parses to a program or an error; what parses, verifies or not, without harm, and prints
// to itself.
#include <cstddef>
#include <cstdint>

#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/engine/program/text.h"
#include "worker/engine/program/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto program = stretto::Parse(stretto::fuzz::TextOf(data, size));
  if (!program.ok()) return 0;
  stretto::Verify(*program).IgnoreError();
  const std::string text = stretto::Print(*program);
  const auto again = stretto::Parse(text);
  STRETTO_CHECK(again.ok() && stretto::Print(*again) == text);
  return 0;
}
