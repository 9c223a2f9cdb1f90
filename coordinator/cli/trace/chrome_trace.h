// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recorded steps as a Chrome trace (JSON), which Perfetto opens.
//
// A process per rank; its tracks: "step" (each step, with the host's waits inside), "ledger" (what
// each instant was counted as), then one per lane. Arrows lead from an operation to those that wait
// for it. Counters: exposed time so far, collectives in flight; of the first rank loss and tokens
// per second. Written as it comes: memory holds one rank's program.

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

  // A rank, each once; its steps follow.
  void StartRank(int rank, const v1alpha1::TraceProgram& program);
  // `begin` is the step's, on the common axis.
  void AddStep(const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step,
               int64_t begin);
  // Ends the file; `job` and the number of machines go into its notes.
  void Finish(const v1alpha1::Job& job, int machines);

  int64_t operations() const { return operations_; }

 private:
  struct Operation {
    std::string head;  // the constant part of its slice's JSON
    int lane = 0;
  };
  // Tracks of a lane: as many as it takes for slices to nest, most often one. On a GPU operations
  // that are captured together have one interval; equal slices nest.
  struct Lane {
    std::string name;
    std::vector<Span> last;  // slice of each track
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
