// SPDX-License-Identifier: Apache-2.0
#include "proto/base/line_rate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stretto {

void LineRate::Refill(absl::Duration now) {
  if (room_ == burst_) {
    refilled_ = now;
    return;
  }
  absl::Duration rest;
  const int64_t more = absl::IDivDuration(now - refilled_, refill_, &rest);
  if (more <= 0) return;
  room_ = std::min(burst_, room_ + std::min(more, burst_));
  refilled_ = now - rest;
}

std::optional<int64_t> LineRate::Admit(absl::Duration now) {
  const MutexLock lock(mu_);
  Refill(now);
  if (room_ == 0) {
    ++left_out_;
    return std::nullopt;
  }
  --room_;
  return std::exchange(left_out_, 0);
}

int64_t LineRate::TakeLeftOut(absl::Duration now) {
  const MutexLock lock(mu_);
  Refill(now);
  if (room_ == 0 || left_out_ == 0) return 0;
  --room_;
  return std::exchange(left_out_, 0);
}

bool LineRate::Idle(absl::Duration now) {
  const MutexLock lock(mu_);
  Refill(now);
  return room_ == burst_ && left_out_ == 0;
}

std::string LeftOutNote(int64_t left_out) {
  if (left_out == 0) return "";
  return absl::StrCat(" (", left_out, left_out == 1 ? " more was" : " more were", " left out)");
}

std::optional<int64_t> LineRates::Admit(const std::string& name, absl::Duration now) {
  const MutexLock lock(mu_);
  const bool known = rates_.contains(name) || rates_.size() < kMaxNames;
  return rates_.try_emplace(known ? name : "", burst_, refill_).first->second.Admit(now);
}

std::vector<std::pair<std::string, int64_t>> LineRates::TakeLeftOut(absl::Duration now) {
  const MutexLock lock(mu_);
  std::vector<std::pair<std::string, int64_t>> taken;
  for (auto it = rates_.begin(); it != rates_.end();) {
    if (const int64_t left_out = it->second.TakeLeftOut(now); left_out > 0) {
      taken.emplace_back(it->first, left_out);
    }
    it = it->second.Idle(now) ? rates_.erase(it) : std::next(it);
  }
  return taken;
}

}  // namespace stretto
