// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of one rank in a resharding: transfers, all-gathers and, for boxes that are not
// contiguous, copies. A program that only reshards (program/emit.h) and the step program of a stage
// (worker/engine/model) are both made of them. Pure.

#include <vector>

#include "absl/strings/string_view.h"
#include "worker/engine/program/program.h"
#include "worker/engine/reshard/reshard.h"

namespace stretto {

// A buffer that holds a box of the tensor; -1: there is none.
struct HeldBox {
  BufferId buffer = -1;
  Box box;
};

// What an operation does. Copies compute; chains and gathers communicate.
enum class ReshardRole : uint8_t { kPack, kKeep, kChain, kGather, kUnpack };
const char* NameOf(ReshardRole role);  // "pack", "keep", "chain", "gather", "unpack"

struct ReshardOp {
  ReshardRole role = ReshardRole::kChain;
  size_t step = 0;          // of the plan; 0 of a copy of what the rank had before
  std::vector<Rank> ranks;  // the group of a chain or a gather
  Op op;                    // kind, operands and attributes
};

// Returns the operations of `rank`, which has `in` and gets `out`, in an order that all ranks
// follow: packs, copies of what it had before, then the steps of the plan. The buffers that it adds
// to `buffers` are called `prefix` and their purpose. Transfers of f32 travel as `wire`. The plan
// moves a tensor of at most four dimensions to the tilings that `in` and `out` are of
// (CheckResharding).
std::vector<ReshardOp> OperationsOf(const Resharding& plan, Rank rank, const HeldBox& in,
                                    const HeldBox& out, DType wire, absl::string_view prefix,
                                    IdVector<BufferId, Buffer>* buffers);

}  // namespace stretto
