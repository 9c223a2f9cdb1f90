// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rendezvous: where the ranks of a group publish their addresses for each other. A key is written
// once.

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace stretto {

// Thread-safe. `bytes` is any byte string.
class Store {
 public:
  virtual ~Store() = default;

  // Publishes `bytes`. Setting the same bytes again succeeds, so that a call may be retried.
  // Errors: AlreadyExists (the key holds other bytes), Unavailable (the store cannot be reached).
  [[nodiscard]] virtual absl::Status Set(absl::string_view key, absl::string_view bytes) = 0;

  // Waits until the key is set. Errors: DeadlineExceeded after `timeout`, naming the key;
  // Unavailable (the store cannot be reached).
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) = 0;
};

// The store of ranks that are threads of one process.
class MemoryStore final : public Store {
 public:
  absl::Status Set(absl::string_view key, absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<std::string, std::string> values_ GUARDED_BY(mu_);
};

}  // namespace stretto
