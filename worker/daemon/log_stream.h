// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams trainer logs, or the lines of them that somebody wants, and recorded steps to the
// coordinator. One thread reads files; the session
// takes chunks when the connection is free. A followed log is polled every 200 ms: the kernel
// writes it for a process that may be gone, so nobody can announce a line.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/limits.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/run_folder.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

inline constexpr size_t kLogChunkBytes = limits::kLogChunkBytes.value;

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

  // Starts or cancels a stream, or gives a trace more credit; does not block. The answer for an
  // unknown rank, or one without such steps, is one LogData with `error` and `end`.
  void Request(const stretto::v1alpha1::LogRequest& request);

  // Returns the next chunk: a record of a trace, or at most 64 KiB of a log, in whole lines unless
  // one line is longer. At most 8 chunks wait; then the reader pauses.
  std::optional<stretto::v1alpha1::LogData> Next();

  // Drops every stream and chunk, because their session has ended.
  void Reset();

 private:
  struct Stream;

  void Run();
  // Runs on the reader thread without the lock, so that a blocked disk delays nobody else.
  void Apply(const stretto::v1alpha1::LogRequest& request);
  // Reads at most `room` chunks for that session. Returns true if more can be read immediately.
  bool ReadRound(uint64_t session, size_t room);
  // Whether the reader has anything else to do: a request, a new session, or the end.
  bool AskedLocked(uint64_t session) const REQUIRES(mu_);
  // Whether a stream is open and there is room for another chunk.
  bool RoomLocked() const REQUIRES(mu_);

  const RunFolders& folders_;
  const std::function<bool(const RankKey&)> alive_;
  const std::function<void()> wake_;

  std::map<int64_t, std::unique_ptr<Stream>> streams_;  // the reader thread's
  int64_t last_read_ = 0;                               // of the reader thread too

  Mutex mu_;
  CondVar changed_;
  std::vector<stretto::v1alpha1::LogRequest> requests_ GUARDED_BY(mu_);  // not yet applied
  std::deque<stretto::v1alpha1::LogData> chunks_ GUARDED_BY(mu_);
  uint64_t session_ GUARDED_BY(mu_) = 0;  // counts calls of Reset
  bool stop_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto::daemon
