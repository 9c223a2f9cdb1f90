// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/republishing_store.h"

#include "proto/base/status_macros.h"

namespace stretto {

RepublishingStore::RepublishingStore(Store& inner, absl::Duration interval)
    : inner_(inner), interval_(interval), thread_([this] { Serve(); }) {}

RepublishingStore::~RepublishingStore() {
  {
    const MutexLock lock(mu_);
    stopped_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

absl::Status RepublishingStore::Set(absl::string_view key, absl::string_view bytes) {
  RETURN_IF_ERROR(inner_.Set(key, bytes));
  const MutexLock lock(mu_);
  keys_[std::string(key)] = std::string(bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RepublishingStore::Get(absl::string_view key, absl::Duration timeout) {
  return inner_.Get(key, timeout);
}

void RepublishingStore::Serve() {
  MutexLock lock(mu_);
  while (!wake_.WaitFor(mu_, absl::ToChronoNanoseconds(interval_),
                        [&]() REQUIRES(mu_) { return stopped_; })) {
    const std::map<std::string, std::string> keys = keys_;
    lock.Unlock();
    for (const auto& [key, bytes] : keys) inner_.Set(key, bytes).IgnoreError();
    lock.Lock();
  }
}

}  // namespace stretto
