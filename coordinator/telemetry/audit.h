// SPDX-License-Identifier: Apache-2.0
#pragma once
// The audit line: one log line for every call that changed something or tried to.

#include <string>

namespace stretto::telemetry {

struct AuditEntry {
  std::string caller;      // URI of the certificate; empty without TLS
  std::string peer;        // address of the caller: "ipv4:10.0.0.7:51234"
  std::string method;      // "CreateJob"
  std::string resource;    // "jobs/gpt"
  std::string request_id;  // may be empty
  std::string result;      // "OK" or the code's name
};

// Escapes control characters, because values come from the network. Thread-safe.
void Audit(const AuditEntry& entry);

}  // namespace stretto::telemetry
