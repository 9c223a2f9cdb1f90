// SPDX-License-Identifier: Apache-2.0
#pragma once
// The public API that this program was built with, including comments, which the generated classes
// lack.

#include "google/protobuf/descriptor.h"

namespace stretto::cli {

// proto/stretto/v1alpha1/job.proto. Parsed at the first call and never freed.
const google::protobuf::FileDescriptor& ApiFile();

}  // namespace stretto::cli
