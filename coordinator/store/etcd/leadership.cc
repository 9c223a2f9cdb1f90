// SPDX-License-Identifier: Apache-2.0

// One thread renews the lease four times in its time and finds out when that has not worked for too
// long. Others may find out earlier: by the clock, as after a pause of the process, or because etcd
// has another leader.

#include "coordinator/store/etcd/leadership.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr absl::Duration kCall = absl::Seconds(2);
// The clocks of two machines differ by much less in the time of a lease.
constexpr double kSafe = 0.95;

class BootClock final : public Clock {
 public:
  absl::Time Now() const override { return Clock::Real().Now(); }
  absl::Duration Monotonic() const override {
    timespec now = {};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return absl::DurationFromTimespec(now);
  }
};

// The value of the key: the address, and an id by which a coordinator knows its own.
std::string AddressIn(const std::string& value) { return value.substr(0, value.find(' ')); }

}  // namespace

const Clock& Leadership::LeaseClock() {
  static const BootClock clock;
  return clock;
}

absl::StatusOr<Campaign> TryToLead(EtcdClient& client, const LeaderOptions& options,
                                   const Clock& clock,
                                   std::function<void(const std::string&)> on_lost) {
  const std::string key = options.prefix + "leader";
  ASSIGN_OR_RETURN(const EtcdRange now, client.Range({.key = key}, kCall));
  if (!now.values.empty())
    return Campaign{.won = nullptr, .leader = AddressIn(now.values[0].value)};

  const absl::Duration granted = clock.Monotonic();
  ASSIGN_OR_RETURN(const int64_t lease, client.GrantLease(options.ttl, kCall));
  const std::string mine = absl::StrCat(options.address, " ", NewUid());
  const absl::StatusOr<EtcdAnswer> answer = client.Commit(
      {.compares = {{.key = key, .target = EtcdCompare::Target::kCreated, .revision = 0}},
       .writes = {{.key = key, .value = mine, .lease = lease}},
       .reads = {key}},
      kCall);
  int64_t created = 0;
  std::string leader;
  if (answer.ok() && answer->succeeded) {
    created = answer->revision;
  } else if (answer.ok() && !answer->values.empty()) {
    // The answer to a first copy of the transaction may have been lost.
    if (answer->values[0].value == mine) created = answer->values[0].create_revision;
    leader = AddressIn(answer->values[0].value);
  }
  if (created == 0) {
    client.RevokeLease(lease, kCall).IgnoreError();
    RETURN_IF_ERROR(answer.status());
    return Campaign{.won = nullptr, .leader = leader};
  }
  return Campaign{.won = std::unique_ptr<Leadership>(
                      new Leadership(client, options, clock, lease, created,
                                     granted + options.ttl * kSafe, std::move(on_lost))),
                  .leader = options.address};
}

Leadership::Leadership(EtcdClient& client, LeaderOptions options, const Clock& clock, int64_t lease,
                       int64_t created, absl::Duration until,
                       std::function<void(const std::string&)> on_lost)
    : client_(client),
      options_(std::move(options)),
      clock_(clock),
      lease_(lease),
      created_(created),
      on_lost_(std::move(on_lost)),
      until_(until),
      thread_([this] { Renew(); }) {}

Leadership::~Leadership() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
  client_.RevokeLease(lease_, kCall).IgnoreError();
}

EtcdCompare Leadership::Fence() const {
  return {.key = key(), .target = EtcdCompare::Target::kCreated, .revision = created_};
}

bool Leadership::Held() {
  {
    const MutexLock lock(mu_);
    if (lost_) return false;
    if (clock_.Monotonic() < until_) return true;
  }
  Lose(absl::StrCat("no renewal of its lease of ", absl::FormatDuration(options_.ttl), " in time"));
  return false;
}

bool Leadership::IsMine(const EtcdValue* found) {
  if (found != nullptr && found->create_revision == created_) return true;
  Lose(found == nullptr ? "its lease has ended"
                        : absl::StrCat("the leader is ", AddressIn(found->value)));
  return false;
}

void Leadership::Lose(const std::string& why) {
  {
    const MutexLock lock(mu_);
    if (std::exchange(lost_, true)) return;
  }
  changed_.NotifyAll();
  on_lost_(absl::StrCat("no longer the leader under ", options_.prefix, " of ", client_.name(),
                        ": ", why));
}

void Leadership::Renew() {
  const absl::Duration pause = options_.ttl / 4;
  while (Held()) {
    const absl::Duration asked = clock_.Monotonic();
    absl::Duration left;
    {
      const MutexLock lock(mu_);
      left = until_ - asked;
    }
    const absl::StatusOr<absl::Duration> lasts = client_.RenewLease(lease_, std::min(pause, left));
    if (absl::IsNotFound(lasts.status())) return Lose("its lease has ended");
    MutexLock lock(mu_);
    if (lasts.ok()) until_ = asked + *lasts * kSafe;
    // A renewal that failed has used its time already, or is tried again soon.
    const absl::Duration wait =
        std::min(lasts.ok() ? pause : pause / 10,
                 std::max(until_ - clock_.Monotonic(), absl::ZeroDuration()));
    changed_.WaitFor(mu_, absl::ToChronoMilliseconds(wait),
                     [this]() REQUIRES(mu_) { return stop_ || lost_; });
    if (stop_ || lost_) return;
  }
}

}  // namespace stretto::coordinator
