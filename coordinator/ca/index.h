// SPDX-License-Identifier: Apache-2.0
#pragma once
// The record of what a CA has issued and revoked: a text file to which lines are added and in which
// none is changed. A line is synced before anything that it records leaves the CA, so no
// certificate exists that the record does not have.
//
//   2026-11-26T09:30:00Z issued 4f0c... worker-a 2026-11-26T09:25:00Z 2027-02-24T09:30:00Z URI:...
//   2026-11-27T10:00:00Z revoked 4f0c... keyCompromise

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace stretto::ca {

struct Issued {
  std::string serial;             // hexadecimal, lower case
  std::string name;               // as Holder's
  std::string alternative_names;  // as Holder's
  absl::Time begin = {}, end = {};
  std::optional<absl::Time> revoked = {};
  std::string reason = {};  // of kReasons, if revoked

  bool ValidAt(absl::Time now) const { return !revoked && now <= end; }
  // Two thirds of its lifetime are over.
  bool DueAt(absl::Time now) const { return now >= begin + (end - begin) * 2 / 3; }
};

// Why a certificate is revoked, in the words of RFC 5280.
inline constexpr const char* kReasons[] = {"unspecified", "keyCompromise", "superseded",
                                           "cessationOfOperation"};

struct Index {
  std::vector<Issued> issued;  // in order of time
  int64_t lines = 0;
  // Bytes of whole lines. What follows was cut off by a crash and records nothing.
  int64_t whole = 0;
};

std::string IssuedLine(const Issued& issued, absl::Time now);
std::string RevokedLine(const std::string& serial, const std::string& reason, absl::Time now);

// Errors: DATA_LOSS "LINE: found ..., expected ..." if a whole line is not of its form.
absl::StatusOr<Index> ParseIndex(absl::string_view text);

}  // namespace stretto::ca
