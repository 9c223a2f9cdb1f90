// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tests as rows of a table: faults and attacks on real processes, and what became of them
// (tests/integration/rows.sh).

#include <string>
#include <vector>

namespace stretto::integration {

// Ends the row of the test that runs: prints these cells and, as the last one, "held", "skipped:
// why" or "**missed**: " with the first failure; `figures` come behind it. Appends the row, a line
// of a table of Markdown, to the file that STRETTO_TABLE names.
void WriteRow(const std::vector<std::string>& cells, const std::string& figures = "");

}  // namespace stretto::integration
