// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the device did, kernel by kernel, by CUPTI. libcupti is opened at run time: it comes with
// the toolkit, and only who checks a ledger needs it.
//
// Tracing slows a step down (records are written behind every kernel), so nothing that is measured
// runs under it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/activity.h"

namespace stretto::cuda {

// From Start to Stop; of them all in a process one at a time. Thread-compatible.
class CuptiTrace {
 public:
  // `library`: its path, or its name for the loader to find; it is never closed. Errors: NotFound
  // (cannot be opened), FailedPrecondition (a function is missing; another major version than the
  // header we were built with, or an older one), Unimplemented (we were built without one),
  // CUPTI's.
  static absl::StatusOr<std::unique_ptr<CuptiTrace>> Open(const std::string& library);
  // Stops.
  ~CuptiTrace();

  // How activities name a stream (cudaStream_t). Errors: CUPTI's.
  absl::StatusOr<uint32_t> IdOf(void* stream) const;

  // Errors: FailedPrecondition (another one is tracing), CUPTI's.
  absl::Status Start();

  struct Recording {
    std::vector<DeviceActivity> activities;
    int64_t clock_error = 0;  // nanoseconds, by which their times may be wrong
  };
  // Everything since Start. The device must have done all of it, and the host must have waited for
  // that by a call of CUDA that synchronizes. Errors: DataLoss where the recording is no evidence
  // (CUPTI dropped records, or has some that did not end), CUPTI's.
  absl::StatusOr<Recording> Stop();

  struct Library;  // its functions

 private:
  explicit CuptiTrace(std::unique_ptr<Library> library);

  // The two clocks at one moment.
  struct Moment {
    int64_t host = 0;   // nanoseconds, as NowNanoseconds
    int64_t cupti = 0;  // nanoseconds
    int64_t error = 0;  // of their distance
  };
  absl::StatusOr<Moment> Now() const;
  absl::Status Enable(bool on);

  const std::unique_ptr<Library> library_;
  Moment start_;
};

}  // namespace stretto::cuda
