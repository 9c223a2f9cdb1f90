// SPDX-License-Identifier: Apache-2.0
#include "proto/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace stretto {

void InitLogging(const std::string& program) {
  auto logger =
      std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-5l %n: %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  const char* level = std::getenv("STRETTO_LOG");
  logger->set_level(level ? spdlog::level::from_str(level) : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

}  // namespace stretto
