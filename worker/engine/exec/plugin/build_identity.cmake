# SPDX-License-Identifier: Apache-2.0
# Writes PREFIX and a digest of HEADERS into OUTPUT, as a C++ string.
foreach(header ${HEADERS})
  file(SHA256 ${header} digest)
  string(APPEND digests ${digest})
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUTPUT} "\"${PREFIX} headers ${digest}\"\n")
