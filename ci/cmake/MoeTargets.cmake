# Two functions that every folder uses.
#
# moe_library(NAME DEPENDS...) makes the static library of the current folder from all its .cpp files
# (files below emulated/ and kernels/ are left to the folder itself), with warnings as the project wants them.
#
# moe_embed(TARGET SYMBOL FILES...) puts data files into TARGET: SYMBOL() returns a span of {name, bytes}.

function(moe_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter -ffp-contract=off)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${target} PUBLIC FMT_HEADER_ONLY=1)
  if(MOE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MOE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=${MOE_SANITIZE})
  endif()
  if(MOE_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)   # coverage, which steers the fuzzer
    target_link_options(${target} PUBLIC -fsanitize=fuzzer-no-link)
  endif()
endfunction()

function(moe_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(emulated|kernels|conformance|apps)/[^/]*\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(${name} STATIC ${sources})
  moe_options(${name})
  target_link_libraries(${name} PUBLIC ${ARGN} fmt::fmt-header-only Threads::Threads)
endfunction()

function(moe_embed target symbol)
  set(asm ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  set(body "// Made by CMake: the data files of ${target}, byte for byte.\n#include \"fixtures/files/embedded.hpp\"\n")
  set(table "")
  set(i 0)
  foreach(file ${ARGN})
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE rel)
    string(APPEND body "asm(\".section .rodata\\n.balign 16\\n.global moe_${symbol}_${i}\\nmoe_${symbol}_${i}:\\n.incbin \\\"${file}\\\"\\n.global moe_${symbol}_${i}_end\\nmoe_${symbol}_${i}_end:\\n.byte 0\\n.text\\n\");\nextern \"C\" const char moe_${symbol}_${i}[], moe_${symbol}_${i}_end[];\n")
    string(APPEND table "      {\"${rel}\", {moe_${symbol}_${i}, std::size_t(moe_${symbol}_${i}_end - moe_${symbol}_${i})}},\n")
    math(EXPR i "${i}+1")
  endforeach()
  string(APPEND body "namespace moe {\nstd::span<const EmbeddedFile> ${symbol}() {\n  static const EmbeddedFile files[] = {\n${table}  };\n  return files;\n}\n}  // namespace moe\n")
  file(GENERATE OUTPUT ${asm} CONTENT "${body}")
  set_source_files_properties(${asm} PROPERTIES OBJECT_DEPENDS "${ARGN}")
  target_sources(${target} PRIVATE ${asm})
endfunction()
