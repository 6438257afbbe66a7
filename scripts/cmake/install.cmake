if(SKBUILD)
  # A wheel has the program and what Python loads, which find the libraries of the environment's PyTorch beside their
  # own packages.
  set_target_properties(autotrain_cli PROPERTIES
    INSTALL_RPATH "$ORIGIN/../../torch/lib;$ORIGIN/../../nvidia/cu13/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
  set_target_properties(autotrain_python PROPERTIES
    INSTALL_RPATH "$ORIGIN/../torch/lib;$ORIGIN/../nvidia/cu13/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
  install(TARGETS autotrain_cli RUNTIME DESTINATION autotrain_program/bin COMPONENT python)
  install(TARGETS autotrain_python LIBRARY DESTINATION autotrain COMPONENT python)
  return()
endif()

# An installed package that can be moved: find_package(autotrain), target autotrain::autotrain.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/autotrain)
# The program finds LibTorch where it was linked; only our own files move.
get_filename_component(torch_prefix "${TORCH_INSTALL_PREFIX}" REALPATH)
set(library_folders ${torch_prefix}/lib)
if(CUDA_TOOLKIT_ROOT_DIR)
  get_filename_component(cuda_libraries "${CUDA_TOOLKIT_ROOT_DIR}/lib64" REALPATH)
  list(APPEND library_folders ${cuda_libraries})
endif()
set_target_properties(autotrain_cli PROPERTIES INSTALL_RPATH "${library_folders}")

install(TARGETS autotrain autotrain_program autotrain_cli EXPORT autotrain-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/autotrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT autotrain-targets NAMESPACE autotrain:: DESTINATION ${package_dir})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/scripts/cmake/autotrain-config.cmake.in ${PROJECT_BINARY_DIR}/autotrain-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/autotrain-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/autotrain-config.cmake ${PROJECT_BINARY_DIR}/autotrain-config-version.cmake
  ${PROJECT_SOURCE_DIR}/scripts/cmake/before_torch.cmake
  DESTINATION ${package_dir})
