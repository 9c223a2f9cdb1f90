// SPDX-License-Identifier: Apache-2.0

// A CUPTI that lacks almost everything.
#include "cupti.h"

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
