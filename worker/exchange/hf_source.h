// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Hugging Face folder of GPT-2 or Llama: config.json, safetensors in one file or several.
//
// Names with or without the prefix (HfFamily::prefix). A tied head may be stored as well if its
// bytes are those of the embedding. Known tensors that are no weights (masks of attention, inverse
// frequencies) are ignored, any other is refused.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Errors: as OpenModel.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenHf(const std::string& name,
                                                    const std::string& folder);

}  // namespace stretto
