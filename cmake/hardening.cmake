# What distributions compile everything with, for the code that meets the outside: bindings and the C library. Kernels see
# only pointers and sizes that have been checked. What it costs is in docs/install.md.
if(OPENBNNS_HARDENING STREQUAL "STACK")
  set(STACK_PROTECTION PROTECT_STACK) # nanobind removes it otherwise
endif()
function(harden target)
  if(OPENBNNS_HARDENING AND NOT OPENBNNS_SANITIZE)
    if(STACK_PROTECTION)
      target_compile_options(${target} PRIVATE -fstack-protector-strong)
    endif()
    target_compile_options(${target} PRIVATE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    if(NOT APPLE)
      target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now)
    endif()
  endif()
endfunction()

# export_only(target map symbols...): nothing else can be seen from outside, not even copies of the C++ library's
# functions. `map` lists the same symbols for GNU's linkers.
function(export_only target map)
  if(APPLE)
    foreach(symbol ${ARGN})
      target_link_options(${target} PRIVATE -Wl,-exported_symbol,${symbol})
    endforeach()
  else()
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${map})
    target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${map})
  endif()
endfunction()
