// One object per thread. Not thread_local: its memory is allocated at a thread's first access, and if the system has
// none left, the C library ends the process. Here that is a std::bad_alloc like any other.
#pragma once
#include <pthread.h>

#include <memory>
#include <new>

namespace openbnns {

// The C++ library counts exceptions in thread_local memory. This allocates it for the calling thread, which may then
// throw std::bad_alloc even when there is no memory at all.
[[gnu::cold]] void prepare_exceptions();

// The objects are never destroyed: threads may outlive static destructors.
template <class T>
class PerThread {
 public:
  PerThread() : made_(pthread_key_create(&key_, [](void* object) { delete static_cast<T*>(object); }) == 0) {}

  // The object of the calling thread, null before its first own().
  T* get() const { return made_ ? static_cast<T*>(pthread_getspecific(key_)) : nullptr; }

  T& own() {
    T* object = get();
    return object ? *object : make();
  }

 private:
  [[gnu::cold, gnu::noinline]] T& make() {
    prepare_exceptions();
    auto object = std::make_unique<T>();
    if (!made_ || pthread_setspecific(key_, object.get()) != 0) throw std::bad_alloc();
    return *object.release();
  }

  pthread_key_t key_;
  bool made_;
};

}  // namespace openbnns
