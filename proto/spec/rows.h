// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of the table of fields, for fields.cc only.

#include <vector>

#include "proto/spec/fields.h"

namespace stretto {

std::vector<Field> ModelRows();
std::vector<Field> WorkRows();      // data, parallelism, schedule
std::vector<Field> TrainingRows();  // optimizer to eval

}  // namespace stretto
