// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connects every rank of a group with every other, over gloo's TCP transport.

#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/comm/gloo/gloo_communicator.h"

namespace gloo::transport {
class Context;
namespace tcp {
class Device;
}  // namespace tcp
}  // namespace gloo::transport

namespace stretto {

struct GlooInterface {
  std::shared_ptr<gloo::transport::tcp::Device> device;
  std::string address;  // numeric
};

// The text of a gloo exception without the source location.
std::string TextOf(const std::exception& error);
// Whether gloo's text reports that time ran out on this rank, rather than a failure of the peer.
bool IsTimeout(const std::string& text);

// In gloo's unit, at least one, because gloo reads zero as "forever".
std::chrono::milliseconds ToMilliseconds(absl::Duration duration);

// Whether a group can be made of these, of one rank or more. Errors: InvalidArgument naming the
// group and the option.
absl::Status CheckOptions(const GlooOptions& options);

// Publishes our address as "<prefix>/<rank>", that of rank 0 with a secret, and connects to all
// peers, who prove that they know it. The result owns its pairs and shares the network; it is
// shared because gloo's buffers refer to it. Needs options.size > 1,
// a store and a network. Errors as GlooCommunicator::Connect.
absl::StatusOr<std::shared_ptr<gloo::transport::Context>> ConnectMesh(const GlooOptions& options);

}  // namespace stretto
