// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which fields a given spec takes.

#include <optional>
#include <string>

#include "proto/spec/fields.h"
#include "proto/spec/schedules.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Returns whether the spec takes such fields; nullopt if the field that decides is itself invalid.
std::optional<bool> Takes(Taker taker, const v1alpha1::JobSpec& spec);

// Returns why a field is refused: "megatron_sync takes only sequence_parallel, recompute".
std::string ReasonAgainst(Taker taker, const v1alpha1::JobSpec& spec);

}  // namespace stretto::spec
