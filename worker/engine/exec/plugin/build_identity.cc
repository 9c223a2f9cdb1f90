// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/plugin/plugin.h"

namespace stretto {

const char* BuildIdentity() {
  return
#include "build_identity.inc"
      ;
}

}  // namespace stretto
