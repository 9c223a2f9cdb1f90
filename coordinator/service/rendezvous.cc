// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/rendezvous.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/status_macros.h"

namespace stretto::service {

absl::Status CheckStoreKey(const std::string& key) {
  if (!key.empty() && static_cast<int64_t>(key.size()) <= limits::kStoreKeyBytes.value) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "key: found ", key.size(), " bytes, expected 1 to ", limits::kStoreKeyBytes.value));
}

absl::Status Rendezvous::Set(const Attempt& attempt, const std::string& key,
                             const std::string& value) {
  RETURN_IF_ERROR(CheckStoreKey(key));
  if (value.size() > kMaxValueBytes) {
    return absl::InvalidArgumentError(absl::StrCat("value of key ", Quoted(key), ": found ",
                                                   value.size(), " bytes, expected at most ",
                                                   kMaxValueBytes));
  }
  Values& values = attempts_[attempt];
  const auto known = values.by_key.find(key);
  if (known != values.by_key.end()) {
    if (known->second == value) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("key ", Quoted(key), " is already set to another value"));
  }
  if (values.bytes + key.size() + value.size() > kMaxAttemptBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("key ", Quoted(key), ": the attempt has stored ", values.bytes,
                     " bytes, expected at most ", kMaxAttemptBytes));
  }
  values.bytes += key.size() + value.size();
  values.by_key.emplace(key, value);
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (it->second.attempt == attempt && it->second.key == key) {
      it->second.done(value);
      it = waiters_.erase(it);
    } else {
      ++it;
    }
  }
  return absl::OkStatus();
}

int64_t Rendezvous::Get(const Attempt& attempt, const std::string& key, Done done) {
  const auto values = attempts_.find(attempt);
  if (values != attempts_.end()) {
    const auto known = values->second.by_key.find(key);
    if (known != values->second.by_key.end()) {
      done(known->second);
      return 0;
    }
  }
  waiters_.emplace(++last_ticket_, Waiter{attempt, key, std::move(done)});
  return last_ticket_;
}

void Rendezvous::Forget(int64_t ticket) { waiters_.erase(ticket); }

void Rendezvous::EndAttempts(const std::string& uid, int64_t newest) {
  const auto over = [&](const Attempt& attempt) {
    return attempt.first == uid && attempt.second <= newest;
  };
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    it = over(it->first) ? attempts_.erase(it) : std::next(it);
  }
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (!over(it->second.attempt)) {
      ++it;
      continue;
    }
    it->second.done(absl::AbortedError(absl::StrCat("the attempt with epoch ",
                                                    it->second.attempt.second, " has ended; key ",
                                                    Quoted(it->second.key), " will not be set")));
    it = waiters_.erase(it);
  }
}

}  // namespace stretto::service
