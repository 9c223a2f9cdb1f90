// SPDX-License-Identifier: Apache-2.0
#include "coordinator/telemetry/audit.h"

#include <spdlog/spdlog.h>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace stretto::telemetry {
namespace {

constexpr size_t kMaxField = 256;

// Makes one word of the line: no blank or quote in it can be taken for the start of the next field.
std::string Field(absl::string_view text, const char* if_empty) {
  if (text.empty()) return if_empty;
  const std::string escaped = absl::CHexEscape(text.substr(0, kMaxField));
  return escaped.find_first_of(" =") == std::string::npos ? escaped : "\"" + escaped + "\"";
}

}  // namespace

void Audit(const AuditEntry& entry) {
  spdlog::info("audit caller={} peer={} method={} resource={} request_id={} result={}",
               Field(entry.caller, "unauthenticated"), Field(entry.peer, "-"), entry.method,
               Field(entry.resource, "-"), Field(entry.request_id, "-"), entry.result);
}

}  // namespace stretto::telemetry
