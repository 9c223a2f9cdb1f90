// SPDX-License-Identifier: Apache-2.0
#pragma once
// The public API as this program was built with it, comments included (the generated classes have
// none).

#include "google/protobuf/descriptor.h"

namespace stretto::cli {

// proto/stretto/v1alpha1/job.proto. Parsed at the first call; lives as long as the program.
const google::protobuf::FileDescriptor& ApiFile();

}  // namespace stretto::cli
