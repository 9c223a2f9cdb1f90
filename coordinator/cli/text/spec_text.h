// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of a job spec as one line each, without newline. Pure.

#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// "emulated link, 1 Gbit/s, 50 us latency", "real".
std::string LinkText(const v1alpha1::JobSpec& spec);

// "llama3-8b: llama, 32 layers, hidden 4096, 32 heads on 8 of keys and values, sequence 8192".
std::string ModelText(const v1alpha1::JobSpec& spec);

// "sweep, team=speech".
std::string LabelsText(const v1alpha1::JobSpec& spec);

// "books, 1 % held out", "blend of books (70 %), llmc:web/*.bin (30 %)".
std::string DataText(const v1alpha1::JobSpec& spec);

// Returns how many tokens a step trains on, by the spec alone; 0 for a spec without sizes.
double TokensOfStep(const v1alpha1::JobSpec& spec);

// Returns the options of the schedule besides slices and splits, "sequence parallel, recompute
// full"; empty if there are none.
std::string OptionsText(const v1alpha1::JobSpec& spec);

// Returns how the model lies on its ranks and the order of its stages: "tp 2", "layers 3 x tp 2 +
// 1 x tp 1, pp 2 1f1b, wgrads delayed: send, dp 2 zero 1".
std::string LayoutText(const v1alpha1::JobSpec& spec);

// "domino_row, slices of 2 + 2, tp 2": the schedule, the layout, and the options.
std::string ScheduleText(const v1alpha1::JobSpec& spec);

}  // namespace stretto::cli
