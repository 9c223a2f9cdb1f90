// SPDX-License-Identifier: Apache-2.0
#pragma once
// Channels to all coordinators of a cluster, of which one leads: the current one is tried first, by
// the session and by the rendezvous calls of trainers.

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/mutex.h"
#include "proto/tls/files.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace stretto::daemon {

// Thread-safe.
class CoordinatorChannels {
 public:
  // At least one address. Mutual TLS with `files`, plain text if they are empty(). A silent network
  // is detected within about 20 s of a write. With several addresses, so is a coordinator that does
  // not answer, within 5 s, because another one may lead by then.
  CoordinatorChannels(const std::vector<std::string>& addresses, const tls::Files& files);
  ~CoordinatorChannels();

  size_t size() const { return addresses_.size(); }
  const std::string& address() const { return addresses_[current_]; }
  std::shared_ptr<grpc::Channel> Current() const;
  // The next one becomes the current one.
  void Next();
  // Calls that begin later use a new connection to the current one, and so the files as they are
  // then. Open calls keep the old one.
  void Renew();

 private:
  const std::vector<std::string> addresses_;
  const tls::Files files_;
  mutable Mutex mu_;
  // Shared: calls outlive a change.
  std::vector<std::shared_ptr<grpc::Channel>> channels_ GUARDED_BY(mu_);
  std::atomic<size_t> current_ = 0;
};

}  // namespace stretto::daemon
