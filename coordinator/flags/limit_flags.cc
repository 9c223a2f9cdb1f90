// SPDX-License-Identifier: Apache-2.0
#include "coordinator/flags/limit_flags.h"

#include "proto/commands/ranges.h"

namespace stretto::service {

void AddLimitFlags(CLI::App& app, Limits& limits) {
  // A message to a worker has room for sixteen of the longest specs.
  app.add_option(limits::kSpecBytes.flag, limits.max_spec_bytes,
                 "bytes that the spec of a new job may have")
      ->check(
          Integer(int64_t{1} << 10, limits::kMessageBytes.value / 16).description("1024 to 262144"))
      ->capture_default_str();
  app.add_option(limits::kConnections.flag, limits.most_connections,
                 "connections that may be open at once; further ones are closed")
      ->check(Integer(1, 1'000'000).description("1 to 1000000"))
      ->capture_default_str();
  app.add_option(limits::kConnectionsOfMachine.flag, limits.most_connections_of_machine,
                 "connections of one machine that may be open at once")
      ->check(Integer(1, 1'000'000).description("1 to 1000000"))
      ->capture_default_str();
  app.add_option(limits::kMemoryBytes.flag, limits.max_memory_bytes,
                 "resident memory above which, while it grows, the connection that sends most is "
                 "closed")
      ->check(
          Integer(int64_t{128} << 20, int64_t{1} << 40).description("134217728 to 1099511627776"))
      ->capture_default_str();
  app.add_option(limits::kUserStreams.flag, limits.most_streams,
                 "streams (job watch, job logs, job trace) that users may have open at once")
      ->check(Integer(1, 1'000'000).description("1 to 1000000"))
      ->capture_default_str();
  app.add_option(limits::kStreamsOfUser.flag, limits.most_streams_of_user,
                 "streams that one user, or without TLS one machine, may have open at once")
      ->check(Integer(1, 1'000'000).description("1 to 1000000"))
      ->capture_default_str();
  app.add_option(limits::kAuditBytes.flag, limits.max_audit_bytes,
                 "bytes of the audit log after which a new one begins; four older ones are kept")
      ->check(Integer(int64_t{1} << 12, int64_t{1} << 40).description("4096 to 1099511627776"))
      ->capture_default_str();
}

}  // namespace stretto::service
