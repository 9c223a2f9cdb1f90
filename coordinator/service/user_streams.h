// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the open streams of users, in all and of each, against the limits.
//
// Not thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/limits.h"
#include "proto/base/limits.h"
#include "proto/spec/violations.h"

namespace stretto::service {

class UserStreams {
 public:
  explicit UserStreams(const Limits& limits)
      : most_(limits.most_streams), most_of_user_(limits.most_streams_of_user) {}

  // Takes one stream for the user (Call::counted_for), until Release. Errors: RESOURCE_EXHAUSTED
  // if all are taken, or the user has as many as one may have.
  absl::Status Admit(const std::string& user) {
    const auto own = of_user_.find(user);
    if (own != of_user_.end() && own->second >= most_of_user_) {
      return Refused(own->second, spec::Quoted(user), most_of_user_, limits::kStreamsOfUser.flag);
    }
    if (in_all_ >= most_) return Refused(in_all_, "users", most_, limits::kUserStreams.flag);
    ++in_all_;
    ++of_user_[user];
    return absl::OkStatus();
  }
  void Release(const std::string& user) {
    --in_all_;
    const auto own = of_user_.find(user);
    if (--own->second == 0) of_user_.erase(own);
  }

 private:
  static absl::Status Refused(int64_t found, const std::string& whose, int64_t most,
                              const char* flag) {
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          "found ", found, " open streams of ", whose, ", expected fewer than ",
                          most, " (stretto-coordinator ", flag, ")")),
                      "TOO_MANY_STREAMS");
  }

  const int64_t most_, most_of_user_;
  int64_t in_all_ = 0;
  std::map<std::string, int64_t> of_user_;  // no zeros
};

}  // namespace stretto::service
