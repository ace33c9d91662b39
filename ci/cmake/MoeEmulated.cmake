# moe_emulated_objects(NAME SOURCES...) compiles kernels for the emulated SM: an object library whose loads and stores
# call the hooks of device/emulator/global_access.cpp. Link NAME into a program together with moe_device.

option(MOE_EMULATOR "build the emulated SM (off where the compiler's own thread sanitizer is used)" ON)

function(moe_emulated_objects name)
  add_library(${name} OBJECT ${ARGN})
  set_property(GLOBAL APPEND PROPERTY MOE_INSTRUMENTED ${name})  # for the lint test
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(hooks "SHELL:-mllvm -tsan-instrument-func-entry-exit=0" "SHELL:-mllvm -tsan-instrument-atomics=0"
      "SHELL:-mllvm -jump-threading-threshold=0" -fno-vectorize -fno-slp-vectorize)
  else()
    set(hooks --param tsan-instrument-func-entry-exit=0 -fno-tree-vectorize -fno-thread-jumps -freorder-blocks-algorithm=simple)
  endif()
  if(NOT MOE_SANITIZE)   # device/emulator/undefined_results.cpp; where the sanitizer is used its own library stands there
    list(APPEND hooks -fsanitize=alignment -fsanitize-recover=alignment)
  endif()
  # A call of the layer is one place of the code, by which lanes are compared and lines are named: jump threading and
  # the order of blocks would duplicate it behind an `if (lane == 0)`, and a tail call would leave no return address in the kernel.
  # -O2 in every preset: the stacks of fibers are small; relative file names so that reports name the tree's files
  target_compile_options(${name} PRIVATE -O2 -g -fsanitize=thread ${hooks} -fno-threadsafe-statics -ffp-contract=off
    -fno-exceptions -fno-optimize-sibling-calls -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
    -ffile-prefix-map=${CMAKE_BINARY_DIR}=. -Wall -Wextra -Wno-unused-parameter -Wno-unknown-pragmas)
endfunction()
