// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/gloo/posts.h"

#include <stdexcept>
#include <utility>

#include "gloo/transport/pair.h"
#include "proto/base/clock.h"
#include "worker/comm/gloo/mesh.h"

namespace stretto {

void Posts::Post(int peer, uint64_t slot, void* data, int64_t bytes, bool receive) {
  if (bytes == 0 || peer == rank_) return;
  peer_ = peer;
  auto buffer = mesh_->createUnboundBuffer(data, bytes);
  gloo::transport::UnboundBuffer& posted = *buffer;
  {
    const MutexLock lock(mu_);
    if (aborted_) throw std::runtime_error("aborted");
    posted_.push_back({peer, receive, std::move(buffer)});
  }
  receive ? posted.recv(peer, slot) : posted.send(peer, slot);
}

void Posts::Await(size_t number, absl::Duration deadline) {
  const Posted& posted = posted_[number - first_];
  peer_ = posted.peer;
  if (watch_ != nullptr) watch_->OnAwait(posted.peer, posted.receive);
  const auto left = ToMilliseconds(deadline - Clock::Real().Monotonic());
  const bool done = posted.receive ? posted.buffer->waitRecv(left) : posted.buffer->waitSend(left);
  if (!done) throw std::runtime_error("aborted");
}

void Posts::ClearBefore(size_t number) {
  const MutexLock lock(mu_);
  posted_.erase(posted_.begin(), posted_.begin() + static_cast<ptrdiff_t>(number - first_));
  first_ = number;
}

void Posts::Abort() {
  const MutexLock lock(mu_);
  aborted_ = true;
  for (const Posted& posted : posted_) {
    posted.receive ? posted.buffer->abortWaitRecv() : posted.buffer->abortWaitSend();
  }
  CloseAll();
}

void Posts::Close() {
  const MutexLock lock(mu_);
  CloseAll();
  posted_.clear();
}

void Posts::CloseAll() {
  for (int peer = 0; mesh_ != nullptr && peer < size_; ++peer) {
    if (peer != rank_) mesh_->getPair(peer)->close();
  }
}

}  // namespace stretto
