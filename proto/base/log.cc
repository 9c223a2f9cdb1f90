// SPDX-License-Identifier: Apache-2.0
#include "proto/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

#include "proto/base/printable.h"

namespace stretto {
namespace {

// The message, escaped: a message is one line, whatever text of others is in it.
class OneLine final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const absl::string_view text(message.payload.data(), message.payload.size());
    if (IsPrintable(text)) {
      out.append(text.data(), text.data() + text.size());
      return;
    }
    const std::string escaped = Escaped(text);
    out.append(escaped.data(), escaped.data() + escaped.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<OneLine>();
  }
};

}  // namespace

void InitLogging(const std::string& program) {
  auto logger =
      std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<OneLine>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-5l %n: %*");
  logger->set_formatter(std::move(formatter));
  logger->flush_on(spdlog::level::trace);
  const char* level = std::getenv("STRETTO_LOG");
  logger->set_level(level ? spdlog::level::from_str(level) : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

}  // namespace stretto
