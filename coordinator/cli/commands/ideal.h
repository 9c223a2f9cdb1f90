// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bound that no schedule can pass, of the runs of a comparison. Each run with a profile has
// measured it, but it depends on model, link and layout alone, so runs that share these share it.
// The layout has the sizes of the parallelism and which ranks share a worker.
// How attention computes is part of the model: `document_mask` with the text, `deterministic`.

#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct IdealStep {
  double seconds = 0;  // the least that an undisturbed profile measured; NaN: there is none
  double spread = 0;   // how much greater the greatest of them is: 0.1 for 10 %; NaN: only one
};

// By job, in order: the bound of its model, link and layout.
std::vector<IdealStep> IdealsOf(const std::vector<v1alpha1::Job>& jobs);

}  // namespace stretto::cli
