#pragma once
// The largest dimensions of a model, as the job spec has them (proto/stretto/v1alpha1/job.proto): a
// model from a file that we do not trust stays within them.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

inline constexpr int64_t kMaxLayers = 256;
inline constexpr int64_t kMaxHidden = 65536;
// Of another's format, whose tensors are put together head by head. No known model has as many.
inline constexpr int64_t kMaxForeignHeads = 1024;
inline constexpr int64_t kMaxFfnHidden = 1048576;
inline constexpr int64_t kMaxSequenceLength = 1048576;
inline constexpr int64_t kMaxVocabSize = 4194304;
inline constexpr int64_t kMaxRotaryBase = 1000000000;
inline constexpr double kMaxRotaryFactor = 1024;

// What dimensions must be to each other, on one rank. `path` names the file in errors. Errors:
// InvalidArgument.
absl::Status CheckModel(const ModelSpec& model, const std::string& path);

}  // namespace stretto
