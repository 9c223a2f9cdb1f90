#pragma once
// docs/reference as Markdown, generated so that it cannot differ from the program: a test compares.

#include <string>

namespace stretto::cli {

// Everything that a job file can contain.
std::string JobSpecReference();
// Services, methods with their errors, messages.
std::string ApiReference();

// `text` as a cell of a table.
std::string MarkdownCell(const std::string& text);

}  // namespace stretto::cli
