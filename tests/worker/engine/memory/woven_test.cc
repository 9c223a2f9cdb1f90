// SPDX-License-Identifier: Apache-2.0

// Steps whose micro-batches run into each other at random: whatever the planner lets share an
// address, the verifier finds in order over the whole step.

#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/shortened.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

class RandomStep {
 public:
  explicit RandomStep(uint32_t seed) : random_(seed) {
    step_.world_size = 2;
    step_.groups = {{"tp", {0, 1}}};
    step_.micro_batches = Below(14) + 1;
    slots_ = std::min(step_.micro_batches, 1 + Below(3));
    for (int i = 0; i < 24; ++i) AddOp();
    Cut();
  }

  // On one lane, without waits.
  StepProgram Take() { return std::move(step_); }

 private:
  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint32_t>(bound)); }

  BufferId NewBuffer(int64_t count) {
    return step_.buffers.Add({.name = absl::StrCat("b", step_.buffers.size()), .shape = {count}});
  }

  void Add(OpKind kind, BufferList in, BufferList out) {
    Op op;
    op.kind = kind;
    op.tag = {.name = absl::StrCat("o", ops_.size()), .micro_batch = 0};
    if (IsCollective(kind)) op.group = 0;
    op.in = std::move(in);
    op.out = std::move(out);
    op.attributes.resize(InfoOf(kind).attributes.size());
    ops_.push_back(std::move(op));
  }

  // Of a buffer that an earlier one wrote, where it reads.
  void AddOp() {
    const int what = step_.buffers.empty() ? 0 : Below(7);
    const BufferId from =
        BufferId::Of(step_.buffers.empty() ? 0 : Below(static_cast<int>(step_.buffers.size())));
    const int64_t count = what == 0 ? 0 : step_.buffers[from].count();
    if (what == 1 && count % 2 == 0) {
      Add(OpKind::kReduceScatter, {from}, {NewBuffer(count / 2)});
    } else if (what == 2 && count < 512) {
      Add(OpKind::kAllGather, {from}, {NewBuffer(count * 2)});
    } else if (what == 3) {
      Add(OpKind::kAllReduce, {from}, {from});
    } else if (what == 4) {
      Add(OpKind::kSum, {from}, {NewBuffer(1)});
    } else if (what >= 5) {
      Add(OpKind::kGelu, {from}, {NewBuffer(count)});
    } else {
      Add(OpKind::kZero, {}, {NewBuffer(16 * (1 + Below(8)))});
    }
  }

  // Units as of a schedule that closes tails: the first micro-batch but for its tail; the next ones
  // with the tail of the one before at random places; the last tail.
  void Cut() {
    const size_t tail = 1 + static_cast<size_t>(Below(static_cast<int>(ops_.size()) - 1));
    IdVector<OpId, Op> next;
    size_t body = 0, late = tail;
    while (body < tail || late < ops_.size()) {
      const bool take_late = body == tail || (late < ops_.size() && Below(2) == 0);
      next.push_back(ops_[take_late ? late++ : body++]);
      if (take_late) next.back().tag.micro_batch = 1;
    }
    const auto at = [&](size_t i) { return ops_.begin() + static_cast<std::ptrdiff_t>(i); };
    step_.units = {
        {"first", {at(0), at(tail)}}, {"next", next}, {"finish", {at(tail), ops_.end()}}};
    // A buffer that lives into the tail needs copies, most of the time.
    for (size_t i = tail; i < ops_.size(); ++i) {
      for (BufferId id : ops_[i].in) {
        if (Below(8) != 0) step_.buffers[id].slots = slots_;
      }
    }
    const int last = step_.micro_batches - 1;
    step_.instances.push_back({.unit = 0, .micro_batches = {0}, .waits = {}});
    for (int mb = 1; mb <= last; ++mb)
      step_.instances.push_back({.unit = 1, .micro_batches = {mb, mb - 1}, .waits = {}});
    step_.repeat = {.begin = 1, .end = step_.instances.next()};
    step_.instances.push_back({.unit = 2, .micro_batches = {last}, .waits = {}});
  }

  std::mt19937 random_;
  int slots_ = 1;
  StepProgram step_;
  std::vector<Op> ops_;
};

StepProgram WithWaits(StepProgram step) {
  EXPECT_TRUE(AssignLanesAndWaits({}, &step).ok());
  return step;
}

TEST(WovenMemoryTest, WhatSharesAnAddressIsOrderedInEveryMicroBatch) {
  int shared = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Program program = Expand(WithWaits(RandomStep(seed).Take()));
    ASSERT_TRUE(Verify(program).ok()) << seed << ": " << Verify(program);
    const absl::StatusOr<ArenaBytes> arenas = PlanMemory(&program);
    ASSERT_TRUE(arenas.ok()) << seed << ": " << arenas.status();
    const absl::Status status = Verify(program, &*arenas);
    EXPECT_TRUE(status.ok()) << seed << ": " << status;
    std::set<int64_t> offsets;
    for (const Buffer& buffer : program.buffers)
      shared += offsets.insert(buffer.offset).second ? 0 : 1;
  }
  EXPECT_GT(shared, 1000);
}

// The waits of a step of a few micro-batches, repeated, order the whole.
TEST(WovenMemoryTest, AShortStepMadeLongVerifies) {
  int shortened = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const StepProgram step = RandomStep(seed).Take();
    const StepProgram shorter = WithWaits(*Shortened(step));
    shortened += shorter.micro_batches < step.micro_batches ? 1 : 0;
    Program program = Expand(*Lengthened(shorter, step.micro_batches));
    ASSERT_TRUE(Verify(program).ok()) << seed << ": " << Verify(program);
    const ArenaBytes arenas = *PlanMemory(&program);
    const absl::Status status = Verify(program, &arenas);
    EXPECT_TRUE(status.ok()) << seed << ": " << status;
  }
  EXPECT_GT(shortened, 100);
}

}  // namespace
}  // namespace stretto
