# What every target of ours is compiled with.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM)
    # Without these ccache never reuses a file that was compiled with a precompiled header.
    set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  endif()
endif()

function(autotrain_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion>
    # Time is spent in LibTorch's kernels; a third level mostly inlines more of its headers, for a fifth of the
    # time that compiling takes. Our own loops over pixels and text have it (src/CMakeLists.txt).
    $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-O2;-fvect-cost-model=dynamic>
    # GCC 12 reports impossible copies inside its own std::string (bugs 105651, 105329).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${AUTOTRAIN_WARNINGS_AS_ERRORS}>>:-Werror>)
  # LibTorch's headers give classes other members without it than its library was built with.
  target_compile_definitions(${target} PRIVATE $<$<NOT:$<CONFIG:Release>>:NDEBUG>)
  if(AUTOTRAIN_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${AUTOTRAIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
      -Wno-error)  # GCC's warnings lose their way in instrumented code
    target_link_options(${target} PUBLIC -fsanitize=${AUTOTRAIN_SANITIZE})
  endif()
endfunction()

# LibTorch's headers take fifteen seconds a file; compiled once they take one. Only what most files
# need: the whole of torch/nn.h costs every file six seconds of inline functions.
function(autotrain_precompile_torch target)
  target_precompile_headers(${target} PRIVATE <torch/types.h> <torch/nn/module.h>)
endfunction()
