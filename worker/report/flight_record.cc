// SPDX-License-Identifier: Apache-2.0

// The page is a struct of atomics in a shared mapping of a file. So a store is the only cost for
// the trainer, and the kernel keeps the page when the process dies. The reader copies the file and
// decodes it.

#include "worker/report/flight_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr uint64_t kMagic = 0x0003'54'48'47'49'4C'46'53ull;  // "SFLIGHT", version 3
constexpr size_t kPageBytes = 4096;
constexpr size_t kLanes = 2;
constexpr size_t kGroupBytes = 32;  // with a terminating zero
constexpr uint32_t kOnDevice = 1, kPolls = 2;

}  // namespace

struct FlightPage {
  struct Lane {
    std::atomic<int64_t> operation;
    std::atomic<int64_t> time_ns;
  };
  struct Channel {
    char group[kGroupBytes];  // written before `channels` counts it
    std::atomic<int64_t> begun;
    std::atomic<int64_t> ended;
    std::atomic<int64_t> time_ns;
    std::atomic<int32_t> peer;
    std::atomic<uint32_t> receives;
    std::atomic<uint32_t> device;  // as kOnDevice and kPolls
  };
  std::atomic<uint64_t> magic;
  std::atomic<int64_t> step;
  std::atomic<uint32_t> phase;
  std::atomic<int64_t> time_ns;  // of the last change of step or phase
  Lane lanes[kLanes];
  std::atomic<int64_t> pulse_ns;
  std::atomic<int64_t> cpu_ns;
  std::atomic<int64_t> announced_ns;
  std::atomic<uint32_t> channels;
  Channel channel[kMaxFlightChannels];
};
static_assert(sizeof(FlightPage) <= kPageBytes && std::atomic<int64_t>::is_always_lock_free);

const char* NameOf(FlightPhase phase) {
  switch (phase) {
    case FlightPhase::kStarting:
      return "starting";
    case FlightPhase::kPrepare:
      return "prepare";
    case FlightPhase::kData:
      return "data";
    case FlightPhase::kForward:
      return "forward";
    case FlightPhase::kRecompute:
      return "recompute";
    case FlightPhase::kBackward:
      return "backward";
    case FlightPhase::kOptimizer:
      return "optimizer";
    case FlightPhase::kCheckpoint:
      return "checkpoint";
    case FlightPhase::kStopping:
      return "stopping";
    case FlightPhase::kEvaluation:
      return "evaluation";
  }
  return "?";
}

absl::StatusOr<FlightRecorder> FlightRecorder::Create(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDWR | O_CREAT | O_TRUNC, 0644));
  // Reserves the block, because a store to a hole on a full disk would raise SIGBUS.
  if (const int error = ::posix_fallocate(file.get(), 0, kPageBytes); error != 0) {
    return ErrnoStatus(error, absl::StrCat("allocate ", path));
  }
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, absl::StrCat("mmap ", path));
  auto* page = new (memory) FlightPage();
  for (FlightPage::Lane& lane : page->lanes) {
    lane.operation.store(-1, std::memory_order_relaxed);
    lane.time_ns.store(0, std::memory_order_relaxed);
  }
  page->magic.store(kMagic, std::memory_order_release);
  return FlightRecorder(page);
}

FlightRecorder::~FlightRecorder() {
  if (page_ != nullptr) ::munmap(page_, kPageBytes);
}

void FlightRecorder::SetStep(int64_t step, absl::Duration now) {
  page_->step.store(step, std::memory_order_relaxed);
  page_->time_ns.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
}

void FlightRecorder::SetPhase(FlightPhase phase, absl::Duration now) {
  page_->phase.store(static_cast<uint32_t>(phase), std::memory_order_relaxed);
  page_->time_ns.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
}

void FlightRecorder::SetOperation(FlightLane lane, int64_t operation, absl::Duration now) {
  FlightPage::Lane& cell = page_->lanes[static_cast<size_t>(lane)];
  cell.operation.store(operation, std::memory_order_relaxed);
  cell.time_ns.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
}

int FlightRecorder::AddChannel(absl::string_view group) {
  const uint32_t number = page_->channels.load(std::memory_order_relaxed);
  if (number == kMaxFlightChannels) return kMaxFlightChannels;
  FlightPage::Channel& channel = page_->channel[number];
  std::memcpy(channel.group, group.data(), std::min(group.size(), kGroupBytes - 1));
  channel.peer.store(-1, std::memory_order_relaxed);
  page_->channels.store(number + 1, std::memory_order_release);
  return static_cast<int>(number);
}

