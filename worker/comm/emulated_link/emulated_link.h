// SPDX-License-Identifier: Apache-2.0
#pragma once
// A DeviceCommunicator without peers. Each collective keeps some blocks of this GPU busy for as
// long as a link would take (kernels/cuda/link.h). It measures on one GPU how well one rank's true
// share of the work hides communication. Figures taken with it are labelled "emulated link".
//
// The values are those of a group whose ranks all bring what this rank brings: a sum is `size`
// times its values, a maximum is its values, and every gathered part is a copy of its part. A
// program that trains on an emulated link learns nothing; watch its losses for non-finite values.
//
// A collective takes latency + bytes * ring_passes / 2 / bandwidth (collective_kind.h), with the
// bytes of the larger tensor: all of them for an all_reduce, half for a kind that passes the ring
// once and for a broadcast, which passes a chain once. A group of one rank takes no time.

#include <memory>

#include "absl/status/statusor.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/emulated_link_options.h"

namespace stretto {

// Errors: InvalidArgument, naming the option; Unavailable when the device fails. A collective whose
// launch fails returns Unavailable.
absl::StatusOr<std::unique_ptr<DeviceCommunicator>> MakeEmulatedLink(
    const EmulatedLinkOptions& options);

}  // namespace stretto
