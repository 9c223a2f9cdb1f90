// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job's profile measured, as people read it. Pure.

#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Why something else on the machine disturbed the profile, so that its bound is not one: its
// repetitions spread by more than kMostSpread, or its ranks were without a CPU for more than
// kMostPreempted of them. "repetitions 42.0 % apart"; empty if nothing did.
inline constexpr double kMostPreempted = 0.05;
std::string Disturbance(const v1alpha1::Profile& profile);

// A row per measurement, then the mean step of the run in terms of the bound, or what disturbed
// the measurement in place of it; parity and the link.
std::string ProfileTable(const v1alpha1::Job& job);

}  // namespace stretto::cli
