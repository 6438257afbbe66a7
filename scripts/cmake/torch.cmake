# LibTorch, and whether it comes with CUDA. Sets AUTOTRAIN_CUDA.

if(NOT CMAKE_PREFIX_PATH AND EXISTS "${PROJECT_SOURCE_DIR}/.deps/torch/share/cmake/Torch")
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
