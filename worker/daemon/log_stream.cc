// SPDX-License-Identifier: Apache-2.0

// One reader thread owns the open streams and does all reading, without the lock; other threads
// only add requests and take chunks. `session_` counts resets, so a chunk that was read for an
// earlier session is dropped. Streams are read in turn, starting after the last one read, because
// there may be room for only one chunk at a time.

#include "worker/daemon/log_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/logs/line_filter.h"
#include "worker/daemon/log_bound.h"
#include "worker/report/trace_log.h"

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

// The state of one stream: a log, or a trace.
struct LogStreams::Stream {
  RankKey key;
  bool follow = false;
  FileDescriptor file;
  std::string path;
  std::string rest;    // read but not used: less than a line
  int64_t offset = 0;  // in the file, of `rest`
  bool cut = false;    // whether `rest` begins within a line
  LineFilter filter;
  // Of the newest lines alone: as many. The first reading then finds where they begin, and ends
  // with nullopt; the second one sends.
  std::optional<int64_t> newest;
  std::deque<int64_t> begins;  // of the newest lines so far
  std::optional<TraceReader> trace;
  int64_t credit = 0;   // records of the trace that may be sent
  absl::Status opened;  // an error is the stream's only chunk

  absl::Status Open(const RunFolders& folders, const LogRequest& request);
  absl::Status OpenLog(const std::string& log, const LogRequest& request);
  // Returns a chunk, or nothing at present; the last chunk has `end`. `again`: more may be
  // available immediately.
  std::optional<LogData> Read(int64_t id, const std::function<bool(const RankKey&)>& alive,
                              bool* again);
  std::optional<LogData> ReadTrace(int64_t id);
  std::optional<LogData> ReadLog(int64_t id, bool may_grow, bool* again);
  // Continues at `kept`, before which lines have been dropped (log_bound.h), and says so.
  std::optional<LogData> SkipDropped(int64_t id, int64_t kept);
  // Takes the end of a line whose begin was dropped out of `rest`.
  void DropCutLine();
  // Takes the next lines out of `rest`; everything in it at the end of the file.
  std::string TakeLines(bool at_end);
  void NoteBegins(absl::string_view lines);
  absl::Status SeekToNewest();
};

absl::Status LogStreams::Stream::Open(const RunFolders& folders, const LogRequest& request) {
  key = KeyOf(request);
  const absl::Status none = absl::NotFoundError(absl::StrCat(
      "this node has no ", request.has_trace() ? "trace" : "log", " of ", key.ToString()));
  const absl::StatusOr<RunFolder> folder = folders.Find(key);
  if (!folder.ok()) return none;
  if (request.has_trace()) {
    ASSIGN_OR_RETURN(trace, TraceReader::Open(folder->path(), request.trace().first_step(),
                                              request.trace().last_step()));
    credit = request.credit();
    return absl::OkStatus();
  }
  const absl::Status log = OpenLog(folder->log(), request);
  return absl::IsNotFound(log) ? none : log;
}

absl::Status LogStreams::Stream::OpenLog(const std::string& log, const LogRequest& request) {
  follow = request.follow();
  path = log;
  ASSIGN_OR_RETURN(filter, LineFilter::Make(request.selection()));
  if (request.selection().has_tail_lines()) newest = request.selection().tail_lines();
  ASSIGN_OR_RETURN(file, OpenFile(path, O_RDONLY));
  offset = std::max<int64_t>(0, request.offset());
  // A position behind the end has no lines; a pipe, which has none, is read from its begin.
  if (offset > 0 && ::lseek(file.get(), offset, SEEK_SET) < 0)
    return ErrnoStatus(errno, "seek in " + path);
  return absl::OkStatus();
}

