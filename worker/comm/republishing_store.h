// SPDX-License-Identifier: Apache-2.0
#pragma once
// A store that survives the loss of its server's memory: as long as it exists it sets its keys
// periodically, so that a peer that reads late finds them even if the server has restarted.

#include <map>
#include <string>
#include <thread>

#include "proto/base/mutex.h"
#include "worker/comm/store.h"

namespace stretto {

// Thread-safe. Keep it alive while peers may still read.
class RepublishingStore final : public Store {
 public:
  // Borrows `inner`. A thread sets all keys every `interval`; one that fails is set the next time.
  RepublishingStore(Store& inner, absl::Duration interval);
  ~RepublishingStore() override;

  absl::Status Set(absl::string_view key, absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;

 private:
  void Serve();

  Store& inner_;
  const absl::Duration interval_;
  Mutex mu_;
  CondVar wake_;
  std::map<std::string, std::string> keys_ GUARDED_BY(mu_);  // set here
  bool stopped_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto
