// SPDX-License-Identifier: Apache-2.0
#pragma once
// Continues prompts with the models of checkpoints while training continues. Training waits for
// none of it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/ids.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::trainer {

struct SamplingConfig {
  v1alpha1::SampleSpec spec;  // normalized; empty: nothing is sampled
  int64_t steps = 0;          // of the job: its last checkpoint is sampled too
  uint64_t seed = 0;
  int threads = 1;      // 0: one per core
  std::string root;     // the folder of all jobs' checkpoints, which links may not leave
  std::string record;   // file to which every result is appended as a line of JSON
  std::string program;  // stretto-model; empty: beside this program
};

// Returns what a rank of the job samples: the first one does all of it.
SamplingConfig SamplingOf(const v1alpha1::JobSpec& spec, Rank rank,
                          const std::string& checkpoint_root, const std::string& checkpoint_folder);

// Texts from one checkpoint at a time. While they are written, the newest checkpoint that is due
// waits, and older ones are left out.
class Sampling {
 public:
  // Completes a prompt with the model in a folder, until `given_up`. Tests replace it.
  using Complete = std::function<absl::StatusOr<v1alpha1::Sample>(
      const std::string& folder, const std::string& prompt, const std::atomic<bool>& given_up)>;
  // Called by another thread, once for each checkpoint that was sampled.
  using Report = std::function<void(const v1alpha1::Samples& samples)>;

  Sampling(SamplingConfig config, Report report, Complete complete = {});
  // Gives up.
  ~Sampling();
  Sampling(const Sampling&) = delete;
  Sampling& operator=(const Sampling&) = delete;

  // A checkpoint of this step has been written.
  void OnCheckpoint(int64_t step, const std::string& folder);

  // Waits until all that is due has been reported, at most this long and until `stop` returns true.
  void Finish(absl::Duration at_most, const std::function<bool()>& stop);

 private:
  void Run();
  v1alpha1::Samples Sample(int64_t step, const std::string& folder);
  void Record(const v1alpha1::Samples& samples) const;

  const SamplingConfig config_;
  const Report report_;
  const Complete complete_;
  std::atomic<bool> given_up_ = false;
  Mutex mu_;
  CondVar changed_;
  std::optional<std::pair<int64_t, std::string>> due_ GUARDED_BY(mu_);  // step, folder
  bool busy_ GUARDED_BY(mu_) = false;
  bool ending_ GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last member: it uses the others; none if nothing is sampled
};

}  // namespace stretto::trainer
