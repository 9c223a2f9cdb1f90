// SPDX-License-Identifier: Apache-2.0
#pragma once
// One collective as one rank calls it, as plain data: what a Communicator and a DeviceCommunicator
// run, and what a decorator forwards without knowing its kind.

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/tensor_view.h"
#include "worker/comm/collective/collective_kind.h"

namespace stretto {

// The tensors are borrowed until the collective is done. All ranks of a group describe the same
// collective: kind, dtype, counts, op and root agree.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  TensorView in = {};            // what this rank brings
  TensorView out = {};           // what it gets; `in` itself where the kind is in place
  ReduceOp op = ReduceOp::kSum;  // of the kinds that reduce
  int root = 0;                  // the rank that a rooted kind starts from

  static Collective AllReduce(const TensorView& tensor, ReduceOp op) {
    return {.kind = CollectiveKind::kAllReduce, .in = tensor, .out = tensor, .op = op};
  }
  // Sums. `out` may be this rank's part of `in`; any other overlap is forbidden.
  static Collective ReduceScatter(const TensorView& in, const TensorView& out) {
    return {.kind = CollectiveKind::kReduceScatter, .in = in, .out = out};
  }
  // `in` may be this rank's part of `out`; any other overlap is forbidden.
  static Collective AllGather(const TensorView& in, const TensorView& out) {
    return {.kind = CollectiveKind::kAllGather, .in = in, .out = out};
  }
  static Collective Broadcast(const TensorView& tensor, int root) {
    return {.kind = CollectiveKind::kBroadcast, .in = tensor, .out = tensor, .root = root};
  }
  static Collective Barrier() { return {.kind = CollectiveKind::kBarrier}; }

  const CollectiveInfo& info() const { return InfoOf(kind); }
  // Bytes of the larger tensor: the one that the cost of a collective counts.
  int64_t bytes() const { return in.bytes() > out.bytes() ? in.bytes() : out.bytes(); }
};

// InvalidArgument, naming the kind, what was found and what was expected, unless `ranks` ranks can
// run it: the two tensors have one dtype and sizes that fit the kind, and the root is a rank.
absl::Status CheckCollective(const Collective& collective, int ranks);

// CheckCollective, and InvalidArgument for a kind that no device has.
absl::Status CheckDeviceCollective(const Collective& collective, int ranks);

// A broadcast travels along the chain of ranks that begins at its root, in chunks of about this
// size: a rank passes one chunk on while it receives the next. (Zhuang et al. 2023, section 4, call
// it the broadcast strategy of cross-mesh resharding.)
inline constexpr int64_t kChainChunkBytes = int64_t{256} << 10;
// Returns the number of equal chunks, at least 1.
int64_t ChainChunks(int64_t bytes);

// The cost of a collective on a link: `steps` times (latency + step_bytes / bandwidth), with the
// bandwidth of one rank in one direction. It is that of a ring (Thakur et al. 2005):
//   all_reduce                  2(n-1) steps of 1/n of the bytes
//   reduce_scatter, all_gather  n-1 steps of 1/n of the bytes
//   broadcast                   k + n-2 steps of 1/k of the bytes, in k chunks along a chain
//   barrier                     1 step of none
struct LinkSteps {
  double steps = 0;
  double step_bytes = 0;
};

// `bytes`: of the larger tensor, as it travels. A group of one rank needs no steps.
LinkSteps LinkStepsOf(CollectiveKind kind, int ranks, int64_t bytes);

}  // namespace stretto
