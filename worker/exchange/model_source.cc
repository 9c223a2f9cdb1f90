// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/model_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/exchange/checkpoint_source.h"
#include "worker/exchange/hf_source.h"
#include "worker/exchange/llmc_source.h"

namespace stretto {

absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& name) {
  absl::string_view path = name;
  const bool hf = absl::ConsumePrefix(&path, "hf:");
  const bool llmc = !hf && absl::ConsumePrefix(&path, "llmc:");
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: found '", name, "', expected hf:FOLDER, llmc:FILE or the folder of a checkpoint"));
  }
  const std::string at(path);
  return hf ? OpenHf(name, at) : llmc ? OpenLlmc(name, at) : OpenCheckpoint(name, at);
}

}  // namespace stretto
