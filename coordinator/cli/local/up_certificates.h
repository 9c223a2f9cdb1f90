// SPDX-License-Identifier: Apache-2.0
#pragma once
// The certificates of the cluster of `stretto up`.

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stretto::cli {

// Makes a CA in `folder` (coordinator/ca/authority.h) unless it has one, and certificates of it for
// the coordinator that listens on `listen` (HOST:PORT), the workers worker-1, worker-2, ... and
// user admin, who may do everything. One that is there, is for the same holder and is not due is
// kept. Errors: those of ca::Authority.
absl::Status PrepareCertificates(const std::string& folder, const std::string& listen, int workers,
                                 absl::Time now);

}  // namespace stretto::cli
