// SPDX-License-Identifier: Apache-2.0
#pragma once
// A trace of the device's activity, kernel by kernel, by CUPTI. libcupti is opened at run time: it
// is part of the toolkit, and only a check of the ledger needs it.
//
// Tracing slows a step down, because records are written after every kernel, so nothing is measured
// under it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/activity.h"

namespace stretto::cuda {

// Records from Start to Stop. Only one trace of a process may be active at a time.
// Thread-compatible.
class CuptiTrace {
 public:
  // `library` is its path, or its name for the loader to find; it is never closed. Errors: NotFound
  // (cannot be opened), FailedPrecondition (a function is missing; its major version differs from
  // that of the header we were built with, or it is older), Unimplemented (we were built without
  // the header), those of CUPTI.
  static absl::StatusOr<std::unique_ptr<CuptiTrace>> Open(const std::string& library);
  // Stops the trace.
  ~CuptiTrace();

  // Returns the id of a stream (cudaStream_t) in activities. Errors: those of CUPTI.
  absl::StatusOr<uint32_t> IdOf(void* stream) const;

  // Errors: FailedPrecondition (another trace is active), those of CUPTI.
  absl::Status Start();

  // Returns everything since Start. The device must have completed all of it, and the host must
  // have waited for it in a CUDA call that synchronizes. Errors: DataLoss when the recording is not
  // complete (CUPTI dropped records, or some did not end), those of CUPTI.
  absl::StatusOr<std::vector<DeviceActivity>> Stop();

  struct Library;  // its functions

 private:
  explicit CuptiTrace(std::unique_ptr<Library> library);
  absl::Status Enable(bool on);

  const std::unique_ptr<Library> library_;
};

}  // namespace stretto::cuda
