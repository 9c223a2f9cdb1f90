// SPDX-License-Identifier: Apache-2.0
#pragma once
// A graph of attention, compiled for a device.

#include <array>
#include <memory>
#include <string>

#include "kernels/cuda/cudnn/sdpa_graph.h"

namespace stretto::cuda {

// The device to make plans for: that of the handle or, without a handle, one with these properties
// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Plans of the latter cannot run.
struct SdpaDevice {
  cudnnHandle_t handle = nullptr;
  std::string properties = {};
};

// Addresses by SdpaTensor, without scalars and kRowSums.
using SdpaAddresses = std::array<void*, kSdpaTensors>;

class SdpaPlan {
 public:
  // Takes the first engine that the library proposes which runs within the workspace and is not
  // marked as non-deterministic. Takes up to seconds, because kernels are compiled. Errors:
  // ResourceExhausted (all need more workspace), Unimplemented (not supported), Unavailable.
  static absl::StatusOr<SdpaPlan> Make(const CudnnLibrary& library, const SdpaDevice& device,
                                       const SdpaShape& shape, bool backward,
                                       int64_t workspace_bytes);

  const SdpaShape& shape() const { return shape_; }
  // Bytes on the device, aligned to 256.
  int64_t workspace_bytes() const { return row_sum_bytes_ + engine_bytes_; }

  // Enqueues the plan on the handle's stream. Errors: Unavailable.
  absl::Status Run(cudnnHandle_t handle, float scale, const SdpaAddresses& addresses,
                   void* workspace) const;

 private:
  SdpaPlan(const CudnnLibrary& library, const SdpaShape& shape, bool backward);

  absl::Status Compile(const SdpaDevice& device, int64_t engine_room);
  // Returns the plan of a proposal; null, with the reason, if it cannot be used.
  Descriptor PlanOf(const SdpaDevice& device, Descriptor properties, Descriptor proposal,
                    int64_t engine_room, absl::Status* reason);
  bool NumbersVary(Descriptor proposal);

  SdpaShape shape_;
  bool backward_;
  int64_t row_sum_bytes_ = 0, engine_bytes_ = 0;
  std::unique_ptr<Descriptors> descriptors_;
  Descriptor plan_ = nullptr;
};

}  // namespace stretto::cuda
