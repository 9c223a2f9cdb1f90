// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/in_flight.h"

namespace stretto::cuda {

absl::StatusOr<InFlight> InFlight::Create(cudaStream_t stream) {
  InFlight in_flight;
  in_flight.stream_ = stream;
  for (Event& end : in_flight.ends_) {
    ASSIGN_OR_RETURN(end, MakeEvent(false));
  }
  return in_flight;
}

absl::Status InFlight::Add(int commands, const AwaitEvent& await) {
  commands_ += commands;
  if (commands_ < kBatch) return absl::OkStatus();
  commands_ = 0;
  const cudaEvent_t end = ends_[batch_++ % ends_.size()].get();
  // This event ended the batch before the last; it has completed if the device keeps up.
  if (cudaEventQuery(end) != cudaSuccess) RETURN_IF_ERROR(await(end));
  return ToStatus(cudaEventRecord(end, stream_), "record of an event");
}

}  // namespace stretto::cuda
