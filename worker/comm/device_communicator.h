#pragma once
// A group of ranks that exchange tensors in device memory. One DeviceCommunicator is one rank's
// view of one group, for one lane.
//
// The collectives of communicator.h, with its rules on order, shapes and overlap. The difference: a
// call puts its work on a stream and returns; only the work waits for the peers, and it can be
// captured into a graph. (A first call of its kind may wait for peers on the host, up to the
// group's timeout, while connections are made.) Nothing blocks on the device: whoever waits for the
// stream uses AwaitDevice (device_wait.h), which polls the stream and its communicators, so that a
// dead peer ends the wait. The memory must stay valid until the work is done; `stream` is a
// cudaStream_t of the device that the communicator was made for.
//
// One thread at a time calls a DeviceCommunicator; only Abort may come from any thread.
//
// Errors of communicator.h, of a call or of Poll. After Unavailable, DeadlineExceeded or Aborted
// the group is dead: work still on the stream is cut short, later calls and polls return the same
// error, and buffers of unfinished collectives hold garbage. Build a new group; do not retry.
//
// The order of additions, and whether a NaN wins a max, is each implementation's to say; all ranks
// get the same bits from one all_reduce.
//
// Equivalent to: ncclComm_t.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/comm/collective/collective.h"

namespace stretto {

class DeviceCommunicator {
 public:
  // Leaves the group. The work it put on streams must be done, or the group dead; graphs that hold
  // its collectives are destroyed before.
  virtual ~DeviceCommunicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Enqueues a collective on `stream`, of a kind that devices have (collective_kind.h, on_device);
  // others are InvalidArgument, and the group works on.
  [[nodiscard]] virtual absl::Status Run(const Collective& collective, void* stream) = 0;

  // Device memory, aligned to 4 KiB at least, that collectives are fastest on once it is
  // registered; null: any memory is as good. All ranks call it alike. Errors: ResourceExhausted.
  virtual absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t /*bytes*/) { return nullptr; }

  // Lets collectives on this memory take a faster way. An offer: what cannot use it does nothing.
  // All ranks call it, in the same order among their collectives, with the same size and memory of
  // the same kind, and use it at the same offsets. An error costs nothing but speed, unless Poll
  // reports it too.
  [[nodiscard]] virtual absl::Status Register(const std::shared_ptr<void>& /*memory*/,
                                              int64_t /*bytes*/) {
    return absl::OkStatus();
  }

  // Takes the offer back, before the memory goes: no collective on it is under way or in a graph.
  // All ranks call it in the same order, but it waits for none: memory
  // that peers have mapped is free when all of them have called it. Of a dead group whose library
  // may still know the memory, the communicator keeps it until its own end. Nothing where there was
  // no offer.
  virtual void Unregister(const void* /*memory*/) {}

  // What happened to the group since the last call; never blocks. An error ends the group, and with
  // it whatever of ours still runs on a stream, if need be in the next call. Before that next one
  // destroy all graphs that hold its collectives, those that run too.
  [[nodiscard]] virtual absl::Status Poll() = 0;

  // Makes this rank's next call or poll end the group with Aborted; its peers get Unavailable (or
  // Aborted, in one process). Thread-safe, idempotent. Work on a stream stops when the owning
  // thread polls: AwaitDevice does.
  virtual void Abort() = 0;
};

}  // namespace stretto
