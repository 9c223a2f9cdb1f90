// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of collectives. One table: the communicators, the step program's operations, the
// verifier, the cost rule and the backends read it, so that none of them lists the kinds again.
//
// For n ranks, with `in` the tensor that a rank brings and `out` the tensor that it gets:
//   all_reduce      out = the reduction of in over all ranks; in and out are one tensor
//   reduce_scatter  out = this rank's part of the reduction of in, which has n parts
//   all_gather      out = the in of all ranks, in rank order
//   broadcast       out = the root's in; in and out are one tensor
//   barrier         no tensors; returns after every rank has called it
// A tensor of n parts has equal, contiguous parts in rank order.
//
// Adding a kind: a row here, its branch in every implementation, and, if step programs may have it,
// its row in worker/engine/program/op_kind.cc.
//
// This header includes nothing of abseil, so that device code can include it.

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace stretto {

// How a collective that reduces combines two elements. A NaN wins a max.
enum class ReduceOp : uint8_t { kSum, kMax };

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier
};

struct CollectiveInfo {
  CollectiveKind kind;
  const char* name;        // in step programs and messages
  const char* label = "";  // in drawings of a schedule
  bool in_place = false;   // in and out are one tensor; a barrier's is empty
  bool in_parts = false;   // in has a part for every rank
  bool out_parts = false;  // out has a part of every rank
  bool reduces = false;    // Collective::op applies
  bool rooted = false;     // Collective::root applies
  bool on_device = false;  // every DeviceCommunicator has it, so step programs may
  // The cost on a link: how often the tensor (the larger one) passes around the ring of ranks, in
  // n-1 steps of an n-th of it each. 0: a chain from the root, or one step of nothing.
  int ring_passes = 0;
};

// In the order of CollectiveKind.
inline constexpr CollectiveInfo kCollectives[] = {
    {.kind = CollectiveKind::kAllReduce,
     .name = "all_reduce",
     .label = "AR",
     .in_place = true,
     .reduces = true,
     .on_device = true,
     .ring_passes = 2},
    {.kind = CollectiveKind::kReduceScatter,
     .name = "reduce_scatter",
     .label = "RS",
     .in_parts = true,
     .reduces = true,
     .on_device = true,
     .ring_passes = 1},
    {.kind = CollectiveKind::kAllGather,
     .name = "all_gather",
     .label = "AG",
     .out_parts = true,
     .on_device = true,
     .ring_passes = 1},
    {.kind = CollectiveKind::kBroadcast,
     .name = "broadcast",
     .in_place = true,
     .rooted = true,
     .on_device = true},
    {.kind = CollectiveKind::kBarrier, .name = "barrier", .in_place = true},
};

constexpr const CollectiveInfo& InfoOf(CollectiveKind kind) {
  return kCollectives[static_cast<size_t>(kind)];
}

constexpr const char* NameOf(CollectiveKind kind) { return InfoOf(kind).name; }

static_assert(
    [] {
      for (size_t i = 0; i < std::size(kCollectives); ++i) {
        if (kCollectives[i].kind != static_cast<CollectiveKind>(i)) return false;
      }
      return true;
    }(),
    "the table is in the order of the enum");

}  // namespace stretto
