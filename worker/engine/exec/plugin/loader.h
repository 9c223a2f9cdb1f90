// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds and opens a plug-in, which stays open until the process ends.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/exec/plugin/plugin.h"

namespace stretto {

struct PluginOptions {
  std::string file = {};                  // "libstretto_cuda.so"
  std::vector<std::string> folders = {};  // where to look for it, in order
  // The driver's library, which is not part of our installation: opened first, by name. Empty:
  // none.
  std::string driver = {};
  // Libraries that the plug-in is linked to, and the folders to search for them before those of the
  // system.
  std::vector<std::string> libraries = {};
  std::vector<std::string> library_folders = {};
};

// Returns the options of the CUDA backend. It is searched for beside this program, then in
// ../lib/stretto from there, where packages install it, then in the folders of STRETTO_PLUGIN_PATH;
// its libraries in those of STRETTO_CUDA_LIBRARIES (both are colon-separated).
PluginOptions CudaPluginOptions();

// Returns the name by which to open a CUDA library that the plug-in is not linked to: its path in
// the first folder of STRETTO_CUDA_LIBRARIES that has it, otherwise `file`, for the system to find.
std::string CudaLibrary(const std::string& file);

// Returns the path of `file` in the first folder that has it; empty when none does.
std::string FindFile(const std::vector<std::string>& folders, const std::string& file);

// Opens the plug-in. Errors, each naming the file and a remedy:
//   NotFound            no such file in any folder
//   FailedPrecondition  no driver, a missing library, a library that is not ours, another build
absl::StatusOr<const BackendPlugin*> LoadPlugin(const PluginOptions& options);

// Returns OK when code for `architectures` runs on the device: the major number is equal and the
// minor number not higher; with a letter (90a), only on exactly that capability. Errors:
// FailedPrecondition.
absl::Status CheckArchitecture(const DeviceInfo& device, absl::string_view architectures);

}  // namespace stretto