std::optional<LogData> LogStreams::Stream::ReadTrace(int64_t id) {
  if (credit == 0) return std::nullopt;
  absl::StatusOr<std::optional<v1alpha1::TraceRecord>> record = trace->Next();
  if (!record.ok()) return ErrorChunk(id, key.rank, std::string(record.status().message()));
  LogData data = Chunk(id, key.rank);
  if (record->has_value()) {
    const auto bytes = static_cast<int64_t>((*record)->ByteSizeLong());
    if (bytes > limits::kTraceRecordBytes.value) {
      return ErrorChunk(id, key.rank,
                        absl::StrCat("found a record of ", bytes, " bytes, expected at most ",
                                     limits::kTraceRecordBytes.value));
    }
    *data.mutable_record() = **std::move(record);
    --credit;
  }
  data.set_end(!data.has_record());
  return data;
}

std::string LogStreams::Stream::TakeLines(bool at_end) {
  const size_t line_end = rest.rfind('\n');
  const bool cut = rest.size() >= kLogChunkBytes && line_end == std::string::npos;
  const size_t size = at_end || cut                   ? rest.size()
                      : line_end != std::string::npos ? line_end + 1
                                                      : 0;
  std::string lines = rest.substr(0, size);
  rest.erase(0, size);
  return lines;
}

void LogStreams::Stream::NoteBegins(absl::string_view lines) {
  for (int64_t begin = offset; !lines.empty();) {
    const size_t end = lines.find('\n');
    const size_t size = end == lines.npos ? lines.size() : end + 1;
    if (filter.Selects(lines.substr(0, end == lines.npos ? size : end))) begins.push_back(begin);
    if (static_cast<int64_t>(begins.size()) > *newest) begins.pop_front();
    begin += static_cast<int64_t>(size);
    lines.remove_prefix(size);
  }
}

absl::Status LogStreams::Stream::SeekToNewest() {
  if (!begins.empty()) offset = begins.front();
  newest.reset();
  begins.clear();
  return ::lseek(file.get(), offset, SEEK_SET) < 0 ? ErrnoStatus(errno, "seek in " + path)
                                                   : absl::OkStatus();
}

std::optional<LogData> LogStreams::Stream::SkipDropped(int64_t id, int64_t kept) {
  const int64_t bytes = kept - offset;
  std::string note =
      absl::StrCat("--- ", bytes, " bytes of this log were dropped here, to bound its size\n");
  rest.clear();
  offset = kept;
  cut = true;
  if (newest) return std::nullopt;
  LogData data = Chunk(id, key.rank);
  data.set_data(filter.Take(note));
  data.set_end_offset(offset);
  return data.data().empty() ? std::nullopt : std::optional(std::move(data));
}

void LogStreams::Stream::DropCutLine() {
  const size_t end = rest.find('\n');
  const size_t size = end == std::string::npos ? rest.size() : end + 1;
  cut = end == std::string::npos;
  rest.erase(0, size);
  offset += static_cast<int64_t>(size);
}

std::optional<LogData> LogStreams::Stream::ReadLog(int64_t id, bool may_grow, bool* again) {
  const int64_t next = offset + static_cast<int64_t>(rest.size());
  if (const int64_t kept = NextKept(file.get(), next); kept > next) {
    *again = true;
    return SkipDropped(id, kept);
  }
  std::string block(kLogChunkBytes - rest.size(), '\0');
  const ssize_t n = ::read(file.get(), block.data(), block.size());
  *again = n > 0 || (n < 0 && errno == EINTR);
  if (n < 0 && *again) return std::nullopt;
  if (n < 0) {
    return ErrorChunk(id, key.rank, std::string(ErrnoStatus(errno, "read " + path).message()));
  }
  block.resize(n);
  rest += block;
  if (cut) DropCutLine();
  if (n == 0 && may_grow && !newest) return std::nullopt;

  const std::string lines = TakeLines(n == 0);
  if (newest) NoteBegins(lines);
  offset += static_cast<int64_t>(lines.size());
  if (newest) {
    *again = true;
    const absl::Status found = n == 0 ? SeekToNewest() : absl::OkStatus();
    if (!found.ok()) return ErrorChunk(id, key.rank, std::string(found.message()));
    return std::nullopt;
  }
  LogData data = Chunk(id, key.rank);
  data.set_data(filter.Take(lines));
  data.set_end_offset(offset);
  data.set_end(n == 0);
  if (data.data().empty() && !data.end()) return std::nullopt;
  return data;
}

