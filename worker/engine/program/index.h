// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of the things in a program.

#include "proto/base/ids.h"
#include "proto/base/index.h"

namespace stretto {

using BufferId = Index<struct BufferTag>;
using OpId = Index<struct OpTag>;  // in a program, or in its unit
using LaneId = Index<struct LaneTag>;
using GroupId = Index<struct GroupTag>;
using UnitId = Index<struct UnitTag>;
using InstanceId = Index<struct InstanceTag>;

}  // namespace stretto
