# LibTorch, and whether it comes with CUDA. Sets AUTOTRAIN_CUDA.

if(SKBUILD)
  # pip builds apart from the environment that it installs into, and with that one's Python: its PyTorch it is.
  execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/find_torch.py
    OUTPUT_VARIABLE python_torch OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE problem)
  if(problem)
    message(FATAL_ERROR "this Python environment has no PyTorch: pip install torch==2.11.0, and then again "
      "(with build tools that make an environment of their own: without that, --no-build-isolation)")
  endif()
  list(PREPEND CMAKE_PREFIX_PATH "${python_torch}")
  find_program(AUTOTRAIN_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(EXISTS ${python_torch}/lib/libtorch_cuda.so AND NOT DEFINED ENV{CUDACXX} AND NOT AUTOTRAIN_NVCC)
    message(FATAL_ERROR "this PyTorch comes with CUDA, and its CMake files want CUDA's compiler: install one, or run "
      "`scripts/autotrain --version` once, which does, and then CUDACXX=$PWD/.deps/cuda/bin/nvcc pip install .")
  endif()
elseif(NOT CMAKE_PREFIX_PATH AND EXISTS "${PROJECT_SOURCE_DIR}/.deps/torch/share/cmake/Torch")
  list(APPEND CMAKE_PREFIX_PATH "${PROJECT_SOURCE_DIR}/.deps/torch")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/before_torch.cmake)
find_package(Torch 2.11 REQUIRED)

if(TARGET torch_cuda)
  set(AUTOTRAIN_CUDA ON)
else()
  set(AUTOTRAIN_CUDA OFF)
endif()
message(STATUS "autotrain: LibTorch ${Torch_VERSION}, CUDA ${AUTOTRAIN_CUDA}")
