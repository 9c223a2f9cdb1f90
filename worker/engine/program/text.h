// SPDX-License-Identifier: Apache-2.0
#pragma once
// The canonical text form of a program, for golden files, reviews and error messages.
//
//   program rank=0 world=2
//   group tp 0,1
//   lane compute
//   lane comm.tp
//   buffer %0 tokens i32 8,256 input
//   buffer %1 tokens.s0 i32 4,256 input alias=%0+0
//   buffer %2 x0.s0 f32 1024,384 activation @4096
//   17 compute gemm L3.fc2 fwd mb0 s0 in=%9,%3 out=%12
//   18 comm.tp all_reduce L3.fc2 fwd mb0 s0 in=%12 out=%12 on=tp wait=17
//
// Attributes follow the operands as name=value; those that are 0 are omitted. Real numbers have the
// fewest digits that parse to the same value. "@" is the planned offset in bytes. Print and Parse
// are inverse: Parse(Print(p)) prints the same text.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

std::string Print(const Program& program);
// Returns one operation's line, without the line break.
std::string PrintOp(const Program& program, OpId op);
std::string PrintRanks(const IdVector<GroupRank, Rank>& ranks);
// Returns text like "L3.fc2 fwd mb0 s0".
std::string PrintTag(const Tag& tag);

// Parses the text form. Checks the form and that names and indices exist; Verify checks the
// meaning. Errors: InvalidArgument with the line number, what was found and what was expected.
absl::StatusOr<Program> Parse(absl::string_view text);

}  // namespace stretto
