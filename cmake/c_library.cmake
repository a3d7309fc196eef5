# libopenbnns.so. It takes from Python's headers what it needs to start one, and links nothing of it.
file(GLOB CLIB_SOURCES CONFIGURE_DEPENDS core/clib/*.cpp)
add_library(clib SHARED ${CLIB_SOURCES})
set_target_properties(clib PROPERTIES OUTPUT_NAME openbnns)
target_include_directories(clib PRIVATE core ${Python_INCLUDE_DIRS})
target_compile_definitions(clib PRIVATE OPENBNNS_VERSION="${OPENBNNS_VERSION}")
target_compile_options(clib PRIVATE ${BINDING_OPTIMIZATION} -Wall -Wextra -fno-exceptions -fno-rtti -fno-threadsafe-statics)
# No C++ library at run time; nothing undefined but what the C library has; never unloaded, because threads and forks
# come back to it.
target_link_options(clib PRIVATE -static-libstdc++ -static-libgcc -Wl,--as-needed -Wl,-z,nodelete)
if(NOT OPENBNNS_SANITIZE) # whose functions are in the host
  target_link_options(clib PRIVATE -Wl,-z,defs)
endif()
target_link_libraries(clib PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
harden(clib)
watch_threads(clib)
export_only(clib core/clib/exports.map)
# pkg-config and CMake find it by files beside it. In a build in the source tree all lie in the package, which is where
# the library looks for it.
if(SKBUILD)
  set(CLIB_FOLDER ${CMAKE_CURRENT_BINARY_DIR}/lib)
else()
  set(CLIB_FOLDER ${CMAKE_CURRENT_SOURCE_DIR}/src/openbnns/lib)
endif()
set_target_properties(clib PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CLIB_FOLDER})
foreach(file pkgconfig/openbnns.pc cmake/OpenBNNS/OpenBNNSConfigVersion.cmake)
  get_filename_component(name ${file} NAME)
  get_filename_component(folder ${file} DIRECTORY)
  configure_file(cmake/${name}.in ${CLIB_FOLDER}/${file} @ONLY)
  install(FILES ${CLIB_FOLDER}/${file} DESTINATION openbnns/lib/${folder})
endforeach()
install(TARGETS clib LIBRARY DESTINATION openbnns/lib)
