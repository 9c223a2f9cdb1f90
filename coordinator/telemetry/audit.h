// SPDX-License-Identifier: Apache-2.0
#pragma once
// The audit log: a file with one line for every call that changed something or tried to.
//
//   2026-11-26T04:30:37.123Z caller=URI peer=ADDRESS method=CancelJob resource=jobs/gpt
//   request_id=- result=OK                                                   (on one line)
//
// A caller with a token has token=ID after his URI. Of the refused calls of one caller a number is
// written at once and then one a second; left_out=N at the end of a line, which may be a line of
// its own with method and result "-", counts those before it that were not.
//
// A value with a blank or an equals sign is quoted. No value has a quote or a character that is
// not printable (proto/base/printable.h): those are written as \x22 and the like.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/telemetry/telemetry.h"
#include "proto/base/limits.h"
#include "proto/base/line_rate.h"
#include "proto/base/mutex.h"

namespace stretto::telemetry {

struct AuditEntry {
  std::string caller;      // URI of the certificate or of the token's holder, or kLocalUser
  std::string peer;        // address of the caller: "ipv4:10.0.0.7:51234"
  std::string method;      // "CreateJob"
  std::string resource;    // "jobs/gpt"; empty if it is not known
  std::string request_id;  // may be empty
  std::string result;      // "OK" or the code's name
  std::string token = {};  // id of the caller's token; empty: none
  int64_t left_out = 0;    // calls of this caller that have no line, since the last one that has
};

// Thread-safe.
class AuditLog {
 public:
  static constexpr int kOlder = 4;  // files that are kept beside the current one

  // Creates the file if there is none; an empty `path` makes a log that keeps nothing. When a line
  // would make it longer than `max_bytes`, a regular file is renamed to PATH.1, PATH.1 to PATH.2
  // and so on, and PATH.kOlder is deleted. Borrows telemetry. Errors: those of opening the file.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path, int64_t max_bytes,
                                                        Telemetry& telemetry);

  // Appends a line, which is in the hands of the operating system afterwards: it survives the end
  // of this process, and what other programs do to the file. A line that cannot be written, as on a
  // full disk, is written to the daemon's log as an error instead, and counted; the next one that
  // can be written comes after a line that counts those missing. Never leaves a part of a line.
  void Write(const AuditEntry& entry, absl::Time now);
  // The same for a call that was refused, within the rate of its caller. `steady`: the monotonic
  // time.
  void WriteRefused(AuditEntry entry, absl::Time now, absl::Duration steady);
  // Counts the refused calls that have no line, of callers who make no more. Call it about every
  // second.
  void WriteLeftOut(absl::Time now, absl::Duration steady);

 private:
  AuditLog(std::string path, int64_t max_bytes, Telemetry& telemetry)
      : path_(std::move(path)), max_bytes_(max_bytes), telemetry_(telemetry) {}
  absl::Status Append(const std::string& line) REQUIRES(mu_);
  absl::Status Rotate() REQUIRES(mu_);

  const std::string path_;
  const int64_t max_bytes_;
  Telemetry& telemetry_;
  LineRates refused_{limits::kAuditRefused.value, absl::Seconds(1)};  // by caller
  Mutex mu_;
  int64_t missing_ GUARDED_BY(mu_) = 0;  // lines since the last that was written
};

}  // namespace stretto::telemetry
