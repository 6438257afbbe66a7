# The library's sources, room by room, and how they are compiled: the files of a room in groups, each group as one, which
# reads LibTorch's headers once for all of them. Those who edit one file again and again are faster with files by
# themselves: cmake --preset release -DAUTOTRAIN_UNITY=OFF, or the preset "single".

option(AUTOTRAIN_UNITY "Compile the files of a room together" ON)
set(AUTOTRAIN_GROUP_SIZE 12 CACHE STRING "Most files that are compiled together")

# Puts a room's files into groups of about equal size, named after the room.
function(group_files name)
  list(LENGTH ARGN count)
  math(EXPR groups "(${count} + ${AUTOTRAIN_GROUP_SIZE} - 1) / ${AUTOTRAIN_GROUP_SIZE}")
  set(index 0)
  foreach(file ${ARGN})
    math(EXPR group "${index} * ${groups} / ${count}")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${name}_${group})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# room(NAME PLAIN file… COLD file… ELSEWHERE file…): names without ".cpp". All other files of the folder see LibTorch;
# those named last are added where it is known whether they are needed. Appends to `plain_files`, `cold_files` and
# `torch_files`.
macro(room name)
  cmake_parse_arguments(room "" "" "PLAIN;COLD;ELSEWHERE" ${ARGN})
  file(GLOB room_TORCH RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${name}/*.cpp)
  foreach(kind PLAIN COLD ELSEWHERE)
    list(TRANSFORM room_${kind} REPLACE "(.+)" "${name}/\\1.cpp")
    list(REMOVE_ITEM room_TORCH ${room_${kind}})
  endforeach()
  foreach(kind PLAIN COLD TORCH)
    group_files(${name}_${kind} ${room_${kind}})
  endforeach()
  list(APPEND plain_files ${room_PLAIN})
  list(APPEND cold_files ${room_COLD})
  list(APPEND torch_files ${room_TORCH})
endmacro()

function(compile_in_groups target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${AUTOTRAIN_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()