void FlightRecorder::BeginCall(int channel, absl::Duration now) {
  if (channel >= kMaxFlightChannels) return;
  FlightPage::Channel& cell = page_->channel[channel];
  cell.peer.store(-1, std::memory_order_relaxed);
  cell.begun.store(cell.begun.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  cell.time_ns.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
}

void FlightRecorder::AwaitPeer(int channel, int32_t peer, bool receives, absl::Duration now) {
  if (channel >= kMaxFlightChannels) return;
  FlightPage::Channel& cell = page_->channel[channel];
  cell.peer.store(peer, std::memory_order_relaxed);
  cell.receives.store(receives ? 1 : 0, std::memory_order_relaxed);
  cell.time_ns.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
}

void FlightRecorder::EndCall(int channel, absl::Duration now) {
  if (channel >= kMaxFlightChannels) return;
  FlightPage::Channel& cell = page_->channel[channel];
  cell.ended.store(cell.begun.load(std::memory_order_relaxed), std::memory_order_relaxed);
  cell.time_ns.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
}

void FlightRecorder::SetPolling(int channel, bool polls) {
  if (channel >= kMaxFlightChannels) return;
  page_->channel[channel].device.store(kOnDevice | (polls ? kPolls : 0), std::memory_order_relaxed);
}

void FlightRecorder::Pulse(absl::Duration now, absl::Duration cpu) {
  page_->pulse_ns.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
  page_->cpu_ns.store(absl::ToInt64Nanoseconds(cpu), std::memory_order_relaxed);
}

void FlightRecorder::Announce(absl::Duration until) {
  page_->announced_ns.store(absl::ToInt64Nanoseconds(until), std::memory_order_relaxed);
}

namespace {

// Returns the channels of a copied page, and the time of the last change of any.
std::vector<FlightChannel> ChannelsOf(const FlightPage& page, int64_t* last_ns) {
  std::vector<FlightChannel> channels;
  const uint32_t count =
      std::min<uint32_t>(page.channels.load(std::memory_order_relaxed), kMaxFlightChannels);
  for (uint32_t number = 0; number < count; ++number) {
    const FlightPage::Channel& cell = page.channel[number];
    FlightChannel& channel = channels.emplace_back();
    channel.group.assign(cell.group, ::strnlen(cell.group, kGroupBytes));
    channel.begun = cell.begun.load(std::memory_order_relaxed);
    channel.waiting = cell.ended.load(std::memory_order_relaxed) < channel.begun;
    const uint32_t device = cell.device.load(std::memory_order_relaxed);
    channel.on_device = (device & kOnDevice) != 0;
    channel.polls = (device & kPolls) != 0;
    if (channel.waiting) {
      channel.peer = cell.peer.load(std::memory_order_relaxed);
      channel.receives = cell.receives.load(std::memory_order_relaxed) != 0;
    }
    *last_ns = std::max(*last_ns, cell.time_ns.load(std::memory_order_relaxed));
  }
  return channels;
}

}  // namespace

absl::StatusOr<FlightState> ReadFlightRecord(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  // Read, not mapped: a mapping could fault if the file is short. The kernel copies each word
  // whole.
  alignas(FlightPage) std::byte bytes[sizeof(FlightPage)];
  const ssize_t n = ::pread(file.get(), bytes, sizeof(bytes), 0);
  if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
  if (n != sizeof(bytes)) {
    return absl::DataLossError(
        absl::StrCat(path, ": found ", n, " bytes, expected a flight record of ", sizeof(bytes)));
  }
  const auto* page = std::launder(reinterpret_cast<const FlightPage*>(bytes));
  if (page->magic.load(std::memory_order_relaxed) != kMagic) {
    return absl::DataLossError(
        absl::StrCat(path, ": found no flight record at byte 0, expected one"));
  }
  const uint32_t phase = page->phase.load(std::memory_order_relaxed);
  if (phase > static_cast<uint32_t>(FlightPhase::kEvaluation)) {
    return absl::DataLossError(absl::StrCat(path, ": phase at byte ", offsetof(FlightPage, phase),
                                            ": found ", phase, ", expected 0 to ",
                                            static_cast<uint32_t>(FlightPhase::kEvaluation)));
  }
  FlightState state;
  state.step = page->step.load(std::memory_order_relaxed);
  state.phase = static_cast<FlightPhase>(phase);
  const auto& compute = page->lanes[static_cast<size_t>(FlightLane::kCompute)];
  const auto& comm = page->lanes[static_cast<size_t>(FlightLane::kComm)];
  state.compute_operation = compute.operation.load(std::memory_order_relaxed);
  state.comm_operation = comm.operation.load(std::memory_order_relaxed);
  const int64_t compute_ns = compute.time_ns.load(std::memory_order_relaxed);
  const int64_t comm_ns = comm.time_ns.load(std::memory_order_relaxed);
  state.last_operation = comm_ns > compute_ns ? state.comm_operation : state.compute_operation;
  int64_t last_ns = std::max({page->time_ns.load(std::memory_order_relaxed), compute_ns, comm_ns});
  state.channels = ChannelsOf(*page, &last_ns);
  state.last_update = absl::Nanoseconds(last_ns);
  state.pulse = absl::Nanoseconds(page->pulse_ns.load(std::memory_order_relaxed));
  state.cpu = absl::Nanoseconds(page->cpu_ns.load(std::memory_order_relaxed));
  state.announced_until = absl::Nanoseconds(page->announced_ns.load(std::memory_order_relaxed));
  return state;
}

absl::StatusOr<std::string> OperationLine(const std::string& program_text_path, int64_t operation) {
  absl::StatusOr<std::string> text = ReadFile(program_text_path);
  if (!text.ok()) return text.status();
  const std::string start = absl::StrCat(operation, " ");
  for (absl::string_view line : absl::StrSplit(absl::string_view(*text), '\n')) {
    if (absl::StartsWith(line, start)) return std::string(line);
  }
  return absl::NotFoundError(absl::StrCat(program_text_path, ": found no operation ", operation));
}

}  // namespace stretto
