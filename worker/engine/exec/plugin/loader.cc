// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/plugin/loader.h"

#include <dlfcn.h>

#include <cctype>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace stretto {
namespace {

std::string Listed(const std::vector<std::string>& folders) {
  return folders.empty() ? "no folder" : absl::StrJoin(folders, ", ");
}

// An open library satisfies every later dependency on the same name, wherever it was loaded from.
absl::Status OpenLibraries(const PluginOptions& options) {
  for (const std::string& library : options.libraries) {
    const std::string path = FindFile(options.library_folders, library);
    if (path.empty() || dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA library ", path, " (from STRETTO_CUDA_LIBRARIES): ", dlerror()));
  }
  return absl::OkStatus();
}

// Explains an error of dlopen by the library that it names.
absl::Status CannotOpen(const PluginOptions& options, const std::string& path,
                        const std::string& why) {
  for (const std::string& library : options.libraries) {
    if (!absl::StrContains(why, absl::StrCat(library, ": cannot open"))) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "CUDA library ", library, ": found neither in the system's folders nor in ",
        Listed(options.library_folders), "; STRETTO_CUDA_LIBRARIES names folders to look in"));
  }
  return absl::FailedPreconditionError(absl::StrCat("plug-in ", path, ": cannot open: ", why));
}

}  // namespace

std::string FindFile(const std::vector<std::string>& folders, const std::string& file) {
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", file);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return "";
}

absl::StatusOr<const BackendPlugin*> LoadPlugin(const PluginOptions& options) {
  const std::string path = FindFile(options.folders, options.file);
  if (path.empty()) {
    return absl::NotFoundError(
        absl::StrCat("plug-in ", options.file, ": found none in ", Listed(options.folders),
                     "; expected beside the program or in a folder of STRETTO_PLUGIN_PATH (it is "
                     "built where nvcc is found, or with STRETTO_CUDA=ON)"));
  }
  if (!options.driver.empty() && dlopen(options.driver.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("no NVIDIA driver on this machine: ", dlerror()));
  }
  if (absl::Status status = OpenLibraries(options); !status.ok()) return status;
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return CannotOpen(options, path, dlerror());
  const auto function = reinterpret_cast<PluginFunction>(dlsym(plugin, kPluginSymbol));
  if (function == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "plug-in ", path, ": found no symbol ", kPluginSymbol, ", expected a backend of Stretto"));
  }
  const BackendPlugin* const table = function();
  // The table's layout is that of the plug-in's build, so nothing else is read before this check.
  if (absl::string_view(table->identity) != BuildIdentity()) {
    return absl::FailedPreconditionError(absl::StrCat("plug-in ", path, ": found build '",
                                                      table->identity, "', expected '",
                                                      BuildIdentity(), "', that of this program"));
  }
  return table;
}

absl::Status CheckArchitecture(const DeviceInfo& device, absl::string_view architectures) {
  const int capability = device.capability_major * 10 + device.capability_minor;
  for (const absl::string_view architecture : absl::StrSplit(architectures, ',')) {
    const bool exact =
        !architecture.empty() && std::isalpha(static_cast<unsigned char>(architecture.back())) != 0;
    int number = 0;
    if (!absl::SimpleAtoi(architecture.substr(0, architecture.size() - (exact ? 1 : 0)), &number))
      continue;
    const bool runs = exact ? number == capability
                            : number / 10 == device.capability_major && number <= capability;
    if (runs) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("GPU ", device.index, " (", device.name, "): found compute capability ",
                   device.capability_major, ".", device.capability_minor, ", expected one of ",
                   absl::StrJoin(absl::StrSplit(architectures, ','), ", "),
                   "; STRETTO_CUDA_ARCHITECTURES chooses them when Stretto is built"));
}

}  // namespace stretto
