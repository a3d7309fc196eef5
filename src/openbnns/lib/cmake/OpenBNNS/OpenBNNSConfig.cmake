# find_package(OpenBNNS) gives the target OpenBNNS::OpenBNNS. Everything is found relative to this file.
get_filename_component(_openbnns_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT EXISTS "${_openbnns_prefix}/lib/libopenbnns.so")
  set(OpenBNNS_FOUND FALSE)
  set(OpenBNNS_NOT_FOUND_MESSAGE "${_openbnns_prefix}/lib/libopenbnns.so does not exist: this OpenBNNS has no C library.")
  return()
endif()

if(NOT TARGET OpenBNNS::OpenBNNS)
  add_library(OpenBNNS::OpenBNNS SHARED IMPORTED)
  set_target_properties(
    OpenBNNS::OpenBNNS
    PROPERTIES IMPORTED_LOCATION "${_openbnns_prefix}/lib/libopenbnns.so"
               IMPORTED_SONAME "libopenbnns.so"
               INTERFACE_INCLUDE_DIRECTORIES "${_openbnns_prefix}/include")
endif()
unset(_openbnns_prefix)
