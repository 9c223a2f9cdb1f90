// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who takes which field, of a spec.

#include <optional>
#include <string>

#include "proto/spec/fields.h"
#include "proto/spec/schedules.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Whether the spec is one that takes such fields; nothing where the field that decides makes no
// sense itself.
std::optional<bool> Takes(Taker taker, const v1alpha1::JobSpec& spec);

// "megatron_sync takes only sequence_parallel, recompute": why a field is refused.
std::string ReasonAgainst(Taker taker, const v1alpha1::JobSpec& spec);

}  // namespace stretto::spec
