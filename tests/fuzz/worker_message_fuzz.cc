// SPDX-License-Identifier: Apache-2.0

// A message of a worker: any is admitted or refused, and what a daemon has fitted is admitted.
#include <cstddef>
#include <cstdint>

#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "proto/bounds/worker_bounds.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::v1alpha1::WorkerMessage message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  stretto::v1alpha1::WorkerMessage fitted = message;
  const absl::Status admitted = stretto::AdmitWorkerMessage(&message);
  STRETTO_CHECK(stretto::IsPrintable(admitted.message()));
  stretto::FitWorkerMessage(&fitted).IgnoreError();
  const absl::Status again = stretto::AdmitWorkerMessage(&fitted);
  STRETTO_CHECK(again.ok());
  return 0;
}
