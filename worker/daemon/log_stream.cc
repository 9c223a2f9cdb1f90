#include "worker/daemon/log_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

using stretto::v1alpha1::LogData;
using stretto::v1alpha1::LogRequest;

constexpr size_t kMaxChunks = 8;
constexpr std::chrono::milliseconds kFollowInterval{200};

LogData Chunk(int64_t stream, int32_t rank) {
  LogData data;
  data.set_stream(stream);
  data.set_rank(rank);
  return data;
}

LogData ErrorChunk(int64_t stream, int32_t rank, std::string message) {
  LogData data = Chunk(stream, rank);
  data.set_end(true);
  data.set_error(std::move(message));
  return data;
}

}  // namespace

LogStreams::LogStreams(const RunFolders& folders, std::function<bool(const RankKey&)> alive,
                       std::function<void()> wake)
    : folders_(folders),
      alive_(std::move(alive)),
      wake_(std::move(wake)),
      thread_([this] { Run(); }) {}

LogStreams::~LogStreams() {
  {
    const std::lock_guard lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LogStreams::Request(const LogRequest& request) {
  {
    const std::lock_guard lock(mu_);
    const auto open = streams_.find(request.stream());
    if (request.cancel()) {
      if (open != streams_.end()) streams_.erase(open);
      return;
    }
    if (open != streams_.end()) {
      open->second.credit += request.credit();
    } else if (!request.job_uid().empty()) {  // else credit of a stream that has just ended
      const absl::Status status = OpenLocked(request);
      if (!status.ok()) {
        PushLocked(ErrorChunk(request.stream(), request.rank(), std::string(status.message())));
      }
    }
  }
  changed_.notify_all();
  wake_();
}

absl::Status LogStreams::OpenLocked(const LogRequest& request) {
  Stream stream;
  stream.key = KeyOf(request);
  const absl::Status none = absl::NotFoundError(absl::StrCat(
      "this node has no ", request.has_trace() ? "trace" : "log", " of ", stream.key.ToString()));
  const absl::StatusOr<RunFolder> folder = folders_.Find(stream.key);
  if (!folder.ok()) return none;
  if (request.has_trace()) {
    ASSIGN_OR_RETURN(stream.trace, TraceReader::Open(folder->path(), request.trace().first_step(),
                                                     request.trace().last_step()));
    stream.credit = request.credit();
  } else {
    stream.follow = request.follow();
    stream.path = folder->log();
    stream.file = FileDescriptor(::open(stream.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!stream.file.valid()) return none;
  }
  streams_[request.stream()] = std::move(stream);
  return absl::OkStatus();
}

std::optional<LogData> LogStreams::Next() {
  const std::lock_guard lock(mu_);
  if (chunks_.empty()) return std::nullopt;
  LogData data = std::move(chunks_.front());
  chunks_.pop_front();
  changed_.notify_all();
  return data;
}

void LogStreams::Reset() {
  const std::lock_guard lock(mu_);
  streams_.clear();
  chunks_.clear();
}

void LogStreams::PushLocked(LogData data) { chunks_.push_back(std::move(data)); }

bool LogStreams::ReadTraceLocked(int64_t id, Stream& stream) {
  if (stream.credit == 0) return false;
  absl::StatusOr<std::optional<v1alpha1::TraceRecord>> record = stream.trace->Next();
  LogData data = Chunk(id, stream.key.rank);
  if (!record.ok()) {
    data.set_error(std::string(record.status().message()));
  } else if (record->has_value()) {
    *data.mutable_record() = **std::move(record);
    --stream.credit;
  }
  data.set_end(!data.has_record());
  PushLocked(std::move(data));
  if (!chunks_.back().end()) return true;
  streams_.erase(id);
  return true;
}

bool LogStreams::ReadOneLocked(int64_t id, Stream& stream) {
  if (stream.trace) return ReadTraceLocked(id, stream);
  // Asked before the read: what a rank wrote before it ended is then surely read.
  const bool may_grow = stream.follow && alive_(stream.key);
  std::string block(kLogChunkBytes - stream.tail.size(), '\0');
  const ssize_t n = ::read(stream.file.get(), block.data(), block.size());
  if (n < 0 && errno == EINTR) return true;
  if (n < 0) {
    PushLocked(ErrorChunk(id, stream.key.rank,
                          std::string(ErrnoStatus(errno, "read " + stream.path).message())));
    streams_.erase(id);
    return true;
  }
  block.resize(static_cast<size_t>(n));
  stream.tail += block;
  if (n == 0 && may_grow) return false;

  LogData data = Chunk(id, stream.key.rank);
  const size_t line_end = stream.tail.rfind('\n');
  const bool full = stream.tail.size() >= kLogChunkBytes;
  if (n == 0 || (full && line_end == std::string::npos)) {
    data.set_data(std::exchange(stream.tail, {}));
  } else if (line_end != std::string::npos) {
    data.set_data(stream.tail.substr(0, line_end + 1));
    stream.tail.erase(0, line_end + 1);
  }
  data.set_end(n == 0);
  if (n == 0) streams_.erase(id);
  if (!data.data().empty() || data.end()) PushLocked(std::move(data));
  return true;
}

void LogStreams::Run() {
  std::unique_lock lock(mu_);
  while (!stop_) {
    if (streams_.empty() || chunks_.size() >= kMaxChunks) {
      changed_.wait(lock);
      continue;
    }
    std::vector<int64_t> ids;
    for (const auto& [id, stream] : streams_) ids.push_back(id);
    bool progress = false;
    for (const int64_t id : ids) {
      if (chunks_.size() >= kMaxChunks) break;
      progress = ReadOneLocked(id, streams_.at(id)) || progress;
    }
    if (progress) {
      lock.unlock();
      wake_();
      lock.lock();
    } else {
      changed_.wait_for(lock, kFollowInterval);
    }
  }
}

}  // namespace stretto::daemon
