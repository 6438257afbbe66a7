# What LibTorch's CMake files need to be told before find_package(Torch). Installed with the package.

if(NOT DEFINED TORCH_CUDA_ARCH_LIST AND NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  # LibTorch's own default names architectures that CUDA 13's compiler rejects.
  set(TORCH_CUDA_ARCH_LIST "8.0;9.0+PTX")
endif()
if(NOT CUDA_TOOLKIT_ROOT_DIR AND DEFINED ENV{CUDACXX})
  # They look for a toolkit in well-known places only; the compiler stands in its bin.
  get_filename_component(CUDA_TOOLKIT_ROOT_DIR "$ENV{CUDACXX}" REALPATH)
  get_filename_component(CUDA_TOOLKIT_ROOT_DIR "${CUDA_TOOLKIT_ROOT_DIR}/../.." ABSOLUTE)
  set(CUDA_TOOLKIT_ROOT_DIR "${CUDA_TOOLKIT_ROOT_DIR}" CACHE PATH "The CUDA toolkit")
endif()
