// SPDX-License-Identifier: Apache-2.0
#pragma once
// A link's transfer without blocks of ours: only copies, like collectives by copy engines.
//
// A tensor's own bytes are copied once within the device, in pieces, which is the memory traffic of
// a collective. Within a device that takes a fraction of a link's time; copies to pinned host
// memory fill the rest. Those always use a copy engine, and their time is known from their bytes,
// so they are the clock. Nothing spins, and the host is not involved.
//
// Not modelled: copies do not add, so a sum keeps the rank's own values. The driver chooses what
// copies within the device, and the clock adds memory reads at the speed of the host's bus.

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/cuda/link.h"

namespace stretto {

// A copy takes at least nanoseconds + bytes / bytes_per_nanosecond.
struct CopyRate {
  double nanoseconds = 0;
  double bytes_per_nanosecond = 1;
};
struct CopyPace {
  CopyRate within, to_host;  // the device
};

// The memory and the pace of one link. Not thread-safe.
class LinkCopies {
 public:
  // Uses the calling thread's current device, and measures its pace if none is given. Errors:
  // Unavailable, those of the device.
  static absl::StatusOr<std::unique_ptr<LinkCopies>> Create(std::optional<CopyPace> pace = {});
  virtual ~LinkCopies() = default;

  // Enqueues a transfer as defined by LinkTransfer, with `scale` 1 and no blocks, on a
  // cudaStream_t. It takes longer if copies are slower than the link. Returns null, or the reason
  // why a copy failed. The memory of this object is in use until the transfer is done.
  virtual const char* Enqueue(const LinkTransfer& transfer, void* stream) = 0;

  virtual CopyPace pace() const = 0;
};

}  // namespace stretto
