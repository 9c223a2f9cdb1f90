// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/plugin/plugin.h"

#if defined(FAKE_NEEDS_VENDOR)
extern "C" int stretto_fake_vendor();
#endif

extern "C" const stretto::BackendPlugin* stretto_backend_plugin() {
#if defined(FAKE_IDENTITY)
  // What another build has after its identity may be anything.
  static const char* const plugin[] = {FAKE_IDENTITY};
  return reinterpret_cast<const stretto::BackendPlugin*>(plugin);
#else
  static const stretto::BackendPlugin plugin = {
      .identity = stretto::BuildIdentity(),
      .architectures = "80,90a",
      .devices = []() -> absl::StatusOr<std::vector<stretto::DeviceInfo> > {
#if defined(FAKE_NEEDS_VENDOR)
        if (stretto_fake_vendor() != 1) return absl::InternalError("not the vendor's library");
#endif
        return std::vector<stretto::DeviceInfo>{{.index = 0, .name = "fake"}};
      },
      .make_backend = nullptr,
      .connect = nullptr,
      .emulate_link = nullptr};
  return &plugin;
#endif
}
