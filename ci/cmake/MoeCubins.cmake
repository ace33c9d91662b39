# moe_cubins(TARGET COUNT SOURCE): compiles SOURCE once for each variant 0 .. COUNT-1 with -DMOE_VARIANT=<i> into sm_90a
# machine code and puts the images and their table (device/cuda/cubin_image.hpp) into TARGET. -fmad=false: every fma in a
# kernel is written as one. ptxas messages C75xx (wgmma serialised) end the build: such code differs from its source.
function(moe_cubins target count source)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/cubins)
  file(MAKE_DIRECTORY ${folder})
  set(body "// Made by CMake: the machine code of the kernel variants.\n#include \"device/cuda/cubin_image.hpp\"\n")
  set(table "")
  set(cubins "")
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    set(cubin ${folder}/variant_${i}.cubin)
    add_custom_command(
      OUTPUT ${cubin}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/ci/compile_cubin --nvdisasm ${MOE_NVDISASM} ${MOE_NVCC} -cubin -gencode arch=compute_90a,code=sm_90a
              -std=c++20 -fmad=false -O3 -lineinfo -I${CMAKE_SOURCE_DIR} -DMOE_VARIANT=${i}
              -MD -MF ${cubin}.d -MT ${cubin} -Xptxas -v -o ${cubin} ${source}
      DEPENDS ${source} ${CMAKE_SOURCE_DIR}/ci/compile_cubin ${CMAKE_SOURCE_DIR}/ci/machine_code.py
      DEPFILE ${cubin}.d
      COMMENT "nvcc variant ${i}"
      VERBATIM)
    list(APPEND cubins ${cubin})
    string(APPEND body "asm(\".section .rodata\\n.balign 64\\n.global moe_cubin_${i}\\nmoe_cubin_${i}:\\n.incbin \\\"${cubin}\\\"\\n.global moe_cubin_${i}_end\\nmoe_cubin_${i}_end:\\n.byte 0\\n.text\\n\");\nextern \"C\" const char moe_cubin_${i}[], moe_cubin_${i}_end[];\n")
    string(APPEND table "      {${i}, \"moe_kernel\", {moe_cubin_${i}, std::size_t(moe_cubin_${i}_end - moe_cubin_${i})}},\n")
  endforeach()
  string(APPEND body "namespace moe::device {\nstd::span<const CubinImage> cubin_images() {\n  static const CubinImage images[] = {\n${table}  };\n  return images;\n}\n}  // namespace moe::device\n")
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/cubin_images.cpp)
  file(GENERATE OUTPUT ${unit} CONTENT "${body}")
  set_source_files_properties(${unit} PROPERTIES OBJECT_DEPENDS "${cubins}")
  target_sources(${target} PRIVATE ${unit})
endfunction()

# moe_unit_cubins(TARGET SYMBOL SOURCES...): each SOURCE as one cubin with several entries, for sm_90a as above; SYMBOL()
# returns their bytes, named <source without ending>.cubin.
function(moe_unit_cubins target symbol)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${symbol})
  file(MAKE_DIRECTORY ${folder})
  set(cubins "")
  foreach(source ${ARGN})
    cmake_path(GET source STEM unit)
    set(cubin ${folder}/${unit}.cubin)
    add_custom_command(
      OUTPUT ${cubin}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/ci/compile_cubin --nvdisasm ${MOE_NVDISASM} ${MOE_NVCC} -cubin -gencode arch=compute_90a,code=sm_90a
              -std=c++20 -fmad=false -O3 -lineinfo -I${CMAKE_SOURCE_DIR} -MD -MF ${cubin}.d -MT ${cubin} -Xptxas -v -o ${cubin} ${source}
      DEPENDS ${source} ${CMAKE_SOURCE_DIR}/ci/compile_cubin ${CMAKE_SOURCE_DIR}/ci/machine_code.py
      DEPFILE ${cubin}.d
      COMMENT "nvcc ${unit}"
      VERBATIM)
    list(APPEND cubins ${cubin})
  endforeach()
  moe_embed(${target} ${symbol} ${cubins})
endfunction()
