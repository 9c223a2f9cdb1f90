// SPDX-License-Identifier: Apache-2.0

// Below three quarters of the bound a look reads two numbers. Above it, for a while after a
// connection was closed, and while the process is busy, it asks the kernel for each connection how
// much has arrived and how much of it waits. It decides by what arrived lately, so that a worker
// which has sent much for days is not taken for an attacker.
// Memory in use has to grow by a kStep-th of the bound before another connection is closed: a
// coordinator that needs more than the bound, and does not grow, closes none.

#include "coordinator/front/memory_guard.h"

#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"

namespace stretto::service {
namespace {

constexpr int64_t kStep = 64;                                // an n-th of the bound
constexpr absl::Duration kMemory = absl::Milliseconds(800);  // of what was sent lately

// The begin of the kernel's tcp_info, of which the C library has less, and <linux/tcp.h> the same
// names as the C library.
struct Statistics {
  tcp_info first;
  uint64_t pacing_rate, most_pacing_rate, bytes_acked, bytes_received;
};
static_assert(offsetof(tcp_info, tcpi_total_retrans) == 100 && sizeof(tcp_info) == 104);

class RealSurroundings final : public Surroundings {
 public:
  int64_t Resident() override {
    std::ifstream statm("/proc/self/statm");
    int64_t size = 0, resident = 0;
    return statm >> size >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
  }
  int64_t Allocated() override {
    const struct mallinfo2 found = mallinfo2();
    const auto bytes = static_cast<int64_t>(found.uordblks + found.hblkhd);
    return bytes > 0 ? bytes : Resident();  // another allocator, such as a sanitizer's
  }
  absl::Duration CpuTime() override {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return absl::DurationFromTimespec(time);
  }
  Traffic Of(const Connection& connection) override {
    Statistics info = {};
    socklen_t bytes = sizeof info;
    int waiting = 0;
    if (SocketBehind(connection.fd) != connection.socket ||
        getsockopt(connection.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < sizeof info || ioctl(connection.fd, FIONREAD, &waiting) != 0) {
      return {};
    }
    return {.received = static_cast<int64_t>(info.bytes_received), .waiting = waiting};
  }
  void Close(const Connection& connection) override {
    // gRPC may close the descriptor at any time, and another file may get its number. A copy stays
    // what it is.
    const FileDescriptor copy(dup(connection.fd));
    if (!copy.valid() || SocketBehind(copy.get()) != connection.socket) return;
    // A shutdown would be a request. What has arrived would still be read, and the megabytes that
    // the peer's kernel keeps would follow; a MiB of it can become a hundred. This resets the
    // connection.
    const sockaddr nobody = {.sa_family = AF_UNSPEC, .sa_data = {}};
    static_cast<void>(connect(copy.get(), &nobody, sizeof nobody));
  }
};

}  // namespace

uint64_t SocketBehind(int fd) {
  struct stat found = {};
  return fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

Surroundings& Surroundings::Real() {
  static RealSurroundings real;
  return real;
}

void MemoryGuard::Look(absl::Duration now, const std::vector<Connection>& open) {
  if (now - looked_ < kInterval) return;
  NoteCpuTime(now);
  looked_ = now;
  const int64_t resident = surroundings_.Resident();
  const bool full = resident > bound_ / 4 * 3;
  if (!full && !alert(now)) {
    lowest_ = 0;
    if (now - busy_at_ > kBusy) return sent_.clear();
  }
  if (now - measured_ < kPerConnection * static_cast<int64_t>(open.size())) return;
  Measure(now, open);
  if (CloseFloods(now, open)) closed_at_ = now;
  if (!full && !alert(now)) return;
  const int64_t allocated = surroundings_.Allocated();
  lowest_ = lowest_ == 0 ? allocated : std::min(lowest_, allocated);
  if (allocated - lowest_ < bound_ / kStep || now - closed_at_ < kPause) return;
  if (!CloseBusiest(open, resident, full)) return;
  closed_at_ = now;
  lowest_ = allocated;
}

void MemoryGuard::NoteCpuTime(absl::Duration now) {
  const absl::Duration time = surroundings_.CpuTime();
  if (time - cpu_time_ >= kBusyShare * (now - looked_)) busy_at_ = now;
  cpu_time_ = time;
}

void MemoryGuard::Measure(absl::Duration now, const std::vector<Connection>& open) {
  const double remembered = std::max(0.0, 1 - absl::FDivDuration(now - measured_, kMemory));
  measured_ = now;
  std::map<uint64_t, Sent> sent;
  for (const Connection& connection : open) {
    const Traffic traffic = surroundings_.Of(connection);
    // What one sent before the first look counts for nothing, unless it came since then.
    const auto before = sent_.find(connection.socket);
    Sent& own = sent[connection.socket];
    own.received = traffic.received;
    if (traffic.waiting > kFloodBytes) own.waits_since = now;
    if (before != sent_.end()) {
      own.young = before->second.young;
      if (traffic.waiting > kFloodBytes) {
        own.waits_since = std::min(now, before->second.waits_since);
      }
      own.lately =
          before->second.lately * remembered +
          static_cast<double>(std::max<int64_t>(0, traffic.received - before->second.received));
    } else if (!sent_.empty()) {
      own.young = alert(now);
      own.lately = static_cast<double>(traffic.received);
    }
  }
  sent_ = std::move(sent);
}

bool MemoryGuard::CloseFloods(absl::Duration now, const std::vector<Connection>& open) {
  bool any = false;
  for (const Connection& connection : open) {
    Sent& own = sent_[connection.socket];
    const absl::Duration most = alert(now) && own.young ? kFloodAgain : kFlood;
    if (now - own.waits_since < most) continue;
    Close(connection, absl::StrCat("it sent faster than it was read for ",
                                   absl::FormatDuration(now - own.waits_since)));
    any = true;
  }
  return any;
}

bool MemoryGuard::CloseBusiest(const std::vector<Connection>& open, int64_t resident, bool full) {
  const Connection* busiest = nullptr;
  double most = 0;
  for (const Connection& connection : open) {
    const Sent& own = sent_[connection.socket];
    if ((!full && !own.young) || own.lately <= most) continue;
    busiest = &connection;
    most = own.lately;
  }
  if (most < static_cast<double>(kQuietBytes)) return false;
  Close(*busiest, absl::StrCat("it sent most, ", static_cast<int64_t>(most) >> 10,
                               " KiB within a second, while the memory grew to ", resident >> 20,
                               " MiB (", limits::kMemoryBytes.flag, " ", bound_ >> 20, " MiB)"));
  return true;
}

void MemoryGuard::Close(const Connection& connection, const std::string& why) {
  surroundings_.Close(connection);
  Sent& own = sent_[connection.socket];
  own.lately = 0;
  own.waits_since = absl::InfiniteDuration();
  ++closed_;
  if (const std::optional<int64_t> left_out = lines_.Admit(looked_)) {
    spdlog::warn("connection closed from={}: {}{}", connection.machine, why,
                 LeftOutNote(*left_out));
  }
}

}  // namespace stretto::service
