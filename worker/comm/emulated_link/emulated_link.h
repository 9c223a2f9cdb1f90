#pragma once
// A DeviceCommunicator without peers: each collective keeps some blocks of this GPU busy for as
// long as a link would take (kernels/cuda/link.h), or none, and copies fill that time
// (kernels/cuda/link_copies.h). For measuring how well one rank's true share of
// the work hides communication, on one GPU. Figures taken with it are labelled "emulated link".
//
// Numbers: as if all ranks held what this one holds. Sums are `size` times the own values, so that
// magnitudes stay those of equal ranks; maxima are the own values; gathered parts are copies.
// Without blocks nothing can multiply: sums are the own values then. A
// program that trains on it learns nothing; watch its losses for non-finite values.
//
// Time of a collective, with `bytes` of the whole tensor: all_reduce latency + bytes / bandwidth;
// all_gather (out) and reduce_scatter (in), half of an all_reduce each: latency + bytes / 2 /
// bandwidth. Nothing for one rank.

#include <memory>

#include "absl/status/statusor.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/emulated_link_options.h"

namespace stretto {

// Errors: InvalidArgument, naming the option; Unavailable, the device's. Calls fail with
// Unavailable where a launch does.
absl::StatusOr<std::unique_ptr<DeviceCommunicator>> MakeEmulatedLink(
    const EmulatedLinkOptions& options);

}  // namespace stretto
