// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the ranks of an attempt find each other: a write-once key-value store per (job uid, epoch).
// It is in memory and is dropped when the attempt ends. Callers first ask the core whether the
// attempt is current.
//
// Not thread-safe: belongs to the loop.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/limits.h"

namespace stretto::service {

// Errors: INVALID_ARGUMENT (no key, or one that is too long).
absl::Status CheckStoreKey(const std::string& key);

class Rendezvous {
 public:
  static constexpr size_t kMaxValueBytes = limits::kStoreValueBytes.value;
  static constexpr size_t kMaxAttemptBytes = limits::kStoreAttemptBytes.value;

  // (job uid, epoch)
  using Attempt = std::pair<std::string, int64_t>;
  using Done = std::function<void(const absl::StatusOr<std::string>&)>;

  // Stores the value and answers the waiters for the key. Setting the same value again is ok (a
  // caller that tried again). Errors: ALREADY_EXISTS (the key has another value), INVALID_ARGUMENT
  // (no key, or key or value too long), RESOURCE_EXHAUSTED (the attempt has stored too much).
  absl::Status Set(const Attempt& attempt, const std::string& key, const std::string& value);

  // Calls `done` once: now if the key is set, otherwise when it is set, or with ABORTED when the
  // attempt ends. Returns a ticket for Forget, or 0 if `done` has been called.
  int64_t Get(const Attempt& attempt, const std::string& key, Done done);

  // Drops a waiter; its `done` will not be called.
  void Forget(int64_t ticket);

  // Drops the attempts of the job with epochs up to `newest`.
  void EndAttempts(const std::string& uid, int64_t newest);

 private:
  struct Waiter {
    Attempt attempt;
    std::string key;
    Done done;
  };
  struct Values {
    std::map<std::string, std::string> by_key;
    size_t bytes = 0;
  };
  std::map<Attempt, Values> attempts_;
  std::map<int64_t, Waiter> waiters_;
  int64_t last_ticket_ = 0;
};

}  // namespace stretto::service
