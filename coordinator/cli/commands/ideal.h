// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bound that no schedule can pass, of the runs of a comparison. Each run with a profile has
// measured it, but it depends on model, link and layout alone, so runs that share these share it.

#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// A profile whose repetitions lie further apart, or whose ranks were without a CPU for a greater
// share, was disturbed by something else on the machine: its bound is not one.
inline constexpr double kMostSpread = 0.1, kMostPreempted = 0.05;

// Why the profile was disturbed: "repetitions 42.0 % apart"; empty if it was not.
std::string Disturbance(const v1alpha1::Profile& profile);

struct IdealStep {
  double seconds = 0;  // the least that an undisturbed profile measured; NaN: there is none
  double spread = 0;   // how much greater the greatest of them is: 0.1 for 10 %; NaN: only one
};

// By job, in order: the bound of its model, link and layout.
std::vector<IdealStep> IdealsOf(const std::vector<v1alpha1::Job>& jobs);

}  // namespace stretto::cli
