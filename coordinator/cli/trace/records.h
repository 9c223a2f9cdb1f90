// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recorded steps as the coordinator sends them: record by record, rank after rank.

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Nanoseconds.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t length() const { return end - begin; }
};

// An interval of the list, from the begin of its step. `index` must be in range.
Span SpanAt(const v1alpha1::TraceIntervals& intervals, int index);

// Phases in the ledger's order of preference; -1 for any other name.
inline constexpr int kPhases = 4;
inline constexpr const char* kPhaseNames[kPhases] = {"forward", "recompute", "backward",
                                                     "optimizer"};
int PhaseIndex(const std::string& name);

// Joins the parts of programs and steps. Its results are complete and consistent: one interval per
// operation, none of negative length; and lanes, waits, groups and phases that exist.
class TraceAssembler {
 public:
  struct Handlers {
    // Called before the rank's first step.
    std::function<void(int rank, const v1alpha1::TraceProgram&)> on_program;
    std::function<void(int rank, const v1alpha1::TraceProgram&, const v1alpha1::TraceStep&)>
        on_step;
    // Called if something is missing; the text is for people.
    std::function<void(const std::string&)> on_warning;
  };
  explicit TraceAssembler(Handlers handlers) : handlers_(std::move(handlers)) {}

  // Errors: DataLoss (names rank, found, expected).
  absl::Status Add(const v1alpha1::StreamJobTraceResponse& response);
  // Call after the last record.
  void Finish();

 private:
  absl::Status AddProgram(const v1alpha1::TraceProgram& part);
  absl::Status AddStep(const v1alpha1::TraceStep& part);
  void DropStep();

  const Handlers handlers_;
  int rank_ = -1;
  v1alpha1::TraceProgram program_;
  bool has_program_ = false;  // a whole one of `rank_`
  v1alpha1::TraceStep step_;  // step 0: none in progress
};

// One time axis for all ranks: nanoseconds since an origin. Ranks of one machine share its
// monotonic clock and are aligned exactly. Machines are aligned by their wall clocks at the first
// step that was seen of each.
class TimeAxis {
 public:
  // `origin` is in Unix nanoseconds.
  explicit TimeAxis(int64_t origin) : origin_(origin) {}

  // Returns the begin of a step. A rank whose machine is unknown counts as a machine of its own.
  int64_t BeginOf(int rank, const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step);
  int machines() const { return std::ssize(offsets_); }

 private:
  int64_t origin_;
  std::map<std::string, int64_t> offsets_;  // by machine; added to its monotonic clock
};

}  // namespace stretto::cli
