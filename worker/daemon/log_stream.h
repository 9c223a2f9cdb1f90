#pragma once
// Streams trainer logs to the coordinator. One thread reads files; the session takes chunks when
// the wire is free. A stream that follows looks at its file again every 200 ms: a trainer's log is
// written by the kernel on behalf of a process that may be gone, so nobody can announce a line.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "proto/base/files.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/rank_key.h"
#include "worker/daemon/run_folder.h"

namespace stretto::daemon {

inline constexpr size_t kLogChunkBytes = 64 << 10;

// Thread-safe.
class LogStreams {
 public:
  // `folders` is borrowed. `alive` says whether a rank may still write; `wake` is called when
  // Next() has something new. Both may be called from the reader thread.
  LogStreams(const RunFolders& folders, std::function<bool(const RankKey&)> alive,
             std::function<void()> wake);
  ~LogStreams();
  LogStreams(const LogStreams&) = delete;
  LogStreams& operator=(const LogStreams&) = delete;

  // Starts or cancels a stream. An unknown rank is answered by one LogData with `error` and `end`.
  void Request(const stretto::v1alpha1::LogRequest& request);

  // The next chunk: at most 64 KiB, whole lines unless one line is longer. At most 8 chunks wait;
  // beyond that the reader pauses.
  std::optional<stretto::v1alpha1::LogData> Next();

  // Forgets every stream and chunk: the session they belonged to has ended.
  void Reset();

 private:
  struct Stream {
    RankKey key;
    bool follow = false;
    FileDescriptor file;
    std::string path;
    std::string tail;  // read, not sent: less than a line
  };

  void Run();
  bool ReadOneLocked(int64_t id, Stream& stream);  // true: made a chunk or ended
  void PushLocked(stretto::v1alpha1::LogData data);

  const RunFolders& folders_;
  const std::function<bool(const RankKey&)> alive_;
  const std::function<void()> wake_;

  std::mutex mu_;
  std::condition_variable changed_;
  std::map<int64_t, Stream> streams_;
  std::deque<stretto::v1alpha1::LogData> chunks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace stretto::daemon
