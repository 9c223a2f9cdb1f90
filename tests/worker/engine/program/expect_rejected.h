// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/program/verify.h"

namespace stretto {

// InvalidArgument with `message` in it.
inline void ExpectRejected(const absl::Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(message));
}

// Verify of a program given as text.
inline void ExpectRejected(const std::string& text, const std::string& message) {
  ExpectRejected(Verify(ProgramOf(text)), message);
}

inline std::string OnRank1(absl::string_view text) { return With(text, "rank=0", "rank=1"); }

}  // namespace stretto
