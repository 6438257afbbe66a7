# LibTorch, and whether it comes with CUDA. Sets AUTOTRAIN_CUDA.

if(NOT CMAKE_PREFIX_PATH AND EXISTS "${PROJECT_SOURCE_DIR}/.deps/torch/share/cmake/Torch")
  list(APPEND CMAKE_PREFIX_PATH "${PROJECT_SOURCE_DIR}/.deps/torch")
endif()
if(NOT DEFINED TORCH_CUDA_ARCH_LIST AND NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  # LibTorch's own default names architectures that CUDA 13's compiler rejects.
  set(TORCH_CUDA_ARCH_LIST "8.0;9.0+PTX")
endif()
find_package(Torch 2.11 REQUIRED)

if(TARGET torch_cuda)
  set(AUTOTRAIN_CUDA ON)
else()
  set(AUTOTRAIN_CUDA OFF)
endif()
message(STATUS "autotrain: LibTorch ${Torch_VERSION}, CUDA ${AUTOTRAIN_CUDA}")
