#pragma once
// A store that survives the loss of its server's memory: it sets its keys again and again while it
// lives, so that a peer that reads late finds them also after the server was restarted.

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "worker/comm/store.h"

namespace stretto {

// Thread-safe. Keep it alive while peers may still read.
class RepublishingStore final : public Store {
 public:
  // Borrows `inner`. Repeats every `interval` from a thread of its own; what fails is tried again.
  RepublishingStore(Store& inner, absl::Duration interval);
  ~RepublishingStore() override;

  absl::Status Set(absl::string_view key, absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;

 private:
  void Serve();

  Store& inner_;
  const absl::Duration interval_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::map<std::string, std::string> keys_;  // guarded by mu_: set here
  bool stopped_ = false;                     // guarded by mu_
  std::thread thread_;
};

}  // namespace stretto
