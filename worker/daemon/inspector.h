// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers what a job would find on this node. A trainer looks, in a process of its own and one at a
// time, because only trainers know data and models, and a bad file must not end the daemon.

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "proto/base/files.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/rights/prepared_rights.h"

namespace stretto::daemon {

// Thread-safe.
class Inspector {
 public:
  struct Options {
    std::string trainer_binary;
    std::string folder;                            // for files of a look; made when it is needed
    stretto::v1alpha1::AttachResponse roots = {};  // data_root and checkpoint_root
    const PreparedRights* rights = nullptr;   // of the trainer; borrowed; nullptr: the daemon's
    absl::Duration limit = absl::Seconds(5);  // of a look; then the trainer is killed
    size_t most_waiting = 4;
  };
  // `wake` is called when Next() has something new, on a thread of its own.
  Inspector(Options options, std::function<void()> wake);
  // Kills the trainer that looks.
  ~Inspector();
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  // Does not block. Too many at once are answered by `not_done`.
  void Request(const stretto::v1alpha1::Inspect& request);
  std::optional<stretto::v1alpha1::Inspection> Next();

 private:
  void Run();
  stretto::v1alpha1::Inspection Look(const stretto::v1alpha1::Inspect& request);
  absl::Status RunTrainer(const std::string& task, const std::string& answer);
  void Answer(stretto::v1alpha1::Inspection answer);

  const Options options_;
  const std::function<void()> wake_;
  const FileDescriptor stop_;  // readable: the daemon ends

  Mutex mu_;
  CondVar changed_;
  bool ending_ GUARDED_BY(mu_) = false;
  std::deque<stretto::v1alpha1::Inspect> waiting_ GUARDED_BY(mu_);
  std::deque<stretto::v1alpha1::Inspection> answers_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace stretto::daemon
