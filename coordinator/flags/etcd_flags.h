// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of stretto-coordinator that keep its state in etcd.

#include <CLI/CLI.hpp>

#include "coordinator/standby/standby.h"

namespace stretto::coordinator {

// Parsing writes to `etcd`, which must live until then. Needs flags --repair and --backup.
void AddEtcdFlags(CLI::App& app, EtcdFlags& etcd);

}  // namespace stretto::coordinator
