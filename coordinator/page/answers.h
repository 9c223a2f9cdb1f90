// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the page asks for, as it is sent. Each reads the coordinator and may wait for it.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/service/reader.h"

namespace stretto::page {

// JSON. `token` is that of a page, or empty. Errors: those of Reader.
absl::StatusOr<std::string> JobsJson(service::Reader& reader, const std::string& token);
absl::StatusOr<std::string> WorkersJson(service::Reader& reader, const std::string& token);
// Of the job "jobs/ID".
absl::StatusOr<std::string> JobJson(service::Reader& reader, const std::string& name);
absl::StatusOr<std::string> EventsJson(service::Reader& reader, const std::string& name);
absl::StatusOr<std::string> StepsJson(service::Reader& reader, const std::string& name);

// SVG. `step` is 0 for the newest plain one. Errors: FAILED_PRECONDITION (no finished step), those
// of Reader and of TraceAssembler.
absl::StatusOr<std::string> TimelineSvg(service::Reader& reader, const std::string& name,
                                        int64_t step);

// The variables and classes of the colours of cli/trace/palette.h: --NAME, .c-NAME fills an
// element, .s-NAME draws its line.
std::string PaletteCss();

}  // namespace stretto::page
