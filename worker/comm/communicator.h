// SPDX-License-Identifier: Apache-2.0
#pragma once
// A group of ranks that exchange tensors. One Communicator is one rank's view of one group.
//
// Calls block the calling thread until this rank's part is done: a call blocks its lane, never the
// executor. One thread at a time calls a Communicator; only Abort may come from any thread. Every
// rank of the group makes the same calls in the same order with the same sizes; the verifier proves
// this for step programs. Groups of one rank complete at once.
//
// Reductions add in rank order, in f32 (bf16 is rounded once, at the end; i32 wraps), whatever the
// timing, so all implementations and all ranks give the same bits.
//
// Errors of every call:
//   InvalidArgument   the collective is not well-formed (CheckCollective), or not the one that the
//                     call before it has announced; nothing was sent, and the group stays usable
//   Unavailable       a peer is gone; the message names the call and the peer
//   DeadlineExceeded  a peer did not take part in time; the message names the call and the peer
//   Aborted           a rank of the group called Abort
// After Unavailable, DeadlineExceeded or Aborted the group is dead: every later call fails too, and
// the contents of the failed call's tensors are unspecified. Build a new group; do not retry.
//
// Equivalent to: ncclComm_t, gloo::Context, MPI_Comm.

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/comm/collective/collective.h"

namespace stretto {

class Communicator {
 public:
  // Destroying one rank's view is how it leaves the group: peers that wait for it get Unavailable.
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Takes part in a collective of any kind (collective_kind.h).
  [[nodiscard]] virtual absl::Status Run(const Collective& collective) = 0;

  // The same. Calls `posted` at most once, on this thread, before it first waits for a peer. An
  // implementation that can hands over what this rank sends before that.
  //
  // `next`, unless it is null, is what this rank calls next in this group; its kind, types and
  // counts are read. An implementation may post the receives of that call before this one ends, so
  // that peers can send at once. It may then refuse any other call with InvalidArgument, and a rank
  // that leaves the group before that call may make its peers fail in this one.
  [[nodiscard]] virtual absl::Status RunTelling(const Collective& collective,
                                                const Collective* /*next*/,
                                                absl::FunctionRef<void()> posted) {
    posted();
    return Run(collective);
  }

  // Makes a blocked call and all later calls of this rank return Aborted, and those of its peers
  // fail (Aborted in one process, Unavailable over a network). Thread-safe, idempotent.
  virtual void Abort() = 0;
};

}  // namespace stretto
