// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams trainer logs and recorded steps to the coordinator. One thread reads files; the session
// takes chunks when the wire is free. A log that is followed is looked at again every 200 ms: it is
// written by the kernel on behalf of a process that may be gone, so nobody can announce a line.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/mutex.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/rank_key.h"
#include "worker/daemon/run_folder.h"

namespace stretto::daemon {

inline constexpr size_t kLogChunkBytes = 64 << 10;

// Thread-safe.
class LogStreams {
 public:
  // `folders` is borrowed. `alive` says whether a rank may still write; `wake` is called when
  // Next() has something new. Both are called by the reader thread.
  LogStreams(const RunFolders& folders, std::function<bool(const RankKey&)> alive,
             std::function<void()> wake);
  ~LogStreams();
  LogStreams(const LogStreams&) = delete;
  LogStreams& operator=(const LogStreams&) = delete;

  // Starts or cancels a stream, or gives one of a trace more credit; does not block. An unknown
  // rank, or one with no such steps, is answered by one LogData with `error` and `end`.
  void Request(const stretto::v1alpha1::LogRequest& request);

  // The next chunk: a record of a trace, or at most 64 KiB of a log, whole lines unless one line is
  // longer. At most 8 chunks wait; beyond that the reader pauses.
  std::optional<stretto::v1alpha1::LogData> Next();

  // Forgets every stream and chunk: the session they belonged to has ended.
  void Reset();

 private:
  struct Stream;

  void Run();
  // By the reader thread, without the lock: a disk that stands still holds up nobody else.
  void Apply(const stretto::v1alpha1::LogRequest& request);
  // At most `room` chunks, for that session. True: more can be read at once.
  bool ReadRound(uint64_t session, size_t room);
  // Something else than reading on is to be done: a request, a new session, or the end.
  bool AskedLocked(uint64_t session) const REQUIRES(mu_);
  // A stream is open, and another chunk may wait.
  bool RoomLocked() const REQUIRES(mu_);

  const RunFolders& folders_;
  const std::function<bool(const RankKey&)> alive_;
  const std::function<void()> wake_;

  std::map<int64_t, std::unique_ptr<Stream>> streams_;  // the reader thread's
  int64_t last_read_ = 0;                               // likewise

  Mutex mu_;
  CondVar changed_;
  std::vector<stretto::v1alpha1::LogRequest> requests_ GUARDED_BY(mu_);  // not yet applied
  std::deque<stretto::v1alpha1::LogData> chunks_ GUARDED_BY(mu_);
  uint64_t session_ GUARDED_BY(mu_) = 0;  // counts calls of Reset
  bool stop_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto::daemon
