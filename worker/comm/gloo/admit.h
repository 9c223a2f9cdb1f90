// SPDX-License-Identifier: Apache-2.0
#pragma once
// gloo's pairs on connections that we have made.

#include "absl/status/status.h"
#include "proto/base/files.h"

namespace gloo::transport {
class Context;
namespace tcp {
class Device;
}  // namespace tcp
}  // namespace gloo::transport

namespace stretto {

// Of the device whose pairs Admit makes.
inline constexpr char kDeviceAddress[] = "127.0.0.1";

// Makes the pair of `rank` in `mesh`, a context of `device`, on `connection`, which has no byte to
// read but those of the peer's gloo. Nobody on the network can reach the pair otherwise. Throws
// gloo's exceptions. Errors: Unavailable.
absl::Status Admit(gloo::transport::Context& mesh, gloo::transport::tcp::Device& device, int rank,
                   FileDescriptor connection);

}  // namespace stretto
