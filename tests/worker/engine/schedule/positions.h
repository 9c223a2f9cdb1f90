// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the operations of a program stand, and what may run while a collective is in flight.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/text.h"

namespace stretto {

// An operation as a schedule names it (weave.h), with its slice: "qkv_1", "d.fc2_0".
inline std::string WordOf(const Op& op) {
  const bool wgrad = InfoOf(op.kind).role == OperationRole::kWeightGradient;
  std::string word = op.tag.phase == Phase::kRecompute  ? "r."
                     : op.tag.phase != Phase::kBackward ? ""
                     : wgrad                            ? "w."
                                                        : "d.";
  word += op.tag.name;
  return op.tag.slice < 0 ? word : word + "_" + std::to_string(op.tag.slice);
}

class Positions {
 public:
  explicit Positions(Program program)
      : program_(std::move(program)), order_(HappensBefore::Build(program_)) {
    EXPECT_TRUE(order_.ok()) << order_.status();
  }

  const Program& program() const { return program_; }
  const Op& op(OpId index) const { return program_.ops[index]; }

  // All operations of this tag, "fc2 fwd s0" or "L1.fc2 fwd s0", of a micro-batch.
  std::vector<OpId> All(const std::string& text, int micro_batch = 0) const {
    std::vector<OpId> found;
    for (OpId op : program_.ops.ids()) {
      Tag tag = program_.ops[op].tag;
      if (std::max(tag.micro_batch, 0) != micro_batch) continue;
      tag.micro_batch = -1;
      if (PrintTag(tag) == text) found.push_back(op);
    }
    return found;
  }
  // The only one of a kind.
  OpId At(OpKind kind, const std::string& text, int micro_batch = 0) const {
    std::vector<OpId> found = All(text, micro_batch);
    std::erase_if(found, [&](OpId index) { return op(index).kind != kind; });
    EXPECT_EQ(found.size(), 1u) << text;
    return found.size() == 1 ? found[0] : OpId();
  }
  // The collective of a tag, or of one of its column pieces.
  OpId Collective(const std::string& text, size_t piece = 0, int micro_batch = 0) const {
    std::vector<OpId> found = All(text, micro_batch);
    std::erase_if(found, [&](OpId index) { return !IsCollective(op(index).kind); });
    EXPECT_LT(piece, found.size()) << text;
    return piece < found.size() ? found[piece] : OpId();
  }

  // In every execution.
  bool Before(OpId first, OpId second) const { return order_->Before(first, second); }
  bool MayRunUnder(OpId collective, OpId other) const {
    return collective != other && !Before(collective, other) && !Before(other, collective);
  }
  void ExpectUnder(OpId collective, OpId other) const {
    EXPECT_TRUE(MayRunUnder(collective, other)) << PrintOp(program_, other) << "\nnot under\n"
                                                << PrintOp(program_, collective);
  }
  // The words of all compute that may, in program order; those of other layers with their layer.
  std::string Under(OpId collective) const {
    std::string words, last;
    for (OpId id : program_.ops.ids()) {
      const Op& other = program_.ops[id];
      if (IsCollective(other.kind) || !MayRunUnder(collective, id)) continue;
      std::string word = WordOf(other);
      if (other.tag.layer >= 0 && other.tag.layer != op(collective).tag.layer)
        word.insert(0, "L" + std::to_string(other.tag.layer) + ".");
      if (word == last) continue;  // a product and its bias
      words += (words.empty() ? "" : " ") + word;
      last = std::move(word);
    }
    return words;
  }

 private:
  Program program_;
  absl::StatusOr<HappensBefore> order_;
};

}  // namespace stretto
