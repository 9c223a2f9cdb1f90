// SPDX-License-Identifier: Apache-2.0
#pragma once
// The questions to workers that wait for an answer. All methods run on the loop.

#include <cstdint>
#include <functional>
#include <map>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::service {

class Inspections {
 public:
  using Done = std::function<void(const v1alpha1::Inspection&)>;

  // Adds a question to the worker of `session`, and returns its id. `done` is called once: with the
  // answer, or with `not_done` at `deadline` (monotonic) or when the session ends.
  int64_t Add(int64_t session, absl::Duration deadline, Done done);

  // An answer that nobody waits for is dropped, as is that of another session.
  void OnAnswer(int64_t session, const v1alpha1::Inspection& answer);
  void OnSessionEnded(int64_t session);
  void OnTick(absl::Duration now);
  // The coordinator ends.
  void EndAll();

 private:
  struct Question {
    int64_t session = 0;
    absl::Duration deadline;
    Done done;
  };
  // Ends those for which `over` is true.
  void End(const std::function<bool(const Question&)>& over, absl::string_view why);

  std::map<int64_t, Question> questions_;  // by id
  int64_t last_ = 0;
};

}  // namespace stretto::service
