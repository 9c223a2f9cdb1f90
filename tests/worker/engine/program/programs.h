// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs written by hand, as text.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "worker/engine/program/text.h"

namespace stretto {

// One linear layer whose output is reduced over two ranks; everything a verifier can find fault
// with.
inline constexpr char kLinear[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4,8 input\n"
    "buffer %1 w f32 8,8 parameter\n"
    "buffer %2 y f32 4,8 activation\n"
    "buffer %3 a f32 4,8 activation\n"
    "0 compute gemm L0.fc fwd mb0 s0 in=%0,%1 out=%2\n"
    "1 comm.tp all_reduce L0.fc fwd mb0 s0 in=%2 out=%2 on=tp wait=0\n"
    "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1\n";

// `text` with `from` replaced; `from` must occur.
inline std::string With(absl::string_view text, absl::string_view from, absl::string_view to) {
  EXPECT_NE(text.find(from), absl::string_view::npos) << from;
  return absl::StrReplaceAll(text, {{from, to}});
}

inline Program ProgramOf(absl::string_view text) {
  absl::StatusOr<Program> program = Parse(text);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program{};
}

}  // namespace stretto
