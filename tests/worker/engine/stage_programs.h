// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs of all ranks of a pipeline, and what they send.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/worker/engine/specs.h"

namespace stretto {

inline constexpr Transfer kTransfers[] = {Transfer::kAuto, Transfer::kSend, Transfer::kChain,
                                          Transfer::kGather};

inline std::vector<Program> ProgramsOf(const Layout& layout) {
  std::vector<Program> programs;
  const auto plans = BuildPlans(SpecOf(layout));
  EXPECT_TRUE(plans.ok()) << plans.status();
  for (const RankPlan& plan : *plans) programs.push_back(plan.program);
  return programs;
}

// Bytes of a step that a rank sends over the group, forward or backward.
inline int64_t SentBytes(const Program& program, absl::string_view group) {
  int64_t bytes = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::kSend && program.groups[op.group].name == group)
      bytes += program.buffers[op.in[0]].bytes();
  }
  return bytes;
}

// The last operation of the kind over the group in a micro-batch.
inline OpId Find(const Program& program, OpKind kind, absl::string_view group, int micro_batch) {
  OpId found = -1;
  for (OpId op : program.ops.ids()) {
    const Op& of = program.ops[op];
    if (of.kind == kind && of.tag.micro_batch == micro_batch &&
        program.groups[of.group].name == group)
      found = op;
  }
  EXPECT_GE(found.value(), 0) << group;
  return found;
}

}  // namespace stretto
