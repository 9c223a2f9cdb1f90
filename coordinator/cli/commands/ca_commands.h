// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto ca ...`: a certificate authority for a small cluster, in a folder. Each function is one
// command; `now` is the time of the certificates.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/terminal.h"

namespace stretto::cli {

// Names a new CA "Stretto CA" and a random number if `name` is empty.
ExitCode InitCa(const Terminal& terminal, const std::string& folder, const std::string& name,
                int days, absl::Time now);

struct IssueOptions {
  std::string folder = {};
  std::vector<std::string> hosts = {};  // of the coordinator's certificate
  std::vector<std::string> workers = {}, users = {};
  bool any_worker = false;  // and one for workers of every name
  int days = 90;
};
ExitCode IssueCertificates(const Terminal& terminal, const IssueOptions& options,
                           OutputFormat format, absl::Time now);

// Issues the certificates of `names` again, or those that are due if there are no names. With 0
// days, for as long as before.
ExitCode RotateCertificates(const Terminal& terminal, const std::string& folder,
                            const std::vector<std::string>& names, int days, OutputFormat format,
                            absl::Time now);

ExitCode ListCertificates(const Terminal& terminal, const std::string& folder, OutputFormat format,
                          absl::Time now);

// `what`: names and serial numbers.
ExitCode RevokeCertificates(const Terminal& terminal, const std::string& folder,
                            const std::vector<std::string>& what, const std::string& reason,
                            OutputFormat format, absl::Time now);

}  // namespace stretto::cli
