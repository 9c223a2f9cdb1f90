// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of stretto-coordinator that say who may call, and where users look.

#include <string>

#include "coordinator/service/server.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stretto::service {

// Borrows both.
void AddTlsFlags(CLI::App& app, ServerOptions& options, std::string& page_listen);

}  // namespace stretto::service
