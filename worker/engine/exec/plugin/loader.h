// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds and opens a plug-in. Once opened it stays so until the process ends.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/exec/plugin/plugin.h"

namespace stretto {

struct PluginOptions {
  std::string file = {};                  // "libstretto_cuda.so"
  std::vector<std::string> folders = {};  // where it may lie, in order
  // The driver's library, which no installation of ours brings: opened first, by name. Empty: none.
  std::string driver = {};
  // Libraries that the plug-in is linked to, and folders in which they are looked for before the
  // places that the system knows.
  std::vector<std::string> libraries = {};
  std::vector<std::string> library_folders = {};
};

// The CUDA backend: beside this program, then in ../lib/stretto from there, where packages have it,
// then in the folders of STRETTO_PLUGIN_PATH; its libraries in those of STRETTO_CUDA_LIBRARIES
// (both colon-separated).
PluginOptions CudaPluginOptions();

// What to open a library of CUDA's by that the plug-in is not linked to: its path in the first
// folder of STRETTO_CUDA_LIBRARIES that has it, else its name, for the system to find.
std::string CudaLibrary(const std::string& file);

// The first folder's file of that name; empty when none has it.
std::string FindFile(const std::vector<std::string>& folders, const std::string& file);

// Errors, each naming the file and what would help:
//   NotFound            no such file in any folder
//   FailedPrecondition  no driver, a library is missing, no plug-in of ours, another build
absl::StatusOr<const BackendPlugin*> LoadPlugin(const PluginOptions& options);

// OK when code for `architectures` runs on the device: the same major number and no higher minor
// one; with a letter (90a) that capability alone. Errors: FailedPrecondition.
absl::Status CheckArchitecture(const DeviceInfo& device, absl::string_view architectures);

}  // namespace stretto
