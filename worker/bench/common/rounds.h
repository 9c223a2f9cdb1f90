// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times programs in rounds, each of them once a round, so that a machine whose speed drifts changes
// all of them alike. What other work disturbed is timed again.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/bench/common/disturbance.h"

namespace stretto::bench {

// Prints progress for people, one line per call.
using Say = std::function<void(const std::string&)>;

// A program that is timed in rounds. All ranks see the same times, those of the slowest rank, and
// so agree on what is timed again.
struct TimedProgram {
  std::string name;
  std::function<absl::Status()> time;                  // runs it and appends its samples
  std::function<std::vector<double>()> seconds;        // of its samples
  std::function<void(absl::Span<const size_t>)> keep;  // these samples, in this order, no others
};

// Returns a program whose samples are those of `samples`, which must outlive it. `time` appends to
// them, and `seconds` is of one sample.
template <class Sample>
TimedProgram Timed(std::string name, std::vector<Sample>* samples,
                   std::function<absl::Status()> time,
                   std::function<double(const Sample&)> seconds) {
  TimedProgram program;
  program.name = std::move(name);
  program.time = std::move(time);
  program.seconds = [samples, seconds = std::move(seconds)] {
    std::vector<double> times;
    for (const Sample& sample : *samples) times.push_back(seconds(sample));
    return times;
  };
  program.keep = [samples](absl::Span<const size_t> kept) {
    std::vector<Sample> all = std::exchange(*samples, {});
    for (size_t i : kept) samples->push_back(std::move(all[i]));
  };
  return program;
}

// What became of the samples.
struct Rounds {
  std::vector<Disturbance> disturbed;  // programs that lack quiet samples
  int64_t left_out = 0;                // samples that other work disturbed and that were repeated
};

// Times all programs `rounds` times. Those with fewer quiet samples than rounds * `samples` are
// timed again, in at most three times as many further rounds; `samples` is how many one call of
// `time` appends. A program with enough quiet samples keeps only these. Every other program keeps
// all, which show how disturbed it was. Errors: those of `time`.
absl::StatusOr<Rounds> TimeInRounds(absl::Span<const TimedProgram> programs, int rounds,
                                    int samples, const Say& say);

// Adds "runs_left_out" and what AddTo of disturbances adds.
void AddTo(nlohmann::ordered_json* report, const Rounds& rounds);

// Returns a line about samples that were left out, if there are any, and the lines of disturbances.
std::string ToText(const Rounds& rounds);

}  // namespace stretto::bench
