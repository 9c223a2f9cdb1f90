# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a C++ source that has the content of FILES (files.h). Run with cmake -P.
set(types html "text/html" css "text/css" js "text/javascript" svg "image/svg+xml")
set(rows "")
foreach(path IN LISTS FILES)
  get_filename_component(name ${path} NAME)
  get_filename_component(extension ${path} LAST_EXT)
  string(SUBSTRING ${extension} 1 -1 extension)
  list(FIND types ${extension} at)
  math(EXPR at "${at} + 1")
  list(GET types ${at} type)
  file(READ ${path} content)
  if(content MATCHES "\\)file\"")
    message(FATAL_ERROR "${path}: found )file\", which ends a string of the source; expected none")
  endif()
  string(APPEND rows "    {\"/${name}\", \"${type}; charset=utf-8\", R\"file(${content})file\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by coordinator/page/embed.cmake.
#include \"coordinator/page/files.h\"

namespace stretto::page {
namespace {

constexpr File kFiles[] = {
${rows}};

}  // namespace

absl::Span<const File> Files() { return kFiles; }

}  // namespace stretto::page
")
