// SPDX-License-Identifier: Apache-2.0
#pragma once
// The limits of the service that flags can change, with the defaults of the table.

#include <cstdint>

#include "absl/time/time.h"
#include "proto/base/limits.h"

namespace stretto::service {

struct Limits {
  int64_t max_spec_bytes = limits::kSpecBytes.value;
  int64_t most_streams = limits::kUserStreams.value;
  int64_t most_streams_of_user = limits::kStreamsOfUser.value;
  int64_t most_connections = limits::kConnections.value;
  int64_t most_connections_of_machine = limits::kConnectionsOfMachine.value;
  int64_t max_memory_bytes = limits::kMemoryBytes.value;
  int64_t max_audit_bytes = limits::kAuditBytes.value;
  absl::Duration handshake = absl::Seconds(limits::kHandshakeSeconds.value);
  absl::Duration idle = absl::Seconds(limits::kIdleSeconds.value);
  // After this time a connection takes no new calls, and with `age_grace` more its calls end.
  absl::Duration age = absl::Seconds(limits::kAgeSeconds.value);
  absl::Duration age_grace = absl::Minutes(10);
  // To a worker. No flag changes it, because workers of every release accept that much.
  int64_t max_message_bytes = limits::kMessageBytes.value;
};

}  // namespace stretto::service
