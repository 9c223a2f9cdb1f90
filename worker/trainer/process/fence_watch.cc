// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/process/fence_watch.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "proto/base/mutex.h"

namespace stretto::trainer {

struct FenceWatch::State {
  explicit State(std::function<absl::Status()> look) : look(std::move(look)) {}

  std::function<absl::Status()> look;  // of the thread
  std::atomic<bool> fenced = false;
  Mutex mu;
  CondVar changed;
  bool stop GUARDED_BY(mu) = false;
  bool ended GUARDED_BY(mu) = false;  // so has the thread
};

FenceWatch::FenceWatch(std::function<absl::Status()> look, absl::Duration interval,
                       absl::Duration patience)
    : patience_(patience),
      state_(std::make_shared<State>(std::move(look))),
      thread_([state = state_, interval] { Run(state, interval); }) {}

FenceWatch::~FenceWatch() {
  State& state = *state_;
  bool ended = false;
  {
    const MutexLock lock(state.mu);
    state.stop = true;
    state.changed.NotifyAll();
    ended = state.changed.WaitFor(state.mu, absl::ToChronoMilliseconds(patience_),
                                  [&state]() REQUIRES(state.mu) { return state.ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool FenceWatch::fenced() const { return state_->fenced.load(); }

void FenceWatch::Run(const std::shared_ptr<State>& of, absl::Duration interval) {
  State& state = *of;
  MutexLock lock(state.mu);
  while (!state.changed.WaitFor(state.mu, absl::ToChronoMilliseconds(interval),
                                [&state]() REQUIRES(state.mu) { return state.stop; })) {
    lock.Unlock();
    const absl::Status seen = state.look();
    lock.Lock();
    if (state.stop || !absl::IsAborted(seen)) continue;
    spdlog::warn("a newer attempt has begun: {}", std::string(seen.message()));
    state.fenced.store(true);
    break;
  }
  state.ended = true;
  state.changed.NotifyAll();
}

}  // namespace stretto::trainer
