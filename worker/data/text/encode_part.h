// SPDX-License-Identifier: Apache-2.0
#pragma once
// One part of a data set, from text to tokens.

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "worker/data/text/prepare_plan.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

// Writes the part as the data set `prefix`, or, where it has no tokens, the file PREFIX.empty; with
// either it is done. Calls `done` with the bytes of each piece. Errors: as Prepare.
absl::Status EncodePart(const PreparePlan& plan, const PreparePart& part,
                        const Tokenizer& tokenizer, const std::string& json_key,
                        const std::string& prefix, const std::function<void(int64_t)>& done);

}  // namespace stretto
