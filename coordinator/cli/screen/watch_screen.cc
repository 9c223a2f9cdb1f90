// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/watch_screen.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "absl/time/clock.h"
#include "coordinator/cli/screen/watch_view.h"
#include "proto/base/check.h"

namespace stretto::cli {
namespace {

constexpr absl::Duration kFrame = absl::Milliseconds(100);
constexpr int kClockMs = 1000;  // interval of redraws without events, for the clock
constexpr absl::Duration kAsk = absl::Seconds(2);

}  // namespace

WatchScreen::WatchScreen(const Invocation& invocation, const std::string& job)
    : invocation_(invocation),
      job_(job),
      screen_(invocation.terminal.out),
      changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  STRETTO_CHECK(changed_.valid());
  state_.job.set_name(job);
  draw_ = std::thread([this] { DrawLoop(); });
  ask_ = std::thread([this] { AskLoop(); });
}

WatchScreen::~WatchScreen() {
  stop_.Raise();
  draw_.join();
  ask_.join();
}

FollowHandlers WatchScreen::handlers() {
  return {[this](const v1alpha1::Job& job) {
            Change([&](absl::Time now) REQUIRES(mu_) { state_.AddJob(job, now); });
          },
          [this](const v1alpha1::StepReport& step) {
            Change([&](absl::Time) REQUIRES(mu_) { state_.AddStep(step); });
          },
          [this](const std::string& notice) {
            Change([&](absl::Time now) REQUIRES(mu_) { state_.AddNotice(notice, now); });
          }};
}

void WatchScreen::Change(const std::function<void(absl::Time)>& change) {
  {
    const MutexLock lock(mu_);
    change(absl::Now());
  }
  const uint64_t one = 1;
  STRETTO_CHECK(write(changed_.get(), &one, sizeof one) == sizeof one);
}

void WatchScreen::DrawLoop() {
  while (true) {
    const FullScreen::Size size = screen_.size();
    const ViewStyle style{.width = size.width,
                          .height = size.height,
                          .color = invocation_.terminal.color,
                          .unicode = invocation_.terminal.unicode};
    std::vector<std::string> lines;
    {
      const MutexLock lock(mu_);
      lines = RenderWatch(state_, absl::Now(), style);
    }
    screen_.Draw(lines);
    if (stop_.WaitFor(kFrame)) return;
    pollfd ready[] = {{stop_.fd(), POLLIN, 0},
                      {screen_.keys_fd(), POLLIN, 0},
                      {changed_.get(), POLLIN, 0},
                      {invocation_.interrupt.resize_fd(), POLLIN, 0}};
    poll(ready, std::size(ready), kClockMs);
    FullScreen::Drain(changed_.get());
    FullScreen::Drain(invocation_.interrupt.resize_fd());
    if (ready[1].revents == 0) continue;
    if (screen_.ReadQuit()) {
      invocation_.interrupt.Raise();
      return;
    }
  }
}

void WatchScreen::AskLoop() {
  Client client(invocation_.client, stop_);
  v1alpha1::GetJobRequest request;
  request.set_name(job_);
  while (!stop_.WaitFor(kAsk)) {
    const absl::StatusOr<v1alpha1::Job> job = client.GetJob(request);
    if (job.ok()) Change([&](absl::Time now) REQUIRES(mu_) { state_.AddProgress(*job, now); });
  }
}

}  // namespace stretto::cli
