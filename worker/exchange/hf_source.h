// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Hugging Face folder of GPT-2 or Llama: config.json, and safetensors in one file or several.
//
// Names may omit the prefix (HfFamily::prefix). A tied head may also be stored if its bytes are
// equal to those of the embedding. Known tensors that are not weights (masks of attention, inverse
// frequencies) are ignored; any other extra tensor is refused.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Errors: those of OpenModel.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenHf(const std::string& name,
                                                    const std::string& folder);

}  // namespace stretto
