// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/store.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace stretto {

absl::Status MemoryStore::Set(absl::string_view key, absl::string_view bytes) {
  const MutexLock lock(mu_);
  const auto [it, inserted] = values_.emplace(std::string(key), std::string(bytes));
  if (!inserted && it->second != bytes) {
    return absl::AlreadyExistsError(absl::StrCat("store: key '", key, "' already holds other ",
                                                 it->second.size(),
                                                 " bytes; keys are written once"));
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryStore::Get(absl::string_view key, absl::Duration timeout) {
  const std::string name(key);
  const MutexLock lock(mu_);
  const bool found = changed_.WaitFor(mu_, absl::ToChronoNanoseconds(timeout),
                                      [&]() REQUIRES(mu_) { return values_.count(name) > 0; });
  if (found) return values_.at(name);
  return absl::DeadlineExceededError(
      absl::StrCat("store: key '", key, "' was not set within ", absl::FormatDuration(timeout)));
}

}  // namespace stretto
