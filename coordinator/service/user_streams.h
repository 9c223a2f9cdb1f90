// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the open streams of users, in all and of each, against the limits.
//
// Not thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "coordinator/service/limits.h"

namespace stretto::service {

struct Call;

class UserStreams {
 public:
  explicit UserStreams(const Limits& limits)
      : most_(limits.most_streams), most_of_user_(limits.most_streams_of_user) {}

  // Whose streams count together: the user, or without TLS the machine that the call comes from.
  static std::string UserOf(const Call& call);

  // Takes one stream for the user, until Release. Errors: RESOURCE_EXHAUSTED (TOO_MANY_STREAMS) if
  // all are taken, or the user has as many as one may have.
  absl::Status Admit(const std::string& user);
  void Release(const std::string& user);

 private:
  const int64_t most_, most_of_user_;
  int64_t in_all_ = 0;
  std::map<std::string, int64_t> of_user_;  // no zeros
};

}  // namespace stretto::service
