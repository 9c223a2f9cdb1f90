// SPDX-License-Identifier: Apache-2.0
#pragma once
// A group of ranks that exchange tensors in device memory. One DeviceCommunicator is one rank's
// view of one group, for one lane.
//
// It follows the rules of communicator.h on order, shapes and overlap, with one difference: a call
// enqueues its work on a stream and returns. Only that work waits for the peers, and it can be
// captured into a graph. (The first call of a kind may wait for peers on the host, up to the
// group's timeout, while connections are made.) No thread blocks on the device: whoever waits for
// the stream uses AwaitDevice (device_wait.h), which polls the stream and its communicators, so
// that a dead peer ends the wait. The memory must stay valid until the work is done; `stream` is a
// cudaStream_t of the device that the communicator was made for.
//
// One thread at a time calls a DeviceCommunicator; only Abort may come from any thread.
//
// Calls and Poll return the errors of communicator.h. After Unavailable, DeadlineExceeded or
// Aborted the group is dead: work still on the stream is cut short, later calls and polls return
// the same error, and the contents of unfinished collectives' tensors are unspecified. Build a new
// group; do not retry.
//
// Each implementation defines the order of additions and whether a NaN wins a max. All ranks get
// the same bits from one all_reduce.
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
  // others are InvalidArgument, and the group stays usable.
  [[nodiscard]] virtual absl::Status Run(const Collective& collective, void* stream) = 0;

  // Allocates device memory, aligned to 4 KiB at least, on which collectives are fastest once it is
  // registered. Returns null where any memory is as good. Every rank makes the same call. Errors:
  // ResourceExhausted.
  virtual absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t /*bytes*/) { return nullptr; }

  // Offers memory on which collectives may then take a faster way; implementations that have none
  // ignore it. All ranks call it, in the same order among their collectives, with the same size and
  // memory of the same kind, and use it at the same offsets. An error costs nothing but speed,
  // unless Poll reports it too.
  [[nodiscard]] virtual absl::Status Register(const std::shared_ptr<void>& /*memory*/,
                                              int64_t /*bytes*/) {
    return absl::OkStatus();
  }

  // Withdraws the offer, before the memory is freed; no collective on it may be in flight or in a
  // graph. All ranks call it in the same order, but it waits for none of them: memory that peers
  // have mapped is free once all of them have called it. If the group is dead and its library may
  // still know the memory, the communicator keeps the memory until it is destroyed itself. Without
  // an offer it does nothing.
  virtual void Unregister(const void* /*memory*/) {}

  // Reports what happened to the group since the last call; never blocks. An error ends the group
  // and cuts its work on streams short, in this call or in the next. Before that next call, destroy
  // all graphs that hold its collectives, running ones included.
  [[nodiscard]] virtual absl::Status Poll() = 0;

  // Makes this rank's next call or poll end the group with Aborted; its peers get Unavailable (or
  // Aborted, in one process). Thread-safe, idempotent. Work on a stream stops when the owning
  // thread polls, as AwaitDevice does.
  virtual void Abort() = 0;
};

}  // namespace stretto
