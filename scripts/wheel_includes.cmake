# The CMake targets of the ROS 2 wheels name include folders of the machine that built the wheels (/opt/python/...).
# They do not exist here and stop the configuration, so they are dropped from the targets once all are known.
function(fed_drop_foreign_includes)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(includes ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(includes)
      list(FILTER includes EXCLUDE REGEX "^/opt/python/")
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${includes}")
    endif()
  endforeach()
endfunction()

cmake_language(DEFER CALL fed_drop_foreign_includes)
