// SPDX-License-Identifier: Apache-2.0
#pragma once
// The versions that a daemon tells its peers.

namespace stretto {

// Version of the worker session (proto/stretto/v1alpha1/worker.proto). It is raised when an old
// daemon and a new coordinator, or the reverse, would misunderstand each other; both refuse another
// number.
inline constexpr int kProtocolVersion = 3;

// The release, from CMake's project version.
#ifndef STRETTO_VERSION
#error "STRETTO_VERSION is set by proto/base/CMakeLists.txt"
#endif
inline constexpr char kBuildVersion[] = STRETTO_VERSION;

}  // namespace stretto
