// SPDX-License-Identifier: Apache-2.0
#pragma once
// Figures as one line of text each, without a newline. Pure.

#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Returns the share of communication that was hidden, in [0, 1]; NaN if there was none.
double OverlapRatio(const v1alpha1::Ledger& ledger);

// "97.1 %", or "-" for NaN.
std::string Percent(double ratio);
// With a unit: "41.3s", "12.0ms".
std::string Seconds(double seconds);
// "2.8134"; "-" for NaN.
std::string Loss(double loss);
// "16.67"; "-" for NaN.
std::string Perplexity(double perplexity);
// Whether losses and speeds are those of steps. They are not known before the first step, nor
// between a restart of the coordinator and the next one, although the number of steps is.
bool HasStepFigures(const v1alpha1::Progress& progress);
// "held-out loss 2.8134, perplexity 16.67".
std::string HeldOutText(const v1alpha1::Evaluation& evaluation);

}  // namespace stretto::cli
