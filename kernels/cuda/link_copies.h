// SPDX-License-Identifier: Apache-2.0
#pragma once
// A link's transfer without blocks of ours: copies alone, as collectives by copy engines are.
//
// A tensor's own bytes are copied once within the device, in pieces, which is the memory traffic of
// a collective. Within a device that takes a fraction of a link's time; the rest of it is filled
// with copies to pinned memory of the host. Those always take a copy engine, and their time is
// known from their bytes: they are the clock. Nothing spins, and the host is not asked.
//
// What it does not model: copies do not add, so a sum keeps the own values. The driver chooses what
// copies within the device; the clock adds reads of memory at the speed of the host's bus.

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/cuda/link.h"

namespace stretto {

// A copy takes nanoseconds + bytes / bytes_per_nanosecond, at best.
struct CopyRate {
  double nanoseconds = 0;
  double bytes_per_nanosecond = 1;
};
struct CopyPace {
  CopyRate within, to_host;  // the device
};

// Memory and pace of one link. One thread at a time.
class LinkCopies {
 public:
  // On the calling thread's current device, whose pace is measured where none is given. Errors:
  // Unavailable, the device's.
  static absl::StatusOr<std::unique_ptr<LinkCopies>> Create(std::optional<CopyPace> pace = {});
  virtual ~LinkCopies() = default;

  // Enqueues it on a cudaStream_t: what LinkTransfer says, with `scale` 1 and no blocks. Copies
  // that are slower than the link make it take longer. Null, or why a copy failed. The memory of
  // this object is used until it is done.
  virtual const char* Enqueue(const LinkTransfer& transfer, void* stream) = 0;

  virtual CopyPace pace() const = 0;
};

}  // namespace stretto
