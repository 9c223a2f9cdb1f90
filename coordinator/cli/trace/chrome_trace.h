// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recorded steps as a Chrome trace (JSON), which Perfetto opens.
//
// Each rank is a process. Its tracks are "step" (each step, with the host's waits inside), "ledger"
// (the account of each instant) and one per lane. Arrows lead from an operation to those that wait
// for it. Counters show exposed time so far and collectives in flight, and for the first rank loss
// and tokens per second. The file is written as records arrive: memory holds one rank's program.

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/cli/trace/records.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

class ChromeTraceWriter {
 public:
  // `out` is borrowed.
  explicit ChromeTraceWriter(std::ostream& out);

  // Starts a rank, each at most once; its steps follow.
  void StartRank(int rank, const v1alpha1::TraceProgram& program);
  // `begin` is that of the step, on the common axis.
  void AddStep(const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step,
               int64_t begin);
  // Ends the file; its metadata has `job` and the number of machines.
  void Finish(const v1alpha1::Job& job, int machines);

  int64_t operations() const { return operations_; }

 private:
  struct Operation {
    std::string head;  // the constant part of its slice's JSON
    int lane = 0;
  };
  // The tracks of a lane: as many as slices need to nest, usually one. On a GPU, operations that
  // are captured together have one interval; equal slices nest.
  struct Lane {
    std::string name;
    std::vector<Span> last;  // the last slice of each track
  };

  void Event(absl::string_view text);
  void Metadata(absl::string_view what, int tid, absl::string_view value_json);
  void Track(int tid, const std::string& name);
  void Counter(absl::string_view name, int64_t time, double value);
  void AddHost(const v1alpha1::TraceStep& step, int64_t begin);
  void AddLedger(const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step,
                 int64_t begin);
  void AddOperations(const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step,
                     int64_t begin);
  void AddInFlight(const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step,
                   int64_t begin);
  int TrackOf(int lane, Span span);

  std::ostream& out_;
  bool first_event_ = true;
  int rank_ = -1, first_rank_ = -1;
  std::vector<Operation> program_;
  std::vector<Lane> lanes_;
  int64_t exposed_ = 0;  // nanoseconds of this rank so far
  int64_t flows_ = 0, operations_ = 0;
};

}  // namespace stretto::cli