std::optional<LogData> LogStreams::Stream::Read(int64_t id,
                                                const std::function<bool(const RankKey&)>& alive,
                                                bool* again) {
  if (!opened.ok()) return ErrorChunk(id, key.rank, std::string(opened.message()));
  if (!trace) {
    // Checked before the read, so that everything a rank wrote before it ended is read.
    const bool may_grow = follow && alive(key);
    return ReadLog(id, may_grow, again);
  }
  std::optional<LogData> data = ReadTrace(id);
  *again = data.has_value();
  return data;
}

LogStreams::LogStreams(const RunFolders& folders, std::function<bool(const RankKey&)> alive,
                       std::function<void()> wake)
    : folders_(folders),
      alive_(std::move(alive)),
      wake_(std::move(wake)),
      thread_([this] { Run(); }) {}

LogStreams::~LogStreams() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void LogStreams::Request(const LogRequest& request) {
  {
    const MutexLock lock(mu_);
    requests_.push_back(request);
  }
  changed_.NotifyAll();
}

std::optional<LogData> LogStreams::Next() {
  const MutexLock lock(mu_);
  if (chunks_.empty()) return std::nullopt;
  LogData data = std::move(chunks_.front());
  chunks_.pop_front();
  changed_.NotifyAll();
  return data;
}

void LogStreams::Reset() {
  const MutexLock lock(mu_);
  ++session_;
  requests_.clear();
  chunks_.clear();
  changed_.NotifyAll();
}

void LogStreams::Apply(const LogRequest& request) {
  const auto open = streams_.find(request.stream());
  if (request.cancel()) {
    if (open != streams_.end()) streams_.erase(open);
  } else if (open != streams_.end()) {
    open->second->credit += request.credit();
  } else if (!request.job_uid().empty()) {  // else: credit for a stream that has just ended
    auto stream = std::make_unique<Stream>();
    stream->opened = stream->Open(folders_, request);
    streams_.emplace(request.stream(), std::move(stream));
  }
}

bool LogStreams::ReadRound(uint64_t session, size_t room) {
  // Starts after the stream read last: on a slow connection there is room for one chunk at a time.
  std::vector<int64_t> ids;
  for (const auto& [id, stream] : streams_) ids.push_back(id);
  std::rotate(ids.begin(), std::upper_bound(ids.begin(), ids.end(), last_read_), ids.end());
  bool progress = false;
  for (size_t i = 0; i < ids.size() && room > 0; ++i) {
    const auto current = streams_.find(last_read_ = ids[i]);
    bool again = false;
    std::optional<LogData> data = current->second->Read(current->first, alive_, &again);
    progress = progress || again;
    if (!data.has_value()) continue;
    if (data->end()) streams_.erase(current);
    {
      const MutexLock lock(mu_);
      if (session != session_) return false;
      chunks_.push_back(*std::move(data));
    }
    --room;
    wake_();
  }
  return progress;
}

bool LogStreams::AskedLocked(uint64_t session) const {
  return stop_ || session != session_ || !requests_.empty();
}

bool LogStreams::RoomLocked() const { return !streams_.empty() && chunks_.size() < kMaxChunks; }

void LogStreams::Run() {
  uint64_t session = 0;
  bool progress = false;
  MutexLock lock(mu_);
  while (true) {
    if (!RoomLocked()) {
      changed_.Wait(mu_, [&]() REQUIRES(mu_) { return AskedLocked(session) || RoomLocked(); });
    } else if (!progress) {
      changed_.WaitFor(mu_, kFollowInterval, [&]() REQUIRES(mu_) { return AskedLocked(session); });
    }
    if (stop_) return;
    if (session != session_) {
      session = session_;
      streams_.clear();
    }
    const std::vector<LogRequest> requests = std::exchange(requests_, {});
    const size_t places = kMaxChunks - chunks_.size();
    lock.Unlock();
    for (const LogRequest& request : requests) Apply(request);
    progress = ReadRound(session, places);
    lock.Lock();
  }
}

}  // namespace stretto::daemon
