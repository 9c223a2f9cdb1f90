// SPDX-License-Identifier: Apache-2.0
#pragma once
// Encodes one part of a data set, from text to tokens.

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "worker/data/text/prepare_plan.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

// Writes the part as the data set `prefix`, and its mask if lines have one, or the file
// PREFIX.empty if it has no tokens; the last of these files marks it as done. Calls `done` with the
// bytes of each piece. Errors: those of Prepare.
absl::Status EncodePart(const PreparePlan& plan, const PreparePart& part,
                        const Tokenizer& tokenizer, const LineForm& lines,
                        const std::string& prefix, const std::function<void(int64_t)>& done);

}  // namespace stretto
