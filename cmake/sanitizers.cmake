# OPENBNNS_SANITIZE: checks count, speed does not.
if(OPENBNNS_SANITIZE STREQUAL "address")
  set(OPENBNNS_O3 OFF)
  set(KERNEL_OPTIMIZATION -O1) # compiles quickly
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
endif()

# Of all but the kernels, which share nothing that is not handed to them: they would take hours.
function(watch_threads target)
  if(OPENBNNS_SANITIZE STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=thread)
  endif()
endfunction()
